"""``check``: grade what is in the learner's folder, say the verdict, keep the report."""

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
            help="Labs or modules; the next one not passed when left out.",
            autocompletion=lambda: [lab.id for lab in course.load().labs],
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="4.1.3: let the grader do the breaking itself as well.")
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
    raise typer.Exit(_round(here, chosen, seed, isolation, parts, as_json))


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
) -> int:
    """Grade these labs one after another; returns the exit code for all of them."""
    from grader.cli.progress_line import line
    from grader.report.model import overall
    from grader.report.terminal import console, lab_report

    reports: list[LabReport] = []
    names = " ".join(lab.id for lab in labs)
    out = console()
    with line(quiet=as_json) as tell, here.exclusive(f"check {names}", tell):
        _cluster(labs, tell)
        for lab in labs:
            report = grade(here, lab, tell, seed=seed, isolation=isolation, lending=lending)
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


def grade_anew(
    labs: list[Lab], artifacts: Sequence[Condition] = (), *, quiet: bool = False
) -> None:
    """Grade these labs of the learner's folder and store their reports; shows a line for each.

    ``artifacts``: conditions of the gate whose artifact is judged as well, where
    its lab is passed; what it does not stand is shown in full.
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
    """Have the cluster up before the graders ask for it, so that its progress is seen."""
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
) -> LabReport:
    """Grade one lab of a workspace and store the report.

    What is graded is put together in the run's own folder: see :mod:`grader.workspace.parts`.
    A report on parts that were asked for in another way than ``auto`` counts as any other:
    what the lab asks for is the learner's in all of them.
    """
    from grader.report import store
    from grader.workspace import parts

    if not lab.built:
        return _not_built(lab)
    from grader.labs import grading
    from grader.labs.grading_request import Request

    tell(f"{lab.id}: grading")
    run_dir = here.new_run(lab.id)
    used = parts.assemble(here, lab, run_dir / "workspace", lending)
    digests = parts.digests(run_dir / "workspace", lab, parts.track_of(here, lab))
    digest = parts.digest(here, lab)
    request = Request.of(
        lab,
        run_dir / "workspace" / lab.id,
        run_dir,
        track=here.track_of(lab),
        seed=seed,
        isolation=isolation,
    )
    report = grading.grade(request, lambda step: tell(f"{lab.id}: {step}"))
    _forget_copies(here, lab, run_dir)
    report.course = course.load().version
    report.run_dir = _within(here.root, report.run_dir)
    report.digest = digest
    report.parts = [use.to_json() for use in used]
    store.save(here.reports, report)
    parts.judged(here, lab, report.verdict, digests)
    if report.passed:
        # What a pass has opened stays open, whatever the next save does.
        here.keep("passed", {**here.record("passed"), lab.id: report.started})
    return report


def _forget_copies(here: Workspace, lab: Lab, last: Path) -> None:
    """Keep what the last run of a lab was put together from, and nothing of those before it."""
    for earlier in here.runs.glob(f"*-{lab.id}*"):
        if earlier != last:
            for name in ("workspace", "build"):
                shutil.rmtree(earlier / name, ignore_errors=True)


def _not_built(lab: Lab) -> LabReport:
    """What a lab gets that this version only describes: NOT GRADED, never FAIL."""
    from grader.report.model import CheckResult, LabReport
    from grader.verdict import Message, Verdict

    message = Message(
        expected="A grader for this lab.",
        seen="This version of the course describes the lab and cannot grade it yet.",
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
