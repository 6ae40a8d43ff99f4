"""``check``: grade what is in the learner's folder, print the verdict, store the report."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader import course, exit_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grader.cli.progress_line import Tell
    from grader.cli.written import Ask
    from grader.course import Condition, Lab
    from grader.report.model import LabReport
    from grader.workspace import Workspace
    from grader.workspace.parts import Lending


def register(app: typer.Typer) -> None:
    """Add this file's command."""
    app.command(rich_help_panel="Learn")(check)


def check(
    labs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LAB…]",
            help="Labs or modules, or one written answer: 4.2.7/recovery; the next lab not passed "
            "when left out.",
            autocompletion=lambda: [lab.id for lab in course.load().labs],
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="4.1.3: let the grader break things itself.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Check again at every save, until Ctrl-C.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="Repeat a run's random choices; its report has the number.")
    ] = None,
    isolation: Annotated[
        str, typer.Option(help="none, or bwrap: run your program in a sandbox.")
    ] = "none",
    parts: Annotated[
        str,
        typer.Option(
            help="Whose parts a lab runs on: auto (yours where their labs are passed), own, course."
        ),
    ] = "auto",
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Ask nothing: a sentence that only you can judge stays not assessed.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the reports as JSON.")] = False,
) -> None:
    """Grade a lab: what was expected, what was seen, why it matters, what to look at next."""
    from grader import workspace
    from grader.workspace.parts import LENDING

    if isolation not in ("none", "bwrap"):
        raise typer.BadParameter("none or bwrap", param_hint="--isolation")
    if parts not in LENDING:
        raise typer.BadParameter(", ".join(LENDING), param_hint="--parts")
    here = workspace.find()
    asked = _may_ask(yes or as_json or watch)
    if alone := [name for name in labs or [] if "/" in name]:
        from grader.cli.written import check_alone

        if watch or len(alone) < len(labs or []):
            raise typer.BadParameter(f"{alone[0]} is checked alone, without a lab or --watch")
        _require_written(alone)
        code = check_alone(here, alone, questions_asked=asked, as_json=as_json)
        raise typer.Exit(code)
    chosen = _chosen(here, labs or [])
    if not chosen:
        print("Every lab that this version can grade is passed. `phase4 gate` is next.")
        return
    if live:
        os.environ["PHASE4_LIVE"] = "1"
    if watch:
        from grader.cli.watch import watch_labs

        watch_labs(here, chosen, lambda: _round(here, chosen, seed, isolation, parts, False))
        return
    raise typer.Exit(_round(here, chosen, seed, isolation, parts, as_json, asked))


def _may_ask(refused: bool) -> bool:
    from grader.cli.written import can_ask

    return can_ask() and not refused


def _require_written(ids: list[str]) -> None:
    from grader.evidence import questions

    for name in ids:
        if name not in questions.ids():
            of_lab = questions.ids(name.partition("/")[0])
            offer = f"{', '.join(of_lab or questions.ids())} can be checked alone"
            raise typer.BadParameter(f"{name} is no answer in sentences; {offer}")


def _chosen(here: Workspace, names: list[str]) -> list[Lab]:
    if names:
        return course.load().select(names)
    from grader.report.progress import progress

    upcoming = progress(here.reports).next()
    return [upcoming] if upcoming else []


def _round(
    here: Workspace,
    labs: list[Lab],
    seed: int | None,
    isolation: str,
    lending: Lending,
    as_json: bool,
    asked: bool = False,
) -> int:
    """Grade these labs one after another; returns the exit code for all of them.

    ``asked``: a learner at a terminal judges the sentences that nobody else can judge.
    """
    from grader.cli.progress_line import line
    from grader.cli.written import ask
    from grader.report.model import overall
    from grader.report.terminal import console, lab_report

    reports: list[LabReport] = []
    names = " ".join(lab.id for lab in labs)
    out = console()
    with line(quiet=as_json) as tell, here.exclusive(f"check {names}", tell):
        for lab in labs:
            report = grade(
                here,
                lab,
                tell,
                seed=seed,
                isolation=isolation,
                lending=lending,
                ask=ask if asked else None,
            )
            reports.append(report)
            tell("")
            if not as_json:
                if len(reports) > 1:
                    out.print()
                out.print(lab_report(report, lab.title))
    if as_json:
        print(json.dumps([report.to_json() for report in reports], indent=1, ensure_ascii=False))
    else:
        _afterwards(here, labs, reports)
    return exit_codes.of(overall(report.verdict for report in reports))


def grade_again(
    labs: list[Lab], artifacts: Sequence[Condition] = (), *, quiet: bool = False
) -> None:
    """Grade these labs of the learner's folder and store their reports; shows a line for each.

    ``artifacts``: conditions of the gate whose artifact is judged as well, where
    its lab is passed; its failures are shown in full.
    """
    from grader import workspace
    from grader.cli import artifact
    from grader.cli.progress_line import line
    from grader.report.terminal import console, lab_line, lab_report

    here = workspace.find()
    names = " ".join(lab.id for lab in labs)
    with line(quiet=quiet) as tell, here.exclusive(f"check {names}", tell):
        _cluster(labs, tell)
        for lab in labs:
            report = grade(here, lab, tell)
            tell("")
            if not quiet:
                console().print(lab_line(report, lab.title))
            for condition in artifacts if report.passed else ():
                if condition.artifact != lab.id:
                    continue
                judged = artifact.judge(here, condition, tell)
                tell("")
                title = f"The program of {lab.id}, killed at each of its writes"
                if not quiet:
                    show = lab_line if judged.passed else lab_report
                    console().print(show(judged, title))


