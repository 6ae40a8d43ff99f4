"""``phase4 dev mutate``: whether every small fault of a right program is seen."""

from __future__ import annotations

import random
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader import exit_codes

if TYPE_CHECKING:
    from grader.verify.mutation.edits import Edit
    from grader.verify.mutation.score import Ledger, Outcome, Score
    from grader.verify.mutation.targets import Target


def register_dev(dev: typer.Typer) -> None:
    """Add this file's command to ``dev``."""
    dev.command()(mutate)


def mutate(
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM", help="operator-python, operator-go, work-queue, …")
    ],
    only: Annotated[
        str, typer.Option("--only", help="Only mutants whose id has this text in it.")
    ] = "",
    sample: Annotated[
        int, typer.Option(min=0, help="How many, drawn at random; 0 is all of them.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
    jobs: Annotated[
        int, typer.Option(min=1, help="How many at once, each on a cluster of its own.")
    ] = 1,
    again: Annotated[
        bool, typer.Option("--again", help="Also those whose outcome is known from before.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--list", help="Only show the mutants and what is known of them.")
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="Write the score where the site reads it.")
    ] = False,
) -> None:
    """Make every small change of a right program, and see whether it is rejected.

    Outcomes are kept in the state folder: a run that was stopped resumes where it
    was. Exit code 1 while a mutant lives without a reason in
    grader/mistakes/mutants/survivors.toml.
    """
    from grader.cluster import dirs
    from grader.verify.mutation import score as scores
    from grader.verify.mutation.targets import target

    try:
        chosen = target(program)
    except KeyError as error:
        raise typer.BadParameter(str(error.args[0])) from None
    folder = Path(tempfile.mkdtemp(prefix="phase4-mutate-"))
    try:
        edits = chosen.edits(chosen.lay_out(folder / "whole"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    edits = [edit for edit in edits if only in edit.id]
    if sample:
        edits = random.Random(seed).sample(edits, min(sample, len(edits)))
    ledger = scores.Ledger(dirs.made(dirs.state() / "mutants") / f"{program}.jsonl")
    if show:
        for edit in edits:
            known = ledger.outcomes.get(edit.id)
            print(f"{known.verdict if known else '-':8} {edit.id}  {edit.shown}")
        return
    to_do = edits if again else ledger.open(edits)
    print(f"{len(edits)} mutants of {program}, {len(edits) - len(to_do)} known from before")
    _try_all(chosen, to_do, ledger, jobs)
    result = scores.score(program, edits, ledger)
    _print(result)
    if publish:
        scores.publish(result)
    if result.open:
        raise typer.Exit(exit_codes.FAIL)


def _try_all(target: Target, edits: list[Edit], ledger: Ledger, jobs: int) -> None:
    from grader import cluster as clusters
    from grader.cluster.several import several

    with several(None, jobs) as names, ThreadPoolExecutor(jobs) as pool:

        def one(edit: Edit) -> Outcome:
            with names.one() as name:
                return _tried(target, edit, clusters.ensure(name), ledger)

        futures = [pool.submit(one, edit) for edit in edits]
        try:
            for number, future in enumerate(futures, start=1):
                outcome = future.result()
                ledger.add(outcome)
                told = f"{outcome.by} {outcome.called}".strip()
                print(
                    f"{number:4}  {outcome.verdict:8} {outcome.seconds:6.1f} s  {outcome.shown}  {told}",
                    flush=True,
                )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _tried(target: Target, edit: Edit, cluster, ledger: Ledger) -> Outcome:
    from grader.verify.mutation.score import DOES_NOT_BUILD, Outcome
    from grader.verify.mutation.targets import DoesNotBuild

    folder = Path(tempfile.mkdtemp(prefix="phase4-mutant-"))
    try:
        judged = target.judge(cluster, edit, folder, ledger.likeliest(edit))
    except DoesNotBuild:
        return Outcome(edit.id, DOES_NOT_BUILD, shown=edit.shown)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Outcome(
        edit.id,
        judged.verdict.value,
        judged.by,
        judged.called,
        round(judged.seconds, 1),
        edit.shown,
    )


def _print(result: Score) -> None:
    print()
    for line in result.open:
        print(f"lives: {line}")
    share = 100 * (result.killed + result.excused) / result.mutants if result.mutants else 0
    print(
        f"{result.mutants} mutants, {result.killed} killed, {result.excused} no fault, "
        f"{len(result.open)} live: {share:.1f} %"
    )
