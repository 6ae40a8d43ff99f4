"""4.2.2 The gap between retries, measured against the limiter that sets it.

Two programs: one answers traces (limiters and delaying queues, see
:mod:`grader.labs.traces`), the other is a controller that copies a field of
ConfigMaps. Behind its wire some writes are answered 500, and the gaps between
its attempts are measured there.

How exact is a gap? Never shorter than the formula says; longer by whatever the
machine takes to get round to it, so the bounds upwards are wide, and the faults
that are looked for are far outside of them.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import pytest

from grader.evidence import answers as written
from grader.labs import check, traces
from grader.report import pictures
from grader.report.predictions import compared
from grader.verdict import Fail
from grader.witness import describe

#: One check needs no other to have been run.
CHECKS_STAND_ALONE = True
#: Seconds: the limiter that the controller is told to have.
BASE, MAX = 0.08, 1.28
#: How many writes fail of the first ConfigMap, of the second, and of the first once it had succeeded.
FIRST, SECOND, AGAIN = 7, 3, 2
#: How often the first has failed when the second is made.
BEFORE_SECOND = 4
#: Seconds until the controller is ready; that it has for everything else; and after which an
#: object that was not tried again will not be (the longest gap is MAX).
STARTING, PATIENCE, IDLE = 40.0, 40.0, 6.0
#: A gap may be shorter than the formula by this share: two clocks' grain.
EARLY = 0.9

#: The formula's seconds, and how far off a prediction may be, as a share of them.
WITHIN = 0.1
PREDICTIONS = {
    "gap 1": BASE,
    "gap 4": BASE * 2**3,
    "gap 7": min(BASE * 2**6, MAX),
    "gap 1 after a success": BASE,
}
TIMELINES = {"a": "no limiter", "b": "never forgotten", "c": "healthy"}
NEXT = "Read `When` and `Forget` in client-go's util/workqueue/default_rate_limiters.go."


def _formula(n: int) -> float:
    """The n-th gap in a row (from 1), in seconds."""
    return min(BASE * 2 ** (n - 1), MAX)


SOONER = [
    ["add_after", "a", 0.5],
    ["add_after", "a", 0.125],
    ["step", 0.25],
    ["get"],
    ["done_nth", 0],
    ["step", 0.5],
    ["get"],
    ["add_after", "a", 0.125],
    ["step", 0.25],
    ["get"],
]
LATER = [
    ["add_after", "a", 0.125],
    ["add_after", "a", 0.5],
    ["step", 0.25],
    ["get"],
    ["done_nth", 0],
    ["step", 0.5],
    ["get"],
    ["add_after", "a", 0.125],
    ["step", 0.25],
    ["get"],
]
NOT_YET = [["add_after", "a", 0.25], ["get"], ["step", 0.5], ["get"]]
AT_ONCE = [["add_after", "a", 0], ["get"]]
BESIDE = [["add_after", "a", 0.25], ["add", "a"], ["get"]]
DELAYS = {
    "not yet": NOT_YET,
    "at once": AT_ONCE,
    "sooner": SOONER,
    "later": LATER,
    "beside": BESIDE,
}


def _key(outcome: Any) -> str:
    return outcome.get("key", "") if isinstance(outcome, dict) else ""


@pytest.fixture(scope="module")
def answers(submission):
    return written.parse(submission.text("answers.md"))


@pytest.fixture(scope="module")
def predictions(answers) -> dict[str, float]:
    """Looked at first: what was not predicted need not be measured."""
    return {
        name: answers.require_prediction(name, section="Predictions", number=True).number()
        for name in PREDICTIONS
    }


@pytest.fixture(scope="module")
def random_traces(submission, rng):
    """For Go, whose clock is the real one, only what takes no time."""
    chosen = traces.some(traces.recorded("4.2.2"), rng, 80_000)
    if submission.track == "go":
        return [
            one
            for one in chosen
            if one.trace["structure"] == "limiter"
            and one.trace["limiter"]["type"] == "exponential"
            and all(op[0] != "step" for op in one.trace["ops"])
        ]
    return chosen


@pytest.fixture(scope="module")
def replayed(submission, grading, phase4, random_traces) -> dict[str, list]:
    limiter = {"type": "exponential", "base": 0.25, "max": 8.0}
    asked: dict[str, Any] = {
        name: {"structure": "workqueue", "limiter": limiter, "ops": ops}
        for name, ops in DELAYS.items()
    }
    asked["cap"] = {
        "structure": "limiter",
        "limiter": limiter,
        "ops": [
            *[["when", "a"]] * 8,
            ["when", "b"],
            ["num_requeues", "a"],
            ["forget", "a"],
            ["num_requeues", "a"],
            ["when", "a"],
            ["when", "b"],
        ],
    }
    asked |= {str(i): one.trace for i, one in enumerate(random_traces)}
    found = traces.answered(submission, grading, phase4, list(asked.values()), program="replay")
    for name, outcomes in zip(asked, found, strict=True):
        message = traces.not_written(outcomes)
        if message:
            raise Fail(
                "Limiters and queue answer every call.",
                f"A call raised: {message}.",
                next=NEXT,
                diagnosis="not-written",
                evidence=traces.shown(asked[name], outcomes),
            )
    return dict(zip(asked, found, strict=True))


@check(
    "4.2.2/limiter",
    title="The wait doubles for each key on its own, stops at the cap, and starts again after Forget",
    points=3,
    evidence="build",
)
def check_limiter(replayed):
    right = [0.25, 0.5, 1, 2, 4, 8, 8, 8, 0.25, 8, None, 0, 0.25, 0.5]
    seen = replayed["cap"]
    if seen == right or (
        len(seen) == len(right)
        and all(
            math.isclose(a, b) if isinstance(a, int | float) and b is not None else a == b
            for a, b in zip(seen, right, strict=True)
        )
    ):
        return
    waits, shared = seen[:8], seen[8:9]
    if waits[:6] and len(set(map(str, waits[:6]))) == 1:
        what, diagnosis = "Every wait is the same", "fixed-delay"
    elif any(isinstance(w, int | float) and w > 8 for w in waits):
        what, diagnosis = "A wait is longer than the cap", "no-cap"
    elif shared and shared[0] != 0.25:
        what, diagnosis = "The first wait of b counts the failures of a", "backoff-shared"
    elif seen[11:13] != [0, 0.25]:
        what, diagnosis = "After forget(a) its failures still count", "forget-does-nothing"
    else:
        what, diagnosis = "The waits are others", "unlike-client-go"
    raise Fail(
        "With a base of 0.25 s and a cap of 8 s, waits are 0.25, 0.5, 1, 2, 4, 8, 8, 8; another "
        "key begins at 0.25; and so does the first after forget.",
        f"{what}: {', '.join(map(str, seen))}.",
        why="A wait that does not grow keeps hitting what is down already; one that is shared "
        "delays objects that are fine.",
        next=NEXT,
        diagnosis=diagnosis,
    )


@check(
    "4.2.2/delays",
    title="A key added after a delay comes at its time, and of two delays the sooner wins",
    points=2,
    evidence="build",
)
def check_delays(replayed):
    facts = (
        ("at once", 1, True, "A delay of nothing is no delay.", "delay-of-nothing"),
        ("not yet", 1, False, "No key comes before its time.", "comes-too-early"),
        ("not yet", 3, True, "After its delay the key is in the queue.", "never-comes"),
        ("sooner", 3, True, "Asked for in 0.5 s and in 0.125 s, a key comes after 0.125 s.", "later-wins"),
        ("sooner", 6, False, "A key that was asked for twice comes once.", "comes-twice"),
        ("later", 3, True, "A later delay does not put off a sooner one.", "later-wins"),
        ("later", 6, False, "A key that was asked for twice comes once.", "comes-twice"),
        ("sooner", 9, True, "After a delay that was replaced has passed, keys still come.", "no-more-after-that"),
        ("later", 9, True, "After a delay that was replaced has passed, keys still come.", "no-more-after-that"),
        ("beside", 2, True, "A key that waits for its time can be added at once as well.", "add-ignored"),
    )  # fmt: skip
    for name, call, comes, expected, diagnosis in facts:
        outcomes = replayed[name]
        got = outcomes[call] if call < len(outcomes) else None
        if (_key(got) == "a") != comes:
            raise Fail(
                expected,
                f"Call {call + 1} below, get, gave {got}.",
                why="AddAfter says «at the latest then». A controller that asks to be called in an "
                "hour must still be called now when something changes now.",
                next="See `insert` in client-go's util/workqueue/delaying_queue.go.",
                diagnosis=diagnosis,
                evidence=traces.shown({"ops": DELAYS[name]}, outcomes),
            )


@check(
    "4.2.2/like-client-go",
    title="Random calls have the outcomes that they have on client-go's limiters and queues",
    points=2,
    evidence="build",
)
def check_like_client_go(replayed, random_traces, observe):
    def equal(ours: Any, theirs: Any) -> bool:
        if isinstance(theirs, float) and isinstance(ours, int | float):
            return math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-6)
        return ours == theirs

    for i, one in enumerate(random_traces):
        traces.compare(
            one,
            replayed[str(i)],
            equal=equal,
            why="The bucket over all keys, and the largest of several limiters, are what client-go's "
            "default limiter is made of.",
            diagnosis="unlike-client-go",
        )
    observe("traces", {"compared": len(random_traces)})


@dataclass
class Measured:
    """Seconds between attempts: of the first ConfigMap, the second, and the first again."""

    first: list[float]
    second: list[float]
    again: list[float]
    evidence: list[str]


@pytest.fixture(scope="module")
def measured(submission, run, api, namespace, observe) -> Measured:
    def make(name: str) -> None:
        api.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace},
                "data": {"wanted": "1"},
            }
        )

    make("one")
    running = run(
        submission.program,
        "echo",
        env={"NAMESPACE": namespace, "BASE": str(BASE), "MAX": str(MAX)},
        rules=[
            f"answer 500 patch,update configmaps name=one times={FIRST}",
            f"answer 500 patch,update configmaps name=two times={SECOND}",
        ],
    )
    running.wait_line(lambda line: line == "synced", STARTING, "prints synced")

    def attempts(name: str) -> list:
        return list(running.timeline.writes(by="echo", resource="configmaps", name=name))

    idle = IDLE

    def reached(name: str, count: int) -> None:
        """Wait for that many attempts; how many there are says the check.

        Whoever was waited for in vain is wrong already, and not waited for so long again.
        """
        nonlocal idle
        begun = time.time()

        def over() -> bool:
            tried = attempts(name)
            last = tried[-1].t_end if tried else begun
            return len(tried) >= count or time.time() > max(begun, last) + idle

        running.until(over, PATIENCE, f"tries {name} again")
        if len(attempts(name)) < count:
            idle = 2.0

    # Failures that count for every key would be many by now.
    reached("one", BEFORE_SECOND)
    make("two")
    reached("two", SECOND + 1)
    reached("one", FIRST + 1)
    before = len(attempts("one"))
    running.wire.rules.add(f"answer 500 patch,update configmaps name=one times={AGAIN}")
    api.patch("configmaps", "one", {"data": {"wanted": "2"}}, namespace=namespace)
    reached("one", before + AGAIN + 1)
    running.require_running()
    one, two = attempts("one"), attempts("two")
    start = one[0].t_request if one else 0.0

    def gaps(exchanges: list) -> list[float]:
        # From the answer to the next attempt: what the limiter decides.
        return [
            b.t_request - (a.t_response or a.t_request)
            for a, b in zip(exchanges, exchanges[1:], strict=False)
        ]

    found = Measured(
        gaps(one[: FIRST + 1]),
        gaps(two[: SECOND + 1]),
        gaps(one[before : before + AGAIN + 1]),
        [describe(each, start) for each in (one + two)[:14]],
    )
    if found.first:
        observe(
            "gaps",
            pictures.chart(
                "Gaps between retries",
                "The measured gaps of two objects beside the limiter's formula: doubling up to "
                f"the cap of {MAX:g} s.",
                [
                    pictures.Series("formula", [(n, _formula(n)) for n in range(1, FIRST + 1)]),
                    pictures.Series("first object", list(enumerate(found.first, 1)), "points"),
                    pictures.Series("second object", list(enumerate(found.second, 1)), "points"),
                    pictures.Series("after a success", list(enumerate(found.again, 1)), "points"),
                ],
                x="retry",
                y="seconds",
                log=True,
            ),
        )
    return found


def _require_retries(gaps: list[float], count: int, what: str, evidence: list[str]) -> None:
    if len(gaps) < count:
        raise Fail(
            f"After each of {count} failed writes {what} is retried.",
            f"It was retried {len(gaps)} times, and then no more.",
            why="An error that is swallowed leaves the object as it is, for as long as nothing "
            "else happens to it.",
            next="What does process_next say to the queue when reconcile fails? And does it say "
            "done in every case?",
            diagnosis="retry-never-comes",
            evidence=evidence,
        )


@check(
    "4.2.2/growth",
    title="The gaps measured at the API server follow the formula, up to its cap",
    points=3,
    evidence="live",
)
def check_growth(measured):
    _require_retries(measured.first, FIRST, "the first object", measured.evidence)
    for n, gap in enumerate(measured.first, 1):
        least = _formula(n) * EARLY
        if gap >= least:
            continue
        last = measured.first[-1]
        hot = max(measured.first) < BASE * EARLY
        raise Fail(
            f"Gap {n} is {_formula(n):.2f} s or a little more.",
            f"It was {gap:.3f} s; the last of {FIRST} was {last:.3f} s.",
            why="A server that is down already gets request after request; with a thousand objects "
            "it never recovers."
            if hot
            else "A pause that does not grow is too long for a hiccup and too short for an outage.",
            next="Add puts a key back at once. Which call asks the limiter first?"
            if hot
            else "Who tells the limiter to forget the key, and when?",
            diagnosis="hot-loop" if hot else "gaps-do-not-grow",
            evidence=measured.evidence,
        )
    last = measured.first[-1]
    if last > MAX * 2 + 1.5:
        raise Fail(
            f"The last gap is at the cap, {MAX:g} s.",
            f"It was {last:.2f} s.",
            why="Without a cap an object that failed for an hour is looked at again in an hour.",
            next=NEXT,
            diagnosis="no-cap",
            evidence=measured.evidence,
        )


@check(
    "4.2.2/each-key",
    title="One object's failures do not lengthen another's gaps",
    points=2,
    evidence="live",
)
def check_each_key(measured):
    _require_retries(measured.second, SECOND, "the second object", measured.evidence)
    total, right = sum(measured.second), sum(_formula(n) for n in range(1, SECOND + 1))
    if total > 3 * right + 0.6:
        raise Fail(
            f"The second object's {SECOND} gaps are {right:.2f} s together, as if it were alone.",
            f"They were {total:.2f} s: {', '.join(f'{gap:.2f}' for gap in measured.second)}.",
            why="One broken object would slow down every other.",
            next="What are the failures counted by?",
            diagnosis="backoff-shared",
            evidence=measured.evidence,
        )


@check(
    "4.2.2/forget",
    title="After a success the next failure is a first one again",
    points=2,
    evidence="live",
)
def check_forget(measured):
    _require_retries(measured.again, AGAIN, "the first object, changed again,", measured.evidence)
    gap = measured.again[0]
    if gap > 5 * BASE + 0.4:
        raise Fail(
            f"The first gap after a success is {BASE:g} s again.",
            f"It was {gap:.2f} s.",
            why="A key that is never forgotten remembers every failure of its life: after a week "
            "each hiccup costs it the longest pause there is.",
            next="What does process_next say to the queue when reconcile succeeds?",
            diagnosis="never-forgotten",
            evidence=[f"gaps before: {', '.join(f'{g:.2f}' for g in measured.first)}"],
        )


@check(
    "4.2.2/predictions",
    title="Four gaps were written down before they were measured",
    points=1,
    evidence="written",
)
def check_predictions(predictions, measured, observe):
    seen = {
        "gap 1": measured.first[:1],
        "gap 4": measured.first[3:4],
        "gap 7": measured.first[6:7],
        "gap 1 after a success": measured.again[:1],
    }
    for name, predicted in predictions.items():
        gap = round(seen[name][0], 3) if seen[name] else None
        observe(
            name, compared(predicted, PREDICTIONS[name], within=WITHIN, share=True, measured=gap)
        )


@check(
    "4.2.2/timelines",
    title="Three recorded timelines are told apart: no limiter, never forgotten, healthy",
    points=2,
    evidence="claim",
)
def check_timelines(answers):
    choices = tuple(TIMELINES.values())
    found = {
        name: answers.require_prediction(
            f"timeline {name}", section="Three timelines", choices=choices
        ).value
        for name in TIMELINES
    }
    for name, right in TIMELINES.items():
        if found[name] != right:
            raise Fail(
                "Each timeline is named by what its gaps show.",
                f"Timeline {name} is called «{found[name]}», and it is not.",
                why="In an incident this is all you have: attempts, and the time between them.",
                next={
                    "no limiter": "Look for gaps that are much shorter than any limiter's base.",
                    "never forgotten": "Look at the first gap after an answer 200.",
                    "healthy": "Its gaps double, and start again after an answer 200.",
                }[right],
                diagnosis="timeline-misread",
            )
