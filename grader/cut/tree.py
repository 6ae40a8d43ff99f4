"""The folders: which files a lab's answer has, and what the exercises are made of.

``solutions/<lab>/`` has ``common/`` (files of every track), ``python/`` and
``go/`` (laid over it), and ``variants/<name>/`` (other right answers: only the
files that differ; ``variant.toml`` may say ``track = "go"``). ``answer-only``
names files, a line each, that cannot say ``phase4:omit`` because their kind has
no comments. ``go.mod`` and
``go.sum`` beside the labs serve all of them.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from grader.course import ROOT
from grader.cut.regions import CutError, Side, render

SOLUTIONS = ROOT / "solutions"
EXERCISES = ROOT / "exercises"

COMMON = "common"
TRACKS = ("python", "go")
MODULE_FILES = ("go.mod", "go.sum")
VARIANT_FILE = "variant.toml"
ANSWER_ONLY = "answer-only"

_IGNORED = {"__pycache__", ".pytest_cache", ".ruff_cache", ".DS_Store"}


@dataclass(frozen=True)
class Difference:
    """A file of the exercises that is not as it would be cut."""

    path: str
    kind: Literal["missing", "different", "not from a solution"]

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}"


def labs(solutions: Path = SOLUTIONS) -> list[str]:
    """The ids of the labs that have an answer."""
    if not solutions.is_dir():
        return []
    return sorted(
        entry.name
        for entry in solutions.iterdir()
        if entry.is_dir() and any((entry / part).is_dir() for part in (COMMON, *TRACKS))
    )


def tracks(lab: str, solutions: Path = SOLUTIONS) -> list[str]:
    """The tracks that a lab has an answer for; ``[""]`` for a lab without a program."""
    return [track for track in TRACKS if (solutions / lab / track).is_dir()] or [""]


def variants(lab: str, solutions: Path = SOLUTIONS) -> dict[str, str]:
    """The other right answers of a lab: name to track (empty: any, the lab's first)."""
    folder = solutions / lab / "variants"
    found = {}
    if folder.is_dir():
        for entry in sorted(folder.iterdir()):
            if entry.is_dir() and entry.name not in _IGNORED:
                found[entry.name] = _track_of(entry)
    return found


def _track_of(variant: Path) -> str:
    path = variant / VARIANT_FILE
    if not path.exists():
        return ""
    try:
        track = tomllib.loads(path.read_text(encoding="utf-8")).get("track", "")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CutError(f"{path}: {error}") from None
    if track not in ("", *TRACKS):
        raise CutError(f"{path}: track is one of {', '.join(TRACKS)}")
    return track


def _files(folder: Path) -> Iterator[Path]:
    # A part that several labs share is linked into each.
    for root, names, leaves in os.walk(folder, followlinks=True):
        names[:] = sorted(name for name in names if name not in _IGNORED)
        for leaf in sorted(leaves):
            if leaf not in _IGNORED and not leaf.endswith(".pyc"):
                yield Path(root) / leaf


def _rendered(path: Path, shown: PurePath, side: Side) -> bytes | None:
    data = path.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    rendered = render(text, shown, side)
    return None if rendered is None else rendered.encode("utf-8")


def handed_in(
    lab: str, track: str, into: Path, *, variant: str = "", solutions: Path = SOLUTIONS
) -> Path:
    """Lay a reference answer out as a learner hands it in: ``into/<lab>``, which is returned.

    ``go.mod`` and ``go.sum`` are put into ``into``. Files keep their mode.
    """
    target = into / lab
    target.mkdir(parents=True, exist_ok=True)
    _module_files(solutions, into)
    parts = [COMMON, *([track] if track else [])]
    if variant:
        parts.append(f"variants/{variant}")
    for part in parts:
        folder = solutions / lab / part
        if not folder.is_dir():
            continue
        for path in _files(folder):
            relative = path.relative_to(folder)
            if variant and relative.name == VARIANT_FILE:
                continue
            data = _rendered(path, path.relative_to(solutions), "solution")
            assert data is not None
            _put(target / relative, data, path)
    return target


def starter(lab: str, track: str, into: Path, *, solutions: Path = SOLUTIONS) -> Path:
    """Lay out what a learner starts from, as :func:`handed_in` does the answer."""
    target = into / lab
    target.mkdir(parents=True, exist_ok=True)
    _module_files(solutions, into)
    for part in [COMMON, *([track] if track else [])]:
        for name, (data, source) in _part(solutions, lab, part).items():
            _put(target / name, data, source)
    return target


def _part(solutions: Path, lab: str, part: str) -> dict[PurePath, tuple[bytes, Path]]:
    found: dict[PurePath, tuple[bytes, Path]] = {}
    folder = solutions / lab / part
    listed = solutions / lab / ANSWER_ONLY
    withheld = set(listed.read_text(encoding="utf-8").split()) if listed.is_file() else set()
    if folder.is_dir():
        for path in _files(folder):
            if path.relative_to(folder).as_posix() in withheld:
                continue
            data = _rendered(path, path.relative_to(solutions), "stub")
            if data is not None:
                found[path.relative_to(folder)] = (data, path)
    return found


def planned(solutions: Path = SOLUTIONS) -> dict[str, tuple[bytes, Path]]:
    """What the exercises are: path within them to content and the file it was cut from."""
    plan: dict[str, tuple[bytes, Path]] = {}
    for name in MODULE_FILES:
        if (solutions / name).is_file():
            plan[name] = ((solutions / name).read_bytes(), solutions / name)
    for lab in labs(solutions):
        for part in (COMMON, *TRACKS):
            for name, cut in _part(solutions, lab, part).items():
                plan[f"{lab}/{part}/{name.as_posix()}"] = cut
    return plan


def differences(solutions: Path = SOLUTIONS, exercises: Path = EXERCISES) -> list[Difference]:
    """How the exercises differ from what would be cut; empty when they do not."""
    plan = planned(solutions)
    there = {path.relative_to(exercises).as_posix(): path for path in _files(exercises)}
    found = []
    for name in sorted(plan.keys() | there.keys()):
        if name not in there:
            found.append(Difference(name, "missing"))
        elif name not in plan:
            found.append(Difference(name, "not from a solution"))
        elif there[name].read_bytes() != plan[name][0]:
            found.append(Difference(name, "different"))
    return found


def write(solutions: Path = SOLUTIONS, exercises: Path = EXERCISES) -> list[Difference]:
    """Make the exercises what would be cut; returns what was changed."""
    plan = planned(solutions)
    changed = differences(solutions, exercises)
    for difference in changed:
        path = exercises / difference.path
        if difference.path in plan:
            _put(path, *plan[difference.path])
        else:
            path.unlink()
            _prune(path.parent, exercises)
    return changed


def _prune(folder: Path, root: Path) -> None:
    while folder != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _module_files(solutions: Path, into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for name in MODULE_FILES:
        if (solutions / name).is_file():
            shutil.copyfile(solutions / name, into / name)


def _put(path: Path, data: bytes, source: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    shutil.copymode(source, path)
