"""``conform``: the conformance suite, against any operator that takes a kubeconfig."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader import exit_codes

if TYPE_CHECKING:
    from grader.cluster.interface import Cluster
    from grader.conformance.scenario import Result
    from grader.conformance.suite import Report

#: Letters above a column of the picture.
_HEAD = 26


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command(
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
    )(conform)


def conform(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND…",
            help="The operator: {kubeconfig} in a word is its kubeconfig; KUBECONFIG has it too.",
        ),
    ],
    part: Annotated[
        list[str] | None,
        typer.Option("--part", help="Only this part, or this scenario; may be given again."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Repeat a run's random choices.")] = None,
    walks: Annotated[
        int | None,
        typer.Option(min=1, help="So many random walks; else what is done in 20 s."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for records, report and picture.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Run the conformance suite against an operator: any process that takes a kubeconfig."""
    import random

    from grader import cluster as clusters
    from grader.cli import progress_line
    from grader.cluster.process import NotStarted, Refused, executable
    from grader.conformance.processes import Subject
    from grader.conformance.suite import Ended, select
    from grader.conformance.suite import conform as run_suite
    from grader.runner.program import Program

    try:
        chosen = select(part or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--part") from None
    here = Path.cwd()
    try:
        executable(Program(tuple(command), here, here).argv("")[0])
    except Refused:
        raise
    except NotStarted as error:
        raise typer.BadParameter(str(error), param_hint="COMMAND") from None
    end_as_by_ctrl_c()
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    folder = out or _run_folder()
    done: list[Result] = []
    ended: Ended | None = None
    with progress_line.line(quiet=as_json) as tell, beside() as second:
        cluster = clusters.ensure(progress=tell)
        try:
            report = run_suite(
                cluster,
                Subject(tuple(command), here, _packages(command, folder)),
                folder,
                only=part or (),
                seed=seed,
                walks=walks,
                beside=second,
                on_result=done.append,
                on_start=lambda one: tell(f"{len(done)} of {len(chosen)}  {one.id}: {one.title}"),
            )
        except Ended as error:
            report, ended = error.report, error
    picture = _picture(report, folder)
    if as_json:
        print(json.dumps(report.to_json(), indent=1))
    else:
        _show(report, folder, picture)
    if ended:
        raise ended
    raise typer.Exit(exit_codes.of(report.verdict))


@contextmanager
def beside() -> Iterator[Callable[[], Cluster] | None]:
    """What starts a second cluster, where the machine has room for one; it is ended at the end."""
    from grader import cluster as clusters
    from grader.cluster.several import several

    if clusters.default_backend() != "embedded" or (os.cpu_count() or 1) < 2:
        yield None
        return
    with several(None, 2) as names, names.one(), names.one() as second:
        yield lambda: clusters.ensure(second)


def end_as_by_ctrl_c() -> None:
    """Have a command that is ended or loses its terminal end its operators as Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def _packages(command: list[str], folder: Path) -> dict[str, str]:
    """What the operator finds the workspace's packages by, where there is a workspace."""
    from grader import workspace
    from grader.workspace import lending

    try:
        here = workspace.find()
    except workspace.WorkspaceError:
        return {}
    return lending.for_command(here, command, folder / "lent").environment


def _run_folder() -> Path:
    from grader.cluster import dirs

    stamp = time.strftime("%Y%m%d-%H%M%S")
    return dirs.made(dirs.state() / "conform" / stamp)


def _picture(report: Report, folder: Path) -> Path | None:
    """The kill points' picture, where they were tried."""
    from grader.conformance.picture import kill_picture

    outcomes = [
        outcome
        for result in report.of_part("killpoints")
        for outcome in result.measured.get("kill points", ())
    ]
    if not outcomes:
        return None
    path = folder / "kill-points.svg"
    drawn = kill_picture("Killed before and after every write", {_short(report.command): outcomes})
    path.write_text(drawn["svg"], encoding="utf-8")
    return path


def _short(command: str) -> str:
    """A command as the head of a column: no folders, no more than there is room for."""
    program, *rest = shlex.split(command)
    short = " ".join([Path(program).name, *rest])
    return short if len(short) <= _HEAD else short[: _HEAD - 1] + "…"


def _show(report: Report, folder: Path, picture: Path | None) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from grader.conformance.scenario import PARTS
    from grader.report import terminal

    console = terminal.console()
    console.print(Text.assemble(("Conformance", "bold"), f" for `{report.command}`"))
    for part in PARTS:
        results = report.of_part(part)
        if results:
            console.print()
            took = f"  {report.seconds_of(part):.1f} s"
            console.print(Text.assemble((part, "bold"), (took, "dim")))
            console.print(Padding(_table(results), (0, 0, 0, 2)))
    for result, others in report.causes():
        assert result.message is not None
        console.print()
        word = result.verdict.value
        console.print(
            Text.assemble((f"{terminal.mark(word)} {word}", terminal.STYLE[word]), f"  {result.id}")
        )
        console.print(Padding(terminal.message(result.message), (0, 0, 0, 2)))
        if others:
            same = ", ".join(other.id for other in others)
            console.print(Padding(f"For the same cause: {same}.", (0, 0, 0, 2)))
    passed = sum(result.verdict.value == "PASS" for result in report.results)
    console.print()
    console.print(
        f"{report.verdict.value}: {passed} of {len(report.results)} scenarios passed in "
        f"{report.duration:.0f} s (seed {report.seed}, backend {report.backend})."
    )
    if report.not_tried:
        console.print(f"The other {len(report.not_tried)} were not tried. {report.why_not}")
    console.print(f"Records and report: {folder}" + (f"; picture: {picture}" if picture else ""))


def _table(results: list[Result]):
    from rich.table import Table
    from rich.text import Text

    from grader.report import terminal

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    for result in results:
        word = result.verdict.value
        table.add_row(
            Text(f"{terminal.mark(word)} {word}", terminal.STYLE[word]),
            result.id.partition("/")[2],
            result.title,
            f"{result.duration:.1f} s",
        )
    return table
