"""The artifact behind a condition of the gate: the report on it, and whether that is current.

A condition may name a lab whose program has to pass more than that lab asks
for (``artifact`` in the manifest). The outcome is a report next to the labs',
under the condition's own name; it is about the program as it was then.
"""

from __future__ import annotations

from pathlib import Path

from grader.course import Condition, Lab
from grader.report import store
from grader.report.model import LabReport, ReportError
from grader.verdict import Verdict


def name_of(condition: Condition) -> str:
    """What the report of a condition's artifact is called."""
    return f"gate-{condition.number}"


def load(reports: Path, condition: Condition) -> LabReport | None:
    """The report of a condition's artifact; None where there is none that can be read."""
    try:
        return store.load(reports, name_of(condition))
    except ReportError:
        return None


def lacks(reports: Path, condition: Condition, lab: Lab) -> list[str]:
    """What the artifact has not shown, in words; empty where nothing is missing.

    ``reports`` is a workspace's; ``lab`` is the one whose program the artifact is.
    """
    remedy = f"`phase4 gate {condition.number} --live`"
    report = load(reports, condition)
    if report is None:
        return [f"its program has not been judged for this condition yet: {remedy}"]
    if report.digest != digest(reports, lab):
        return [f"it has changed since it was judged for this condition: {remedy}"]
    return [
        f"{result.title}: {result.verdict.value}"
        for result in report.checks
        if result.verdict is not Verdict.PASS
    ]


def digest(reports: Path, lab: Lab) -> str:
    """The digest of what the artifact is made of, as it is now."""
    from grader.workspace import open_folder, parts

    return parts.digest(open_folder(reports.parent.parent), lab)
