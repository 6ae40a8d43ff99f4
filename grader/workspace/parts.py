"""Whose part a lab runs on: the learner's own where its lab is passed, else one lent by the course.

The artifacts grow in the workspace's own folders (``machinery/``,
``operator_handwired/``). A check does not run there: :func:`assemble` puts the lab's
folder and the artifacts together in a folder of that run, with the course's files in
place of the parts that it lends. So nothing is ever written into the learner's folder,
and a file that is saved while a check runs is seen by the next one.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

from grader import course, cut
from grader.course import Lab, Part
from grader.verdict import Verdict

if TYPE_CHECKING:
    from grader.workspace.folder import Workspace

#: Whose parts a lab runs on: the learner's where their labs are passed, all of the
#: learner's, all of the course's. What the lab itself asks for is always the learner's.
Lending = Literal["auto", "own", "course"]
LENDING: tuple[Lending, ...] = ("auto", "own", "course")

#: Never part of what is handed in: what editors, tools and version control keep beside it.
NOT_HANDED_IN = {
    ".git", ".hg", ".idea", ".mypy_cache", ".phase4", ".phase4-build", ".pytest_cache",
    ".ruff_cache", ".venv", ".vscode", "__pycache__", "node_modules", "venv",
}  # fmt: skip
#: Bytes and files of one folder that a check copies; more is not an answer.
BYTES, FILES = 512 * 1024 * 1024, 5000
#: Files at the root that a Go program needs to be built.
MODULE_FILES = ("go.mod", "go.sum", "go.work")


class TooMuch(Exception):
    """A folder holds more than an answer can; ``str()`` says which and what to do."""

    exit_code = 2


@dataclass(frozen=True)
class Use:
    """A part in one run: whose it is.

    ``why`` says in a few words why it is lent (``4.2.1 is not passed``); empty for the
    learner's own. ``changed``: it is the learner's own and not as it was when its lab passed.
    """

    part: Part
    own: bool
    why: str = ""
    changed: bool = False
    asked_for: bool = False
    passed: bool = False

    def to_json(self) -> dict[str, object]:
        return {
            "part": self.part.id,
            "title": self.part.title,
            "lab": self.part.lab,
            "own": self.own,
            "why": self.why,
            "changed": self.changed,
            "asked_for": self.asked_for,
        }


def track_of(here: Workspace, lab: Lab) -> str:
    """The track of the parts that a lab uses; a lab without one runs what Python has."""
    return here.track_of(lab) or "python"


def uses(here: Workspace, lab: Lab, lending: Lending = "auto") -> list[Use]:
    """The parts of a lab, in the course's order, and whose each is."""
    track = track_of(here, lab)
    return [
        use(here, part, track, lending, asked_for=part.id in lab.writes)
        for part in course.load().parts_of(lab, track)
    ]


def standing(here: Workspace) -> list[tuple[str, Use]]:
    """Every part that the learner's tracks have, with the track: own or lent, as a check would take it."""
    found = []
    for part in course.load().parts:
        lab = course.load().lab(part.lab)
        track = track_of(here, lab)
        if part.files.get(track):
            found.append((track, use(here, part, track, "auto", asked_for=False)))
    return found


def use(here: Workspace, part: Part, track: str, lending: Lending, *, asked_for: bool) -> Use:
    """Whose a part is for a run of a lab that asks for it, or does not."""
    there = any(True for _ in _files_of(here.root, part, track))
    passed = _passed(here, part, track)
    changed = bool(passed) and passed != digest_of(here.root, part, track)
    if asked_for or lending == "own":
        return Use(part, True, "", changed, asked_for, bool(passed))
    if lending == "course":
        return Use(part, False, "as asked for", False, asked_for)
    if not passed:
        return Use(part, False, f"{part.lab} is not passed", False, asked_for)
    if not there:
        return Use(part, False, "its files are not there", False, asked_for)
    return Use(part, True, "", changed, asked_for, True)


def _passed(here: Workspace, part: Part, track: str) -> str:
    """The digest with which the part's lab passed in this track; empty where it has not."""
    passed = here.record("parts").get(f"{part.id} {track}")
    return passed if isinstance(passed, str) else ""


def judged(here: Workspace, lab: Lab, verdict: Verdict, digests: dict[str, str]) -> None:
    """Note what a check of ``lab`` said of the parts that it asks for.

    ``digests`` has what was judged (see :func:`digests`). A part whose lab fails is
    lent again, until it passes; a check that reached no verdict changes nothing.
    """
    if verdict not in (Verdict.PASS, Verdict.FAIL):
        return
    track = track_of(here, lab)
    mine = [part for part in course.load().parts_of(lab, track) if part.lab == lab.id]
    if not mine:
        return
    record = here.record("parts")
    for part in mine:
        record.pop(f"{part.id} {track}", None)
        if verdict is Verdict.PASS:
            record[f"{part.id} {track}"] = digests[part.id]
    here.keep("parts", record)


def digests(root: Path, lab: Lab, track: str) -> dict[str, str]:
    """A digest for each part of a lab, of its files below ``root``."""
    return {part.id: digest_of(root, part, track) for part in course.load().parts_of(lab, track)}


def digest_of(root: Path, part: Part, track: str) -> str:
    """A SHA-256 over names and contents of a part's files; of no bytes where there are none."""
    return _digest(root, _files_of(root, part, track))


def digest(here: Workspace, lab: Lab) -> str:
    """A SHA-256 over all that a check of the lab takes from the learner; empty where it is unavailable."""
    try:
        return _digest(here.root, _taken(here, lab))
    except (OSError, TooMuch):
        return ""


