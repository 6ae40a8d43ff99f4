"""What the reports say about the course as a whole: progress, what is next, the gate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from grader import course
from grader.course import EVIDENCE, Condition, Course, Lab
from grader.report import artifact, store
from grader.report.model import LabReport
from grader.verdict import Verdict

#: What a lab is for this learner: its verdict, or why it has none.
Standing = Literal["PASS", "FAIL", "NOT GRADED", "UNKNOWN", "not checked", "not built"]


@dataclass(frozen=True)
class LabProgress:
    """One lab and what its latest report says (None: never checked).

    ``points`` is what the graders give today, not what they gave when the report
    was made; ``outdated`` names checks that the report does not know.
    """

    lab: Lab
    report: LabReport | None
    earned: int
    points: int
    outdated: tuple[str, ...] = ()

    @property
    def standing(self) -> Standing:
        if self.report is not None:
            if self.outdated and self.report.passed:
                return "not checked"
            return self.report.verdict.value
        return "not checked" if self.lab.built else "not built"

    @property
    def passed(self) -> bool:
        return self.standing == Verdict.PASS.value

    @property
    def self_assessed(self) -> tuple[str, ...]:
        """The checks that the learner's own judgement passes, which the instructor marks."""
        return tuple(one.id for one in self.report.self_assessed) if self.report else ()


@dataclass(frozen=True)
class Progress:
    """Every lab in the course's order, and sentences on reports that cannot be read."""

    labs: tuple[LabProgress, ...]
    damaged: tuple[str, ...]
    #: The folder that it was read from.
    reports: Path | None = None

    @property
    def earned(self) -> int:
        return sum(entry.earned for entry in self.labs)

    @property
    def points(self) -> int:
        return sum(entry.points for entry in self.labs)

    @property
    def passed(self) -> int:
        return sum(entry.passed for entry in self.labs)

    @property
    def self_assessed(self) -> tuple[str, ...]:
        """The checks that are passed by the learner's own judgement."""
        return tuple(check for entry in self.labs for check in entry.self_assessed)

    def of(self, lab_id: str) -> LabProgress:
        return next(entry for entry in self.labs if entry.lab.id == lab_id)

    def next(self) -> Lab | None:
        """The first lab that can be graded and is not passed; None when all are."""
        return next(
            (entry.lab for entry in self.labs if entry.lab.built and not entry.passed), None
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "labs": len(self.labs),
            "earned": self.earned,
            "points": self.points,
            "self_assessed": list(self.self_assessed),
            "next": upcoming.id if (upcoming := self.next()) else None,
            "damaged": list(self.damaged),
            "standing": [
                {
                    "lab": entry.lab.id,
                    "title": entry.lab.title,
                    "module": entry.lab.module,
                    "standing": entry.standing,
                    "earned": entry.earned,
                    "points": entry.points,
                    "self_assessed": list(entry.self_assessed),
                    "checked": entry.report.started if entry.report else None,
                }
                for entry in self.labs
            ],
        }


def progress(reports: Path, loaded: Course | None = None) -> Progress:
    """Read the reports in a folder against the course."""
    loaded = loaded or course.load()
    found, damaged = store.all_of(reports, [lab.id for lab in loaded.labs])
    entries = []
    for lab in loaded.labs:
        report = found.get(lab.id)
        declared = course.checks(lab)
        known = {result.id: result for result in report.checks} if report else {}
        entries.append(
            LabProgress(
                lab=lab,
                report=report,
                earned=sum(
                    check.points
                    for check in declared
                    if check.id in known and known[check.id].verdict is Verdict.PASS
                ),
                points=sum(check.points for check in declared),
                outdated=tuple(check.id for check in declared if check.id not in known)
                if report
                else (),
            )
        )
    return Progress(tuple(entries), tuple(damaged), reports)


@dataclass(frozen=True)
class Missing:
    """One thing that a condition of the gate still lacks, in words."""

    lab: Lab
    what: str


@dataclass(frozen=True)
class ConditionProgress:
    """A condition of the gate: its labs, and what is missing in each group of evidence."""

    condition: Condition
    labs: tuple[LabProgress, ...]
    missing: dict[str, tuple[Missing, ...]]

    @property
    def met(self) -> bool:
        """Met when it has labs and nothing is missing: a condition without evidence is not met."""
        return bool(self.labs) and not any(self.missing.values())

    @property
    def self_assessed(self) -> tuple[str, ...]:
        """The checks in it that the learner's own judgement passes."""
        return tuple(check for entry in self.labs for check in entry.self_assessed)


def gate(standing: Progress, loaded: Course | None = None) -> list[ConditionProgress]:
    """Each condition of the gate with what it still lacks, grouped as the checklist is."""
    loaded = loaded or course.load()
    found = []
    for condition in loaded.gate:
        labs = tuple(entry for entry in standing.labs if condition.number in entry.lab.gate)
        missing: dict[str, list[Missing]] = {group: [] for group in EVIDENCE}
        for entry in labs:
            for group, what in _lacks(entry):
                missing[group].append(Missing(entry.lab, what))
            # More is asked of a program only once it does what its own lab asks.
            if entry.passed and entry.lab.id == condition.artifact and standing.reports:
                for what in artifact.lacks(standing.reports, condition, entry.lab):
                    missing["live"].append(Missing(entry.lab, what))
        found.append(
            ConditionProgress(condition, labs, {key: tuple(v) for key, v in missing.items()})
        )
    return found


def _lacks(entry: LabProgress) -> list[tuple[str, str]]:
    """(group, words) for all that this lab has not shown yet."""
    groups = entry.lab.evidence or ("live",)
    if entry.passed:
        return []
    if entry.standing == "not built":
        return [(group, "this version of the course cannot grade it yet") for group in groups]
    if entry.report is None:
        return [(group, "not checked yet") for group in groups]
    lacking = []
    for check in course.checks(entry.lab):
        result = entry.report.result(check.id)
        if result is None:
            lacking.append((check.evidence, f"{check.id} is new: check again"))
        elif result.verdict is not Verdict.PASS:
            lacking.append((check.evidence, f"{check.id} {result.verdict.value}: {check.title}"))
    return lacking or [(group, "its last check reached no verdict") for group in groups]
