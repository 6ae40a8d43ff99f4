"""Written answers at the command line: graded before anything runs, and asked about in a terminal.

What the grader knows neither as right nor as wrong, the learner judges: beside their own
sentence stand the points of a complete answer, one after the other. Without a terminal
nobody is asked, and the answer stays «not yet assessed».
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from grader import exit_codes
from grader.verdict import Verdict

if TYPE_CHECKING:
    from grader.cli.progress_line import Tell
    from grader.course import Lab
    from grader.report.model import Assessment, CheckResult, LabReport
    from grader.workspace import Workspace

#: Asks for the points that an answer has; None where the learner leaves it for later.
Ask = Callable[["CheckResult"], "list[str] | None"]


def can_ask() -> bool:
    """Whether a person at a terminal can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask(result: CheckResult) -> list[str] | None:
    """Show the sentence beside the points of a complete answer and ask for each; None: not now."""
    from rich.padding import Padding
    from rich.text import Text

    from grader.report.terminal import console, prose

    assessment = result.assessment
    assert assessment is not None
    out = console()
    _forget_what_was_typed()
    out.print()
    out.print(Text.assemble((result.id, "bold"), "  only you can judge this sentence."))
    out.print(Padding(prose(assessment.question), (1, 0, 1, 2)))
    out.print(Padding(_quoted(assessment), (0, 0, 1, 2)))
    count = len(assessment.points)
    out.print(
        f"A complete answer says {count} things. Does yours? y for yes, n for no; Enter leaves "
        "it for later."
    )
    said = []
    for number, (id, text) in enumerate(assessment.points, start=1):
        out.print()
        out.print(Padding(prose(f"{number} of {count}  {text}"), (0, 0, 0, 2)))
        answer = _yes_or_no()
        if answer is None:
            out.print()
            out.print(f"Left for later: phase4 check {result.id} asks again.")
            return None
        if answer:
            said.append(id)
    out.print()
    return said


def _quoted(assessment: Assessment):
    from rich.table import Table
    from rich.text import Text

    bar = "│" if (sys.stdout.encoding or "").lower().startswith("utf") else "|"
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(ratio=1, overflow="fold")
    for line in assessment.text.splitlines():
        table.add_row(bar, Text(line, "cyan"))
    return table


def _yes_or_no() -> bool | None:
    while True:
        try:
            typed = input("  Does your sentence say this? [y/n] ").strip().casefold()
        except EOFError:
            return None
        if not typed:
            return None
        if typed in ("y", "yes"):
            return True
        if typed in ("n", "no"):
            return False
        print("  y or n, or Enter for later.")


def _forget_what_was_typed() -> None:
    """Discard what was typed before the question."""
    import termios

    try:
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    except (OSError, ValueError, termios.error):
        pass


def judge(here: Workspace, report: LabReport, ask: Ask | None, *, again: bool = False) -> None:
    """Ask about each answer of the report that waits for it, and keep what is said.

    ``again``: also about one that was found to lack a point before.
    """
    from grader.report import assessing

    for number, result in enumerate(report.checks):
        assessment = result.assessment
        if assessment is None or result.verdict is Verdict.PASS or ask is None:
            continue
        if assessment.said is not None and not again:
            continue
        said = ask(result)
        if said is None:
            continue
        assessing.keep(here, result.id, assessment.digest, said)
        judged = assessing.with_record(assessment, here.record(assessing.RECORD)[result.id])
        report.checks[number] = assessing.concluded(result, judged)
        report.assessed = max(report.assessed, judged.at)


def check_alone(here: Workspace, ids: list[str], *, questions_asked: bool, as_json: bool) -> int:
    """Grade these written answers and nothing else; returns the exit code for all of them."""
    import json

    from grader import course
    from grader.cli.progress_line import line
    from grader.report.model import overall
    from grader.report.terminal import console, lab_report

    reports = []
    with line(quiet=as_json) as tell, here.exclusive(f"check {' '.join(ids)}", tell):
        for lab in course.load().labs:
            of_lab = [one for one in ids if one.partition("/")[0] == lab.id]
            if not of_lab:
                continue
            report = _graded(here, lab, of_lab, tell)
            tell("")
            judge(here, report, ask if questions_asked else None, again=True)
            whole = _filed(here, lab, report)
            reports.append(report)
            if not as_json:
                console().print(lab_report(report, lab.title))
                print(_rest(lab, whole))
    if as_json:
        print(json.dumps([report.to_json() for report in reports], indent=1, ensure_ascii=False))
    return exit_codes.of(overall(report.verdict for report in reports))


def _graded(here: Workspace, lab: Lab, ids: list[str], tell: Tell) -> LabReport:
    from grader import course
    from grader.labs import grading
    from grader.labs.grading_request import Request
    from grader.report import assessing
    from grader.workspace import parts

    run_dir = here.new_run(lab.id)
    parts.assemble(here, lab, run_dir / "workspace")
    request = Request.of(
        lab,
        run_dir / "workspace" / lab.id,
        run_dir,
        track=here.track_of(lab),
        needs_cluster=False,
        only=tuple(ids),
    )
    report = grading.grade(request, lambda step: tell(f"{lab.id}: {step}"))
    report.course = course.load().version
    return assessing.settled(here, report, run_dir / "workspace" / lab.id)


def _filed(here: Workspace, lab: Lab, report: LabReport) -> LabReport | None:
    """The lab's stored report with these results in it; None where there is none to put them in."""
    from grader.report import assessing, store
    from grader.report.model import ReportError

    try:
        whole = store.load(here.reports, lab.id)
    except ReportError:
        return None
    if whole is None:
        return None
    assessing.merge(whole, report.checks)
    whole.assessed = max(whole.assessed, report.started)
    assessing.file(here, lab, whole)
    return whole


def _rest(lab: Lab, whole: LabReport | None) -> str:
    """The outcome of the lab as a whole."""
    if whole is None:
        return f"The rest of {lab.id} was not checked yet: phase4 check {lab.id}"
    if whole.passed:
        return f"{lab.id} passed. To compare with: phase4 solution {lab.id}"
    others = "its other checks are unchanged"
    return f"{lab.id} is {whole.verdict.value}: {others}. To check all of it again: phase4 check {lab.id}"
