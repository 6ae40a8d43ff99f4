"""The folders: what a learner hands in for a lab, and what the exercises are made of.

``solutions/<lab>/`` has ``common/`` (files of every track), ``python/`` and
``go/`` (laid over it), and ``variants/<name>/`` (other right answers: only the
files that differ; ``variant.toml`` may say ``track = "go"``). ``answer-only``
names files, a glob each, that cannot say ``phase4:omit`` because their kind has
no comments or a generator writes them. ``given.toml`` names files whose one source
is elsewhere in the course.

``solutions/artifacts/`` has the same three folders; they are laid at the root of a
workspace: the artifacts that grow from lab to lab, and the files of the Go module.
Wherever a file of a submission is named by a path, one that begins with an artifact's
folder is meant from the workspace's root, any other from the lab's folder.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from grader import course
from grader.course import ROOT, TRACKS
from grader.cut.regions import CutError, Side, render

SOLUTIONS = ROOT / "solutions"
EXERCISES = ROOT / "exercises"

COMMON = "common"
ARTIFACTS = "artifacts"
VARIANT_FILE = "variant.toml"
ANSWER_ONLY = "answer-only"
GIVEN = "given.toml"

_IGNORED = {"__pycache__", ".pytest_cache", ".ruff_cache", ".DS_Store"}


@dataclass(frozen=True)
class Difference:
    """A file of the exercises that is not as it would be cut."""

    path: str
    kind: Literal["missing", "different", "not from a solution"]

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}"


def labs(solutions: Path = SOLUTIONS) -> list[str]:
    """The ids of the labs that have an answer, in a folder of their own or in the artifacts."""
    if not solutions.is_dir():
        return []
    return sorted(
        {
            entry.name
            for entry in solutions.iterdir()
            if entry.is_dir()
            and entry.name != ARTIFACTS
            and any((entry / part).is_dir() for part in (COMMON, *TRACKS))
        }
        | set(_in_artifacts(solutions))
    )


def _in_artifacts(solutions: Path) -> dict[str, tuple[str, ...]]:
    """The labs whose program is an artifact's, with their tracks."""
    if not (solutions / ARTIFACTS).is_dir():
        return {}
    return {lab.id: lab.tracks for lab in course.load().labs if lab.built and lab.program}


def place(lab_folder: Path, name: str | PurePath) -> Path:
    """Where a file of a submission is: an artifact's at the root, any other in the lab's folder."""
    artifacts = course.load().artifacts
    return (lab_folder.parent if PurePath(name).parts[0] in artifacts else lab_folder) / name


def tracks(lab: str, solutions: Path = SOLUTIONS) -> list[str]:
    """The tracks that a lab has an answer for; ``[""]`` for a lab without a program.

    The answer is in the lab's own folder, or in a part of the artifacts.
    """
    declared = _in_artifacts(solutions).get(lab, ())
    return [
        track for track in TRACKS if track in declared or (solutions / lab / track).is_dir()
    ] or [""]


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
    for root, names, leaves in os.walk(folder):
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
    """Write a reference answer as a learner hands it in: ``into/<lab>``, which is returned.

    The artifacts go beside it, into ``into``. Files keep their mode.
    """
    target = into / lab
    target.mkdir(parents=True, exist_ok=True)
    lay_artifacts(track, into, solutions=solutions)
    for part in _parts_of(track):
        for name, (data, source) in _part(solutions, lab, part, "solution").items():
            _put(target / name, data, source)
    if variant:
        for name, (data, source) in _part(
            solutions, lab, f"variants/{variant}", "solution"
        ).items():
            if name.name != VARIANT_FILE:
                _put(place(target, name), data, source)
    return target


def starter(
    lab: str,
    track: str,
    into: Path,
    *,
    writes: Callable[[str], bool] = lambda path: True,
    solutions: Path = SOLUTIONS,
) -> Path:
    """Write what a learner starts a lab from, as :func:`handed_in` does the answer.

    ``writes`` says which files of the artifacts, by their paths from the root, the lab
    asks for; the others are the answer's.
    """
    target = into / lab
    target.mkdir(parents=True, exist_ok=True)
    lay_artifacts(track, into, stubs=writes, solutions=solutions)
    for part in _parts_of(track):
        for name, (data, source) in _part(solutions, lab, part, "stub").items():
            _put(target / name, data, source)
    return target


def lay_artifacts(
    track: str,
    into: Path,
    *,
    stubs: Callable[[str], bool] = lambda path: False,
    solutions: Path = SOLUTIONS,
) -> None:
    """Write the course's artifacts into a folder as they are at a workspace's root.

    ``stubs`` says of which files, by their paths from there, the stub is laid.
    """
    answers = artifacts(track, "solution", solutions)
    begun = artifacts(track, "stub", solutions)
    for name in answers:
        chosen = begun if stubs(name.as_posix()) else answers
        if name in chosen:
            _put(into / name, *chosen[name])


def _parts_of(track: str) -> list[str]:
    return [COMMON, *([track] if track else [])]


def artifacts(
    track: str, side: Side, solutions: Path = SOLUTIONS
) -> dict[PurePath, tuple[bytes, Path]]:
    """One side of what is at a workspace's root: path from there to content and source.

    A lab of no track may run what Python has.
    """
    found: dict[PurePath, tuple[bytes, Path]] = {}
    for part in _parts_of(track or "python"):
        found |= _part(solutions, ARTIFACTS, part, side)
    return found


def _part(solutions: Path, lab: str, part: str, side: Side) -> dict[PurePath, tuple[bytes, Path]]:
    found: dict[PurePath, tuple[bytes, Path]] = {}
    folder = solutions / lab / part
    withheld = _withheld(solutions / lab) if side == "stub" else []
    if folder.is_dir():
        for path in _files(folder):
            inside = PurePath(part, path.relative_to(folder))
            if any(_matches(inside, pattern) for pattern in withheld):
                continue
            data = _rendered(path, path.relative_to(solutions), side)
            if data is not None:
                found[path.relative_to(folder)] = (data, path)
    for name, source in _given(solutions / lab).items():
        if PurePath(name).parts[0] == part:
            path = solutions.parent / source
            found[PurePath(name).relative_to(part)] = (path.read_bytes(), path)
    return found


def _withheld(folder: Path) -> list[str]:
    listed = folder / ANSWER_ONLY
    return listed.read_text(encoding="utf-8").split() if listed.is_file() else []


def _matches(name: PurePath, pattern: str) -> bool:
    if pattern.endswith("/**"):
        return name.as_posix().startswith(pattern[:-2])
    return name.match(pattern)


def _given(folder: Path) -> dict[str, str]:
    listed = folder / GIVEN
    return tomllib.loads(listed.read_text(encoding="utf-8")) if listed.is_file() else {}


def planned(solutions: Path = SOLUTIONS) -> dict[str, tuple[bytes, Path]]:
    """What the exercises are: path within them to content and the file it was cut from."""
    plan: dict[str, tuple[bytes, Path]] = {}
    for lab in [ARTIFACTS, *labs(solutions)]:
        for part in (COMMON, *TRACKS):
            for name, cut in _part(solutions, lab, part, "stub").items():
                plan[f"{lab}/{part}/{name.as_posix()}"] = cut
    return plan


def differences(solutions: Path = SOLUTIONS, exercises: Path = EXERCISES) -> list[Difference]:
    """How the exercises differ from what the solutions make; empty when they do not."""
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


def _put(path: Path, data: bytes, source: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    shutil.copymode(source, path)
