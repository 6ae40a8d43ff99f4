"""Faults that come again: a failure after a success is a new one."""

from __future__ import annotations

from grader.conformance.bench import Bench
from grader.conformance.invariants.requests import LONG, first_pause
from grader.conformance.scenario import scenario
from grader.verdict import Fail, NotGraded
from grader.wire.records import Exchange
from grader.witness import describe

#: Attempts that must fail: 5 ms that double nine times are more than :data:`LONG`.
_FAILURES = 9
#: Seconds for so many.
_PATIENCE = 20.0


@scenario(
    "faults/fails-again",
    "After a success, a write that fails again is retried as soon as at first",
)
def fails_again(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=1)
    bench.settled(app, "creating a WebApp")
    bench.at_rest(app)
    first, app = _fail(bench, app, 2, _FAILURES, _PATIENCE)
    bench.settled(app, "creates of Pods failed for a while", timeout=60.0)
    bench.at_rest(app)
    bench.measured["attempts, the first time"] = len(first)
    soon = _pause(first)
    if soon is None:
        raise NotGraded(
            "A create that fails is retried, so that it can fail again.",
            f"It was sent {len(first)} times within {_PATIENCE:g} s.",
            diagnosis="no-retry",
        )
    long = max(LONG * bench.patience, 8 * soon)
    again, app = _fail(bench, app, 3, 3, long)
    pause = _pause(again)
    bench.measured["seconds before the first retry"] = [soon, pause]
    if pause is None or pause > long:
        raise Fail(
            "After a success, a write that fails is retried as soon as at the first failure ever.",
            f"The first retry came after {soon:.2f} s the first time. After the success it "
            + (f"came after {pause:.1f} s." if pause else f"had not come after {long:.1f} s."),
            why="A key that failed often, some time ago, would wait for minutes at its next small "
            "failure.",
            next="Forget the key's failures whenever a reconcile succeeds.",
            diagnosis="never-forgets",
            evidence=[describe(e) for e in (*first[:2], *again[:2])],
        )
    bench.settled(app, "creates of Pods failed once more")


def _fail(
    bench: Bench, app: dict, replicas: int, attempts: int, timeout: float
) -> tuple[list[Exchange], dict]:
    """Scale up with every create of a Pod answered 500, until there were so many attempts."""
    namespace = app["metadata"]["namespace"]
    rule = bench.rule(f"answer 500 create,patch pods ns={namespace} times=always")
    known = {id(e) for e in _attempts(bench, namespace)}
    app = bench.change(app, replicas=replicas)

    def new() -> list[Exchange]:
        return [e for e in _attempts(bench, namespace) if id(e) not in known]

    if not bench.ended_within(bench.operator, 15.0, unless=new) and not new():
        raise NotGraded(
            "Scaling up creates a Pod, so that the create can be made to fail.",
            "No Pod was created.",
            diagnosis="never-acted",
        )
    bench.ended_within(bench.operator, timeout, unless=lambda: len(new()) >= attempts)
    rule.remove()
    return new(), app


def _pause(attempts: list[Exchange]) -> float | None:
    """Seconds before the first retry; None where there were not attempts enough to tell."""
    return round(first_pause(attempts), 3) if len(attempts) >= 3 else None


def _attempts(bench: Bench, namespace: str) -> list[Exchange]:
    return [
        e
        for e in bench.exchanges()
        if e.namespace == namespace and e.resource == "pods" and e.status == 500
    ]
