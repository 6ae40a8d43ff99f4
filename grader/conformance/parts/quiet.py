"""Quiet: with nothing to do, nothing is written."""

from __future__ import annotations

import time

from grader.conformance import contract
from grader.conformance.bench import Bench
from grader.conformance.scenario import scenario
from grader.verdict import Fail
from grader.witness import describe

#: Seconds. Thirty resyncs of a second each, or one of an operator that has no such flag.
WINDOW = 30.0
#: Writes that creating a WebApp with 3 replicas may take: the finalizer, the record, 3 Pods and
#: a status for each observable step (none yet, each Pod created, each Pod Ready).
BUDGET_CREATE = 5 + 8


@scenario("quiet/budget", "A change takes no more writes than it has steps")
def budget(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=3)
    bench.settled(app, "creating a WebApp")
    bench.history.quiet(namespace, 0.5, 10.0)
    writes = _writes(bench)
    bench.measured["create"] = len(writes)
    if len(writes) > BUDGET_CREATE:
        raise _too_many(writes, f"Creating a WebApp takes at most {BUDGET_CREATE} writes")
    since = time.time()
    bench.settled(bench.change(app, replicas=2), "scaling down by one")
    bench.history.quiet(namespace, 0.5, 10.0)
    writes = _writes(bench, since)
    bench.measured["scale down by one"] = len(writes)
    if len(writes) > 5:
        raise _too_many(writes, "Scaling down by one takes at most 5 writes")


@scenario(
    "quiet/idle",
    "Once converged, it writes nothing, through resyncs and unrelated changes",
    resyncing=True,
)
def idle(bench: Bench) -> None:
    namespace, elsewhere = bench.namespace(), bench.namespace()
    apps = [bench.create(namespace, f"quiet-{n}", replicas=2) for n in range(3)]
    for app in apps:
        bench.settled(app, "creating 3 WebApps")
    bench.history.quiet(namespace, 1.0, 15.0)
    since = time.time()
    deadline = time.monotonic() + WINDOW
    writes: list = []
    touched = 0
    while not writes and (left := deadline - time.monotonic()) > 0:
        _touch_others(bench, elsewhere, touched)
        touched += 1
        bench.ended_within(bench.operator, min(3.0, left))
        writes = _writes(bench, since)
    reads = [
        e
        for e in bench.exchanges()
        if e.verb in ("get", "list")
        and e.t_request >= since
        and e.namespace in ("", namespace, elsewhere)
    ]
    bench.measured.update({"seconds": WINDOW, "writes": len(writes), "reads": len(reads)})
    if writes:
        status = [e for e in writes if e.subresource == "status"]
        raise _too_many(
            writes,
            f"In {WINDOW:g} s without a change to any WebApp, nothing is written",
            diagnosis="status-hot-loop" if status else "writes-when-idle",
        )


def _touch_others(bench: Bench, namespace: str, number: int) -> None:
    """Create and delete objects that look like the operator's and are not."""
    for where in (namespace, contract.DNS_NAMESPACE):
        obj = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"unrelated-{bench.seed}-{number}", "namespace": where},
            "data": {"host": "unrelated.example.com"},
        }
        bench.api.create(obj)
        bench.api.delete("configmaps", obj["metadata"]["name"], where)


def _writes(bench: Bench, since: float = 0.0) -> list:
    """The writes that belong to this scenario, once they are certainly not another's."""
    if bench.writes(since):
        # Whose DNS record it is, is known once the history has its WebApp.
        bench.history.until(contract.DNS_NAMESPACE, lambda: not bench.writes(since), 1.0)
    return bench.writes(since)


def _too_many(writes: list, expected: str, diagnosis: str = "more-writes-than-steps") -> Fail:
    return Fail(
        f"{expected}.",
        f"There were {len(writes)} writes.",
        why="Each write is an event for everybody who watches, the operator included: a write "
        "that changes nothing is how a hot loop begins.",
        next="Compare what you are about to write with the current object, defaulted fields and "
        "timestamps included, and write only if they differ.",
        diagnosis=diagnosis,
        evidence=[describe(e) for e in writes[:10]],
    )
