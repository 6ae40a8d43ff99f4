"""No starter contains the answer of a lab that is still to come.

An answer is what stands between ``phase4:solution`` and ``phase4:stub`` (or
``phase4:end``) in a source of the course, or a whole file with ``phase4:omit`` (and, in an
artifact, the lab's id).
A starter that has :data:`RUN` significant lines of one in a row gives it away.

Lines are compared with their white space made one, and without blank lines,
comments, docstrings, imports, lone brackets and lines that any program could
have (``else:``, ``return err``). What a region's own stub gives is no answer.
An answer written in other words is not found: that takes a reader.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from grader.cut.regions import omitted, prefix_of

#: How many significant lines in a row make a spoiler.
RUN = 3

_MARKER = re.compile(r"phase4:(solution|stub|end)\b[ \t]*([\w.,-]*)")
_OMITTED = re.compile(r"phase4:omit[ \t]+([\w.]+)")
_IMPORT = re.compile(r"(?:import|from|package|use)\b|(?:[\w.]+ +)?\"[^\"]*\"$")
#: Words that say nothing of what a program does.
_COMMON = set(
    "and as break case continue default do else err error except false False finally for func "
    "if in is nil None not ok or pass raise return self switch true True try while with".split()
)


@dataclass(frozen=True)
class Answer:
    """One region: where it begins, the labs that ask for it, and both of its sides."""

    place: str
    labs: tuple[str, ...]
    kind: PurePath
    solution: str
    stub: str = ""


@dataclass(frozen=True)
class Starter:
    """A file that a learner is given at the start of ``lab``; empty: before the first lab."""

    path: PurePath
    lab: str
    text: str


@dataclass(frozen=True)
class Spoiler:
    """``lines`` significant lines of an answer, in a starter from ``line`` on."""

    path: PurePath
    line: int
    lines: int
    lab: str
    answer: Answer

    def __str__(self) -> str:
        of = " and ".join(self.answer.labs)
        return f"{self.path}:{self.line}: {self.lines} lines of {of}'s answer ({self.answer.place})"


def significant(text: str, kind: PurePath) -> list[tuple[int, str]]:
    """Number (from 1) and text of the lines that say something, white space made one."""
    prefix = prefix_of(kind)
    found = []
    docstring = ""
    for number, line in enumerate(text.split("\n"), start=1):
        line = " ".join(line.split())
        if docstring or line.startswith(('"""', "'''", 'r"""')):
            quotes = docstring or line.removeprefix("r")[:3]
            rest = line if docstring else line.removeprefix("r")[3:]
            docstring = "" if quotes in rest else quotes
            continue
        if (prefix and line.startswith(prefix)) or _IMPORT.match(line):
            continue
        if prefix in ("#", "//") and line.startswith(("/*", "*")):
            continue
        if set(re.findall(r"\w+", line)) - _COMMON:
            found.append((number, line))
    return found


def answers_in(text: str, path: PurePath, lab: str) -> Iterator[Answer]:
    """The regions of one source; ``lab`` is whose those are that name none."""
    prefix = prefix_of(path)
    if prefix is None or "phase4:" not in text:
        return
    if omitted(text, path):
        named = _OMITTED.search(text)
        yield Answer(f"{path}:1", (named[1] if named else lab,), path, text)
        return
    sides: dict[str, list[str]] = {}
    side = place = ""
    labs: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), start=1):
        marker = _MARKER.match(line.strip().removeprefix(prefix).lstrip())
        if marker is None or not line.strip().startswith(prefix):
            if side:
                sides[side].append(line)
        elif marker[1] == "end":
            stub = "\n".join(_bare(line, prefix) for line in sides["stub"])
            yield Answer(place, labs, path, "\n".join(sides["solution"]), stub)
            side = ""
        else:
            side = marker[1]
            if side == "solution":
                sides = {"solution": [], "stub": []}
                place = f"{path}:{number}"
                named = marker[2].strip("-")
                labs = tuple(named.split(",")) if named else (lab,)


def _bare(line: str, prefix: str) -> str:
    """A stub's line without its comment prefix."""
    return line.strip().removeprefix(prefix).removesuffix("-->").strip()


def spoilers(
    starters: Iterable[Starter],
    answers: Iterable[Answer],
    order: Sequence[str],
    *,
    run: int = RUN,
) -> list[Spoiler]:
    """Every run of an answer's lines in a starter of the same lab or of one before it.

    ``order`` is the labs' ids as the course has them. ValueError: a region names
    no lab, or one that the course does not have. A run is reported once for each answer that has it, with
    all of its lines.
    """
    places = {lab: number for number, lab in enumerate(order)}
    answers = list(answers)
    for answer in answers:
        for lab in answer.labs:
            if lab not in places:
                named = f"the course has no lab {lab}" if lab else "it names no lab"
                raise ValueError(f"{answer.place}: a region must name its lab, and {named}")
    known: dict[tuple[str, ...], set[Answer]] = {}
    for answer in answers:
        given = {window for _, window in _windows(answer.stub, answer.kind, run)}
        for _, window in _windows(answer.solution, answer.kind, run):
            if window not in given:
                known.setdefault(window, set()).add(answer)
    found: list[Spoiler] = []
    for starter in starters:
        at = places[starter.lab] if starter.lab else -1
        #: Answer → the last window of its that was found here, and the run it is part of.
        last: dict[Answer, tuple[int, Spoiler]] = {}
        for index, (line, window) in enumerate(_windows(starter.text, starter.path, run)):
            for answer in known.get(window, ()):
                if max(places[lab] for lab in answer.labs) < at:
                    continue
                before, spoiler = last.get(answer, (-2, None))
                if spoiler is not None and before == index - 1:
                    longer = Spoiler(
                        spoiler.path, spoiler.line, spoiler.lines + 1, spoiler.lab, answer
                    )
                    found[found.index(spoiler)] = longer
                else:
                    longer = Spoiler(starter.path, line, run, starter.lab, answer)
                    found.append(longer)
                last[answer] = (index, longer)
    return sorted(found, key=lambda one: (str(one.path), one.line, one.answer.place))


def _windows(text: str, kind: PurePath, run: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every ``run`` significant lines in a row, with the number of the first."""
    lines = significant(text, kind)
    for start in range(len(lines) - run + 1):
        yield lines[start][0], tuple(line for _, line in lines[start : start + run])


def answers_of(sources: Iterable[Path], root: Path, labs: Sequence[str]) -> list[Answer]:
    """The answers in these folders, each file once, by its place below ``root``.

    A file below a folder that is called as a lab is that lab's. Other right
    answers (``variants``) are left out: no starter is cut from them.
    """
    found: list[Answer] = []
    for path, text in _texts(sources):
        shown = path.relative_to(root)
        # What a link shows is read where it stands.
        if "variants" not in shown.parts and path.resolve() == path:
            found += answers_in(text, shown, _lab_of(shown, labs))
    return found


def starters_of(exercises: Path, labs: Sequence[str]) -> list[Starter]:
    """The starters in this folder; a file that is in no lab's folder is given at the start."""
    return [
        Starter(shown, _lab_of(shown, labs), text)
        for path, text in _texts([exercises])
        for shown in [path.relative_to(exercises)]
    ]


def _lab_of(path: PurePath, labs: Sequence[str]) -> str:
    return next((part for part in path.parts if part in labs), "")


def _texts(folders: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        for root, names, leaves in os.walk(folder.resolve(), followlinks=True):
            names[:] = sorted(name for name in names if name != "__pycache__")
            for leaf in sorted(leaves):
                path = Path(root, leaf)
                try:
                    yield path, path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    continue  # a picture has no lines
