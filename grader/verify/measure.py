"""Grade every case of every lab and compare what is seen with what is wanted."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from grader.cluster.several import several
from grader.cut import CutError
from grader.evidence.questions import NOT_ASSESSED
from grader.labs.grading import grade, interrupt_all
from grader.labs.grading_request import Request
from grader.mistakes import MistakeError
from grader.report.model import LabReport
from grader.verdict import Verdict
from grader.verify import cited
from grader.verify.model import Case, Kind, LabResult, Row, VerifyReport
from grader.verify.subject import Subject
from grader.verify.written import measured

#: Verdicts that no starter may get: a learner begins with something that builds and starts.
_BROKEN = {"build-failed", "bad-program-toml", "program-not-started", "build-tool-missing"}

#: How long a wrong program is waited for, as a fraction of the time for a learner's:
#: nearly all of a measurement is waiting for what will never happen. A starter only has
#: to not pass.
HURRY: dict[Kind, float] = {"mistake": 0.5, "starter": 0.2}

#: Called when a case is done, with its lab.
Progress = Callable[[str, Row], None]


def measure(
    subjects: Iterable[Subject],
    *,
    repeat: int = 1,
    jobs: int = 1,
    live_jobs: int = 1,
    cluster: str | None = None,
    backend: str | None = None,
    isolation: str = "none",
    seed: int | None = None,
    keep: Path | None = None,
    only: str = "",
    patient: bool = False,
    progress: Progress | None = None,
) -> VerifyReport:
    """Measure the labs; nothing is ever tried again.

    Every case is graded ``repeat`` times, with another seed each time unless
    ``seed`` fixes it. ``jobs`` cases are graded at once, of labs that use a
    cluster ``live_jobs``, each on a cluster of its own: those that were started
    beside the first are ended again. Runs that were not as wanted stay in ``keep``
    (a temporary folder otherwise); the rest is removed. ``only`` leaves out the
    cases whose title does not have that text. ``patient``: wrong programs are
    waited for as long as a learner's, and not a part of it.
    """
    started = time.monotonic()
    base = Path(tempfile.mkdtemp(prefix="phase4-verify-", dir=_made(keep)))
    report = VerifyReport()
    try:
        with several(cluster, live_jobs, backend=backend) as clusters:
            for subject in subjects:
                checks, complaints = subject.complaints()
                result = LabResult(subject.lab, checks=checks, complaints=complaints)
                result.cited = cited.measure(subject.lab)
                result.written = measured(subject)
                report.labs.append(result)

                def one(case: Case, subject: Subject = subject) -> Row:
                    # One live case a cluster: what a case does to it is nobody else's affair.
                    free = clusters.one() if subject.live else nullcontext(clusters.first)
                    with free as mine:
                        row = _measured(
                            subject,
                            case,
                            base / subject.lab,
                            repeat=repeat,
                            seed=seed,
                            patient=patient,
                            options={
                                "cluster": mine or "",
                                "backend": backend or "",
                                "isolation": isolation,
                            },
                        )
                    if progress:
                        progress(subject.lab, row)
                    return row

                cases = [case for case in subject.cases() if only in case.title]
                with ThreadPoolExecutor(max(1, live_jobs if subject.live else jobs)) as pool:
                    futures: list[Future[Row]] = [pool.submit(one, case) for case in cases]
                    try:
                        result.rows = [future.result() for future in futures]
                    except BaseException:
                        for future in futures:
                            future.cancel()
                        interrupt_all()
                        raise
    except BaseException:
        shutil.rmtree(base, ignore_errors=True)
        raise
    if not any(row.kept for lab in report.labs for row in lab.rows):
        shutil.rmtree(base, ignore_errors=True)
    report.seconds = time.monotonic() - started
    return report


def _made(folder: Path | None) -> Path | None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _measured(
    subject: Subject,
    case: Case,
    base: Path,
    *,
    repeat: int,
    seed: int | None,
    patient: bool,
    options: dict,
) -> Row:
    row = Row(case)
    for number in range(repeat):
        folder = base / f"{case.title.replace(' ', '-')}-{number + 1}"
        began = time.monotonic()
        try:
            submission = subject.lay_out(case, folder / "workspace")
        except (MistakeError, CutError) as error:
            row.complaints.append(str(error))
            return row
        request = Request(
            submission=submission,
            lab=subject.lab,
            grader=subject.grader,
            run_dir=folder / "run",
            track=case.track,
            needs_cluster=subject.live,
            only=(case.fails,) if case.kind == "mistake" and subject.one_by_one else (),
            patience=1.0 if patient else HURRY.get(case.kind, 1.0),
            **options,
        )
        report = grade(request if seed is None else replace(request, seed=seed))
        row.runs += 1
        row.seconds = max(row.seconds, time.monotonic() - began)
        complaints = judged(case, report)
        seen = described(case, report)
        if seen not in row.seen:
            row.seen.append(seen)
        if complaints:
            row.kept = str(folder)
            row.complaints += [
                f"{complaint} (seed {report.seed}; kept in {folder})" for complaint in complaints
            ]
        else:
            row.right += 1
            shutil.rmtree(folder, ignore_errors=True)
    return row


def judged(case: Case, report: LabReport) -> list[str]:
    """What is wrong with this report of this case; empty when it is as wanted."""
    unknown = [result for result in report.checks if result.verdict is Verdict.UNKNOWN]
    found = [
        f"{result.id} is UNKNOWN: {result.message.seen if result.message else '?'}"
        for result in unknown
    ]
    if not report.checks:
        found.append("no check was run")
    if case.kind in ("answer", "variant"):
        for result in report.checks:
            if result.verdict in (Verdict.FAIL, Verdict.NOT_GRADED):
                message = result.message
                # A sentence that its writer judges is not failed.
                if case.kind == "variant" and message and message.diagnosis == NOT_ASSESSED:
                    continue
                why = f"{message.diagnosis or 'no diagnosis'}: {message.seen}" if message else "?"
                found.append(f"a right answer gets {result.verdict.value} at {result.id} ({why})")
    elif case.kind == "starter":
        if report.passed:
            found.append("the starter passes")
        named = {result.message.diagnosis for result in report.checks if result.message}
        found += [f"the starter is {broken}" for broken in sorted(named & _BROKEN)]
    else:
        result = report.result(case.fails)
        if result is None:
            found.append(f"{case.fails} was not run")
        elif result.verdict is not Verdict.FAIL:
            if result not in unknown:
                found.append(f"{case.fails} is {result.verdict.value} instead of FAIL")
        elif result.message is None or result.message.diagnosis != case.diagnosis:
            named = result.message.diagnosis if result.message else ""
            found.append(f"{case.fails} calls it {named or 'nothing'!r}, not {case.diagnosis!r}")
    return found


def described(case: Case, report: LabReport) -> str:
    """What was seen, in a few words."""
    if case.kind == "mistake":
        result = report.result(case.fails)
        if result is None:
            return "not run"
        named = result.message.diagnosis if result.message else ""
        return f"{result.verdict.value}{', ' + named if named else ''}"
    return f"{report.verdict.value} {report.earned}/{report.points}"
