"""Grade one lab: run its grader in a process of its own and read what it found.

Nothing here trusts that process: a check is PASS only where its record says so
for each of its three phases. No report, a report of other checks, a phase
without a record, a crash, a hang: UNKNOWN.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from grader import course
from grader.cluster import dirs, locks
from grader.labs.grading_request import MARKER, Request
from grader.report.model import CheckResult, LabReport, Observation
from grader.runner.build import BUILD_SECONDS
from grader.verdict import Message, Verdict

SESSION = Path(__file__).with_name("grading_process.py")

#: Seconds that starting and ending a session may take besides its checks.
MARGIN_SECONDS = 120.0
#: Seconds that the fixtures of an interrupted session have to clean up.
CLEAN_UP_SECONDS = 10.0


def grade(request: Request, progress: Callable[[str], None] = lambda line: None) -> LabReport:
    """Grade what a request names and return the report.

    ``request.run_dir`` is made and keeps the wires, the output and the grader's
    log. ``progress`` gets a line to show whenever there is news.

    Two runs for the same lab and folder wait for each other. Raises only for a
    caller's mistake (:class:`grader.course.CourseError`) and for what the
    machine lacks (:class:`grader.cluster.errors.EnvironmentProblem`).
    """
    if request.isolation != "none":
        from grader.runner import sandbox

        sandbox.checked(request.isolation)
    declared = course.checks_in(request.grader)
    if unknown := set(request.only) - {check.id for check in declared}:
        raise course.CourseError(f"{request.grader.name} has no check {min(unknown)}")
    declared = tuple(check for check in declared if request.asks_for(check.id))
    if request.needs_cluster and request.submission.is_dir():
        from grader import cluster as clusters

        clusters.ensure(request.cluster or None, backend=request.backend or None, progress=progress)
    dirs.made(request.run_dir)
    with locks.alone(
        _lock(request), progress, f"another check of {request.lab} is running, waiting"
    ):
        started = time.time()
        titles = {check.id: check.title for check in declared}
        trouble = ""
        if declared:
            trouble = _run(request, len(declared), lambda news: progress(titles.get(news, news)))
        results, observations = read(request, declared, trouble)
        facts = _facts(request)
        return LabReport(
            lab=request.lab,
            track=request.track,
            backend=facts.get("backend", ""),
            versions=facts.get("versions", {}),
            seed=request.seed,
            started=started,
            duration=time.time() - started,
            isolation=facts.get("isolation", "none"),
            checks=results,
            observations=observations,
            rules=facts.get("rules", []),
            run_dir=str(request.run_dir),
        )


def _lock(request: Request) -> Path:
    """The lock file of this lab and folder."""
    name = hashlib.sha256(os.fsencode(request.submission.resolve())).hexdigest()[:16]
    return dirs.made(dirs.state() / "locks") / f"grade-{request.lab}-{name}.lock"


def _run(request: Request, checks: int, on_news: Callable[[str], None]) -> str:
    """Run the session to its end; returns what went wrong with it, or nothing."""
    for old in (request.report, request.facts):
        old.unlink(missing_ok=True)
    read_end, write_end = os.pipe()
    request = replace(request, progress_fd=write_end)
    limit = MARGIN_SECONDS + BUILD_SECONDS + 3 * checks * request.check_seconds
    try:
        with (
            dirs.writing(request.run_dir),
            request.output.open("wb") as output,
        ):
            process = subprocess.Popen(
                [sys.executable, "-I", "-X", "utf8", str(SESSION), str(request.save())],
                # Held open for as long as this process lives: see grading_process.py.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=request.run_dir,
                pass_fds=[write_end],
                # A Ctrl-C is for us; we pass it on, once.
                start_new_session=True,
            )
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    _running.add(process)
    try:
        _follow(read_end, time.monotonic() + limit, on_news)
        code = process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        return "it had to be stopped"
    finally:
        os.close(read_end)
        if process.poll() is None:
            _interrupt(process)
        process.stdin.close()
        _running.discard(process)
        _sweep(request.marker)
    if code < 0:
        return f"its process was killed by signal {-code}"
    return ""


#: The sessions that this process waits for.
_running: set[subprocess.Popen] = set()


def interrupt_all() -> None:
    """Have every session that this process waits for end soon, from whatever thread."""
    for process in list(_running):
        _interrupt(process, patience=0)


def _interrupt(process: subprocess.Popen, *, patience: float | None = None) -> None:
    """End a session as by Ctrl-C, so that its fixtures clean up; by force after ``patience`` (s)."""
    patience = CLEAN_UP_SECONDS if patience is None else patience
    try:
        process.send_signal(signal.SIGINT)
        if patience:
            process.wait(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _follow(descriptor: int, deadline: float, on_news: Callable[[str], None]) -> None:
    """Read the session's news until it closes its end or the time is up."""
    pending = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([descriptor], [], [], left)[0]:
            return
        chunk = os.read(descriptor, 65536)
        if not chunk:
            return
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            try:
                news = json.loads(line)
                on_news(str(news.get("check") or news["say"]))
            except (ValueError, KeyError, TypeError, AttributeError):
                continue


