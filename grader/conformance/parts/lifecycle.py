"""Restart: an operator that is restarted catches up by itself."""

from __future__ import annotations

import threading
import time

from grader.conformance import contract
from grader.conformance.bench import Bench
from grader.conformance.processes import STARTING
from grader.conformance.scenario import scenario
from grader.verdict import Fail
from grader.wire.records import WRITE_VERBS
from grader.witness import describe

#: WebApps that wait in a queue, workers that take them, and how many of the WebApps may have
#: been seen to after a SIGTERM: those in hand, and as many for a signal that is late.
QUEUED, WORKERS = 40, 2
TAKEN = 2 * WORKERS


@scenario("restart/nothing-to-do", "Restarted with nothing to do, it writes nothing", alone=True)
def nothing_to_do(bench: Bench) -> None:
    bench.stop_shared()
    running = bench.start()
    namespace = bench.namespace()
    apps = [bench.create(namespace, f"there-{n}", replicas=2) for n in range(5)]
    for app in apps:
        bench.settled(app, "creating 5 WebApps")
    bench.history.quiet(namespace, 0.5, 10.0)
    running.terminate()
    since = time.time()
    running.start()
    # Once the last WebApp is handled, the operator has handled those before it.
    canary = bench.create(bench.namespace(), "canary", replicas=1)
    bench.settled(canary, "restarting the operator and creating one more WebApp")
    bench.history.quiet(canary["metadata"]["namespace"], 0.5, 10.0)
    names = {contract.record_name(app) for app in apps}
    writes = [
        e
        for e in bench.exchanges(running.client)
        if e.verb in WRITE_VERBS
        and e.t_request >= since
        and (e.namespace == namespace or e.name in names)
    ]
    bench.measured["writes"] = len(writes)
    running.kill()
    if writes:
        raise Fail(
            "After a restart with 5 WebApps that have converged, nothing is written.",
            f"There were {len(writes)} writes.",
            why="An upgrade restarts all operators at once.",
            next="Which difference does it see? Compare the body with the object before the write.",
            diagnosis="writes-on-restart",
            evidence=[describe(e) for e in writes[:8]],
        )


@scenario(
    "restart/changed-meanwhile", "It catches up with what happened while it was down", alone=True
)
def changed_meanwhile(bench: Bench) -> None:
    bench.stop_shared()
    running = bench.start()
    namespace = bench.namespace()
    deleted = bench.create(namespace, "deleted", replicas=2)
    edited = bench.create(namespace, "edited", replicas=1)
    for app in (deleted, edited):
        bench.settled(app, "creating a WebApp")
    running.kill()
    bench.delete(contract.WEBAPPS, "deleted", namespace)
    edited = bench.change(edited, replicas=3)
    created = bench.create(namespace, "created", replicas=1)
    running.start()
    bench.gone(
        deleted,
        "deleting the WebApp while the operator was down, and restarting it",
        diagnosis="missed-delete-while-down",
        why="No event tells an operator what it missed; it must find it in the list.",
        next="On start, list, and enqueue every key.",
    )
    bench.settled(edited, "editing it while the operator was down, and restarting it")
    bench.settled(created, "creating it while the operator was down, and restarting it")
    running.kill()


@scenario("restart/sigterm", "SIGTERM ends it within 5 s, with exit code 0", alone=True)
def sigterm(bench: Bench) -> None:
    bench.stop_shared()
    running = bench.start()
    app = bench.create(bench.namespace(), replicas=2)
    bench.settled(app, "creating a WebApp")
    began = time.monotonic()
    ended = running.terminate(grace=5.0)
    bench.measured["seconds"] = round(time.monotonic() - began, 2)
    if ended.obeyed and ended.code == 0:
        return
    raise Fail(
        "After SIGTERM the operator finishes the current reconciles and exits 0 within 5 s.",
        f"It {ended}." if ended.obeyed else "It was still running after 5 s and had to be killed.",
        why="Kubernetes sends SIGKILL after the grace period; a reconcile is then cut off "
        "anywhere, and the lease is not released.",
        next="Catch SIGTERM, shut the queue down, wait for the workers, exit.",
        diagnosis="ignores-sigterm" if not ended.obeyed else "dies-of-sigterm",
        evidence=running.stderr_tail(6),
    )


