"""Verdicts as a person reads them in a terminal: expected, seen, why, next.

Colour only repeats what a word or a mark says, and nothing is cut off: text wraps
at the terminal's width, and evidence keeps its lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.report import ownership, predictions
from grader.report.model import CheckResult, LabReport
from grader.verdict import Message, Verdict

STYLE = {
    "PASS": "green",
    "FAIL": "red",
    "NOT GRADED": "yellow",
    "UNKNOWN": "magenta",
    "not checked": "dim",
    "not built": "dim",
}
_MARKS = {"PASS": "✓", "FAIL": "✗", "NOT GRADED": "–", "UNKNOWN": "?"}
_PLAIN_MARKS = {"PASS": "+", "FAIL": "x", "NOT GRADED": "-", "UNKNOWN": "?"}
#: Longer evidence is in the run's folder; a terminal shows this many lines of it.
EVIDENCE_LINES = 24
#: Columns below which four beside each other leave no room for a sentence.
NARROW = 76


def console(stderr: bool = False) -> Console:
    """A console with a fixed width of 100 where there is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 100
    return Console(stderr=stderr, width=width, highlight=False, emoji=False, markup=False)


def mark(standing: str, encoding: str | None = None) -> str:
    """One character for a verdict or standing."""
    encoding = (encoding or sys.stdout.encoding or "ascii").lower()
    marks = _MARKS if encoding.startswith("utf") else _PLAIN_MARKS
    return marks.get(standing, " ")


def prose(text: str) -> Text:
    """A sentence of a message; what is in backticks stands out, and keeps them."""
    rendered = Text(text)
    rendered.highlight_regex(r"`[^`\n]+`", "bold")
    return rendered


def lab_report(report: LabReport, title: str) -> RenderableType:
    """A whole report: the table of checks, the messages, the verdict."""
    parts: list[RenderableType] = [Text.assemble((report.lab, "bold"), "  ", (title, "bold")), ""]
    parts.append(Padding(_Checks(report.checks), (0, 0, 0, 2)))
    for results in _by_message(report.checks):
        parts += ["", _finding(results)]
    if report.observations:
        parts += ["", Text("What was measured", "bold"), Padding(_measured(report), (0, 0, 0, 2))]
    if about := [*ownership.ran_on(report), *ownership.suspects(report)]:
        parts += ["", *(Text(sentence) for sentence in about)]
    parts += ["", _summary(report)]
    return Group(*parts)


def lab_line(report: LabReport, title: str) -> Text:
    """A report in a line: the lab and its verdict."""
    word = report.verdict.value
    return Text.assemble(
        (f"{mark(word)} ", f"bold {STYLE[word]}"), f"{report.lab}  {title}  ", _summary(report)
    )


def _measured(report: LabReport) -> Table:
    """Observations, a prediction next to its outcome; pictures are on the lab's page."""
    table = Table.grid(padding=(0, 2))
    table.add_column(ratio=1, overflow="fold")
    table.add_column(ratio=2, overflow="fold")
    for observation in report.observations:
        value = observation.value
        if isinstance(value, dict) and "svg" in value:
            shown = Text(f"{value.get('alt', 'a picture')} (the picture is on the lab's page)")
        elif predictions.is_one(value):
            off = value.get("agrees") is False
            shown = Text.assemble(predictions.said(value), ("  ≠" if off else "", "yellow"))
        else:
            shown = Text(_plain(value))
        table.add_row(Text(observation.name), shown)
    return table


def _plain(value: object) -> str:
    """A measured value as words: a table as its pairs, a list as its entries."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_plain(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return str(value)


class _Checks:
    """The table of checks; where a terminal is narrow, a check's title stands below its name."""

    def __init__(self, results: Sequence[CheckResult]) -> None:
        self.results = results

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrow = options.max_width < NARROW
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        if not narrow:
            table.add_column(no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        table.add_column(justify="right", no_wrap=True)
        for result in self.results:
            word = result.verdict.value
            verdict = Text(mark(word) if narrow else f"{mark(word)} {word}", STYLE[word])
            points = Text(f"{result.earned}/{result.points}", "" if result.earned else "dim")
            title = prose(result.title)
            if result.self_assessed:
                title.append("\nself-assessed: the mark is your instructor's", "dim")
            if narrow:
                named = Text.assemble((result.id, "bold"), "\n", title)
                table.add_row(verdict, named, points)
            else:
                table.add_row(verdict, Text(result.id), title, points)
        yield table


def _by_message(results: Sequence[CheckResult]) -> list[list[CheckResult]]:
    """Results that have a message, those with the same message together, in order."""
    groups: dict[tuple[Verdict, Message], list[CheckResult]] = {}
    for result in results:
        if result.message is not None and result.verdict is not Verdict.PASS:
            groups.setdefault((result.verdict, result.message), []).append(result)
    return list(groups.values())


def _finding(results: list[CheckResult]) -> RenderableType:
    """What was expected, seen, why it matters, where to look: once for all that share it."""
    first = results[0]
    assert first.message is not None
    word = first.verdict.value
    if len(results) == 1:
        head = Text.assemble(
            (f"{mark(word)} {first.id}", f"bold {STYLE[word]}"), f"  {first.title}"
        )
    else:
        names = ", ".join(result.id for result in results)
        head = Text.assemble(
            (f"{mark(word)} {names}", f"bold {STYLE[word]}"), "  all say the same:"
        )
    return Group(head, Padding(message(first.message), (0, 0, 0, 2)))


def message(told: Message) -> RenderableType:
    """One message, in its order; a part that is empty is left out."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(ratio=1, overflow="fold")
    for label, text in (("expected", told.expected), ("seen", told.seen)):
        if text:
            table.add_row(label, prose(text))
    if told.evidence:
        table.add_row("", _evidence(told.evidence))
    for label, text in (("why", told.why), ("next", told.next)):
        if text:
            table.add_row(label, prose(text))
    if told.diagnosis:
        table.add_row("known as", told.diagnosis)
    return table


def _evidence(lines: Sequence[str]) -> Text:
    bar = "│ " if (sys.stdout.encoding or "").lower().startswith("utf") else "| "
    shown = [line for entry in lines for line in entry.splitlines() or [""]]
    left_out = len(shown) - EVIDENCE_LINES
    if left_out > 1:
        shown = [*shown[:EVIDENCE_LINES], f"… and {left_out} more lines, in the run's folder"]
    return Text("\n".join(bar + line.expandtabs() for line in shown), "cyan", overflow="fold")


def _summary(report: LabReport) -> Text:
    word = report.verdict.value
    facts = [f"{report.earned} of {report.points} points"] if report.points else []
    if own := sum(result.points for result in report.self_assessed):
        facts.append(f"{own} of them self-assessed")
    facts.append(f"{report.duration:.1f} s")
    if report.track:
        facts.append(report.track)
    if report.backend:
        version = report.versions.get("kube-apiserver", "")
        facts.append(f"{report.backend} {version}".strip())
        facts.append(f"seed {report.seed}")
    if report.verdict is Verdict.UNKNOWN:
        facts.append("the grader or the cluster failed, not your work")
    return Text.assemble((f"{word}", f"bold {STYLE[word]}"), f"  {' · '.join(facts)}")
