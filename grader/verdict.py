"""The four verdicts, and the exceptions with which a grader reaches one.

A grader is a function that returns (PASS) or raises one of the exceptions
below. Anything else that escapes from it — an ``AssertionError`` included — is
the grader's own fault and becomes UNKNOWN: a learner never loses a point to a
bug of ours.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, field


class Verdict(str, enum.Enum):
    """What a check concluded. Only PASS scores."""

    PASS = "PASS"
    FAIL = "FAIL"
    #: Nothing was handed in, this backend cannot show it, or only the learner can judge it.
    NOT_GRADED = "NOT GRADED"
    #: The grader or the cluster failed; never the learner's fault.
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Message:
    """What a learner reads, in this order.

    ``expected`` and ``seen`` are whole sentences; ``seen`` shows the exchange
    or line that proves it. ``why`` says why it matters here, ``next`` what to
    look at. ``diagnosis`` is the stable name of the fault's kind, such as
    ``acted-on-event-payload`` (empty when the fault is not one we know by
    name); ``evidence`` holds preformatted lines (exchanges, a diff, output).
    """

    expected: str
    seen: str
    why: str = ""
    next: str = ""
    diagnosis: str = ""
    evidence: tuple[str, ...] = field(default=())

    def to_json(self) -> dict:
        return {**asdict(self), "evidence": list(self.evidence)}

    @classmethod
    def from_json(cls, data: dict) -> Message:
        return cls(**{**data, "evidence": tuple(data.get("evidence", ()))})


class Outcome(Exception):
    """Base of the exceptions that end a check with a verdict other than PASS."""

    verdict: Verdict

    def __init__(
        self,
        expected: str = "",
        seen: str = "",
        *,
        why: str = "",
        next: str = "",
        diagnosis: str = "",
        evidence: tuple[str, ...] | list[str] = (),
    ) -> None:
        self.message = Message(expected, seen, why, next, diagnosis, tuple(evidence))
        super().__init__(f"{self.verdict.value}: {expected} — {seen}")


class Fail(Outcome):
    """The submission is wrong, and the message can show it."""

    verdict = Verdict.FAIL


class NotGraded(Outcome):
    """Nothing was handed in for this check, this backend cannot show it, or only the learner can judge it."""

    verdict = Verdict.NOT_GRADED


class Unknown(Outcome):
    """The grader or the cluster failed: says nothing about the submission."""

    verdict = Verdict.UNKNOWN
