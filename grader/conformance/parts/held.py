"""Held states: what usually passes in a moment is kept as it is, and looked at."""

from __future__ import annotations

from grader.conformance import contract, invariants
from grader.conformance.bench import FOREIGN, SETTLE, Bench
from grader.conformance.contract import DNS_NAMESPACE
from grader.conformance.scenario import scenario
from grader.verdict import Fail, NotGraded
from grader.witness import describe

NOTHING: dict = {"metadata": {}}
#: Seconds in which a retry comes at the latest after a failure that lasted two or three.
RETRIED = 20.0


@scenario("held/pods-pending", "While its Pods do not become Ready, the WebApp is not Ready either")
def pods_pending(bench: Bench) -> None:
    namespace = bench.namespace_without_room()
    app = bench.create(namespace, replicas=2)
    _pods_made(bench, app, 2, "creating a WebApp whose Pods no node has room for")
    world = bench.true_status(app, "creating a WebApp whose Pods no node has room for")
    app = bench.change(app, replicas=3)
    _pods_made(bench, app, 3, "scaling up while its Pods are not Ready")
    world = bench.true_status(app, "scaling up while its Pods are not Ready")
    bench.make_ready(world.standing[:1])
    if not bench.until(
        namespace, lambda: any(map(contract.is_ready, bench.world(app).pods)), SETTLE
    ):
        raise NotGraded("A Pod that is put on a node becomes Ready.", "It did not.")
    bench.true_status(app, "one of 3 Pods became Ready")
    bench.make_ready([p for p in bench.world(app).standing if not contract.is_ready(p)])
    bench.settled(app, "its Pods became Ready at last")
    invariants.never_more_pods_than(bench.history, app, 3)
    invariants.transition_times(bench.history, app)


def _pods_made(bench: Bench, app: dict, number: int, doing: str) -> None:
    def there() -> bool:
        return len(bench.world(app).standing) == number

    if not bench.until(app["metadata"]["namespace"], there, SETTLE):
        raise Fail(
            f"After {doing}, it has {number} Pods.",
            f"There are {len(bench.world(app).standing)}.",
            why="A reconcile that waits for what it made keeps its worker from everything else, "
            "its own WebApp's next change too.",
            next="Create what is missing, write the status, return. The Pod's event is the next "
            "reason to look.",
            diagnosis="waits-in-reconcile",
        )


@scenario(
    "held/pod-terminating", "A Pod that stays terminating counts neither as active nor as Ready"
)
def pod_terminating(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=2)
    bench.settled(app, "creating a WebApp")
    victim = bench.rng.choice(bench.at_rest(app).standing)["metadata"]["name"]
    bench.keep("pods", victim, namespace)
    bench.delete("pods", victim, namespace)
    doing = "deleting a Pod that somebody's finalizer keeps"
    counted = {
        "why": "A terminating Pod serves nobody and does not come back, however long it stays.",
        "next": "Leave out Pods with a deletionTimestamp before you count.",
        "diagnosis": "counts-terminating-pods",
    }
    bench.true_status(app, doing, **counted)
    # A change meanwhile reaches what is not terminating.
    app = bench.change(app, image="shop:2")
    bench.true_status(app, f"{doing}, and changing the image", **counted)
    _still_kept(bench, "pods", victim, namespace)
    invariants.never_more_pods_than(bench.history, app, 2)
    bench.let_go("pods", victim, namespace)
    bench.settled(app, "the terminating Pod was gone at last")


