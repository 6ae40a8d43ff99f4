"""A program to run, and to build before: its commands, where they run and what they are given.

In a command ``{out}`` is a folder for what the build makes, ``{kubeconfig}`` the file that
points at the program's wire (``KUBECONFIG`` names it as well). ``python`` and
``python3`` are the course's own interpreter. Python finds the artifacts' packages.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path, PurePath

from grader import course

_PYTHON = {"python", "python3"}


@dataclass(frozen=True)
class Program:
    """What to run, and what to build before.

    ``folder`` is where both run; ``out`` replaces ``{out}``. ``name`` is empty
    for a lab's only program. ``root`` is the root of the workspace, None for a
    command of the course's own.
    """

    run: tuple[str, ...]
    folder: Path
    out: Path
    build: tuple[str, ...] = ()
    name: str = ""
    root: Path | None = None

    def environment(self, root: str = "") -> dict[str, str]:
        """What it gets besides. ``root`` is where the workspace's is seen, if not where it is."""
        if self.root is None:
            return {}
        seen = PurePath(root or self.root)
        folders = [seen, *(seen / name for name in import_roots(self.root))]
        return {"PYTHONPATH": os.pathsep.join(map(str, folders))}

    @property
    def where(self) -> str:
        """Where to type its commands, for a person: what is run is a copy of the workspace."""
        if self.root is None:
            return os.path.abspath(self.folder)
        inside = self.folder.relative_to(self.root).as_posix()
        return "your workspace" if inside == "." else f"{inside} of your workspace"

    @property
    def shown(self) -> str:
        """The command as its author wrote it, for messages."""
        return shlex.join(self.run)

    def argv(self, kubeconfig: str, *, out: str = "") -> list[str]:
        """The command to execute. ``out`` is where the build is seen, if not where it is."""
        filled = [
            part.replace("{kubeconfig}", kubeconfig).replace("{out}", out or str(self.out))
            for part in self.run
        ]
        return interpreted(filled)


def import_roots(root: Path) -> list[str]:
    """The artifacts' folders that hold Python packages and are none themselves, by name."""
    return [
        name
        for name in course.load().artifacts
        if (root / name).is_dir() and not (root / name / "__init__.py").exists()
    ]


def interpreted(words: list[str]) -> list[str]:
    """A command with the course's own interpreter for ``python``."""
    return [sys.executable, *words[1:]] if words[0] in _PYTHON else words