def _taken(here: Workspace, lab: Lab) -> Iterator[Path]:
    yield from _walk(here.folder(lab))
    track = track_of(here, lab)
    used = course.load().parts_of(lab, track)
    others = [part for part in course.load().parts if part not in used]
    if not used and not lab.program:
        return
    for name in artifacts_of(here, lab):
        for path in _walk(here.root / name):
            relative = path.relative_to(here.root).as_posix()
            if not any(part.has(relative, track) for part in others):
                yield path


def artifacts_of(here: Workspace, lab: Lab) -> list[str]:
    """The artifacts' folders that a lab takes along: those with a part of it, and its program's."""
    track = track_of(here, lab)
    patterns = [
        pattern
        for part in course.load().parts_of(lab, track)
        for pattern in part.files.get(track, ())
    ]
    named = {PurePath(pattern).parts[0] for pattern in patterns} | {lab.program}
    return [name for name in course.load().artifacts if name in named]


def _digest(root: Path, files: Iterator[Path]) -> str:
    total = hashlib.sha256()
    for path in sorted(files):
        if path.is_symlink() or not path.is_file():
            continue
        content = hashlib.sha256(path.read_bytes()).digest()
        total.update(os.fsencode(path.relative_to(root)) + b"\0" + content)
    return total.hexdigest()


def _files_of(root: Path, part: Part, track: str) -> Iterator[Path]:
    folders = {PurePath(pattern).parts[0] for pattern in part.files.get(track, ())}
    for name in sorted(folders):
        for path in _walk(root / name):
            if part.has(path.relative_to(root).as_posix(), track):
                yield path


def _walk(folder: Path) -> Iterator[Path]:
    """The files of a folder that count as handed in; links are not followed."""
    size = files = 0
    for root, names, leaves in os.walk(folder):
        names[:] = sorted(name for name in names if name not in NOT_HANDED_IN)
        for leaf in sorted(leaves):
            if fnmatch.fnmatch(leaf, "*.pyc"):
                continue
            path = Path(root) / leaf
            size += path.lstat().st_size
            files += 1
            if size > BYTES or files > FILES:
                raise TooMuch(
                    f"{folder} has more than {FILES} files or {BYTES >> 20} MiB: that is no answer. "
                    "Move what does not belong to it somewhere else, and check again."
                )
            yield path


# -- putting a run together ------------------------------------------------


def assemble(here: Workspace, lab: Lab, into: Path, lending: Lending = "auto") -> list[Use]:
    """Put together in ``into`` what a check of ``lab`` runs: ``into/<lab>``, the artifacts beside it.

    Returns whose each part is. Raises :class:`TooMuch`.
    """
    into.mkdir(parents=True, exist_ok=True)
    track = track_of(here, lab)
    found = uses(here, lab, lending)
    for id in (lab.id, *lab.beside):
        if (here.root / id).is_dir():
            (into / id).mkdir(exist_ok=True)
            _copy(here.root, _walk(here.root / id), into)
    if not found and not lab.program:
        _module(here.root, into)
        return found
    # A lab whose work is in the artifacts alone has no folder of its own.
    (into / lab.id).mkdir(exist_ok=True)
    _lay_artifacts(here.root, into, track, found, artifacts_of(here, lab))
    _module(here.root, into)
    return found


def _lay_artifacts(
    root: Path, into: Path, track: str, found: list[Use], artifacts: list[str]
) -> None:
    own = [use.part for use in found if use.own]
    # Parts that the lab does not run on are the course's as well: an unfinished reflector
    # must not keep a work queue from being checked.
    lent = [part for part in course.load().parts if part not in own]
    theirs = {path.as_posix(): cut for path, cut in cut.artifacts(track, "solution").items()}
    mine = {
        path.relative_to(root).as_posix(): path for name in artifacts for path in _walk(root / name)
    }

    def folders(parts: list[Part], names: Iterable[str]) -> set[PurePath]:
        return {
            PurePath(name).parent for name in names for part in parts if part.has(name, track)
        }

    # A file of the learner's own making beside nothing but lent ones would define things twice.
    borrowed = folders(lent, theirs) - folders(own, mine)
    for name, path in mine.items():
        if any(part.has(name, track) for part in lent):
            continue
        if name not in theirs and PurePath(name).parent in borrowed:
            continue
        _copy_one(path, into / name)
    for name, (data, source) in theirs.items():
        target = into / name
        # A part that the learner does not have stays missing.
        if PurePath(name).parts[0] not in artifacts or any(part.has(name, track) for part in own):
            continue
        if not os.path.lexists(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            shutil.copymode(source, target)


def _module(root: Path, into: Path) -> None:
    for name in MODULE_FILES:
        if (root / name).is_file():
            shutil.copyfile(root / name, into / name)


def _copy(root: Path, files: Iterator[Path], into: Path) -> None:
    for path in files:
        _copy_one(path, into / path.relative_to(root))


def _copy_one(path: Path, target: Path) -> None:
    """Copy a file as it is, whatever it is: its reader has a message for a link and for a pipe."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        about = path.lstat()
        if stat.S_ISLNK(about.st_mode):
            os.symlink(_aimed(path), target)
        elif stat.S_ISREG(about.st_mode):
            shutil.copy(path, target)
        else:
            os.mkfifo(target)
    except PermissionError:
        target.touch(mode=0)
    except FileNotFoundError:
        return  # removed since it was listed


def _aimed(path: Path) -> str:
    """Where a link leads, from wherever its copy is; as it is where it stays inside its folder."""
    aim = os.readlink(path)
    return aim if not os.path.isabs(aim) and ".." not in PurePath(aim).parts else os.path.realpath(path)