def _sweep(marker: str) -> None:
    """End whatever the run started and did not end itself."""
    from grader.cluster.process import end_marked

    end_marked(MARKER, marker)


def read(
    request: Request, declared: tuple[course.Check, ...], trouble: str = ""
) -> tuple[list[CheckResult], list[Observation]]:
    """Verdicts out of the session's report, one for each declared check."""
    tests: list[dict[str, Any]] = []
    if not trouble:
        try:
            tests = json.loads(request.report.read_text(encoding="utf-8"))["tests"]
        except (OSError, ValueError, KeyError, TypeError):
            trouble = "it left no report"
    by_id: dict[str, list[dict[str, Any]]] = {}
    for test in tests:
        by_id.setdefault(test.get("metadata", {}).get("id", ""), []).append(test)
    results, observations = [], []
    for check in declared:
        found = by_id.get(check.id, [])
        duration = 0.0
        if len(found) == 1:
            verdict, message = _concluded(found[0], request)
            duration = _duration(found[0])
            observations += _observations(check.id, found[0])
        else:
            verdict = Verdict.UNKNOWN
            message = _failed(trouble or "it never reached this check", request)
        results.append(
            CheckResult(
                id=check.id,
                title=check.title,
                points=check.points,
                evidence=check.evidence,
                verdict=verdict,
                message=message,
                duration=duration,
            )
        )
    return results, observations


def _concluded(test: dict[str, Any], request: Request) -> tuple[Verdict, Message | None]:
    """One check's verdict from its three phases.

    What setup or the check itself concluded stands; a clean-up that concluded
    something takes a PASS away, and nothing else. pytest's own outcome of each
    phase must agree: a test that was interrupted counts as passed there.
    """
    metadata = test.get("metadata", {})
    passed = 0
    for phase in ("setup", "call", "teardown"):
        record = test.get(phase)
        if not isinstance(record, dict):
            continue
        try:
            entry = json.loads(metadata[f"phase {phase}"])
            verdict = Verdict(entry["verdict"])
            message = Message.from_json(entry["message"]) if entry["message"] else None
        except (KeyError, ValueError, TypeError):
            return Verdict.UNKNOWN, _failed("its record of this check is damaged", request)
        if verdict is Verdict.PASS:
            if record.get("outcome") != "passed":
                return Verdict.UNKNOWN, _failed("its records of this check differ", request)
            passed += 1
            continue
        if message is None:
            return Verdict.UNKNOWN, _failed("its record of this check is damaged", request)
        return verdict, message
    if passed == 3:
        return Verdict.PASS, None
    return Verdict.UNKNOWN, _failed("it was interrupted in this check", request)


def _duration(test: dict[str, Any]) -> float:
    phases = (test.get(phase) for phase in ("setup", "call", "teardown"))
    return sum(float(phase.get("duration", 0.0)) for phase in phases if isinstance(phase, dict))


def _observations(check: str, test: dict[str, Any]) -> list[Observation]:
    try:
        entries = json.loads(test["metadata"]["observations"])
        return [Observation(check, entry["name"], entry["value"]) for entry in entries]
    except (KeyError, ValueError, TypeError):
        return []


def _failed(why: str, request: Request) -> Message:
    from grader.labs.plugin import grader_failed

    return grader_failed(why, request).message


def _facts(request: Request) -> dict[str, Any]:
    try:
        facts = json.loads(request.facts.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}
