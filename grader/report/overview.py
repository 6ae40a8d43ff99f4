"""The course as a whole in a terminal: the list of labs, one lab, progress, the gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.course import Check, Course, Lab
from grader.report.progress import ConditionProgress, LabProgress, Progress
from grader.report.terminal import STYLE, mark, prose

#: The curriculum's names for its groups of evidence.
GROUPS = {
    "live": "Live: seen at the API server",
    "build": "Build: what you made",
    "written": "Written: in your words",
    "claim": "Claims: cited from source",
}


def labs_table(standing: Progress, labs: Sequence[Lab]) -> RenderableType:
    """Labs with their standing and points, by module."""
    wanted = {lab.id for lab in labs}
    return _grid([entry for entry in standing.labs if entry.lab.id in wanted])


def _grid(entries: Sequence[LabProgress]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    for entry in entries:
        word = entry.standing
        points = f"{entry.earned}/{entry.points}" if entry.lab.built else ""
        table.add_row(
            entry.lab.id,
            Text(f"{mark(word)} {word}", STYLE[word]),
            Text(entry.lab.title, "" if entry.lab.built else "dim"),
            points,
        )
    return table


def lab_card(
    lab: Lab, checks: Sequence[Check], *, folder: str, track: str, page: str, hints: int
) -> RenderableType:
    """One lab: its folder, its checks, the commands for it."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(ratio=1)
    facts.add_row("page", page)
    if folder:
        facts.add_row("folder", folder + (f"  ({track} track)" if track else ""))
    else:
        facts.add_row("folder", "none yet: `phase4 init --track python` (or go) makes it")
    if lab.tracks:
        facts.add_row("tracks", " or ".join(lab.tracks))
    if lab.drill:
        facts.add_row("drill", lab.drill)
    parts: list[RenderableType] = [Text(f"{lab.id}  {lab.title}", "bold"), "", facts, ""]
    if not lab.built:
        parts.append("This version of the course describes the lab but cannot grade it yet.")
        return Group(*parts)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_row(Text("What is checked", "bold"), "", "evidence", Text("points", "dim"))
    for check in checks:
        table.add_row(check.id, prose(check.title), check.evidence, str(check.points))
    parts += [Padding(table, (0, 0, 0, 2)), ""]
    parts.append(f"Check it:  phase4 check {lab.id}")
    if hints:
        parts.append(f"Stuck:     phase4 hint {lab.id}   ({hints} hints, one at a time)")
    return Group(*parts)


def parts_table(parts: Sequence[tuple[str, Mapping[str, Any]]]) -> RenderableType:
    """A part a line, with its lab and track, and whose of it is run."""
    table = Table.grid(padding=(0, 2))
    table.add_row(*(Text(word, "dim") for word in ("part", "lab", "track", "whose")))
    for track, part in parts:
        whose = "yours" if part["own"] else f"the course's: {part['why']}"
        if part["own"] and part["changed"]:
            whose += ", changed since its lab passed"
        table.add_row(part["title"], part["lab"], track, Text(whose, "" if part["own"] else "dim"))
    return table


def progress_view(standing: Progress, course: Course) -> RenderableType:
    """Modules with their labs, a bar, and what is next."""
    parts: list[RenderableType] = []
    for module in course.modules:
        entries = [entry for entry in standing.labs if entry.lab.module == module.id]
        if not entries:
            continue
        name = f"{module.id}  {module.title}" if module.id[0].isdigit() else module.title
        parts.append(
            Text.assemble((name, "bold"), ("  " + _bar(entries), "green"), f" {_passed(entries)}")
        )
        built = [entry for entry in entries if entry.lab.built]
        if built:
            parts.append(Padding(_grid(built), (0, 0, 0, 2)))
        later = len(entries) - len(built)
        if later:
            parts.append(Text(f"  {later} {_labs(later)} not graded by this version", "dim"))
        parts.append("")
    total = f"{standing.passed} of {len(standing.labs)} labs passed"
    parts.append(Text(f"{total}, {standing.earned} of {standing.points} points", "bold"))
    if standing.self_assessed:
        parts.append(Text(f"Self-assessed: {', '.join(standing.self_assessed)}", "dim"))
    parts += [Text(sentence, "yellow") for sentence in standing.damaged]
    upcoming = standing.next()
    if upcoming:
        parts.append(f"Next: {upcoming.id}  {upcoming.title}   (phase4 show {upcoming.id})")
    else:
        parts.append("Every lab that this version can grade is passed. `phase4 gate` is next.")
    return Group(*parts)


def _bar(entries: Sequence[LabProgress]) -> str:
    import sys

    full, empty = "■□" if (sys.stdout.encoding or "").lower().startswith("utf") else "#."
    return "".join(full if entry.passed else empty for entry in entries)


def _passed(entries: Sequence[LabProgress]) -> str:
    return f"{sum(entry.passed for entry in entries)}/{len(entries)}"


def _labs(count: int) -> str:
    return "lab" if count == 1 else "labs"


def gate_view(conditions: Sequence[ConditionProgress]) -> RenderableType:
    """The gate, or one condition of it: what each still lacks, by group of evidence."""
    parts: list[RenderableType] = []
    for entry in conditions:
        word = "PASS" if entry.met else "FAIL"
        parts.append(
            Text.assemble(
                (
                    f"{mark(word)} {entry.condition.number}. {entry.condition.title}",
                    f"bold {STYLE[word]}",
                ),
                ("  met" if entry.met else "  not met yet"),
            )
        )
        if entry.condition.text:
            parts.append(Padding(prose(entry.condition.text), (0, 0, 0, 4)))
        if entry.self_assessed:
            named = ", ".join(entry.self_assessed)
            parts.append(
                Padding(f"Self-assessed, marked by your instructor: {named}", (0, 0, 0, 4))
            )
        for group, lacks in entry.missing.items():
            if not lacks:
                continue
            parts.append(Padding(Text(GROUPS[group], "dim"), (0, 0, 0, 4)))
            table = Table.grid(padding=(0, 2))
            table.add_column(no_wrap=True)
            table.add_column(ratio=1, overflow="fold")
            for one in lacks:
                table.add_row(one.lab.id, prose(one.what))
            parts.append(Padding(table, (0, 0, 0, 6)))
        parts.append("")
    met = sum(entry.met for entry in conditions)
    if len(conditions) == 1:
        number = conditions[0].condition.number
        parts.append(Text(f"Condition {number} is {'met' if met else 'not met yet'}.", "bold"))
    elif conditions and met == len(conditions):
        parts.append(Text("The gate is open: on to the next phase.", "bold green"))
    else:
        parts.append(
            Text(f"{met} of {len(conditions)} conditions met: the gate is closed.", "bold")
        )
    return Group(*parts)
