"""Written answers that only their writer can judge: the judgement, and its effect on the report.

The judgement is kept with the learner's other records (``assessed.json``): for each
check the digest of the sentence, the points found in it, and when. It is valid for that
sentence only; the learner is asked again about a changed one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader import course
from grader.evidence import answers, questions, rubric
from grader.report import store
from grader.report.model import Assessment, CheckResult, LabReport
from grader.verdict import Message, Verdict
from grader.workspace import parts

if TYPE_CHECKING:
    from grader.workspace import Workspace

RECORD = "assessed"
#: Bytes of an ``answers.md`` that are read.
_LONGEST = 1 << 20


class AssessmentError(Exception):
    """The answer cannot be judged now; ``str()`` says why and what to do."""


def opened(lab_folder: Path, check_id: str) -> Assessment | None:
    """The answer of a check as it stands in a lab's folder, if it is for its writer to judge."""
    question = questions.of(check_id)
    path = lab_folder / answers.FILE
    if path.is_symlink() or not path.is_file():
        return None
    try:
        with path.open(encoding="utf-8-sig") as file:
            text = question.open_answer(file.read(_LONGEST))
    except (OSError, UnicodeDecodeError):
        return None
    if text is None:
        return None
    return Assessment(
        question=question.question,
        text=text,
        digest=rubric.digest(text),
        points=tuple((point.id, point.text) for point in question.points),
    )


def settled(here: Workspace, report: LabReport, lab_folder: Path) -> LabReport:
    """The report with each answer that waits for a judgement as the learner has judged it.

    ``lab_folder`` has what was graded. An answer that was not judged yet keeps its
    NOT GRADED, and gets the points to ask for.
    """
    record = here.record(RECORD)
    checks = []
    for result in report.checks:
        if result.message is not None and result.message.diagnosis == questions.NOT_ASSESSED:
            if (assessment := opened(lab_folder, result.id)) is not None:
                result = concluded(result, with_record(assessment, record.get(result.id)))
        checks.append(result)
    report.checks = checks
    report.assessed = max(
        (one.assessment.at for one in checks if one.assessment is not None), default=0.0
    )
    return report


def with_record(assessment: Assessment, kept: Any) -> Assessment:
    """The answer with what its writer found in it, if ``kept`` is of this very sentence."""
    if not isinstance(kept, dict) or kept.get("digest") != assessment.digest:
        return assessment
    ids = {id for id, _ in assessment.points}
    try:
        said = tuple(str(one) for one in kept["said"] if one in ids)
        return replace(assessment, said=said, at=float(kept["at"]))
    except (KeyError, TypeError, ValueError):
        return assessment


def concluded(result: CheckResult, assessment: Assessment) -> CheckResult:
    """The check's result with the learner's judgement of it, or with none yet."""
    if assessment.said is None:
        return replace(result, assessment=assessment)
    if not assessment.missing:
        return replace(result, verdict=Verdict.PASS, message=None, assessment=assessment)
    question = questions.of(result.id)
    lacking = "; ".join(f"«{text}»" for text in assessment.missing)
    message = Message(
        expected=question.expected,
        seen=f"Not yet: by your own judgement the sentence does not say {lacking}",
        why=question.why,
        next="Write it as well, then check again: you are asked again about a changed sentence. Where "
        f"it does say so, `phase4 check {result.id}` asks again.",
        diagnosis="points-missing",
        evidence=tuple(assessment.text.splitlines()),
    )
    return replace(result, verdict=Verdict.NOT_GRADED, message=message, assessment=assessment)


def keep(here: Workspace, check_id: str, digest: str, said: Iterable[str]) -> None:
    """Store what the learner found in the sentence of that digest."""
    entry = {"digest": digest, "said": list(said), "at": time.time()}
    here.keep(RECORD, {**here.record(RECORD), check_id: entry})


def assess(here: Workspace, check_id: str, digest: str, said: Iterable[str]) -> LabReport:
    """Keep the learner's judgement, and put it into the lab's stored report.

    The sentence has to be the one of ``digest`` still, in the learner's folder and in the
    report. Raises :class:`AssessmentError`. The caller holds the workspace.
    """
    said = list(said)
    if check_id not in questions.ids():
        raise AssessmentError(f"there is no written answer {check_id}.")
    lab = course.load().lab(check_id.partition("/")[0])
    now = opened(here.folder(lab), check_id)
    if now is None or now.digest != digest:
        raise AssessmentError(
            f"the sentence has changed since it was checked. `phase4 check {check_id}` first."
        )
    if unknown := set(said) - {id for id, _ in now.points}:
        raise AssessmentError(f"{check_id} has no point {min(unknown)!r}.")
    report = store.load(here.reports, lab.id)
    result = report.result(check_id) if report else None
    if report is None or result is None or result.assessment is None:
        raise AssessmentError(f"`phase4 check {check_id}` first: its report has no such answer.")
    keep(here, check_id, digest, said)
    judged = with_record(now, here.record(RECORD)[check_id])
    merge(report, [concluded(result, judged)])
    file(here, lab, report)
    return report


def merge(report: LabReport, results: Iterable[CheckResult]) -> None:
    """Put results of some checks into a report in the place of those that it has."""
    new = {result.id: result for result in results}
    report.checks = [new.get(result.id, result) for result in report.checks]
    times = [one.assessment.at for one in report.checks if one.assessment is not None]
    report.assessed = max(times, default=0.0)


def file(here: Workspace, lab: course.Lab, report: LabReport) -> None:
    """Store a report as the lab's latest, and what follows from its verdict."""
    store.save(here.reports, report)
    if set(report.judged_parts) >= {part.id for part in _asked_for(here, lab)}:
        parts.judged(here, lab, report.verdict, report.judged_parts)
    if report.passed:
        # What a pass has unlocked stays unlocked, whatever the next check says.
        here.keep("passed", {**here.record("passed"), lab.id: report.started})


def _asked_for(here: Workspace, lab: course.Lab) -> list[course.Part]:
    track = parts.track_of(here, lab)
    return [part for part in course.load().parts_of(lab, track) if part.lab == lab.id]
