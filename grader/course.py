"""The course's manifest, read: modules, labs, the gate, and which checks each lab has.

``grader/course.toml`` is the one place where these are written down. Checks are
not in it: they are read out of the graders' source (see :func:`checks`), so the
site, the command line and nbgrader's points cannot differ from what is graded.
"""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = Path(__file__).resolve().parent / "course.toml"
GRADERS = Path(__file__).resolve().parent / "labs"

#: The tracks of build labs, in the order in which they are shown.
TRACKS = ("python", "go")

#: The four groups of the curriculum's checklist, in its order.
EVIDENCE = ("live", "build", "written", "claim")


class CourseError(Exception):
    """The manifest, a grader or a name given by the user is wrong; the text is a sentence."""


class NoSuchName(CourseError):
    """The user named a lab or a module that the course does not have."""

    exit_code = 2


@dataclass(frozen=True)
class Check:
    """One check as its marker declares it. ``function`` is its name in the grader's file."""

    id: str
    title: str
    points: int
    evidence: str
    function: str


@dataclass(frozen=True)
class Module:
    """A module of the course. ``data`` is its whole table, for what only the site needs."""

    id: str
    title: str
    days: str = ""
    idea: str = ""
    data: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Part:
    """A part of an artifact: written in one lab, run on by others.

    ``files`` has, for each track, globs from the workspace's root; a track that it
    does not have has no such part.
    """

    id: str
    title: str
    lab: str
    files: dict[str, tuple[str, ...]] = field(hash=False)

    def has(self, path: str, track: str) -> bool:
        """Whether the file at ``path``, from the workspace's root, belongs to the part."""
        return any(_matches(path, pattern) for pattern in self.files.get(track, ()))


def _matches(path: str, pattern: str) -> bool:
    if pattern.endswith("/**"):
        return path.startswith(pattern[:-2])
    return PurePosixPath(path).match(pattern)


@dataclass(frozen=True)
class Lab:
    """A lab of the course.

    ``gate`` is the gate's conditions (1 to 3) that this lab gives evidence for;
    ``needs`` names what must be there (``cluster``); ``tracks`` is empty where
    there is no program to write. ``built`` is False for a lab that the course
    describes but cannot grade yet. ``writes`` are the parts that it is about,
    ``runs_on`` those that its program needs besides; ``program`` is the artifact's
    folder whose program it runs, empty for one in the lab's own; ``beside`` are
    the labs whose folders its grader looks at as well.
    """

    id: str
    slug: str
    title: str
    module: str
    evidence: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ()
    gate: tuple[int, ...] = ()
    drill: str = ""
    needs: tuple[str, ...] = ()
    tracks: tuple[str, ...] = ()
    built: bool = False
    writes: tuple[str, ...] = ()
    runs_on: tuple[str, ...] = ()
    program: str = ""
    beside: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def grader(self) -> Path:
        """Where this lab's grader is: ``lab_4_1_2.py`` for 4.1.2."""
        return GRADERS / f"lab_{self.id.replace('.', '_').replace('-', '_')}.py"

    @property
    def page(self) -> str:
        """The lab's page on the site, relative to its root."""
        return f"{self.module}/{self.id}.html"


@dataclass(frozen=True)
class Condition:
    """One of the gate's conditions, by number.

    ``artifact`` is the lab whose program is judged for it once more, whole, as
    the learner's folder has it (``phase4 gate --live``); empty for none.
    """

    number: int
    title: str
    text: str = ""
    artifact: str = ""


