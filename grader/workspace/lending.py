"""The parts that ``phase4 run``, ``record`` and ``conform`` run a program on.

A check runs a copy; here the learner's own files are run where they are, so that a
breakpoint is hit and a traceback names them. Python finds the artifacts' packages by
``PYTHONPATH``. Where a part is lent, a folder of that run stands before them: links to
the learner's own files, and the course's in place of what is not passed. Go gets them
by ``-overlay``.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from grader import course, cut
from grader.runner.program import import_roots
from grader.workspace import parts
from grader.workspace.folder import Workspace
from grader.workspace.parts import Lending, Use

_PYTHON = {"python", "python3"}


@dataclass(frozen=True)
class Lent:
    """What a command gets besides its environment, and whose parts that means."""

    environment: dict[str, str] = field(default_factory=dict)
    uses: tuple[Use, ...] = ()


def for_command(
    here: Workspace, argv: Sequence[str], into: Path, lending: Lending = "auto"
) -> Lent:
    """What ``argv`` runs on; ``into`` is a folder for what is lent.

    A program of an artifact, or of a lab's folder, runs on the parts that it asks for
    as they are, passed or not; any other command just finds the packages.
    """
    track = "go" if PurePath(argv[0]).name == "go" else "python"
    subject = _subject(here, argv)
    if subject is None:
        return Lent(_python_path(here.root, argv) if track == "python" else {})
    asked_for, wanted = subject
    found = tuple(
        parts.use(here, part, track, lending, asked_for=part.id in asked_for)
        for part in course.load().parts
        if part.id in wanted and part.files.get(track)
    )
    lent = [use.part for use in found if not use.own]
    if not lent:
        return Lent(_python_path(here.root, argv) if track == "python" else {}, found)
    theirs = {p.as_posix(): data for p, (data, _) in cut.artifacts(track, "solution").items()}
    borrowed = {name for name in theirs if any(part.has(name, track) for part in lent)}
    into.mkdir(parents=True, exist_ok=True)
    if track == "go":
        return Lent(_go_overlay(here.root, into, {name: theirs[name] for name in borrowed}), found)
    _link(here.root, into, theirs, borrowed)
    return Lent(_python_path(into, argv, also=here.root), found)


def _subject(here: Workspace, argv: Sequence[str]) -> tuple[set[str], set[str]] | None:
    """The parts that a command is about, and those that it runs on; None where nothing tells."""
    loaded = course.load()
    artifacts = {
        artifact: [lab for lab in loaded.labs if lab.program == artifact]
        for artifact in loaded.artifacts
    }
    for word in argv:
        top = _top(here.root, word)
        for lab in loaded.labs:
            if top == lab.id:
                return set(lab.writes), {*lab.writes, *lab.runs_on}
        for artifact, labs in artifacts.items():
            module = word.isidentifier() and len(word) < 100
            inside = module and (here.root / artifact / word).is_dir()
            if labs and (top == artifact or inside):
                wanted = {part for lab in labs for part in (*lab.writes, *lab.runs_on)}
                own = {
                    part.id
                    for part in loaded.parts
                    for patterns in part.files.values()
                    for pattern in patterns
                    if PurePath(pattern).parts[0] == artifact
                }
                return own, wanted
    return None


def _top(root: Path, word: str) -> str:
    """The first folder, below the workspace, of a path in a command; "" for any other word."""
    path = Path(word.removesuffix("/..."))
    try:
        if not path.exists():
            return ""
        inside = path.resolve().relative_to(root.resolve())
    except (OSError, ValueError):
        return ""  # a whole script is no path, and longer than one may be
    return inside.parts[0] if inside.parts else ""


def _python_path(root: Path, argv: Sequence[str], also: Path | None = None) -> dict[str, str]:
    roots = [root, *(root / name for name in import_roots(root))]
    if also is not None:
        roots += [also, *(also / name for name in import_roots(also))]
    earlier = os.environ.get("PYTHONPATH")
    environment = {}
    if also is not None:
        # The folder that Python itself puts first, the script's or this one, has the
        # learner's packages: it comes after what is lent.
        environment["PYTHONSAFEPATH"] = "1"
        roots.append(_script_folder(argv))
    found = [*map(str, roots)]
    if earlier:
        # The learner's own PYTHONPATH comes before the workspace's folders, after what is lent.
        found = [*found, earlier] if also is not None else [earlier, *found]
    environment["PYTHONPATH"] = os.pathsep.join(found)
    return environment


def _script_folder(argv: Sequence[str]) -> Path:
    for word in argv[1:] if PurePath(argv[0]).name in _PYTHON else argv[:1]:
        if word == "-m":
            break
        if word.endswith(".py") and len(word) < 4000 and Path(word).is_file():
            return Path(word).resolve().parent
    return Path.cwd()


def _link(root: Path, into: Path, theirs: dict[str, bytes], borrowed: set[str]) -> None:
    for artifact in course.load().artifacts:
        for path in sorted((root / artifact).rglob("*")):
            name = path.relative_to(root).as_posix()
            if name in borrowed or not path.is_file() or "__pycache__" in path.parts:
                continue
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            os.symlink(path, into / name)
    # What is given, and not in the workspace of another track, is the course's as well.
    for name, data in theirs.items():
        target = into / name
        if not os.path.lexists(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


def _go_overlay(root: Path, into: Path, lent: dict[str, bytes]) -> dict[str, str]:
    replace = {}
    for name, data in lent.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_bytes(data)
        replace[str(root / name)] = str(into / name)
    overlay = into / "overlay.json"
    overlay.write_text(json.dumps({"Replace": replace}), encoding="utf-8")
    flags = [os.environ.get("GOFLAGS", ""), shlex.quote(f"-overlay={overlay}")]
    return {"GOFLAGS": " ".join(flag for flag in flags if flag)}
