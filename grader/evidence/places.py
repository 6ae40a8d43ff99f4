"""Citation questions: which statements answer one, and which only seem to.

``grader/places/<lab>/*.toml`` has a file for each question. A statement is written as the
function (or type) it stands in and its own text, and found by both in the pinned file when
an answer is judged: a pin that moves a line moves it here as well, and one that changes it
shows in ``phase4 dev pins``::

    heading = 'Where DeltaFIFO compresses'     # of answers.md
    check = '4.2.3/citations'
    expected = '…'      # what kind of statement is sought: the message's first sentence
    sought = '…'        # where to look, for a citation that nothing below names
    why = '…'
    others = { diagnosis = '…', does = '…' }   # the right statements of the lab's other questions

    [files]
    delta = 'k8s.io/client-go/tools/cache/delta_fifo.go'

    [[right]]
    does = 'keeps one of the two newest deltas of a key'
    at = ['delta dedupDeltas: return deltas[:n-1]']

    [[wrong]]
    diagnosis = 'cited-the-way-out'
    does = 'it is the way out where there is nothing to merge'
    at = [
      'delta dedupDeltas#2: return deltas',    # the second of that text in the function
      'delta Deltas.Newest',                   # any line of a function
      'delta',                                 # any line of the file
    ]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from grader.evidence import citations, pinned
from grader.evidence.answers import Section
from grader.evidence.citations import Finding
from grader.evidence.digest import digest
from grader.evidence.pinned import Index, PinnedFile
from grader.verdict import Fail, Unknown

FOLDER = Path(__file__).parents[1] / "places"

_AT = re.compile(r"(?P<file>\w+)(?: (?P<inside>[^\s:]+?)(?:#(?P<nth>\d+))?(?:: (?P<text>.+))?)?")

#: Faults of a citation whose line is known all the same.
_LINE_KNOWN = ("misquoted", "no-quote", "no-substance")


@dataclass(frozen=True)
class Statement:
    """One statement of a pinned file, or all of a function (no ``text``) or file (no ``inside``).

    ``nth`` counts the lines of that text in the function, 0 where there is one.
    """

    module: str
    path: str
    inside: str = ""
    text: str = ""
    nth: int = 0
    does: str = ""
    diagnosis: str = ""

    def lines(self, index: Index) -> range | tuple[int, ...]:
        """Its 1-based lines. Raises :class:`LookupError` with a sentence where it is not there."""
        module = index.module(self.module)
        file = module.files.get(self.path) if module else None
        if module is None or file is None:
            raise LookupError(f"the index has no {self.module}/{self.path}")
        if not self.inside:
            return range(1, len(file.lines) + 1)
        symbol = next((s for s in file.symbols if s.name == self.inside), None)
        if symbol is None:
            raise LookupError(f"{self.path} has no {self.inside}")
        if not self.text:
            return range(symbol.first, symbol.last + 1)
        found = [n for n in file.saying(self.text) if n in symbol]
        if not found or (len(found) > 1) != bool(self.nth) or self.nth > len(found):
            many = f"{len(found)} times" if found else "nowhere"
            raise LookupError(f"{self.inside} in {self.path} says «{self.text}» {many}")
        return (found[max(self.nth, 1) - 1],)


@dataclass(frozen=True)
class Places:
    """What one heading of a lab's ``answers.md`` asks for, and what answers it."""

    lab: str
    heading: str
    check: str
    expected: str
    sought: str
    why: str
    right: tuple[Statement, ...]
    wrong: tuple[Statement, ...]
    #: (diagnosis, what it is) of the right statements of the lab's other questions; may be empty.
    others: tuple[str, str] | None = None
    file: Path = field(default=Path(), compare=False)

    @cached_property
    def _by_line(self) -> dict[tuple[str, str, int], Statement]:
        return dict(self._placed(pinned.load()))

    def _placed(self, index: Index) -> Iterator[tuple[tuple[str, str, int], Statement]]:
        """Each place with its statement; of two of one place the later wins: the narrower."""
        others: list[Statement] = []
        if self.others:
            diagnosis, does = self.others
            others = [
                Statement(s.module, s.path, s.inside, s.text, s.nth, does, diagnosis)
                for each in load(self.lab)
                if each.heading != self.heading
                for s in each.right
            ]
        files = [s for s in self.wrong if not s.inside]
        functions = [s for s in self.wrong if s.inside and not s.text]
        lines = [s for s in self.wrong if s.text]
        for statement in (*files, *functions, *others, *lines, *self.right):
            for line in statement.lines(index):
                yield (statement.module, statement.path, line), statement

    def at(self, module: str, path: str, line: int) -> Statement | None:
        """What is known of that line for this question: a right or a wrong statement, or None."""
        try:
            return self._by_line.get((module, path, line))
        except LookupError as error:
            raise Unknown(
                "The statements that answer the question are in the pinned source.",
                f"{error}.",
                next="`phase4 dev pins` lists every statement that a pin moved or changed.",
            ) from None

    def is_right(self, module: str, path: str, line: int) -> bool:
        """Whether that line answers the question."""
        return self.at(module, path, line) in self.right

    def require(self, section: Section, *, name: str = "answers.md") -> None:
        """Judge what is cited in a section; Fail or NotGraded where it is not right.

        The first citation is the answer. More may follow if they are right.
        """
        found = citations.required(section.source, f"{name}, «{section.title}»", first=section.body)
        first, *others = (citations.check(each) for each in found)
        self.judge(first)
        for finding in others:
            finding.require_exact(self.expected, why=self.why)

    def judge(self, finding: Finding) -> None:
        """Raise :class:`Fail` unless the finding is exact and of a right statement."""
        cited = finding.citation
        here = self.at(cited.module, cited.path, cited.line)
        if finding.exact and here in self.right:
            return
        evidence = (f"line {cited.at}: {cited}",)
        if not finding.exact:
            seen, advice = finding.seen, finding.next
            if finding.moved_to:
                seen, advice = self._moved(finding)
            elif finding.kind in _LINE_KNOWN and here not in self.right:
                seen, advice = " ".join([seen, self._known(finding, cited.line)]), self.sought
            raise Fail(
                self.expected,
                seen,
                why=self.why,
                next=advice,
                diagnosis=finding.diagnosis,
                evidence=evidence,
            )
        around = finding.symbols[0] if finding.symbols else ""
        where = f"in {around} of {cited.path}" if around else f"a line of {cited.path}"
        seen = f"`{cited.place}` is {where}"
        raise Fail(
            self.expected,
            f"{seen}: {here.does}." if here else f"{seen}, and does something else.",
            why=self.why,
            next=self.sought,
            diagnosis=here.diagnosis
            if here
            else "right-file-wrong-line"
            if any((s.module, s.path) == (cited.module, cited.path) for s in self.right)
            else "citation-of-another-place",
            evidence=evidence,
        )

    def _moved(self, finding: Finding) -> tuple[str, str]:
        """What is seen and what to do where the quote is on other lines: none that fails too."""
        cited = finding.citation
        good = [n for n in finding.moved_to if self.is_right(cited.module, cited.path, n)]
        if good:
            places = " or ".join(f"{cited.path}:{n}" for n in good)
            return finding.seen, f"Write {places}."
        return f"{finding.seen} {self._known(finding, finding.moved_to[0])}", self.sought

    def _known(self, finding: Finding, line: int) -> str:
        cited = finding.citation
        known = self.at(cited.module, cited.path, line)
        if known is None:
            return "That line would not answer the question either."
        return f"That line would not answer the question either: {known.does}."