@dataclass(frozen=True)
class Course:
    """The whole manifest. ``data`` is the file as parsed, for what only the site needs.

    ``id`` and ``version`` are what a workspace must have been made for;
    ``artifacts`` are the folders at its root that grow from lab to lab.
    """

    id: str
    version: str
    title: str
    modules: tuple[Module, ...]
    labs: tuple[Lab, ...]
    gate: tuple[Condition, ...]
    parts: tuple[Part, ...] = ()
    artifacts: tuple[str, ...] = ()
    data: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def lab(self, name: str) -> Lab:
        """A lab by id (``4.1.2``) or slug; raises :class:`NoSuchName` with the nearest names otherwise."""
        for lab in self.labs:
            if name in (lab.id, lab.slug):
                return lab
        from difflib import get_close_matches

        known = [lab.id for lab in self.labs] + [lab.slug for lab in self.labs]
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `phase4 list` shows them all"
        raise NoSuchName(f"there is no lab {name!r}{hint}")

    def select(self, names: list[str]) -> list[Lab]:
        """Labs by id, slug or module id (``4.1`` is all of its labs), in the course's order."""
        wanted: set[str] = set()
        modules = {module.id for module in self.modules}
        for name in names:
            if name in modules:
                wanted |= {lab.id for lab in self.labs if lab.module == name}
            else:
                wanted.add(self.lab(name).id)
        return [lab for lab in self.labs if lab.id in wanted]

    def parts_of(self, lab: Lab, track: str) -> tuple[Part, ...]:
        """The parts that a lab writes or runs on and that the track has, in the course's order."""
        named = {*lab.writes, *lab.runs_on}
        return tuple(part for part in self.parts if part.id in named and part.files.get(track))

    def module(self, module_id: str) -> Module:
        """A module by its id."""
        for module in self.modules:
            if module.id == module_id:
                return module
        raise NoSuchName(f"there is no module {module_id!r}")

    def labs_of(self, module_id: str) -> list[Lab]:
        return [lab for lab in self.labs if lab.module == module_id]


