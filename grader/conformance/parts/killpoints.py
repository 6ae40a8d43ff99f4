"""Kill points: the operator is killed before and after each of its writes.

An undisturbed run shows which writes there are. For each of them, a WebApp of
its own is brought to the step in which that write happens, the wire kills the
process at it (before the request reaches the API server, or after the server
applied it and before the process gets the response), the process is restarted,
and the WebApp must converge as without the kill. So does Sieve (OSDI '22).
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

from grader.conformance import contract, invariants
from grader.conformance.bench import Bench
from grader.conformance.scenario import scenario
from grader.runner import RunningProgram
from grader.verdict import Fail, Message, NotGraded
from grader.wire.records import WRITE_VERBS

Step = Literal["create", "update", "delete"]
Side = Literal["before", "after"]

#: Repetitions of one kind of write in one step that are tried; more of the same
#: (status after status) show nothing new.
MOST_OF_A_KIND = 2
#: Losses after which an operator is not tried any further.
MOST_LOST = 3
#: Seconds in which a WebApp must converge after a restart.
RECOVERY = 15.0
#: Seconds in which the answer to a write that the API server has certainly reaches the wire.
LAST_ANSWER = 1.0
#: WebApps with which a kill point is tried until its write happens. What is written twice in
#: one run may be written once in another.
TRIES = 3

_WORDS = {
    ("update", "webapps"): "PUT the WebApp (finalizer)",
    ("patch", "webapps"): "PATCH the WebApp (finalizer)",
    ("create", "configmaps"): "POST the DNS record",
    ("delete", "configmaps"): "DELETE the DNS record",
    ("create", "pods"): "POST a Pod",
    ("patch", "pods"): "PATCH a Pod",
    ("delete", "pods"): "DELETE a Pod",
    ("update", "webapps/status"): "PUT the status",
    ("patch", "webapps/status"): "PATCH the status",
}


@dataclass(frozen=True)
class KillPoint:
    """The ``nth`` write of that kind in a step, and on which side of it the kill comes."""

    step: Step
    verb: str
    target: str
    nth: int
    side: Side

    @property
    def shown(self) -> str:
        write = _WORDS.get((self.verb, self.target), f"{self.verb} {self.target}")
        number = f" no. {self.nth}" if self.nth > 1 else ""
        return f"{self.side} {write}{number}"


@dataclass(frozen=True)
class Outcome:
    """The result of one kill point. ``converged`` None: its write did not happen in any try.

    ``missing`` says in a few words what was lost.
    """

    point: KillPoint
    converged: bool | None
    seconds: float = 0.0
    message: Message | None = None
    missing: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self.point),
            "shown": self.point.shown,
            "converged": self.converged,
            "seconds": round(self.seconds, 2),
            "message": self.message.to_json() if self.message else None,
            "missing": self.missing,
        }


@scenario(
    "killpoints/create",
    "Killed at any write while a WebApp is created, it loses nothing",
    alone=True,
)
def create(bench: Bench) -> None:
    _require_no_loss(bench, "create")


@scenario(
    "killpoints/update",
    "Killed at any write while image and replicas change, it loses nothing",
    alone=True,
)
def update(bench: Bench) -> None:
    _require_no_loss(bench, "update")


@scenario(
    "killpoints/delete",
    "Killed at any write while a WebApp is deleted, it leaves nothing behind",
    alone=True,
)
def delete(bench: Bench) -> None:
    _require_no_loss(bench, "delete")


def _require_no_loss(bench: Bench, step: Step) -> None:
    outcomes = kill_table(bench, (step,))
    bench.measured["kill points"] = [outcome.to_json() for outcome in outcomes]
    lost = [outcome for outcome in outcomes if outcome.converged is False]
    if not lost:
        require_reached(outcomes)
    if lost:
        first = lost[0]
        assert first.message is not None
        if (also := _without_a_kill(bench, step)) is not None:
            raise Fail(
                f"Restarted, and not killed at any write, the operator gets the step {step} done.",
                f"It did not, nor did it at {len(lost)} of {len(outcomes)} kill points: what is "
                f"wrong needs no kill. {also.seen}",
                why=also.why,
                next=also.next,
                diagnosis=also.diagnosis,
                evidence=also.evidence,
            )
        told = first.message.diagnosis
        raise Fail(
            f"Killed {first.point.shown} and restarted, the operator converges as it would have "
            "without the kill.",
            f"It did not, at {len(lost)} of {len(outcomes)} kill points. {first.message.seen}",
            why=first.message.why,
            next=(f"{first.message.next} " if told else "")
            + "After a restart there is only the list: what did the killed process know that is "
            "stored nowhere? The same step without a kill succeeds.",
            diagnosis=told or "lost-work-after-kill",
            evidence=[
                *(f"lost: {outcome.point.shown}" for outcome in lost[:6]),
                *first.message.evidence,
            ],
        )


def require_reached(outcomes: list[Outcome]) -> None:
    """A kill that never came shows nothing. The second of a kind may rightly be left out."""
    missed = [o.point for o in outcomes if o.converged is None and o.point.nth == 1]
    if missed:
        raise NotGraded(
            f"Each write of an undisturbed run happens again, in one of {TRIES} more runs.",
            f"{len(missed)} of {len(outcomes)} kill points were never reached: "
            f"{', '.join(point.shown for point in missed[:4])}.",
            why="A kill that never comes shows nothing.",
            next="Which of the writes depend on chance? In the same state, the same writes are "
            "due.",
            diagnosis="kill-point-not-reached",
        )


def _without_a_kill(bench: Bench, step: Step) -> Message | None:
    """What a restarted process fails with at the same step, where nothing is killed at a write."""
    bench.end_own()
    running = bench.start()
    app = _prepare(bench, step)
    try:
        _wait_prepared(bench, step, app)
        running.kill()
        bench.restart(running)
        _act(bench, step, app)
    except Fail as fail:
        return fail.message
    return None


def kill_table(
    bench: Bench,
    steps: tuple[Step, ...] = ("create", "update", "delete"),
    flags: tuple[str, ...] = (),
    *,
    recovery: float = RECOVERY,
    of_a_kind: int = MOST_OF_A_KIND,
    most_lost: int = MOST_LOST,
    one_by_one: bool = False,
) -> list[Outcome]:
    """Try every kill point of the steps; one outcome for each, in the order of the writes.

    ``recovery``: seconds in which a WebApp must converge after a restart.
    ``of_a_kind``: repetitions of one kind of write that are tried. After
    ``most_lost`` losses the rest is not tried. ``one_by_one``: what a point needs
    is created just before it, not before all of them, so that a process which
    keeps what it was told has been told of it.
    """
    bench.stop_shared()
    bench.end_own()
    running = bench.start(*flags)
    points: list[KillPoint] = []
    undisturbed: dict[Step, Counter[str]] = {}
    for step in steps:
        found, undisturbed[step] = _enumerate(bench, running, step, of_a_kind)
        points += found
    # Everything that a point needs is created while nothing is killed.
    prepared = {} if one_by_one else {point: _prepare(bench, point.step) for point in points}
    for point, app in prepared.items():
        _wait_prepared(bench, point.step, app)
    outcomes: list[Outcome] = []
    for point in points:
        work = undisturbed[point.step]
        for _ in range(TRIES):
            if (app := prepared.pop(point, None)) is None:
                app = _prepare(bench, point.step)
                _wait_prepared(bench, point.step, app)
            outcome = _try(bench, running, point, app, work, recovery)
            if outcome.converged is not None:
                break
        outcomes.append(outcome)
        if sum(outcome.converged is False for outcome in outcomes) >= most_lost:
            break
    running.kill()
    return outcomes


def _enumerate(
    bench: Bench, running: RunningProgram, step: Step, of_a_kind: int
) -> tuple[list[KillPoint], Counter[str]]:
    """The kill points of a step, and what is created and deleted in it without a kill."""
    app = _prepare(bench, step)
    _wait_prepared(bench, step, app)
    since = time.time()
    app = _act(bench, step, app)
    # The world is right as soon as the API server has the last write; the wire's record has it
    # a moment later.
    bench.at_rest(app)
    meta, kinds = app["metadata"], Counter[tuple[str, str]]()
    points = []
    for exchange in bench.exchanges(running.client):
        if exchange.t_request < since or exchange.verb not in WRITE_VERBS:
            continue
        if exchange.resource in ("leases", "events") or not exchange.applied:
            continue
        # What it does meanwhile for other WebApps, somebody else's too, is none of the step's.
        if exchange.namespace != meta["namespace"] and exchange.name != contract.record_name(app):
            continue
        kind = (exchange.verb, exchange.target)
        kinds[kind] += 1
        if kinds[kind] <= of_a_kind:
            points += [KillPoint(step, *kind, kinds[kind], side) for side in ("before", "after")]
    if not points:
        raise NotGraded(
            f"Without a kill, the operator writes in the step {step}.",
            "It wrote nothing.",
            diagnosis="never-acted",
        )
    return points, invariants.work_done(bench.past(), app)


def _prepare(bench: Bench, step: Step) -> dict:
    """The WebApp that a step acts on; for ``create``, only its manifest."""
    namespace = bench.namespace()
    if step == "create":
        return contract.webapp(bench.name(), namespace, replicas=2)
    return bench.create(namespace, replicas=2)


def _wait_prepared(bench: Bench, step: Step, app: dict) -> None:
    """Until the WebApp of :func:`_prepare` has converged, and its operator is idle."""
    if step != "create":
        bench.settled(app, "creating a WebApp")
        bench.history.at_rest(app["metadata"]["namespace"], 0.3, 5.0)


def _act(bench: Bench, step: Step, app: dict, wait: bool = True) -> dict:
    """Do the step; with ``wait``, until the WebApp has converged. Returns the WebApp."""
    if step == "create":
        app = bench.api.create(app)
    elif step == "update":
        app = bench.change(app, replicas=3, image="shop:2")
    else:
        meta = app["metadata"]
        bench.delete(contract.WEBAPPS, meta["name"], meta["namespace"])
    if wait:
        _require_converged(bench, step, app, f"{step} without a kill")
    return app


def _require_converged(
    bench: Bench, step: Step, app: dict, doing: str, recovery: float = RECOVERY
) -> None:
    if step == "delete":
        bench.gone(app, doing, timeout=recovery)
        invariants.record_gone_before_finalizer(bench.history, app)
        invariants.nothing_made_while_terminating(bench.history, app)
        return
    bench.settled(app, doing, timeout=recovery)
    invariants.never_more_pods_than(bench.history, app, contract.wanted(app))
    invariants.finalizer_before_record(bench.history, app)


def _try(
    bench: Bench,
    running: RunningProgram,
    point: KillPoint,
    app: dict,
    undisturbed: Counter[str],
    recovery: float,
) -> Outcome:
    where = f" ns={app['metadata']['namespace']}"
    if "configmaps" in point.target:
        # Records live in their own namespace. The name of one that is still to be made is not
        # known yet; but nobody else's is made meanwhile.
        where = "" if point.step == "create" else f" name={contract.record_name(app)}"
    rule = running.wire.rules.add(
        f"kill-{point.side} {point.verb} {point.target} nth={point.nth}{where}"
    )
    began = time.monotonic()
    app = _act(bench, point.step, app, wait=False)
    bench.ended_within(running, 5.0, unless=lambda: _has_converged(bench, point.step, app))
    if not rule.fired:
        # The API server has the last write a moment before the wire has its answer, and kills.
        bench.ended_within(running, LAST_ANSWER)
    killed = rule.fired > 0
    if killed:
        # With the last write of all the WebApp has converged: the kill may still be under way.
        running.wait_exit(5.0, "is killed at its write")
    rule.remove()
    if running.exited is not None:
        bench.restart(running)  # How long a start takes is not judged.
    try:
        _require_converged(bench, point.step, app, f"a kill {point.shown} and a restart", recovery)
        invariants.no_more_work_than(bench.past(), app, undisturbed)
    except Fail as fail:
        missing = contract.missing(bench.world(app), bench.history.record(app["metadata"]["uid"]))
        again = fail.message.diagnosis == "did-it-again-after-kill"
        missing = "done again" if again else missing
        return Outcome(point, False, time.monotonic() - began, fail.message, missing)
    return Outcome(point, True if killed else None, time.monotonic() - began)


def _has_converged(bench: Bench, step: Step, app: dict) -> bool:
    world = bench.world(app)
    if step == "delete":
        return world.webapp is None
    return contract.has_converged(world, app["metadata"]["generation"])
