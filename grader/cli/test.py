"""``test``: everything that must pass before a change is merged; CI runs nothing else."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from grader import exit_codes


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command(rich_help_panel="Work on the course")(test)


def test(
    steps: Annotated[
        list[str] | None,
        typer.Argument(metavar="[STEP…]", help="Only these steps; --list shows them."),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the steps.")] = False,
) -> None:
    """Run the project's own tests: style, units, live ones, and every grader measured."""
    from grader.quality.steps import STEPS

    if show:
        for step in STEPS:
            print(f"{step.name:<10} {step.title}")
        return
    known = {step.name for step in STEPS}
    if unknown := sorted(set(steps or ()) - known):
        raise typer.BadParameter(
            f"no step {', '.join(unknown)}; there are {', '.join(known)}", param_hint="STEP"
        )
    chosen = [step for step in STEPS if not steps or step.name in steps]
    raise typer.Exit(run(chosen))


def run(steps) -> int:
    """Run the steps one after another, whatever each finds; the exit code."""
    from grader.quality.steps import Result

    outcomes = []
    began = time.monotonic()
    try:
        for number, step in enumerate(steps, start=1):
            print(f"\n== {number}/{len(steps)} {step.name}: {step.title}", flush=True)
            started = time.monotonic()
            try:
                result = step.run()
            except Exception as error:
                from grader.cli.app import report

                report(error)
                result = Result(failed=1, notes=[f"{step.name} could not run: {error}"])
            outcomes.append((step, result, time.monotonic() - started))
    finally:
        _leave_nothing(steps)
    return _summary(outcomes, time.monotonic() - began)


def _leave_nothing(steps) -> None:
    """End the tests' cluster and whatever they started in it."""
    if not {"cluster", "live", "verify", "browser"} & {step.name for step in steps}:
        return
    from grader import cluster
    from grader.quality.steps import CLUSTER

    cluster.stop(CLUSTER)


def _summary(outcomes, seconds: float) -> int:
    """The table, what was not tested, and the line that counts."""
    from rich.table import Table
    from rich.text import Text

    from grader.report.terminal import STYLE, console, mark

    table = Table.grid(padding=(0, 2))
    for justify in ("left", "left", "right", "right", "right", "right"):
        table.add_column(justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for step, result, took in outcomes:
        word = "FAIL" if result.failed else "PASS"
        table.add_row(
            Text(f"{mark(word)} {'failed' if result.failed else 'ok'}", STYLE[word]),
            step.name,
            f"{result.passed} passed",
            f"{result.failed} failed" if result.failed else "",
            f"{result.skipped} skipped" if result.skipped else "",
            f"{took:.0f} s",
        )
    out = console()
    print()
    out.print(table)
    notes = [note for _, result, _ in outcomes for note in result.notes]
    for note in dict.fromkeys(notes):
        out.print(Text(f"Not tested: {note}", "yellow"))
    passed, failed, skipped = (
        sum(getattr(result, name) for _, result, _ in outcomes)
        for name in ("passed", "failed", "skipped")
    )
    print(f"\nAfter {seconds / 60:.1f} minutes:")
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return exit_codes.FAIL if failed or not passed else exit_codes.OK
