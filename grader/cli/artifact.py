"""Judge the artifact behind a condition of the gate: the learner's own program, as it is now."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from grader import course
from grader.verdict import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from grader.cli.progress_line import Tell
    from grader.conformance.scenario import Result
    from grader.conformance.suite import Report
    from grader.course import Condition
    from grader.report.model import CheckResult, LabReport
    from grader.runner.submission import Submission
    from grader.workspace import Workspace

#: The part of the conformance suite that a condition's artifact has to pass.
PART = "killpoints"


def judge(here: Workspace, condition: Condition, tell: Tell) -> LabReport:
    """Kill the artifact at each of its writes; store and return the outcome."""
    from grader.report import artifact, store
    from grader.report.model import LabReport
    from grader.runner.submission import Submission
    from grader.workspace import parts

    lab = course.load().lab(condition.artifact)
    run_dir = here.new_run(artifact.name_of(condition))
    used = parts.assemble(here, lab, run_dir / "workspace")
    handed_in = run_dir / "workspace" / lab.id
    submission = Submission(handed_in, lab.id, here.track_of(lab), run_dir / "build")
    report = LabReport(
        lab=artifact.name_of(condition),
        track=here.track_of(lab),
        seed=random.SystemRandom().randrange(2**31),
        started=time.time(),
        digest=parts.digest(here, lab),
        parts=[use.to_json() for use in used],
        course=course.load().version,
    )
    try:
        found = _conformed(submission, run_dir, report.seed, tell)
    except Outcome as outcome:
        # Nothing to start: no program, or none that can be read.
        report.checks = [_result(condition, lab.id, condition.title, outcome)]
    else:
        report.backend, report.versions = found.backend, found.versions
        report.checks = [
            _result(condition, result.id, result.title, result, result.duration)
            for result in found.results
        ]
        _draw(report, found)
    report.duration = time.time() - report.started
    store.save(here.reports, report)
    return report


def _conformed(submission: Submission, run_dir: Path, seed: int, tell: Tell) -> Report:
    from grader import cluster as clusters
    from grader.conformance.processes import Subject
    from grader.conformance.suite import conform

    cluster = clusters.ensure(progress=tell)
    return conform(
        cluster,
        Subject.of(submission.program),
        run_dir,
        only=[PART],
        seed=seed,
        on_start=lambda one: tell(f"{submission.lab}: {one.title}"),
    )


def _result(
    condition: Condition, id: str, title: str, seen: Outcome | Result, duration: float = 0.0
) -> CheckResult:
    from grader.report.artifact import name_of
    from grader.report.model import CheckResult

    id = f"{name_of(condition)}/{id.rpartition('/')[2]}"
    return CheckResult(id, title, 0, "live", seen.verdict, seen.message, duration)


def _draw(report: LabReport, found: Report) -> None:
    from grader.conformance.picture import kill_picture
    from grader.report.model import Observation

    points = [one for result in found.results for one in result.measured.get("kill points", ())]
    if points:
        drawn = kill_picture(
            "Killed before and after every write, and started again", {"artifact 1": points}
        )
        report.observations = [Observation(report.checks[0].id, "kill points", drawn)]
