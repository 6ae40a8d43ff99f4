"""Whose parts a run used, in words: the learner's own, and those that the course lent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from grader import course
from grader.report.model import LabReport
from grader.verdict import Verdict

PartRun = Mapping[str, Any]


def ran_on(report: LabReport) -> list[str]:
    """A sentence on the learner's own parts and one on those lent; none for a lab without parts."""
    return sentences(report.parts)


def sentences(parts: Iterable[PartRun]) -> list[str]:
    """The same of parts alone, as a report has them."""
    used = [part for part in parts if not part["asked_for"]]
    own = [part for part in used if part["own"]]
    lent = [part for part in used if not part["own"]]
    found = []
    if own:
        found.append(f"Runs on your own {listed(_own(part) for part in own)}.")
    reasons: dict[str, list[PartRun]] = {}
    for part in lent:
        waiting = part["why"] == f"{part['lab']} is not passed"
        reasons.setdefault("" if waiting else part["why"], []).append(part)
    for why, parts_lent in reasons.items():
        if why or len(parts_lent) == 1:
            titles = listed(part["title"] for part in parts_lent)
            found.append(f"Runs on the course's {titles}: {parts_lent[0]['why']}.")
        else:
            titles = listed(f"{part['title']} ({part['lab']})" for part in parts_lent)
            found.append(f"Runs on the course's {titles}: these labs are not passed.")
    return found


def suspects(report: LabReport) -> list[str]:
    """Where else to look after a failed run on own parts; empty otherwise."""
    own = [part for part in report.parts if part["own"] and not part["asked_for"]]
    if report.verdict is not Verdict.FAIL or not own:
        return []
    said = " ".join(
        text
        for result in report.checks
        if result.message
        for text in (result.message.seen, *result.message.evidence)
    )
    found = []
    for part in own:
        files = _files(part["part"], report.track or "python")
        named = [file for file in files if file in said]
        if named:
            found.append(f"What was seen names {named[0]}, your {part['title']} of {part['lab']}.")
        elif part["changed"]:
            found.append(f"Your {part['title']} has changed since {part['lab']} passed.")
    found.append(f"To see this lab on the course's parts: phase4 check {report.lab} --parts course")
    return found


def _own(part: PartRun) -> str:
    return f"{part['title']} ({'changed since ' if part['changed'] else ''}{part['lab']})"


def _files(part_id: str, track: str) -> list[str]:
    parts = {part.id: part for part in course.load().parts}
    return [
        pattern.rstrip("*").rstrip("/")
        for pattern in (parts[part_id].files.get(track, ()) if part_id in parts else ())
    ]


def listed(words: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *rest, last = list(words)
    return f"{', '.join(rest)} and {last}" if rest else last