@cache
def load(path: Path = MANIFEST) -> Course:
    """Read the manifest. :class:`CourseError` says what is wrong and where."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CourseError(f"cannot read {path}: {error}") from error
    head = data.get("course", {})
    # The ecosystem part and the capstone are modules in all but their schedule.
    parts = [data[name] for name in ("ecosystem", "capstone") if name in data]
    modules = tuple(_module(entry, path) for entry in [*data.get("module", ()), *parts])
    labs = tuple(_lab(entry, path) for entry in data.get("lab", ()))
    known = {module.id for module in modules}
    seen: set[str] = set()
    for lab in labs:
        if lab.id in seen:
            raise CourseError(f"{path}: lab {lab.id} is there twice")
        if lab.module not in known:
            raise CourseError(f"{path}: lab {lab.id} is of module {lab.module}, which is not there")
        if unknown := set(lab.evidence) - set(EVIDENCE):
            raise CourseError(f"{path}: lab {lab.id} has unknown evidence {sorted(unknown)}")
        seen.add(lab.id)
    return Course(
        id=str(head.get("id", "phase-4")),
        version=str(head.get("version", "0")),
        title=head.get("title", "Phase 4"),
        modules=modules,
        labs=labs,
        gate=_conditions(data, path),
        parts=_parts(data, labs, path),
        artifacts=tuple(head.get("artifacts", ())),
        data=data,
    )


def _module(entry: dict[str, Any], path: Path) -> Module:
    try:
        return Module(
            id=str(entry["id"]),
            title=entry["title"],
            days=str(entry.get("days", "")),
            idea=entry.get("idea", ""),
            data=entry,
        )
    except KeyError as error:
        raise CourseError(f"{path}: a [[module]] lacks {error}") from error


def _lab(entry: dict[str, Any], path: Path) -> Lab:
    gate = entry.get("gate", ())
    try:
        return Lab(
            id=str(entry["id"]),
            slug=entry["slug"],
            title=entry["title"],
            module=str(entry["module"]),
            evidence=tuple(entry.get("evidence", ())),
            objectives=tuple(str(item) for item in entry.get("objectives", ())),
            gate=(gate,) if isinstance(gate, int) else tuple(gate),
            drill=entry.get("drill", ""),
            needs=tuple(entry.get("needs", ())),
            tracks=tuple(entry.get("tracks", ())),
            built=bool(entry.get("built", False)),
            writes=tuple(entry.get("writes", ())),
            runs_on=tuple(entry.get("runs_on", ())),
            program=entry.get("program", ""),
            beside=tuple(entry.get("beside", ())),
            data=entry,
        )
    except KeyError as error:
        raise CourseError(f"{path}: [[lab]] {entry.get('id', '?')} lacks {error}") from error


def _parts(data: dict[str, Any], labs: tuple[Lab, ...], path: Path) -> tuple[Part, ...]:
    try:
        parts = tuple(
            Part(
                entry["id"],
                entry["title"],
                str(entry["lab"]),
                {track: tuple(entry[track]) for track in TRACKS if track in entry},
            )
            for entry in data.get("part", ())
        )
    except KeyError as error:
        raise CourseError(f"{path}: a [[part]] lacks {error}") from error
    ids, known = {part.id for part in parts}, {lab.id for lab in labs}
    for part in parts:
        if part.lab not in known:
            raise CourseError(f"{path}: part {part.id} is of lab {part.lab}, which is not there")
    for lab in labs:
        if unknown := {*lab.writes, *lab.runs_on} - ids:
            raise CourseError(f"{path}: lab {lab.id} names a part {sorted(unknown)[0]!r}: no such")
    return parts


def _conditions(data: dict[str, Any], path: Path) -> tuple[Condition, ...]:
    try:
        return tuple(
            Condition(
                int(entry["number"]),
                entry["title"],
                entry.get("text", ""),
                entry.get("artifact", ""),
            )
            for entry in data.get("gate", ())
        )
    except KeyError as error:
        raise CourseError(f"{path}: a [[gate]] lacks {error}") from error


#: A decorator from ``@check(`` at the left margin to the ``def`` that it marks.
_MARKED = re.compile(
    r"^@check(?P<call>\(.*?)^(?:@.*?^)?(?:async )?def (?P<name>\w+)", re.DOTALL | re.MULTILINE
)


def checks(lab: Lab | str) -> tuple[Check, ...]:
    """The checks of a lab, in the order of its grader's source; none for one not built.

    Only the decorators are parsed, not the files: the command line lists every
    lab of the course in its first tenth of a second.
    """
    lab = load().lab(lab) if isinstance(lab, str) else lab
    return checks_in(lab.grader)


@cache
def checks_in(path: Path) -> tuple[Check, ...]:
    """The checks declared in one grader file; an absent file has none."""
    try:
        source = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    found = []
    for match in _MARKED.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        found.append(_declared(match["call"], match["name"], f"{path.name}:{line}"))
    ids = [check.id for check in found]
    if len(ids) != len(set(ids)):
        raise CourseError(f"{path.name}: a check id is used twice")
    return tuple(found)


def _declared(call: str, function: str, place: str) -> Check:
    """Read one ``@check(...)``: its arguments must be literals."""
    try:
        tree = ast.parse(f"check{call}".strip(), mode="eval").body
        assert isinstance(tree, ast.Call)
        (first,) = tree.args
        values = {word.arg: ast.literal_eval(word.value) for word in tree.keywords}
        return Check(
            ast.literal_eval(first), values["title"], values["points"], values["evidence"], function
        )
    except (SyntaxError, ValueError, KeyError, AssertionError) as error:
        raise CourseError(
            f"{place}: @check takes an id, title=, points= and evidence=, all literals"
        ) from error


def points(lab: Lab) -> int:
    """What a lab is worth: the sum over its checks."""
    return sum(check.points for check in checks(lab))


def hints(lab: Lab) -> list[str]:
    """The lab's hints, in rising directness, out of ``grader/hints/<lab>.md``."""
    path = ROOT / "grader" / "hints" / f"{lab.id}.md"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    parts = re.split(r"^## \d+.*$", text, flags=re.MULTILINE)
    return [part.strip() for part in parts[1:]]
