"""Atomic writes: after a kill at any moment a file has the old content or the new."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from grader import files


def write(path: Path, text: str) -> None:
    """Put ``text`` into ``path`` at once, making its folder where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, text, durable=True)


def lay_folder(wanted: dict[str, Path], target: Path, staging: Path) -> None:
    """Make the folder ``target`` (which is not there) with copies of ``wanted``, all or none.

    ``wanted`` maps a path relative to ``target`` to what to copy there; the copy is
    made in ``staging``, on the same file system, and then renamed.
    """
    aside = staging / f"{target.name}.{os.getpid()}"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for name, source in wanted.items():
        (aside / name).parent.mkdir(parents=True, exist_ok=True)
        # Permission bits go along (a script may be executable), a read-only
        # original in a read-only clone must not make the learner's copy read-only.
        shutil.copy(source, aside / name)
        (aside / name).chmod((aside / name).stat().st_mode | 0o200)
    os.rename(aside, target)


def same(one: Path, other: Path) -> bool:
    """Whether two files have the same bytes; a missing file equals none."""
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False
