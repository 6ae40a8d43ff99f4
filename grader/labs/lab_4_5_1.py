"""4.5.1 Two replicas, one Lease, and a failover you can time.

Three failovers (:mod:`grader.labs.lab_4_5_1_failover`), each predicted as an interval from
the durations, and measured from Lease and wire.
"""

from __future__ import annotations

import re

import pytest

from grader.conformance.bench import Bench
from grader.evidence import answers as written
from grader.evidence import places, questions
from grader.labs import check, suite_checks
from grader.labs.lab_4_5_1_failover import (
    BUSY,
    CUT,
    EXPECTED,
    LEASE,
    RETRY,
    SIGKILL,
    SIGTERM,
    Failover,
    fail_over,
    require_duration,
    require_taken,
)
from grader.labs.lab_4_5_1_picture import failover_picture
from grader.report.predictions import compared
from grader.verdict import Fail, NotGraded
from grader.witness import describe

#: Each check does its own runs, and no others.
CHECKS_STAND_ALONE = True
PREDICTIONS, LINE = "Predictions", "The line that makes the others wait"
#: Seconds that either end of a predicted interval may be off.
WITHIN = 1.0
_INTERVAL = re.compile(
    r"(?:between\s+|from\s+)?(?P<low>\d+(?:\.\d+)?)\s*s?\s*(?:to|and|…|\.{2,3}|[-–—])\s*"
    r"(?P<high>\d+(?:\.\d+)?)\s*(?:s|sec|seconds)?\.?",
    re.IGNORECASE,
)


def interval(entry: written.Entry) -> tuple[float, float]:
    """The two ends of a predicted interval, in seconds; Fail where they can't be read."""
    match = _INTERVAL.fullmatch(entry.value.strip())
    low, high = (float(match["low"]), float(match["high"])) if match else (0.0, -1.0)
    if low <= high:
        return low, high
    raise Fail(
        f"answers.md predicts «{entry.key}» as an interval in seconds.",
        f"Line {entry.line} says «{entry.value}»."
        + (" The first number is the greater one." if match else ""),
        next="Write the least and the most, such as «1.5 to 4 s».",
        diagnosis="prediction-unreadable",
    )


@pytest.fixture(scope="module")
def answers(submission):
    return written.parse(submission.text("answers.md"))


def _predictions(answers) -> dict[str, tuple[float, float]]:
    return {kind: interval(answers.require_prediction(kind)) for kind in EXPECTED}


@pytest.fixture(scope="module")
def predicted(answers):
    """What happens to the interval predicted; what is measured is measured after that."""
    try:
        return _predictions(answers)
    except (Fail, NotGraded) as outcome:
        message = outcome.message
        raise NotGraded(
            "You have predicted all three failovers, as intervals in seconds.",
            message.seen,
            why="Once you have seen the times you can't predict them any more.",
            next=message.next or f"Write all three under «{PREDICTIONS}» in answers.md first.",
            diagnosis="prediction-first",
        ) from None


