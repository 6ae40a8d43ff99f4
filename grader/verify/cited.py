"""The citation questions measured: every right statement passes, every other line fails, and is named."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grader import course
from grader.cut import tree
from grader.evidence import answers, pinned, places
from grader.evidence.answers import Answers
from grader.evidence.citations import Citation, Finding
from grader.evidence.places import Places
from grader.verdict import Fail, NotGraded, Unknown

#: Places that look right and are not, which each question has to know at least.
LEAST_WRONG = 5


@dataclass
class CitedRow:
    """One question: how many lines were accepted, refused, and refused with a name of their own."""

    check: str
    heading: str
    accepted: int = 0
    refused: int = 0
    named: int = 0
    complaints: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "heading": self.heading,
            "accepted": self.accepted,
            "refused": self.refused,
            "named": self.named,
            "complaints": list(self.complaints),
        }


def measure(lab: str) -> list[CitedRow]:
    """Cite every line of the files that a lab's questions name, one by one.

    What is written down by its text goes through the lab's own check, in the reference
    answer with nothing else changed; the rest through the question alone, which needs no
    quote.
    """
    return [measured(question) for question in places.load(lab)]


def measured(question: Places) -> CitedRow:
    """One question tried with every line of the files that it names."""
    row = CitedRow(question.check, question.heading)
    index = pinned.load()
    try:
        texts = [
            (statement, statement.lines(index)[0])
            for statement in (*question.right, *question.wrong)
            if statement.text
        ]
        for statement in question.wrong:
            statement.lines(index)
    except LookupError as error:
        row.complaints.append(f"a statement is not in the pinned source: {error}")
        return row
    reference = answers.parse(_reference(question.lab).read_text(encoding="utf-8"))
    graded = _check(question)
    for statement, line in texts:
        cited = _citation(statement.module, statement.path, line, statement.text)
        seen = _outcome(graded, _with(reference, question.heading, cited))
        wanted = "" if statement in question.right else statement.diagnosis
        if seen != wanted:
            row.complaints.append(f"{cited.place} gets {seen or 'PASS'}, not {wanted or 'PASS'}")
    lines = 0
    for module, path in sorted({(s.module, s.path) for s in (*question.right, *question.wrong)}):
        file = index.modules[module].files[path]
        for line in places.citable(file):
            known = question.at(module, path, line)
            symbols = tuple(symbol.name for symbol in file.around(line))
            seen = _judged(question, _citation(module, path, line), symbols)
            row.accepted += not seen
            row.refused += bool(seen)
            row.named += bool(seen and known)
            lines += 1
            if bool(seen) == (known in question.right):
                row.complaints.append(f"{path}:{line} gets {seen or 'PASS'}")
    known = len({(s.path, s.inside, s.text, s.nth) for s in question.wrong})
    if known < LEAST_WRONG:
        row.complaints.append(f"it names {known} wrong places, fewer than {LEAST_WRONG}")
    if not row.accepted or row.accepted == lines:
        row.complaints.append("it tells no line from another")
    return row


def _reference(lab: str) -> Path:
    """The reference answers: those of all tracks, or of the first that has its own."""
    folder = course.ROOT / "solutions" / lab
    found = [folder / part / "answers.md" for part in (tree.COMMON, *course.TRACKS)]
    return next((path for path in found if path.exists()), found[0])


def _check(question: Places):
    """The grader's own function for the question's check."""
    name = f"grader.labs.lab_{question.lab.replace('.', '_')}"
    for each in vars(importlib.import_module(name)).values():
        if getattr(each, "phase4_check", {}).get("id") == question.check:
            return each
    raise LookupError(f"{question.check}: the grader has no such check")


def _citation(module: str, path: str, line: int, quote: str | None = None) -> Citation:
    version = pinned.load().modules[module].shown_version
    return Citation(module, version, path, line, quote)


def _with(reference: Answers, heading: str, citation: Citation) -> Answers:
    """The reference answer with that citation, and nothing else, under the heading."""
    sections = tuple(
        replace(section, source=f"\n{citation}\n") if section.title == heading else section
        for section in reference.sections
    )
    return replace(reference, sections=sections)


def _outcome(graded, text: Answers) -> str:
    """The diagnosis with which the check fails; empty where it passes."""
    try:
        graded(answers=text)
    except (Fail, NotGraded, Unknown) as outcome:
        return outcome.message.diagnosis or type(outcome).__name__
    return ""


def _judged(question: Places, citation: Citation, symbols: tuple[str, ...]) -> str:
    try:
        question.judge(Finding("exact", citation, "", symbols=symbols))
    except Fail as outcome:
        return outcome.message.diagnosis
    return ""
