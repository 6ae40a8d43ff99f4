"""A scenario: one thing that an operator must do, and how to see whether it does."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from grader.conformance import sentences
from grader.conformance.bench import Bench, NotConverged
from grader.conformance.invariants import watch
from grader.conformance.sentences import Sentence
from grader.conformance.trial import Trial
from grader.verdict import Fail, Message, NotGraded, Outcome, Verdict

Part = Literal[
    "functional", "held", "quiet", "faults", "killpoints", "replicas", "restart", "walks"
]

#: In the order in which they run.
PARTS: tuple[Part, ...] = (
    "functional",
    "held",
    "restart",
    "faults",
    "killpoints",
    "replicas",
    "quiet",
    "walks",
)


@dataclass(frozen=True)
class Scenario:
    """``id`` is ``part/name`` and never changes; ``title`` a sentence in the present tense.

    ``alone`` says that it needs an operator process of its own: no other
    scenario runs meanwhile. The others share one, those that are ``resyncing``
    another, which is told to resync every second.
    """

    id: str
    part: Part
    title: str
    run: Callable[[Bench], None]
    alone: bool = False
    resyncing: bool = False


@dataclass
class Result:
    """The result of one scenario.

    ``duration`` in seconds, ``started`` in seconds since the epoch; ``measured`` is JSON.
    ``stuck``: it failed because a WebApp did not converge.
    """

    id: str
    title: str
    verdict: Verdict
    message: Message | None = None
    duration: float = 0.0
    measured: dict[str, Any] = field(default_factory=dict)
    started: float = 0.0
    stuck: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "verdict": self.verdict.value,
            "message": self.message.to_json() if self.message else None,
            "started": round(self.started, 3),
            "duration": round(self.duration, 3),
            "measured": self.measured,
        }


_REGISTRY: dict[str, Scenario] = {}


def scenario(
    id: str, title: str, *, alone: bool = False, resyncing: bool = False
) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
    """Register a function as the scenario ``id``; its part is the word before the slash."""

    def register(function: Callable[[Bench], None]) -> Callable[[Bench], None]:
        part = id.partition("/")[0]
        if part not in PARTS or id in _REGISTRY:
            raise ValueError(f"{id} is not a new scenario of {', '.join(PARTS)}")
        _REGISTRY[id] = Scenario(id, part, title, function, alone, resyncing)  # type: ignore[arg-type]
        return function

    return register


def registered(part: str | None = None) -> list[Scenario]:
    """The scenarios so far, or those of a part, in the order in which they are written."""
    return [
        s for name in PARTS for s in _REGISTRY.values() if s.part == name and part in (None, name)
    ]


def _with(message: Message, these: Sequence[Sentence]) -> dict[str, Any]:
    """A message's fields, with the contract's sentences above what it shows."""
    shown = (*sentences.shown(these), *message.evidence)
    return {**message.to_json(), "evidence": shown}


def _require_nothing_broken(bench: Bench) -> None:
    """Raise the first of what the scenario's whole past breaks, whatever it was about."""
    for invariant, fail in watch(bench.past()):
        raise Fail(**_with(fail.message, sentences.watched_by(invariant.id)))


def _run(one: Scenario, bench: Bench) -> tuple[Verdict, Message | None]:
    """PASS, or NOT GRADED with its message; raises what else the scenario raises."""
    try:
        one.run(bench)
    except NotGraded as outcome:
        return outcome.verdict, outcome.message
    return Verdict.PASS, None


def _names_one(message: Message) -> bool:
    return any(line.startswith("contract ") for line in message.evidence)


def judge(one: Scenario, trial: Trial) -> Result:
    """Run a scenario to a result. What is not an Outcome is the suite's own fault: UNKNOWN."""
    began, started = time.monotonic(), time.time()
    bench = Bench(trial, one.id, alone=one.alone)
    message: Message | None = None
    stuck = False
    try:
        if not one.alone:
            trial.processes.share(one.resyncing)
        verdict, message = _run(one, bench)
        # What was seen to be broken is so, also where the scenario could not be graded.
        _require_nothing_broken(bench)
    except Outcome as outcome:
        verdict, message = outcome.verdict, outcome.message
        stuck = isinstance(outcome, NotConverged)
        judged = sentences.judged_by(one.id)
        if verdict is Verdict.FAIL and len(judged) == 1 and not _names_one(message):
            message = Message(**_with(message, judged))
    except Exception as error:
        verdict = Verdict.UNKNOWN
        trial.log(traceback.format_exc())
        message = Message(
            "The conformance suite judges this scenario.",
            f"The suite itself failed: {type(error).__name__}: {error}",
            next=f"This is not the operator's fault. The details are in {trial.log_path}.",
        )
    finally:
        bench.end_own()
        bench.retire()
    took = time.monotonic() - began
    return Result(one.id, one.title, verdict, message, took, bench.measured, started, stuck)
