"""``phase4 dev operators``: how well the conformance suite tells right operators from wrong ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader import exit_codes
from grader.course import ROOT
from grader.verdict import Verdict

if TYPE_CHECKING:
    from grader.cluster.interface import Cluster
    from grader.conformance.scenario import Result
    from grader.conformance.suite import Report


#: Parts whose names are broken in two above a narrow column.
_HEADS = {"functional": "func-\ntional", "killpoints": "kill\npoints", "replicas": "repli-\ncas"}


def register_dev(dev: typer.Typer) -> None:
    """Add this file's command to ``dev``."""
    dev.command()(operators)


def operators(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME…]", help="By default all of them.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Try each this many times.")] = 1,
    jobs: Annotated[
        int, typer.Option(min=1, help="How many at once, each on a cluster of its own.")
    ] = 1,
    right: Annotated[bool, typer.Option("--right", help="Only the right operators.")] = False,
    wrong: Annotated[bool, typer.Option("--wrong", help="Only the wrong operators.")] = False,
    matrix: Annotated[
        bool,
        typer.Option("--matrix", help="Run wrong ones through the whole suite: minutes for each."),
    ] = False,
    part: Annotated[
        list[str] | None, typer.Option("--part", help="Right ones, or --matrix: only this part.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Measure the conformance suite: right operators pass, each wrong one is caught and named."""
    from grader.cli.conform import end_as_by_ctrl_c
    from grader.conformance import measure

    rights = [] if wrong else measure.right_operators(names or ())
    wrongs = [] if right else measure.wrong_operators(names or ())
    unknown = set(names or ()) - {one.name for one in (*rights, *wrongs)}
    if unknown:
        raise typer.BadParameter(f"there is no operator {sorted(unknown)[0]}")
    tries = [
        Try(kind, one.name, number)
        for number in range(1, repeat + 1)
        for kind, these in (("right", rights), ("matrix" if matrix else "wrong", wrongs))
        for one in these
    ]
    end_as_by_ctrl_c()
    outcomes = []
    for outcome in _outcomes(tries, jobs, part or []):
        outcomes.append(outcome)
        if not as_json:
            _say(outcome)
    failed = sum(not outcome.ok for outcome in outcomes)
    if as_json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    else:
        _print_matrix(outcomes)
        print(
            f"{failed} of {len(tries)} not as wanted" if failed else f"All {len(tries)} as wanted"
        )
    if failed:
        raise typer.Exit(exit_codes.FAIL)


@dataclass(frozen=True)
class Try:
    """One operator to be tried.

    ``kind``: ``right`` by the suite, ``wrong`` by the scenario that must see what
    is wrong with it, ``matrix`` a wrong one by the whole suite.
    """

    kind: str
    name: str
    number: int


@dataclass(frozen=True)
class Outcome:
    """What came of a try.

    ``parts`` is what each part of the suite said: PASS, or the diagnoses of what
    failed. ``kept`` is a folder with all records where it was not as wanted.
    """

    kind: str
    name: str
    number: int
    ok: bool
    seconds: float
    told: str
    parts: dict[str, str]
    kept: str = ""


def _outcomes(tries: list[Try], jobs: int, only: list[str]) -> Iterator[Outcome]:
    """The outcomes as they are known; several jobs are processes, each with a cluster of its own."""
    from grader import cluster as clusters
    from grader.cluster.several import several

    if jobs == 1:
        cluster = clusters.ensure()
        for one in tries:
            yield _tried(cluster, one, only)
        return
    running: set[subprocess.Popen] = set()
    with several(None, jobs) as names, ThreadPoolExecutor(jobs) as pool:

        def elsewhere(one: Try) -> Outcome:
            with names.one() as name:
                return _in_process(one, only, name, running)

        futures = [pool.submit(elsewhere, one) for one in tries]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.terminate()  # SIGINT may be ignored, where this runs in the background
            raise


def _in_process(one: Try, only: list[str], cluster: str, running: set) -> Outcome:
    """The same by a process of its own, so that an end by Ctrl-C is the same as well."""
    words = [sys.executable, "-I", "-X", "utf8", str(ROOT / "grader")]
    words += ["dev", "operators", one.name, "--json"]
    words += [f"--{one.kind}", *(word for part in only for word in ("--part", part))]
    process = subprocess.Popen(
        words,
        env={**os.environ, "PHASE4_CLUSTER": cluster},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    running.add(process)
    printed, said = process.communicate()
    running.discard(process)
    try:
        (outcome,) = json.loads(printed)
    except ValueError:
        told = said.strip().splitlines() or [f"it ended with {process.returncode}"]
        return Outcome(one.kind, one.name, one.number, False, 0.0, f"not tried: {told[-1]}", {})
    return Outcome(**{**outcome, "number": one.number})


def _tried(cluster: Cluster, one: Try, only: list[str]) -> Outcome:
    """Try an operator; the folder stays where it was not as wanted."""
    from grader.conformance import measure

    folder = Path(tempfile.mkdtemp(prefix="phase4-operators-"))
    seed = time.time_ns() % 2**32
    if one.kind == "wrong":
        (mistake,) = measure.wrong_operators([one.name])
        row = measure.measure(cluster, mistake, folder, seed)
        told = f"{row.scenario}: {row.diagnosis or row.verdict.value}"
        if not row.ok:
            told += f", not {row.wanted}: {row.seen}"
        ok, seconds = row.ok, row.seconds
        parts = {row.scenario.partition("/")[0]: row.diagnosis or row.verdict.value}
    else:
        report = _try_wrong(cluster, one, folder, only, seed)
        ok = report.verdict is Verdict.PASS if one.kind == "right" else _named(one.name, report)
        bad = [f"{r.id} {_called(r)}" for r in report.results if r.message]
        seconds, told, parts = report.duration, "; ".join(bad), _parts(report)
    if ok:
        shutil.rmtree(folder, ignore_errors=True)
    kept = "" if ok else str(folder)
    return Outcome(one.kind, one.name, one.number, ok, round(seconds, 1), told, parts, kept)


def _named(wrong: str, report: Report) -> bool:
    """Whether the scenario that must see a mistake is among those that failed, and named it."""
    from grader.conformance import measure

    (mistake,) = measure.wrong_operators([wrong])
    scenario = measure.scenario_of(mistake)
    return any(
        r.id == scenario
        and r.verdict is Verdict.FAIL
        and measure.is_called(_called(r), mistake.diagnosis)
        for r in report.results
    )


def _called(result: Result) -> str:
    """What a result calls the fault; its verdict where it has no name."""
    return (result.message.diagnosis if result.message else "") or result.verdict.value


def _try_wrong(cluster: Cluster, one: Try, folder: Path, only: list[str], seed: int) -> Report:
    from grader.conformance import measure

    if one.kind == "right":
        (right,) = measure.right_operators([one.name])
        return measure.try_right(cluster, right, folder, only, seed)
    (wrong,) = measure.wrong_operators([one.name])
    return measure.try_wrong(cluster, wrong, folder, only, seed)


def _parts(report: Report) -> dict[str, str]:
    """Part to what it says of the operator: PASS, or the diagnoses of what failed."""
    from grader.conformance.scenario import PARTS

    found = {}
    for part in PARTS:
        results = report.of_part(part)
        named = {_called(r) for r in results if r.verdict is not Verdict.PASS}
        if results:
            found[part] = ", ".join(sorted(named)) or "PASS"
    return found


def _say(outcome: Outcome) -> None:
    kept = f"  (kept in {outcome.kept})" if outcome.kept else ""
    mark = "ok " if outcome.ok else "NOT"
    print(
        f"{mark} {outcome.kind} {outcome.number} {outcome.name:28} {outcome.seconds:6.1f} s  "
        f"{outcome.told}{kept}",
        flush=True,
    )


def _print_matrix(outcomes: list[Outcome]) -> None:
    """A row an operator: a mark for each part that was run, and what its faults were called."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from grader.conformance.scenario import PARTS
    from grader.report import terminal

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("\noperator", no_wrap=True)
    for part in PARTS:
        table.add_column(_HEADS.get(part, f"\n{part}"), justify="center", no_wrap=True)
    table.add_column("\nnamed", overflow="fold")
    for title, kinds in (("right", ["right"]), ("wrong", ["wrong", "matrix"])):
        rows = _rows(o for o in outcomes if o.kind in kinds)
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


def _rows(outcomes: Iterable[Outcome]) -> dict[str, dict[str, str]]:
    """Operator to parts; of several tries that part's worst, so that no failure is hidden."""
    rows: dict[str, dict[str, str]] = {}
    for outcome in outcomes:
        row = rows.setdefault(outcome.name, {})
        for part, told in outcome.parts.items():
            if row.get(part, "PASS") == "PASS":
                row[part] = told
    return dict(sorted(rows.items()))


def _faults(parts: dict[str, str]) -> list[str]:
    """What the parts called what they saw, each name once."""
    told = [name for said in parts.values() if said != "PASS" for name in said.split(", ")]
    return list(dict.fromkeys(told))


def _cell(told: str | None):
    """The mark of what a part of the suite said; a dot where it was not run."""
    from rich.text import Text

    from grader.report import terminal

    if told is None:
        return Text("·", "dim")
    word = told if told in ("PASS", "UNKNOWN", "NOT GRADED") else "FAIL"
    return Text(terminal.mark(word), terminal.STYLE[word])