@scenario(
    "restart/sigterm-with-a-queue",
    "SIGTERM with much to do: it takes no more keys, and leaves the rest to the next process",
    alone=True,
)
def sigterm_with_a_queue(bench: Bench) -> None:
    bench.stop_shared()
    namespace = bench.namespace()
    for number in range(QUEUED):
        bench.create(namespace, f"queued-{number}", replicas=0)
    # Whoever works is held at the first write: the rest waits.
    running = bench.start("--workers", str(WORKERS), rules=[f"hold write any ns={namespace}"])
    (held,) = running.wire.rules
    if not bench.fires(running, held, STARTING):
        raise Fail(
            f"Started with {QUEUED} WebApps there, the operator works on one.",
            f"It {running.exited}." if running.exited else "It wrote nothing.",
            diagnosis="never-acted",
            evidence=running.stderr_tail(6),
        )
    # Removed a second after the signal: with all its workers held, the process has only the
    # signal to handle.
    removal = threading.Timer(1.0, held.remove)
    removal.start()
    ended = running.terminate(grace=5.0)
    removal.join()
    worked_on = {
        e.name
        for e in bench.exchanges(running.client)
        if e.resource == "webapps" and e.verb in WRITE_VERBS and e.applied
    }
    bench.measured["WebApps written for"] = len(worked_on)
    if not (ended.obeyed and ended.code == 0):
        raise Fail(
            f"After SIGTERM the operator exits 0 within 5 s, with {QUEUED} WebApps still to do.",
            f"It {ended}." if ended.obeyed else "It still ran after 5 s and had to be killed.",
            why="What is in the queue is nobody's loss: whoever comes next lists everything.",
            next="Stop taking keys; wait for those in hand; exit.",
            diagnosis="drains-the-queue" if len(worked_on) > TAKEN else "dies-of-sigterm",
            evidence=running.stderr_tail(6),
        )
    if len(worked_on) > TAKEN:
        raise Fail(
            f"After SIGTERM, {WORKERS} workers finish what they have in hand, and take no more.",
            f"They wrote for {len(worked_on)} of {QUEUED} WebApps.",
            why="A queue of thousands takes longer than a Pod has to end: the kill comes in the "
            "middle, and the lease is not released.",
            next="A work queue that is shut down still hands out what is in it. Look whether to "
            "stop after each key that you are given.",
            diagnosis="drains-the-queue",
            evidence=[f"written for after SIGTERM: {', '.join(sorted(worked_on)[:8])}, …"],
        )


@scenario("restart/no-crd", "Without the CRD it says so and waits", alone=True)
def no_crd(bench: Bench) -> None:
    bench.stop_shared()
    # What a server without the CRD answers, to discovery as well.
    group = f"/apis/{contract.GROUP}"
    running = bench.start(rules=[f"answer 404 any path={group} times=always"])
    asked = bench.wait_exchange(
        running, lambda e: e.resource == "webapps" or e.path.startswith(group), 10.0
    )
    still = not bench.ended_within(running, 3.0)
    said = running.stderr_tail(5) + tuple(running.stdout_lines[-5:])
    running.wire.rules.clear()
    _announce_the_crd(bench)
    if not asked or not still:
        raise Fail(
            "An operator whose CRD does not exist says so and waits for it.",
            f"It {running.exited}." if not still else "It never requested WebApps.",
            why="A process that exits is restarted with growing backoff: once the CRD is "
            "installed, it may take minutes until the operator runs.",
            next="Keep listing, with backoff, and print what you are waiting for.",
            diagnosis="exits-without-crd",
            evidence=said,
        )
    if not said:
        raise Fail(
            "An operator whose CRD does not exist says so.",
            "It printed nothing.",
            why="Its log is where people look when nothing happens.",
            next="Print one line: which resource is missing, and what to apply.",
            diagnosis="silent-without-crd",
        )
    app = bench.create(bench.namespace(), replicas=1)
    bench.settled(app, "the CRD was installed", timeout=40.0)
    running.kill()


def _announce_the_crd(bench: Bench) -> None:
    """Change the CRD and change it back: who watches CRDs is told of a new one by such an event."""
    for value in ("yes", None):
        note = {"metadata": {"annotations": {f"{contract.GROUP}/installed": value}}}
        bench.api.patch("customresourcedefinitions", contract.WEBAPPS, note)