@scenario(
    "held/record-terminating",
    "A DNS record that stays terminating is waited for: while the WebApp lives, and when it goes",
)
def record_terminating(bench: Bench) -> None:
    namespace = bench.namespace()
    lives, goes = bench.create(namespace, replicas=1), bench.create(namespace, "goes", replicas=1)
    for app in (lives, goes):
        bench.settled(app, "creating a WebApp")
        bench.keep("configmaps", contract.record_name(app), DNS_NAMESPACE)
    bench.at_rest(lives)
    bench.delete("configmaps", contract.record_name(lives), DNS_NAMESPACE)
    bench.delete(contract.WEBAPPS, "goes", namespace)
    bench.true_status(
        lives,
        "deleting a DNS record that somebody's finalizer keeps",
        diagnosis="counts-lost-record",
    )
    bench.until(
        namespace,
        lambda: contract.is_terminating(bench.history.record(goes["metadata"]["uid"]) or NOTHING),
        SETTLE,
    )
    # What is not confirmed gone is still there.
    bench.history.quiet(namespace, 1.0, 5.0)
    if bench.world(goes).webapp is None or not _has_ours(bench.world(goes).webapp):
        raise Fail(
            "The finalizer stays for as long as the DNS record does, terminating or not.",
            "It was removed, and the record is still there.",
            why="A DELETE that was accepted is not yet an object that is gone: the record may have "
            "finalizers of its own.",
            next="Get the record after the delete, and go on only where the answer is 404.",
            diagnosis="finalizer-removed-early",
        )
    for app in (lives, goes):
        _still_kept(bench, "configmaps", contract.record_name(app), DNS_NAMESPACE)
        bench.let_go("configmaps", contract.record_name(app), DNS_NAMESPACE)
    bench.settled(lives, "the terminating DNS record was gone at last", timeout=RETRIED)
    bench.gone(goes, "its DNS record was gone at last", timeout=RETRIED)
    invariants.record_gone_before_finalizer(bench.history, goes)


def _has_ours(app: dict | None) -> bool:
    return contract.FINALIZER in (app or NOTHING)["metadata"].get("finalizers", ())


def _still_kept(bench: Bench, resource: str, name: str, namespace: str) -> None:
    """Somebody else's finalizer is his to remove."""
    there = bench.history.live(resource, name, namespace)
    if there is not None and FOREIGN in there["metadata"].get("finalizers", ()):
        return
    raise Fail(
        f"The finalizer {FOREIGN} on {resource} {name} stays until its owner removes it.",
        "It was removed." if there else f"{name} is gone: the finalizer was removed.",
        why="The cleanup that this finalizer stands for never happens.",
        next="Remove no finalizer but your own.",
        diagnosis="removed-others-finalizer",
    )


@scenario("held/creates-refused", "While no Pod can be created, the status says so")
def creates_refused(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=2)
    bench.settled(app, "creating a WebApp")
    bench.at_rest(app)
    rule = bench.rule(f"answer 500 create,patch pods ns={namespace} times=always")
    app = bench.change(app, image="shop:2")
    bench.true_status(
        app,
        "changing the image while creates of Pods fail",
        why="A rollout that is stuck is when users need the status most.",
        next="Write the status in every reconcile, and also where a step before it has failed.",
        diagnosis="status-only-at-the-end",
    )
    rule.remove()
    bench.settled(app, "creates of Pods succeeded again", timeout=RETRIED)
    invariants.never_more_pods_than(bench.history, app, 4)


@scenario("held/deletes-refused", "While no Pod can be deleted, those that exist are counted")
def deletes_refused(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=2)
    bench.settled(app, "creating a WebApp")
    bench.at_rest(app)
    rule = bench.rule(f"answer 500 delete,deletecollection pods ns={namespace} times=always")
    app = bench.change(app, image="shop:2", replicas=1)
    bench.true_status(
        app,
        "changing image and replicas while deletes of Pods fail",
        why="A Pod whose delete failed still runs: who reads the status takes it for gone.",
        next="Count a Pod out only once its delete has been accepted.",
        diagnosis="counts-out-what-stays",
    )
    rule.remove()
    bench.settled(app, "deletes of Pods succeeded again", timeout=RETRIED)


