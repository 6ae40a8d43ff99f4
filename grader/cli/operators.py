"""``phase4 dev operators``: how well the gate tells right operators from wrong ones."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grader.cli import exit_codes

if TYPE_CHECKING:
    from grader.conformance.gate import Report


#: Parts whose names are broken in two above a narrow column.
_HEADS = {"functional": "func-\ntional", "killpoints": "kill\npoints", "replicas": "repli-\ncas"}


def register_dev(dev: typer.Typer) -> None:
    """Add this file's command to ``dev``."""
    dev.command()(operators)


def operators(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME…]", help="All of them if left out.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Try each that many times.")] = 1,
    right: Annotated[bool, typer.Option("--right", help="Only the right operators.")] = False,
    wrong: Annotated[bool, typer.Option("--wrong", help="Only the wrong operators.")] = False,
    matrix: Annotated[
        bool,
        typer.Option("--matrix", help="Wrong ones too through the whole gate: minutes for each."),
    ] = False,
    part: Annotated[
        list[str] | None, typer.Option("--part", help="Right ones, or --matrix: only this part.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Measure the gate: right operators pass it, each wrong one is caught and named."""
    from grader import cluster as clusters
    from grader.conformance import measure
    from grader.verdict import Verdict

    rights = [] if wrong else measure.right_operators(names or ())
    wrongs = [] if right else measure.wrong_operators(names or ())
    unknown = set(names or ()) - {one.name for one in (*rights, *wrongs)}
    if unknown:
        raise typer.BadParameter(f"there is no operator {sorted(unknown)[0]}")
    cluster = clusters.ensure()
    outcome: dict[str, Any] = {"right": [], "wrong": [], "matrix": {}}
    failed = 0
    for number in range(repeat):
        for one in rights:
            with _Folder() as folder:
                report = measure.try_right(cluster, one, folder.path, part or (), _seed())
                good = report.verdict is Verdict.PASS
                folder.keep = not good
            failed += not good
            outcome["right"].append({"name": one.name, **_brief(report)})
            outcome["matrix"][one.name] = _parts(report)
            if not as_json:
                bad = [f"{r.id} {r.verdict.value}" for r in report.results if r.message]
                _say(good, "right", one.name, number, report.duration, "; ".join(bad), folder)
        for mistake in wrongs:
            with _Folder() as folder:
                row = measure.measure(cluster, mistake, folder.path, _seed())
                folder.keep = not row.ok
            failed += not row.ok
            outcome["wrong"].append(
                {"name": row.mistake, "scenario": row.scenario, "verdict": row.verdict.value,
                 "diagnosis": row.diagnosis, "ok": row.ok, "seconds": round(row.seconds, 1)}
            )  # fmt: skip
            outcome["matrix"][row.mistake] = {
                row.scenario.partition("/")[0]: row.diagnosis or row.verdict.value
            }
            if not as_json:
                told = f"{row.scenario}: {row.diagnosis or row.verdict.value}"
                if not row.ok:
                    told += f", not {row.wanted}: {row.seen}"
                _say(row.ok, "wrong", row.mistake, number, row.seconds, told, folder)
    if matrix:
        for mistake in wrongs:
            with _Folder() as folder:
                report = measure.whole_gate(cluster, mistake, folder.path, part or (), _seed())
            outcome["matrix"][mistake.name] = _parts(report)
    if as_json:
        print(json.dumps(outcome, indent=1))
    else:
        _print_matrix(outcome["matrix"], {one.name for one in rights})
        tried = len(outcome["right"]) + len(outcome["wrong"])
        print(f"{failed} of {tried} not as wanted" if failed else f"All {tried} as wanted")
    if failed:
        raise typer.Exit(exit_codes.FAIL)


class _Folder:
    """A temporary folder that stays where something was not as wanted."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="phase4-operators-"))
        self.keep = False

    def __enter__(self) -> _Folder:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.keep:
            shutil.rmtree(self.path, ignore_errors=True)


def _seed() -> int:
    return time.time_ns() % 2**32


def _brief(report: Report) -> dict[str, Any]:
    return {"verdict": report.verdict.value, "seconds": round(report.duration, 1)}


def _parts(report: Report) -> dict[str, str]:
    """Part to what it says of the operator: PASS, or the diagnoses of what failed."""
    from grader.conformance.scenario import PARTS

    found = {}
    for part in PARTS:
        results = report.of_part(part)
        named = {
            (r.message.diagnosis if r.message else "") or r.verdict.value
            for r in results
            if r.verdict.value != "PASS"
        }
        if results:
            found[part] = ", ".join(sorted(named)) or "PASS"
    return found


def _say(
    good: bool, kind: str, name: str, number: int, seconds: float, told: str, folder: _Folder
) -> None:
    kept = f"  (kept in {folder.path})" if folder.keep else ""
    mark = "ok " if good else "NOT"
    print(f"{mark} {kind} {number + 1} {name:28} {seconds:6.1f} s  {told}{kept}", flush=True)


def _print_matrix(matrix: dict[str, dict[str, str]], rights: set[str]) -> None:
    """A row an operator: a mark for each part that was run, and what its faults were called."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from grader.conformance.scenario import PARTS
    from grader.report import terminal

    if not matrix:
        return
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("\noperator", no_wrap=True)
    for part in PARTS:
        table.add_column(_HEADS.get(part, f"\n{part}"), justify="center", no_wrap=True)
    table.add_column("\nnamed", overflow="fold")
    for title, mine in (("right", True), ("wrong", False)):
        rows = {name: parts for name, parts in matrix.items() if (name in rights) is mine}
        if rows:
            table.add_row(Text(title, "bold"))
        for name, parts in rows.items():
            table.add_row(
                Padding(name, (0, 0, 0, 1)),
                *(_cell(parts.get(part)) for part in PARTS),
                "\n".join(_faults(parts)),
            )
    console = terminal.console()
    console.print()
    console.print(table)
    console.print()


def _faults(parts: dict[str, str]) -> list[str]:
    """What the parts called what they saw, each name once."""
    told = [name for said in parts.values() if said != "PASS" for name in said.split(", ")]
    return list(dict.fromkeys(told))


def _cell(told: str | None):
    """The mark of what a part of the gate said; a dot where it was not run."""
    from rich.text import Text

    from grader.report import terminal

    if told is None:
        return Text("·", "dim")
    word = told if told in ("PASS", "UNKNOWN", "NOT GRADED") else "FAIL"
    return Text(terminal.mark(word), terminal.STYLE[word])
