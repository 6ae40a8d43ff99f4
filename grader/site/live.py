"""What the served site knows about its learner: reports as JSON, and a stream that follows them.

An answer is made of the reports, the lock of a running check and, after a pass, the
reference answer. A GET starts nothing and writes nothing. The one thing that a page may
send is which points the learner finds in a sentence of theirs.

==============================  =================================================
``/-/phase4/state``             standing of every lab, gate, what runs, what is next
``/-/phase4/report/LAB``        the lab's latest report, whole
``/-/phase4/answer/LAB``        the reference answer; 403 until the lab has passed
``/-/phase4/events``            the state as server-sent events, again at each change
``POST /-/phase4/assess``       ``{"check", "digest", "said"}``: the points of an answer
==============================  =================================================
"""

from __future__ import annotations

import fcntl
import json
import re
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from grader import course, workspace
from grader.report import assessing, store
from grader.report import progress as standings
from grader.report.model import ReportError
from grader.site import answers

PREFIX = "/-/phase4/"
#: Seconds between two looks at the reports while a page is open. A look is a few
#: stat calls, and works where file events don't arrive (WSL, network drives).
LOOK = 0.3
#: Seconds after which an idle stream says something, so that a page that has
#: gone is noticed.
HEARTBEAT = 15.0


class Refused(Exception):
    """The request gets a status and a sentence instead of an answer."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def answer(path: str) -> dict[str, Any]:
    """The JSON for a path below :data:`PREFIX`; :class:`Refused` where there is none."""
    what, _, name = path.removeprefix(PREFIX).partition("/")
    if what == "state" and not name:
        return state()
    if what in ("report", "answer"):
        try:
            lab = course.load().lab(name)
        except course.CourseError as error:
            raise Refused(HTTPStatus.NOT_FOUND, str(error)) from error
        return _report(lab) if what == "report" else _reference(lab)
    raise Refused(HTTPStatus.NOT_FOUND, "There is nothing here.")


def assess(body: bytes) -> dict[str, Any]:
    """Keep what the learner found in a sentence; :class:`Refused` where it cannot be kept."""
    try:
        data = json.loads(body)
        check, digest, said = data["check"], data["digest"], data["said"]
    except (ValueError, KeyError, TypeError):
        raise Refused(HTTPStatus.BAD_REQUEST, "This is not a judgement of an answer.") from None
    words = [check, digest, *said] if isinstance(said, list) else [None]
    if not all(isinstance(word, str) for word in words):
        raise Refused(HTTPStatus.BAD_REQUEST, "This is not a judgement of an answer.")
    here = _here()
    if here is None:
        raise Refused(HTTPStatus.CONFLICT, "There is no workspace.")

    def busy(holder: str) -> None:
        raise Refused(HTTPStatus.CONFLICT, "A check is running. Try again when it has ended.")

    try:
        with here.exclusive("assess", busy):
            report = assessing.assess(here, check, digest, said)
    except (assessing.AssessmentError, ReportError) as error:
        raise Refused(HTTPStatus.CONFLICT, str(error)) from error
    return report.to_json()


def _here() -> workspace.Workspace | None:
    """The learner's workspace, None where there is none yet or it is another course's."""
    try:
        return workspace.find()
    except workspace.WorkspaceError:
        return None


def state() -> dict[str, Any]:
    """Everything but the messages: small enough to be sent again at each change."""
    loaded = course.load()
    try:
        here = workspace.find()
        problem = ""
        reports = here.reports
    except workspace.WorkspaceError as error:
        here, problem, reports = None, str(error), Path("/nonexistent")
    standing = standings.progress(reports, loaded)
    upcoming = standing.next()
    # Read each report once: a state is of one moment.
    passed = here.record("passed") if here else {}
    return {
        "problem": problem,
        "damaged": list(standing.damaged),
        "running": running(here) if here else [],
        "passed": standing.passed,
        "total": len(standing.labs),
        "earned": standing.earned,
        "points": standing.points,
        "self_assessed": list(standing.self_assessed),
        "next": upcoming.id if upcoming else None,
        "labs": {
            entry.lab.id: {
                "title": entry.lab.title,
                "module": entry.lab.module,
                "standing": entry.standing,
                "earned": entry.earned,
                "points": entry.points,
                "built": entry.lab.built,
                "checked": entry.report.started if entry.report else None,
                "assessed": entry.report.assessed if entry.report else 0,
                "self_assessed": list(entry.self_assessed),
                "opened": entry.lab.id in passed or bool(entry.report and entry.report.passed),
            }
            for entry in standing.labs
        },
        "gate": [
            {
                "number": entry.condition.number,
                "title": entry.condition.title,
                "met": entry.met,
                "self_assessed": list(entry.self_assessed),
                "missing": {
                    group: [{"lab": one.lab.id, "what": one.what} for one in lacks]
                    for group, lacks in entry.missing.items()
                    if lacks
                },
            }
            for entry in standings.gate(standing, loaded)
        ],
    }


def running(here: workspace.Workspace) -> list[str]:
    """The labs that a check is grading at this moment."""
    try:
        with (here.state / "lock").open(encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                said = lock.read(4096)
            else:
                return []
    except OSError:
        return []
    known = {lab.id for lab in course.load().labs}
    match = re.search(r"phase4 check ([^`]*)`", said)
    return [name for name in match[1].split() if name in known] if match else []


def _report(lab: course.Lab) -> dict[str, Any]:
    here = _here()
    try:
        report = store.load(here.reports, lab.id) if here else None
    except ReportError as error:
        raise Refused(HTTPStatus.CONFLICT, str(error)) from error
    if report is None:
        raise Refused(HTTPStatus.NOT_FOUND, f"{lab.id} was never checked in this workspace.")
    return report.to_json()


def _reference(lab: course.Lab) -> dict[str, Any]:
    here = _here()
    if here is None or not answers.may_be_read(here, lab):
        raise Refused(
            HTTPStatus.FORBIDDEN, f"The reference answer of {lab.id} opens once the lab passes."
        )
    return answers.of(lab, here.track_of(lab)).to_json()


def changes(stopped: threading.Event) -> Iterator[str | None]:
    """The state as JSON, now and after each change; None when it is time for a heartbeat."""
    last, quiet = "", 0.0
    seen: object = object()
    while not stopped.is_set():
        now = _fingerprint()
        if now != seen:
            seen = now
            text = json.dumps(state(), ensure_ascii=False)
            if text != last:
                last, quiet = text, 0.0
                yield text
                continue
        quiet += LOOK
        if quiet >= HEARTBEAT:
            quiet = 0.0
            yield None
        stopped.wait(LOOK)


def _fingerprint() -> object:
    """Differs whenever the state may have changed: report files' times and sizes, and what runs."""
    here = _here()
    if here is None:
        return None
    found = []
    try:
        for path in here.reports.iterdir():
            stat = path.stat()
            found.append((path.name, stat.st_mtime_ns, stat.st_size))
    except OSError:
        pass
    return sorted(found), running(here)