@scenario(
    "held/delete-on-its-way",
    "A delete that is on its way does not hit another's Pod that has taken the name meanwhile",
)
def delete_on_its_way(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=1)
    bench.settled(app, "creating a WebApp")
    victim = bench.at_rest(app).standing[0]["metadata"]
    held = bench.rule(f"hold delete,deletecollection pods ns={namespace}")
    app = bench.change(app, image="shop:2")
    if not bench.until(namespace, lambda: held.fired, SETTLE):
        raise NotGraded(
            "A Pod of an old image is deleted.",
            "No delete was sent, and the Pod may have been changed in place.",
        )
    bench.delete("pods", victim["name"], namespace, grace_seconds=0)
    if not bench.until(
        namespace, lambda: bench.history.live("pods", victim["name"], namespace) is None, SETTLE
    ):
        raise NotGraded("A Pod that is deleted by force is gone.", "It is still there.")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": victim["name"], "namespace": namespace},
        "spec": {"containers": [{"name": "theirs", "image": "theirs:1"}]},
    }
    theirs = bench.api.create(pod)["metadata"]["uid"]
    held.remove()
    # Whatever was decided before: it has been carried out once the delete is answered.
    bench.wait_exchange(
        bench.operator,
        lambda e: (
            e.namespace == namespace and e.verb in ("delete", "deletecollection") and bool(e.faults)
        ),
        SETTLE,
    )
    bench.history.quiet(namespace, 0.5, 5.0)
    if not bench.history.saw_delete(theirs):
        return
    sent = [
        e
        for e in bench.exchanges()
        if e.namespace == namespace and e.verb in ("delete", "deletecollection")
    ]
    raise Fail(
        f"Somebody else's Pod {victim['name']}, made after the operator's own of that name was "
        "gone, is left alone.",
        "The operator deleted it.",
        why="Between the decision and the moment at which the server carries it out, a name can "
        "become somebody else's. A UID never does.",
        next="Send the UID of the Pod that you decided on as a precondition of the delete.",
        diagnosis="delete-without-uid",
        evidence=[describe(e) for e in sent[-4:]],
    )


#: WebApps of each kind that hold up whoever waits for them, and workers.
STUCK, WORKERS = 4, 2


@scenario(
    "held/busy-workers",
    "WebApps that cannot be finished keep no other from being served",
    alone=True,
)
def busy_workers(bench: Bench) -> None:
    # Alone: an operator that is held up would fail the scenarios beside this one as well.
    bench.stop_shared()
    pending, failing = bench.namespace_without_room(), bench.namespace()
    running = bench.start("--workers", str(WORKERS))
    running.wire.rules.add(f"answer 500 create,patch pods ns={failing} times=always")
    stuck = [
        bench.create(namespace, f"stuck-{number}", replicas=1)
        for number in range(STUCK)
        for namespace in (pending, failing)
    ]

    def begun() -> bool:
        return all(bench.history.record(app["metadata"]["uid"]) for app in stuck)

    bench.until(pending, lambda: begun() or _waiting(bench, stuck) >= WORKERS, SETTLE)
    app = bench.create(bench.namespace(), replicas=1)
    doing = f"creating {2 * STUCK} WebApps that cannot be finished, and then one more"
    served = bench.until(
        app["metadata"]["namespace"],
        lambda: bench.history.record(app["metadata"]["uid"]) or running.exited,
        SETTLE,
    )
    if not served:
        raise Fail(
            f"After {doing}, the last one is served within {SETTLE:g} s, by {WORKERS} workers.",
            "Nothing was made for it.",
            why="A reconcile that waits holds its worker: as many WebApps as there are workers, "
            "whose Pods never become Ready, and nobody is served.",
            next="Never wait in a reconcile. Return, and let the Pod's event or a requeue bring "
            "the key back.",
            diagnosis="waits-in-reconcile",
            evidence=[describe(e) for e in bench.exchanges(running.client)[-6:]],
        )
    bench.settled(app, doing)
    running.wire.rules.clear()
    running.kill()


def _waiting(bench: Bench, stuck: list[dict]) -> int:
    """WebApps whose Pods have been made, and are not Ready."""
    return sum(bool(bench.history.pods(app)) for app in stuck)