@lru_cache
def load(lab: str) -> tuple[Places, ...]:
    """A lab's, by file; none where it asks for no upstream citation."""
    return tuple(read(path) for path in sorted((FOLDER / lab).glob("*.toml")))


def every() -> list[Places]:
    """Those of all labs."""
    labs = sorted(path.name for path in FOLDER.iterdir() if path.is_dir())
    return [each for lab in labs for each in load(lab)]


def of(lab: str, heading: str) -> Places:
    """Those of that heading."""
    return next(each for each in load(lab) if each.heading == heading)


def read(path: Path) -> Places:
    """What one file says."""
    data = tomllib.loads(path.read_text())
    files = {alias: _split(name) for alias, name in data["files"].items()}
    others = data.get("others")
    return Places(
        lab=path.parent.name,
        heading=data["heading"],
        check=data["check"],
        expected=data["expected"],
        sought=data["sought"],
        why=data["why"],
        right=tuple(_statements(data["right"], files)),
        wrong=tuple(_statements(data["wrong"], files)),
        others=(others["diagnosis"], others["does"]) if others else None,
        file=path,
    )


def _split(name: str) -> tuple[str, str]:
    found = pinned.load().split(name)
    if found is None:
        raise ValueError(f"{name} is of no module in the index.")
    return found


def _statements(groups: Iterable[dict], files: dict[str, tuple[str, str]]) -> Iterator[Statement]:
    for group in groups:
        for at in group["at"]:
            match = _AT.fullmatch(at)
            if match is None:
                raise ValueError(f"{at!r} is not a place of the form «file function: text».")
            yield Statement(
                *files[match["file"]],
                inside=match["inside"] or "",
                text=match["text"] or "",
                nth=int(match["nth"] or 0),
                does=group["does"],
                diagnosis=group.get("diagnosis", ""),
            )


def citable(file: PinnedFile) -> Iterator[int]:
    """The lines of a file that can be cited: all but comments and blank ones."""
    blank = digest("")
    for number, each in enumerate(file.lines, 1):
        if each != blank and not file.is_comment(number):
            yield number
