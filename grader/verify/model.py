"""What a measurement of the graders found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from grader.verify.cited import CitedRow

Kind = Literal["answer", "variant", "starter", "mistake"]


@dataclass(frozen=True)
class Case:
    """One submission that is graded to measure its grader.

    ``name`` is the variant's or the mistake's; ``fails`` and ``diagnosis`` are
    what a mistake must bring about.
    """

    kind: Kind
    track: str = ""
    name: str = ""
    fails: str = ""
    diagnosis: str = ""

    @property
    def title(self) -> str:
        """How the table names it: ``answer (go)``, ``mistake last-write-wins (python)``."""
        parts = [self.kind, self.name, f"({self.track})" if self.track else ""]
        return " ".join(part for part in parts if part)

    @property
    def wanted(self) -> str:
        """What has to be seen, in a few words."""
        if self.kind == "mistake":
            return f"{self.fails} FAIL, {self.diagnosis}"
        return "not PASS" if self.kind == "starter" else "PASS"


@dataclass
class Row:
    """A case, graded ``runs`` times. ``complaints`` is empty where each run was as wanted.

    ``seen`` says what was seen, each different thing once. ``seconds`` is of the
    slowest run. ``kept`` is where the run that was not as wanted is kept.
    """

    case: Case
    runs: int = 0
    right: int = 0
    seconds: float = 0.0
    seen: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    kept: str = ""

    @property
    def ok(self) -> bool:
        return self.runs > 0 and self.right == self.runs and not self.complaints

    def to_json(self) -> dict[str, Any]:
        case = self.case
        return {
            "kind": case.kind,
            "track": case.track,
            "name": case.name,
            "fails": case.fails,
            "diagnosis": case.diagnosis,
            "runs": self.runs,
            "right": self.right,
            "seconds": round(self.seconds, 3),
            "seen": list(self.seen),
            "complaints": list(self.complaints),
            "kept": self.kept,
        }


@dataclass
class Sentences:
    """One written check, measured by sentences of many hands.

    ``right`` and ``wrong`` count the outcomes: ``known`` right, a named wrong ``claim``,
    for the ``learner`` to judge, ``unreadable``. ``false_fails`` are right sentences that
    do worse than being left to the learner, ``false_passes`` wrong ones known as right.
    """

    check: str
    right: dict[str, int] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)
    false_fails: list[str] = field(default_factory=list)
    false_passes: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.all_complaints

    @property
    def all_complaints(self) -> list[str]:
        return [
            *(f"a right sentence is failed: {text}" for text in self.false_fails),
            *(f"a wrong sentence is known as right: {text}" for text in self.false_passes),
            *self.complaints,
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "right": self.right,
            "wrong": self.wrong,
            "false_fails": list(self.false_fails),
            "false_passes": list(self.false_passes),
            "complaints": list(self.complaints),
        }


@dataclass
class LabResult:
    """One lab: its cases, and what is wrong with it apart from any of them.

    ``checks`` is each check's id with the names of the mistakes that fail it,
    ``cited`` what became of each line that could be cited, ``written`` what was
    measured of its answers in sentences.
    """

    lab: str
    rows: list[Row] = field(default_factory=list)
    checks: dict[str, list[str]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    cited: list[CitedRow] = field(default_factory=list)
    written: list[Sentences] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.all_complaints and all(one.ok for one in (*self.rows, *self.written))

    @property
    def all_complaints(self) -> list[str]:
        """Every complaint as a sentence, the lab's own first."""
        return (
            [f"{self.lab}: {complaint}" for complaint in self.complaints]
            + [
                f"{self.lab}, {row.case.title}: {complaint}"
                for row in self.rows
                for complaint in row.complaints
            ]
            + [
                f"{self.lab}, «{question.heading}»: {complaint}"
                for question in self.cited
                for complaint in question.complaints
            ]
            + [
                f"{one.check}: {complaint}"
                for one in self.written
                for complaint in one.all_complaints
            ]
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "lab": self.lab,
            "ok": self.ok,
            "checks": self.checks,
            "rows": [row.to_json() for row in self.rows],
            "cited": [question.to_json() for question in self.cited],
            "written": [one.to_json() for one in self.written],
            "complaints": list(self.complaints),
        }


@dataclass
class VerifyReport:
    """All labs that were measured. None measured is not a success."""

    labs: list[LabResult] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return bool(self.labs) and all(lab.ok for lab in self.labs)

    @property
    def complaints(self) -> list[str]:
        return [complaint for lab in self.labs for complaint in lab.all_complaints]

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "seconds": round(self.seconds, 1),
            "labs": [lab.to_json() for lab in self.labs],
        }