def _cluster(labs: list[Lab], tell: Tell) -> None:
    """Start the cluster before the graders need it, so that its progress is shown."""
    if not any(lab.built and "cluster" in lab.needs for lab in labs):
        return
    from grader import cluster

    cluster.ensure(progress=tell)


def grade(
    here: Workspace,
    lab: Lab,
    tell: Tell,
    *,
    seed: int | None = None,
    isolation: str = "none",
    lending: Lending = "auto",
    ask: Ask | None = None,
) -> LabReport:
    """Grade one lab of a workspace and store the report.

    Answers in sentences come before whatever runs: what is wrong with them is told at
    once, ``ask`` has the learner judge those that nobody else can, and the rest goes on.

    What is graded is put together in the run's own folder: see :mod:`grader.workspace.parts`.
    A report on parts that were asked for in another way than ``auto`` counts as any other:
    what the lab asks for is the learner's in all of them.
    """
    from grader.report import assessing
    from grader.workspace import parts

    if not lab.built:
        return _not_built(lab)

    tell(f"{lab.id}: grading")
    run_dir = here.new_run(lab.id)
    used = parts.assemble(here, lab, run_dir / "workspace", lending)
    digests = parts.digests(run_dir / "workspace", lab, parts.track_of(here, lab))
    digest = parts.digest(here, lab)
    report = _graded(here, lab, run_dir, tell, ask, seed=seed, isolation=isolation)
    _forget_copies(here, lab, run_dir)
    report.course = course.load().version
    report.run_dir = _within(here.root, report.run_dir)
    report.digest = digest
    report.parts = [use.to_json() for use in used]
    report.judged_parts = digests
    assessing.file(here, lab, report)
    return report


def _graded(
    here: Workspace,
    lab: Lab,
    run_dir: Path,
    tell: Tell,
    ask: Ask | None,
    *,
    seed: int | None,
    isolation: str,
) -> LabReport:
    """The lab's report, in one session, or in two where something else runs beside the sentences."""
    from grader.cli.written import judge
    from grader.evidence import questions
    from grader.labs import grading
    from grader.labs.grading_request import Request
    from grader.report import assessing
    from grader.report.model import joined

    folder = run_dir / "workspace" / lab.id
    written = set(questions.ids(lab.id))
    others = [check for check in course.checks(lab) if check.id not in written]

    def session(into: Path, seed: int | None, only: Sequence[str] = (), **options) -> LabReport:
        request = Request.of(
            lab,
            folder,
            into,
            track=here.track_of(lab),
            seed=seed,
            isolation=isolation,
            only=tuple(only),
            **options,
        )
        return grading.grade(request, lambda step: tell(f"{lab.id}: {step}"))

    if not written or not any(check.evidence in ("live", "build") for check in others):
        report = assessing.settled(here, session(run_dir, seed), folder)
        tell("")
        judge(here, report, ask)
        return report
    sentences = [check.id for check in course.checks(lab) if check.id in written]
    first = session(run_dir / "written", seed, sentences, needs_cluster=False)
    first = assessing.settled(here, first, folder)
    tell("")
    judge(here, first, ask)
    _tell_of(first)
    rest = session(run_dir, first.seed, [check.id for check in others])
    return joined(first, rest, [check.id for check in course.checks(lab)])


def _tell_of(report: LabReport) -> None:
    """Print the verdicts of the sentences at once; the report at the end has all of them."""
    import sys

    from grader.report.terminal import mark

    for result in report.checks:
        if not result.message:
            continue
        word = result.verdict.value
        sign = mark(word, sys.stderr.encoding)
        print(f"{sign} {result.id} {word}: {result.message.seen}", file=sys.stderr, flush=True)


def _forget_copies(here: Workspace, lab: Lab, last: Path) -> None:
    """Keep what the last run of a lab was put together from, and nothing of those before it."""
    for earlier in here.runs.glob(f"*-{lab.id}*"):
        if earlier != last:
            for name in ("workspace", "build"):
                shutil.rmtree(earlier / name, ignore_errors=True)


def _not_built(lab: Lab) -> LabReport:
    """The report of a lab that this version only describes: NOT GRADED, never FAIL."""
    from grader.report.model import CheckResult, LabReport
    from grader.verdict import Message, Verdict

    message = Message(
        expected="A grader for this lab.",
        seen="This version of the course describes the lab but cannot grade it yet.",
        next="The labs that can be graded are in `phase4 list`.",
    )
    result = CheckResult(
        f"{lab.id}/not-built",
        lab.title,
        0,
        (lab.evidence or ("live",))[0],
        Verdict.NOT_GRADED,
        message,
    )
    return LabReport(lab=lab.id, checks=[result])


def _within(root: Path, path: str) -> str:
    """A path as it is from the workspace, so that a moved workspace still has its runs."""
    try:
        return str(Path(path).relative_to(root))
    except ValueError:
        return path


def _afterwards(here: Workspace, labs: list[Lab], reports: list[LabReport]) -> None:
    """After a pass: the reference answer and the next lab. After a fail: where help is."""
    from grader.report.progress import progress

    print()
    for lab, report in zip(labs, reports, strict=True):
        if report.passed:
            print(f"{lab.id} passed. To compare with: phase4 solution {lab.id}")
    failed = next((one for one in zip(labs, reports, strict=True) if not one[1].passed), None)
    upcoming = progress(here.reports).next()
    if failed and failed[0].built:
        lab, report = failed
        if report.run_dir and report.backend:
            print(f"What was said on the wire: {report.run_dir} (in the workspace)")
        if course.hints(lab):
            print(f"Stuck? phase4 hint {lab.id}")
    elif upcoming:
        print(f"Next: {upcoming.id}  {upcoming.title}   (phase4 show {upcoming.id})")
    else:
        print("Every lab that this version can grade is passed. `phase4 gate` is next.")
