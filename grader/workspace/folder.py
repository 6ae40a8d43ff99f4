"""A learner's folder and the rules that protect what is in it.

Layout: ``phase4.toml`` (which course, which track), the artifacts that grow from lab
to lab (``machinery/``, ``operator_handwired/``), a folder per lab named by its id, and
``.phase4/`` for what the course keeps there: reports, runs, backups, hints taken.
Nothing that a learner wrote is ever overwritten: a lab's folder, or a file of an
artifact, is added only where there is none, and ``reset`` and
``track`` keep a backup.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader import course
from grader.course import TRACKS, Course, Lab
from grader.files import new_folder
from grader.workspace import files, stubs

MARKER = "phase4.toml"
DEFAULT = course.ROOT / "workspace"


class WorkspaceError(Exception):
    """There is no usable workspace; the text says what is wrong and what to do."""


class BadRequest(WorkspaceError):
    """The command asks for something that the workspace does not have."""

    exit_code = 2


@dataclass
class Workspace:
    """A learner's folder. ``track`` is the default one, ``tracks`` the labs that differ."""

    root: Path
    track: str = "python"
    tracks: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        """Where the course keeps what it knows about this learner."""
        return self.root / ".phase4"

    @property
    def reports(self) -> Path:
        """A report per lab: ``<lab>.json``, the latest run."""
        return self.state / "reports"

    @property
    def runs(self) -> Path:
        """A folder per run: wires, output, what to replay."""
        return self.state / "runs"

    def folder(self, lab: Lab) -> Path:
        """What is handed in for a lab."""
        return self.root / lab.id

    def track_of(self, lab: Lab) -> str:
        """The lab's track; empty where it has none, its only one where it has one."""
        if not lab.tracks:
            return ""
        chosen = self.tracks.get(lab.id, self.track)
        return chosen if chosen in lab.tracks else lab.tracks[0]

    def new_run(self, label: str) -> Path:
        """A fresh folder for a run, named by time (UTC) and what is run."""
        return new_folder(self.runs, label)

    # -- adding and replacing labs -----------------------------------------

    def lay(self, lab: Lab) -> bool:
        """Add the lab's stubs where there is no folder yet; returns whether it did."""
        target = self.folder(lab)
        wanted = stubs.of(lab, self.track_of(lab))
        if target.exists() or not wanted:
            return False
        files.lay_folder(wanted, target, self.state / "staging")
        return True

    def lay_artifacts(self) -> list[str]:
        """Add the artifacts' starting files where there is none; returns the names of the new ones.

        Those of every track that a lab with parts has here.
        """
        laid = []
        # A lab without a track runs the Python parts.
        for track in self.tracks_in_use():
            for name, source in stubs.artifacts(track).items():
                target = self.root / name
                if os.path.lexists(target):
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                files.write(target, source.read_text(encoding="utf-8"))
                target.chmod(target.stat().st_mode | (source.stat().st_mode & 0o111))
                laid.append(name)
        return laid

    def tracks_in_use(self) -> list[str]:
        """The tracks that some lab has here."""
        used = {self.track_of(lab) for lab in course.load().labs if lab.tracks}
        return [track for track in TRACKS if track in used]

    def parts_files(self, lab: Lab) -> list[str]:
        """The files here that belong to the parts which a lab asks for, from the root."""
        track = self.track_of(lab) or "python"
        mine = [part for part in course.load().parts if part.id in lab.writes]
        found = []
        for artifact in course.load().artifacts:
            for path in sorted((self.root / artifact).rglob("*")):
                name = path.relative_to(self.root).as_posix()
                if path.is_file() and any(part.has(name, track) for part in mine):
                    found.append(name)
        return found

    def reset(self, lab: Lab) -> Path | None:
        """Put the starting files of the lab, and of the parts that it asks for, back.

        The learner's files go into the backup that is returned: the lab's folder,
        and the parts' files beside it under their own names.
        """
        wanted = stubs.of(lab, self.track_of(lab))
        parts = self.parts_files(lab)
        if not wanted and not lab.writes:
            raise BadRequest(f"lab {lab.id} has no files to start from in this version.")
        backup = None
        if self.folder(lab).exists() or parts:
            backup = self._backup_path(lab)
            if self.folder(lab).exists():
                os.rename(self.folder(lab), backup)
            for name in parts:
                (backup / name).parent.mkdir(parents=True, exist_ok=True)
                os.rename(self.root / name, backup / name)
        self.lay(lab)
        self.lay_artifacts()
        return backup

    def change_track(self, lab: Lab, track: str) -> Path | None:
        """Give one lab another track. Answers stay; the backup of all that was there is returned.

        Stubs of the old track that were never edited are removed, those of the new one added.
        An artifact has both tracks side by side.
        """
        if track not in lab.tracks:
            offer = " and ".join(lab.tracks) or "no program"
            raise BadRequest(f"lab {lab.id} has no {track} track: it has {offer}.")
        old = self.track_of(lab)
        target = self.folder(lab)
        backup = None
        if target.exists() and old != track:
            backup = self._backup_path(lab)
            shutil.copytree(target, backup, symlinks=True)
            left = stubs.only_of_track(lab, old)
            for name, stub in left.items():
                if files.same(target / name, stub):
                    (target / name).unlink()
            for name, stub in stubs.only_of_track(lab, track).items():
                # A program.toml of the old track would start the wrong program. What is of the
                # new track alone is work done before the lab left it: that stays.
                if name in left or not os.path.lexists(target / name):
                    files.write(target / name, stub.read_text(encoding="utf-8"))
        self.tracks[lab.id] = track
        self.save()
        self.lay(lab)
        self.lay_artifacts()
        return backup

    def _backup_path(self, lab: Lab) -> Path:
        folder = self.state / "backups"
        folder.mkdir(parents=True, exist_ok=True)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path, attempt = folder / f"{lab.id}-{stamp}", 0
        while path.exists():
            attempt += 1
            path = folder / f"{lab.id}-{stamp}-{attempt}"
        return path

    # -- small records -----------------------------------------------------

    def record(self, name: str) -> dict[str, Any]:
        """A small JSON record of ours (``hints``); empty when absent or damaged."""
        try:
            data = json.loads((self.state / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    def keep(self, name: str, data: dict[str, Any]) -> None:
        """Store a small JSON record of ours."""
        files.write(self.state / f"{name}.json", json.dumps(data, indent=1) + "\n")

    def save(self) -> None:
        """Write ``phase4.toml``."""
        loaded = course.load()
        lines = [
            "# Made by `phase4 init`. `phase4 track LAB python|go` changes one lab's track.",
            f"course = {json.dumps(loaded.id)}",
            f"version = {json.dumps(loaded.version)}",
            f"track = {json.dumps(self.track)}",
        ]
        if self.tracks:
            lines += ["", "[tracks]"]
            lines += [f"{json.dumps(lab)} = {json.dumps(to)}" for lab, to in self.tracks.items()]
        files.write(self.root / MARKER, "\n".join(lines) + "\n")

    @contextmanager
    def exclusive(self, what: str, waiting: Callable[[str], None]) -> Iterator[None]:
        """Lock the workspace against a second check; ``waiting`` is called with what it waits for."""
        self.state.mkdir(parents=True, exist_ok=True)
        with (self.state / "lock").open("a+", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                holder = lock.read().strip() or "another phase4"
                waiting(f"{holder} is still running in this workspace; waiting for it to end")
                fcntl.flock(lock, fcntl.LOCK_EX)
            lock.seek(0)
            lock.truncate()
            lock.write(f"`phase4 {what}` (process {os.getpid()})")
            lock.flush()
            yield


def find() -> Workspace:
    """The workspace that a command means; :class:`WorkspaceError` says how to make one.

    ``PHASE4_WORKSPACE``, else the folder that the user is in (or above it), else
    ``workspace/`` beside the course.
    """
    named = os.environ.get("PHASE4_WORKSPACE")
    if named:
        return open_folder(Path(named))
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / MARKER).is_file():
            return open_folder(folder)
    return open_folder(DEFAULT)


def open_folder(root: Path) -> Workspace:
    """Open a workspace, checking that it is of this course and version."""
    path = root / MARKER
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WorkspaceError(
            f"there is no workspace in {root}. `phase4 init --track python` (or go) makes one."
        ) from None
    except (OSError, ValueError) as error:
        raise WorkspaceError(
            f"cannot read {path} ({error}). Move it away and run `phase4 init`: your labs' folders "
            "stay as they are."
        ) from error
    loaded = course.load()
    _same_course(root, data, loaded)
    track = data.get("track")
    tracks = data.get("tracks", {})
    if track not in TRACKS or not isinstance(tracks, dict) or set(tracks.values()) - set(TRACKS):
        raise WorkspaceError(f'{path}: a track is "python" or "go".')
    return Workspace(root, track, dict(tracks))


def _same_course(root: Path, data: dict[str, Any], loaded: Course) -> None:
    theirs, version = data.get("course"), data.get("version")
    if theirs != loaded.id:
        raise WorkspaceError(
            f"{root} belongs to the course {theirs!r}; this is {loaded.id!r}. "
            "Go to another folder, or name one with --workspace."
        )
    if version != loaded.version:
        raise WorkspaceError(
            f"{root} was made for version {version} of the course; this is version "
            f"{loaded.version}. `phase4 init {root}` upgrades it: your work moves to where it "
            "belongs now, all of it is kept in a backup, and what is new is added."
        )


def exists() -> bool:
    """Whether there is a workspace at all, in whatever state, where :func:`find` looks."""
    named = os.environ.get("PHASE4_WORKSPACE")
    folders = [Path(named)] if named else [Path.cwd(), *Path.cwd().parents, DEFAULT]
    return any((folder / MARKER).exists() for folder in folders)
