"""Where a cited line must be: in which function, which statement. Several places can be right.

A grader names a place by the course's own citation of it, which
``phase4 dev pins`` finds and re-checks when a pin changes::

    ENQUEUE = line("k8s.io/sample-controller@v0.36.2/controller.go:336",
                   "c.workqueue.Add(objectRef)")
    ANYWHERE_IN_SYNC = inside("controller.go", function="syncHandler",
                              module="k8s.io/sample-controller")
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from grader.evidence import pinned
from grader.evidence.citations import Citation, Finding, check, parse_place
from grader.evidence.pinned import Index
from grader.verdict import Fail, Unknown


@dataclass(frozen=True)
class Place:
    """A set of lines in one pinned file, with a name for messages.

    ``module`` empty means any module with that path. ``function`` is the symbol
    (a function, method, type, heading) that the line must be inside, empty for
    the whole file; ``lines`` are the statement's lines, empty for any line of it.
    ``diagnosis`` names the fault of citing this place where another was asked for.
    """

    module: str
    path: str
    function: str = ""
    lines: frozenset[int] = frozenset()
    described: str = ""
    diagnosis: str = ""

    def holds(self, finding: Finding, index: Index | None = None) -> bool:
        """Whether an exact citation is of this place. One that is not exact never is."""
        citation = finding.citation
        if not finding.exact or not self._same_file(citation):
            return False
        if self.lines and citation.line not in self.lines:
            return False
        return not self.function or any(
            name == self.function or name.endswith("." + self.function) for name in finding.symbols
        )

    def _same_file(self, citation: Citation) -> bool:
        if self.module and citation.module != self.module:
            return False
        return citation.path == self.path or (
            not self.module and citation.path.endswith("/" + self.path)
        )

    def __str__(self) -> str:
        if self.described:
            return self.described
        where = f"{self.function} in {self.path}" if self.function else self.path
        if len(self.lines) == 1:
            return f"line {min(self.lines)} of {self.path}"
        return where


def inside(
    path: str,
    *,
    function: str = "",
    module: str = "",
    described: str = "",
    diagnosis: str = "",
) -> Place:
    """Any line of a function, method, type or Markdown section; of the whole file if none is named."""
    return Place(module, path, function, frozenset(), described, diagnosis)


def line(place: str, quote: str, *, described: str = "", diagnosis: str = "") -> Place:
    """The statement that the course itself cites so: any of its lines, if it has several.

    Raises :class:`Unknown` where the citation is not exact in the index: the
    course is wrong then, not the learner.
    """
    cited = parse_place(place)
    if cited is None or not cited.module:
        raise Unknown("A place is given as module@version/path:line.", f"It is given as {place}.")
    citation = Citation(cited.module, cited.version, cited.path, cited.line, quote, written=place)
    if _recorded is not None:
        caller = sys._getframe(1)
        _recorded.append((citation, caller.f_code.co_filename, caller.f_lineno))
        return Place(cited.module, cited.path, "", frozenset([cited.line]), described, diagnosis)
    index = pinned.load()
    finding = check(citation, index, comments_count=True)
    if not finding.exact:
        raise Unknown("The course's own citation holds.", f"{citation}: {finding.seen}")
    file = index.modules[cited.module].files[cited.path]
    first, last = file.statement(cited.line)
    return Place(
        cited.module,
        cited.path,
        "",
        frozenset(range(first, last + 1)),
        described or f"{cited.path}:{cited.line} ({quote})",
        diagnosis,
    )


#: Where :func:`line` writes down what it is asked for, in place of checking it.
_recorded: list[tuple[Citation, str, int]] | None = None


@contextmanager
def recording() -> Iterator[list[tuple[Citation, str, int]]]:
    """Within the block :func:`line` checks nothing and records (citation, file, line of the call).

    ``phase4 dev pins`` runs graders so, to see the places that they make from constants.
    """
    global _recorded
    before, _recorded = _recorded, []
    try:
        yield _recorded
    finally:
        _recorded = before


def where(finding: Finding) -> str:
    """What the cited line is inside, for a message: ``Controller.enqueueFoo``, or the file."""
    return finding.symbols[0] if finding.symbols else finding.citation.path


def require(
    finding: Finding,
    right: Iterable[Place],
    *,
    expected: str,
    wrong: Iterable[Place] = (),
    why: str = "",
    next: str = "",
) -> Finding:
    """Fail unless the citation is exact and of one of the ``right`` places.

    Where it is of a known ``wrong`` place, that place's name and diagnosis go
    into the message.
    """
    finding.require_exact(expected, why=why)
    if any(place.holds(finding) for place in right):
        return finding
    citation = finding.citation
    known = _first(place for place in wrong if place.holds(finding))
    seen = f"`{citation.place}` is in {where(finding)}"
    seen += f": {known}." if known else "."
    raise Fail(
        expected,
        seen,
        why=why,
        next=next,
        diagnosis=(known.diagnosis if known else "") or "citation-of-another-place",
        evidence=(f"line {citation.at}: {citation}",),
    )


def _first(places: Iterable[Place]) -> Place | None:
    return next(iter(places), None)
