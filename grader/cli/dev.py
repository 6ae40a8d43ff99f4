"""``phase4 dev``: for whoever works on the course, not for a learner."""

from __future__ import annotations

import importlib
import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader import exit_codes

if TYPE_CHECKING:
    from rich.table import Table

    from grader.verify import Row, VerifyReport

#: Files whose ``register_dev`` adds commands of their own.
_OTHERS = ("grader.cli.cite", "grader.cli.operators", "grader.cli.generate", "grader.cli.mutate")


def register(app: typer.Typer) -> None:
    """Add ``dev`` and what belongs to it."""
    dev = typer.Typer(
        name="dev",
        help="For whoever works on the course: cut the exercises, measure the graders.",
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    dev.command()(cut)
    dev.command()(verify)
    for name in _OTHERS:
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name).register_dev(dev)
    app.add_typer(dev, name="dev", rich_help_panel="Course")


def cut(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 where something would change.")
    ] = False,
) -> None:
    """Make exercises/ from solutions/: the stubs out of the marked regions."""
    from grader import cut as cutting

    changes = cutting.differences() if check else cutting.write()
    for change in changes:
        print(change)
    if not changes:
        print("exercises/ is what solutions/ makes of it")
    elif check:
        print("exercises/ differs; `phase4 dev cut` makes it again")
        raise typer.Exit(exit_codes.FAIL)


def verify(
    labs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LAB…]", help="Labs or modules; by default, all that are built."),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Grade each case this many times.")] = 1,
    jobs: Annotated[
        int,
        typer.Option(
            min=0,
            help="How many cases at once, each of a live lab on a cluster of its own; 0: two live "
            "ones, else one per core.",
        ),
    ] = 0,
    only: Annotated[
        str, typer.Option(help="Only cases whose title has this text (complaints of labs stay).")
    ] = "",
    seed: Annotated[int | None, typer.Option(help="The same seed for every run.")] = None,
    isolation: Annotated[str, typer.Option(help="none or bwrap.")] = "none",
    patient: Annotated[
        bool,
        typer.Option("--patient", help="Wait for wrong programs as long as for a learner's."),
    ] = False,
    keep: Annotated[
        Path | None, typer.Option(help="Where to keep the runs that were not as wanted.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Measure the graders: right answers pass, starters do not, each mistake is named."""
    import os

    from grader import verify as verifying
    from grader.cluster import default_backend

    subjects = verifying.subjects(labs or [])
    quiet = as_json

    def done(lab: str, row: Row) -> None:
        if not quiet:
            mark = "ok " if row.ok else "NOT"
            print(
                f"{mark} {lab:8} {row.case.title:60} {row.seconds:6.1f} s  {_seen(row)}", flush=True
            )

    report = verifying.measure(
        subjects,
        repeat=repeat,
        jobs=jobs or min(4, os.cpu_count() or 1),
        live_jobs=(jobs or min(2, os.cpu_count() or 1)) if default_backend() == "embedded" else 1,
        isolation=isolation,
        seed=seed,
        keep=keep,
        only=only,
        patient=patient,
        progress=done,
    )
    if as_json:
        print(json.dumps(report.to_json(), indent=1, ensure_ascii=False))
    else:
        _print(report)
    if not report.ok:
        raise typer.Exit(exit_codes.FAIL)


def _sentences(report: VerifyReport) -> Table:
    """A row for each written check: what became of right sentences and of wrong ones."""
    from rich import box
    from rich.table import Table

    title = "Written answers, measured"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("check", "right", "known", "asked", "false\nFAIL", "wrong", "named", "asked",
                 "false\nPASS"):  # fmt: skip
        first = name == "check"
        table.add_column(name, justify="left" if first else "right", no_wrap=first)
    for one in [one for lab in report.labs for one in lab.written]:
        cells = [
            *(sum(one.right.values()), one.right["known"], one.right["learner"]),
            len(one.false_fails),
            *(sum(one.wrong.values()), one.wrong["claim"], one.wrong["learner"]),
            len(one.false_passes),
        ]
        table.add_row(one.check, *map(str, cells), style="" if one.ok else "red")
    return table


def _seen(row: Row) -> str:
    return " | ".join(row.seen) or (row.complaints[0] if row.complaints else "")


def _citations(report: VerifyReport) -> Table:
    """What became of each line of the files that a citation question names."""
    from rich.table import Table

    table = Table(title="The citation questions, line by line", title_justify="left")
    for name in ("check", "question", "accepted", "refused", "of them named"):
        table.add_column(name, justify="left" if name in ("check", "question") else "right")
    for question in (question for lab in report.labs for question in lab.cited):
        table.add_row(
            question.check,
            question.heading,
            str(question.accepted),
            str(question.refused),
            str(question.named),
            style="red" if question.complaints else "",
        )
    return table


def _print(report: VerifyReport) -> None:
    """The table of all labs, and every complaint below it."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="The graders, measured", title_justify="left")
    for name in ("lab", "right answers", "starters held", "mistakes named", "checks", "slowest"):
        table.add_column(name, justify="left" if name == "lab" else "right")
    for lab in report.labs:
        cells = []
        for kinds in (("answer", "variant"), ("starter",), ("mistake",)):
            rows = [row for row in lab.rows if row.case.kind in kinds]
            right = sum(row.right for row in rows)
            cells.append(f"{right}/{sum(max(row.runs, 1) for row in rows)}")
        failed = sum(bool(names) for names in lab.checks.values())
        slowest = max((row.seconds for row in lab.rows), default=0.0)
        table.add_row(
            lab.lab,
            *cells,
            f"{failed}/{len(lab.checks)}",
            f"{slowest:.1f} s",
            style="" if lab.ok else "red",
        )
    console = Console()
    console.print(table)
    if any(lab.cited for lab in report.labs):
        console.print(_citations(report))
    if any(lab.written for lab in report.labs):
        console.print(_sentences(report))
    for complaint in report.complaints:
        console.print(f"• {complaint}", highlight=False, markup=False)
    console.print(
        f"{'All as wanted' if report.ok else f'{len(report.complaints)} complaints'}"
        f", {report.seconds:.0f} s"
    )
