"""One graded lab as data: what the runner makes, and everything else reads.

A report is plain JSON on disk (``to_json``/``from_json``), so that the site,
the gate and the classroom read it without the graders or a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from grader.verdict import Message, Verdict

#: Raised when a field changes its meaning; a report of another schema is not read.
SCHEMA = 1


class ReportError(Exception):
    """A report file cannot be read; the text is a sentence for a person."""


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a lab from those of its checks.

    Any FAIL is FAIL (it is a fact about the submission, whatever else went
    wrong); else any UNKNOWN is UNKNOWN; else any NOT GRADED is NOT GRADED; else
    PASS. No checks at all is UNKNOWN: a grader that judged nothing never passes.
    """
    seen = set(verdicts)
    if not seen:
        return Verdict.UNKNOWN
    for verdict in (Verdict.FAIL, Verdict.UNKNOWN, Verdict.NOT_GRADED):
        if verdict in seen:
            return verdict
    return Verdict.PASS


@dataclass(frozen=True)
class Assessment:
    """A written answer that nobody but its writer has judged.

    ``points`` is each point of a complete answer, its id and its sentence. ``said`` has the
    ids of those that the learner found in ``text``; None as long as they have not looked.
    ``digest`` is the text's, and ``at`` when it was judged (seconds since the epoch).
    """

    question: str
    text: str
    digest: str
    points: tuple[tuple[str, str], ...]
    said: tuple[str, ...] | None = None
    at: float = 0.0

    @property
    def missing(self) -> tuple[str, ...]:
        """The sentences of the points that the learner did not find."""
        return tuple(text for id, text in self.points if id not in (self.said or ()))

    def to_json(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "text": self.text,
            "digest": self.digest,
            "points": [{"id": id, "text": text} for id, text in self.points],
            "said": None if self.said is None else list(self.said),
            "at": self.at,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Assessment:
        said = data["said"]
        return cls(
            question=data["question"],
            text=data["text"],
            digest=data["digest"],
            points=tuple((one["id"], one["text"]) for one in data["points"]),
            said=None if said is None else tuple(said),
            at=float(data["at"]),
        )


@dataclass(frozen=True)
class CheckResult:
    """What one check concluded.

    ``evidence`` is ``live``, ``build``, ``written`` or ``claim``. ``message``
    is None where there is nothing to say (PASS). ``duration`` is in seconds,
    shared fixtures that this check was the first to need included. ``assessment`` is
    there for a written answer that the learner judges: PASS then means that they found
    each point in it, and the mark for it is the instructor's.
    """

    id: str
    title: str
    points: int
    evidence: str
    verdict: Verdict
    message: Message | None = None
    duration: float = 0.0
    assessment: Assessment | None = None

    @property
    def self_assessed(self) -> bool:
        """Whether it is the learner's own judgement that passes it."""
        return self.verdict is Verdict.PASS and self.assessment is not None

    @property
    def earned(self) -> int:
        """Points scored: all of them for PASS, none for anything else."""
        return self.points if self.verdict is Verdict.PASS else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "points": self.points,
            "evidence": self.evidence,
            "verdict": self.verdict.value,
            "message": self.message.to_json() if self.message else None,
            "duration": round(self.duration, 4),
            **({"assessment": self.assessment.to_json()} if self.assessment else {}),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CheckResult:
        message = data.get("message")
        assessment = data.get("assessment")
        return cls(
            id=data["id"],
            title=data["title"],
            points=int(data["points"]),
            evidence=data["evidence"],
            verdict=Verdict(data["verdict"]),
            message=Message.from_json(message) if message else None,
            duration=float(data.get("duration", 0.0)),
            assessment=Assessment.from_json(assessment) if assessment else None,
        )


@dataclass(frozen=True)
class Observation:
    """Something a check measured and the learner should see beside the verdict.

    ``value`` is JSON; a picture is ``{"svg": "<svg …>", "alt": "…"}``, a
    prediction beside the truth is what :func:`grader.report.predictions.compared` makes.
    """

    check: str
    name: str
    value: Any


@dataclass
class LabReport:
    """One run of one lab's grader.

    ``started`` is seconds since the epoch, ``duration`` seconds. ``track`` is
    ``python``, ``go`` or empty for a lab without a program. ``backend`` and
    ``versions`` (component name to version) say against what it was judged;
    both empty for a lab that needs no cluster. ``seed`` and ``rules`` (the
    wire's faults, in its text form) make the run repeatable. ``run_dir`` is
    where its wires and output are, relative to the workspace where it is inside.
    ``digest`` is of what was handed in (empty when unknown). ``parts`` says on whose
    parts it ran: for each ``part``, ``title``, ``lab``, ``own``, ``why`` it is lent,
    ``changed`` since its lab passed, ``asked_for`` by this very lab. ``judged_parts`` has
    the digest of each part as it was judged. ``assessed`` is when the learner last judged
    an answer in it (seconds since the epoch, 0 for never).
    """

    lab: str
    track: str = ""
    backend: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    started: float = 0.0
    duration: float = 0.0
    isolation: str = "none"
    checks: list[CheckResult] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    run_dir: str = ""
    digest: str = ""
    course: str = ""
    parts: list[dict[str, Any]] = field(default_factory=list)
    judged_parts: dict[str, str] = field(default_factory=dict)
    assessed: float = 0.0

    @property
    def verdict(self) -> Verdict:
        return overall(result.verdict for result in self.checks)

    @property
    def passed(self) -> bool:
        return self.verdict is Verdict.PASS

    @property
    def earned(self) -> int:
        return sum(result.earned for result in self.checks)

    @property
    def points(self) -> int:
        return sum(result.points for result in self.checks)

    @property
    def self_assessed(self) -> list[CheckResult]:
        """What is passed by the learner's own judgement, and marked by the instructor alone."""
        return [result for result in self.checks if result.self_assessed]

    def result(self, check_id: str) -> CheckResult | None:
        """The result of one check by its stable id, or None where it was not run."""
        return next((result for result in self.checks if result.id == check_id), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "course": self.course,
            "lab": self.lab,
            "track": self.track,
            "verdict": self.verdict.value,
            "earned": self.earned,
            "points": self.points,
            "backend": self.backend,
            "versions": dict(self.versions),
            "seed": self.seed,
            "rules": list(self.rules),
            "started": self.started,
            "duration": round(self.duration, 4),
            "isolation": self.isolation,
            "run_dir": self.run_dir,
            "digest": self.digest,
            "parts": list(self.parts),
            "judged_parts": dict(self.judged_parts),
            "assessed": self.assessed,
            "checks": [result.to_json() for result in self.checks],
            "observations": [
                {"check": seen.check, "name": seen.name, "value": seen.value}
                for seen in self.observations
            ],
        }

    @classmethod
    def from_json(cls, data: Any) -> LabReport:
        """Read what :meth:`to_json` wrote; :class:`ReportError` says what is wrong with anything else.

        The verdict and the points are computed again from the checks, so editing
        the summary of a report gains nothing.
        """
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise ReportError("this report was not written by this version of the course")
        try:
            return cls(
                lab=data["lab"],
                track=data["track"],
                backend=data["backend"],
                versions=dict(data["versions"]),
                seed=int(data["seed"]),
                started=float(data["started"]),
                duration=float(data["duration"]),
                isolation=data["isolation"],
                checks=[CheckResult.from_json(entry) for entry in data["checks"]],
                observations=[Observation(**entry) for entry in data["observations"]],
                rules=list(data.get("rules", [])),
                run_dir=data.get("run_dir", ""),
                digest=data.get("digest", ""),
                course=data.get("course", ""),
                parts=[dict(part) for part in data.get("parts", [])],
                judged_parts=dict(data.get("judged_parts", {})),
                assessed=float(data.get("assessed", 0.0)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ReportError(f"this report is damaged ({error})") from error


def joined(first: LabReport, second: LabReport, order: list[str]) -> LabReport:
    """One report of two runs of the same lab's checks, the checks in this order.

    What is said of the run as a whole is the second's, which is the one that ran programs.
    """
    results = {result.id: result for result in (*first.checks, *second.checks)}
    second.checks = [results[id] for id in order if id in results]
    second.observations = [*first.observations, *second.observations]
    second.started = first.started
    second.duration += first.duration
    second.assessed = max(first.assessed, second.assessed)
    return second