@pytest.fixture(scope="module")
def bench(predicted, submission, run, cluster, api, grading):
    with (
        suite_checks.trial(submission, run, cluster, api, grading) as trial,
        Bench(trial, "failovers", alone=True) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def failover_of(bench, predicted, phase4, observe):
    """Each failover, made when a check first asks for it."""
    made: dict[str, Failover] = {}

    def of(kind: str) -> Failover:
        if kind not in made:
            seconds = EXPECTED[SIGTERM if kind == BUSY else kind][1]
            # Every wait in it has a limit of its own.
            with phase4.untimed(f"a failover after {kind}, timed: about {seconds + 5:.0f} s"):
                made[kind] = fail_over(bench, kind)
            _show(made, predicted, observe)
        return made[kind]

    return of


def agrees(predicted: tuple[float, float], right: tuple[float, float]) -> bool:
    """Whether both ends are right within :data:`WITHIN`."""
    return all(abs(p - r) <= WITHIN + 1e-9 for p, r in zip(predicted, right, strict=True))


def _words(seconds: tuple[float, float]) -> str:
    return f"{seconds[0]:g} to {seconds[1]:g} s"


def _show(made: dict[str, Failover], predicted, observe) -> None:
    shown = {kind: made[kind] for kind in EXPECTED if kind in made}
    for kind, failover in shown.items():
        right = EXPECTED[kind]
        took = failover.seconds
        observe(
            f"seconds until the lease was taken, {kind}",
            compared(
                _words(predicted[kind]),
                _words(right),
                within=WITHIN,
                agrees=agrees(predicted[kind], right),
                measured=None if took is None else round(took, 2),
            ),
        )
        if failover.lost > RETRY:
            observe(f"seconds that this machine was late, {kind}", round(failover.lost, 1))
    if shown:
        title = "From the event to the next leader"
        observe("failovers, timed", failover_picture(title, list(shown.values()), predicted))


@check(
    "4.5.1/predictions",
    title="Three failovers are predicted, each as an interval in seconds",
    points=1,
    evidence="written",
)
def check_predictions(answers):
    _predictions(answers)


@check(
    "4.5.1/released",
    title="After SIGTERM the lease is released, and taken at the other's next try",
    points=2,
    evidence="live",
)
def check_released(failover_of):
    failover = failover_of(SIGTERM)
    if failover.release is None:
        took = failover.seconds
        raise Fail(
            f"A leader that stops releases the lease: the other takes it at its next try, not "
            f"after the lease duration ({LEASE:g} s).",
            "It ended without a release"
            + (f"; the other took the lease {took:.1f} s after the SIGTERM." if took else "."),
            why="Every upgrade stops the leader: without the release nothing is done for as long "
            "as the lease lasts.",
            next="When the work is finished, write an empty holderIdentity.",
            diagnosis="lease-not-released",
            evidence=[describe(failover.last_renewal)],
        )
    require_taken(failover)


@check(
    "4.5.1/killed",
    title="After SIGKILL the other waits for the duration that the holder wrote",
    points=3,
    evidence="live",
)
def check_killed(failover_of):
    failover = failover_of(SIGKILL)
    require_duration(failover)
    require_taken(failover)


@check(
    "4.5.1/cut",
    title="A leader cut off from its Lease has stopped before another leads",
    points=3,
    evidence="live",
)
def check_cut(failover_of):
    failover = failover_of(CUT)
    require_taken(failover)
    if late := failover.late_writes():
        raise Fail(
            "A replica that has lost the lease writes nothing.",
            f"The API server carried out {len(late)} of its writes after the other had the lease.",
            why="Two writers undo each other's work, and each takes itself for the only one.",
            next="Give up at the renew deadline, counted from the request that renewed last, and "
            "end the process: nothing else stops every write that is on its way.",
            diagnosis="wrote-after-lost-lease",
            evidence=[describe(failover.taken), *(describe(e) for e in late[:5])],
        )


@check(
    "4.5.1/one-writer",
    title="In all three, and stopped with work in hand, each write is the holder's",
    points=2,
    evidence="live",
)
def check_one_writer(failover_of):
    # The signals first: a leader that acts on when it is cut off has a check of its own.
    for failover in (failover_of(kind) for kind in (SIGTERM, BUSY, SIGKILL, CUT)):
        if early := failover.early_writes():
            raise Fail(
                "The replica that does not hold the lease writes nothing.",
                f"It sent {len(early)} writes before it had the lease ({failover.kind}).",
                why="Two replicas that both act create everything twice and fight over every "
                "status.",
                next="Start the workers once the lease is yours.",
                diagnosis="wrote-without-lease",
                evidence=[describe(e) for e in early[:6]],
            )
        if late := (failover.writes_after_release() or failover.late_writes()):
            raise Fail(
                "A replica that has given the lease away, or lost it, writes nothing.",
                f"{len(late)} of its writes were still under way or sent after that ({failover.kind}).",
                why="Whoever has released the lease can't know when another takes it.",
                next="Finish the work first, then release.",
                diagnosis="wrote-after-release" if failover.release else "wrote-after-lost-lease",
                evidence=[
                    describe(failover.release or failover.taken),
                    *(describe(e) for e in late[:5]),
                ],
            )


@check(
    "4.5.1/line",
    title="The line of leaderelection.go that makes the others wait is cited",
    points=2,
    evidence="claim",
)
def check_line(answers):
    places.of("4.5.1", LINE).require(answers.require_section(LINE))


@check(
    "4.5.1/lost",
    title="A few sentences say what a controller must do the instant it loses the lease",
    points=2,
    evidence="written",
)
def check_lost(answers):
    question = questions.of("4.5.1/lost")
    question.require(answers.require_section(question.heading))
