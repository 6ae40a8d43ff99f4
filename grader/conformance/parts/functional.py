"""Functional: the operator does its job, and leaves alone what others own."""

from __future__ import annotations

import time

from grader.cluster.api import ApiError
from grader.conformance import contract, invariants
from grader.conformance.bench import SETTLE, Bench
from grader.conformance.contract import LABEL
from grader.conformance.scenario import scenario
from grader.verdict import Fail
from grader.wire.records import WRITE_VERBS


@scenario("functional/create", "A new WebApp gets its Pods, its DNS record and a correct status")
def create(bench: Bench) -> None:
    app = bench.create(bench.namespace(), replicas=3)
    bench.settled(app, "creating a WebApp with 3 replicas")
    invariants.finalizer_before_record(bench.history, app)
    invariants.never_more_pods_than(bench.history, app, 3)


@scenario("functional/default", "An omitted spec.replicas is the server's default, and 0 means 0")
def default(bench: Bench) -> None:
    namespace = bench.namespace()
    one = bench.create(namespace, "one")
    none = bench.create(namespace, "none", replicas=0)
    bench.settled(one, "creating a WebApp without spec.replicas (the default is 1)")
    bench.settled(none, "creating a WebApp with 0 replicas (it is Ready as it is)")


@scenario("functional/long-names", "A name may have 63 characters, and a dot")
def long_names(bench: Bench) -> None:
    namespace = bench.namespace()
    # They differ at the end, where a name that is made from them may have been cut off.
    same = f"{bench.name()}.".ljust(62, "x")
    apps = [bench.create(namespace, same + last, replicas=2) for last in "ab"]
    for app in apps:
        bench.settled(
            app,
            "creating a WebApp whose name has 63 characters",
            why="A name of an object may have 253 characters. What is made from it must still "
            "be one of a kind when its own limit has cut it off.",
            next="Keep what tells two names apart, or put a hash of the whole into each.",
            diagnosis="names-cut-off",
        )
        invariants.never_more_pods_than(bench.history, app, 2)


@scenario("functional/scale", "Scaling adds or removes exactly the difference")
def scale(bench: Bench) -> None:
    app = bench.create(bench.namespace(), replicas=2)
    bench.settled(app, "creating a WebApp with 2 replicas")
    before = {pod["metadata"]["uid"] for pod in bench.history.pods(app)}
    bench.settled(bench.change(app, replicas=5), "scaling from 2 to 5")
    after = {pod["metadata"]["uid"] for pod in bench.history.pods(app)}
    if not before <= after:
        raise Fail(
            "Scaling up from 2 to 5 keeps the 2 Pods that were there.",
            f"{len(before - after)} of them were replaced.",
            why="A replaced Pod is an unnecessary outage.",
            next="Create only as many Pods as are missing, and keep the rest.",
            diagnosis="replaced-what-was-right",
        )
    bench.settled(bench.change(app, replicas=1), "scaling from 5 to 1")
    invariants.never_more_pods_than(bench.history, app, 5)


@scenario("functional/image", "A new image reaches every Pod, and Ready is False until it has")
def image(bench: Bench) -> None:
    app = bench.create(bench.namespace(), replicas=3, image="shop:1")
    bench.settled(app, "creating a WebApp")
    bench.settled(
        bench.change(app, image="shop:2"),
        "changing the image of 3 replicas",
        diagnosis="kept-old-image",
    )
    invariants.status_is_correct(bench.history, app)


@scenario(
    "functional/delete",
    "A deleted WebApp goes once its DNS record is gone, and nothing is created meanwhile",
)
def delete(bench: Bench) -> None:
    app = bench.create(bench.namespace(), replicas=2)
    bench.settled(app, "creating a WebApp")
    meta = app["metadata"]
    bench.delete(contract.WEBAPPS, meta["name"], meta["namespace"])
    bench.gone(app, "deleting the WebApp")
    # The events of its end may still have the operator do something for it.
    bench.at_rest(app)
    invariants.record_gone_before_finalizer(bench.history, app)
    invariants.nothing_made_while_terminating(bench.history, app)


@scenario(
    "functional/others-finalizer",
    "Another owner's finalizer stays, and the operator removes its own all the same",
)
def others_finalizer(bench: Bench) -> None:
    namespace = bench.namespace()
    theirs = "example.com/backup"
    wanted = contract.webapp(bench.name(), namespace, replicas=2)
    wanted["metadata"]["finalizers"] = [theirs]
    app = bench.api.create(wanted)
    name, uid = app["metadata"]["name"], app["metadata"]["uid"]
    bench.settled(app, "creating a WebApp that has another owner's finalizer")
    bench.delete(contract.WEBAPPS, name, namespace)

    def only_theirs() -> bool:
        state = bench.history.live("webapps", name, namespace)
        return (
            state is not None
            and state["metadata"].get("finalizers") == [theirs]
            and bench.history.record(uid) is None
        )

    if not bench.until(namespace, only_theirs, SETTLE):
        state = bench.history.live("webapps", name, namespace)
        if state is None:
            raise Fail(
                f"The finalizer {theirs} stays until its owner removes it.",
                "The WebApp is gone: that finalizer was removed, and not by its owner.",
                why="The cleanup that this finalizer stands for never happens.",
                next="Remove only your own entry from the list, by value.",
                diagnosis="removed-others-finalizer",
            )
        raise Fail(
            "After the delete, the operator's finalizer and the DNS record go, although another "
            "finalizer stays.",
            f"The finalizers are {state['metadata'].get('finalizers')}.",
            why="Two finalizers whose owners wait for each other are never removed.",
            next="Handle your own finalizer whether or not there are others.",
            diagnosis="waits-for-others-finalizer",
        )
    # While it is terminating, a lost Pod is not replaced.
    pods = [p for p in bench.history.pods(app) if not contract.is_terminating(p)]
    if pods:
        bench.delete("pods", pods[0]["metadata"]["name"], namespace)
    bench.patch(
        contract.WEBAPPS, name, {"metadata": {"annotations": {"touched": "yes"}}}, namespace
    )
    bench.history.quiet(namespace, 0.7, 10.0)
    invariants.nothing_made_while_terminating(bench.history, app)
    bench.patch(contract.WEBAPPS, name, {"metadata": {"finalizers": None}}, namespace)
    bench.gone(app, "removing the other finalizer")


@scenario("functional/pod-deleted", "A deleted Pod is replaced, with or without a grace period")
def pod_deleted(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=3)
    bench.settled(app, "creating a WebApp")
    for doing, grace in (("deleting one of 3 Pods", None), ("deleting one by force", 0)):
        victim = bench.rng.choice(bench.at_rest(app).standing)["metadata"]
        if grace == 0:
            # Its end in one event: what an operator does because a Pod is terminating would make
            # up for missing that it is gone. (Once: the next Pod may have the same name.)
            bench.rule(f"hide MODIFIED watch pods ns={namespace} name={victim['name']}")
        bench.delete("pods", victim["name"], namespace, grace_seconds=grace)
        _replaced(bench, app, victim["uid"], doing, "ignored-deleted-pod")


@scenario("functional/pod-failed", "A failed Pod is replaced")
def pod_failed(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=2)
    bench.settled(app, "creating a WebApp")
    world = bench.at_rest(app)
    victim = bench.rng.choice(world.standing)["metadata"]
    bench.patch(
        "pods", victim["name"], {"status": {"phase": "Failed"}}, namespace, subresource="status"
    )
    _replaced(bench, app, victim["uid"], "one of 2 Pods failed", "kept-failed-pod")


@scenario("functional/pod-not-ready", "A Pod that is no longer Ready shows in the status")
def pod_not_ready(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=2)
    bench.settled(app, "creating a WebApp")
    victim = bench.rng.choice(bench.at_rest(app).standing)["metadata"]["name"]

    def turn(ready: str) -> None:
        status = {"status": {"conditions": [{"type": "Ready", "status": ready}]}}
        bench.patch("pods", victim, status, namespace, subresource="status", type="strategic")

    def told() -> bool:
        status = (bench.world(app).webapp or {}).get("status", {})
        ready = contract.condition({"status": status}, "Ready").get("status")
        return status.get("readyReplicas", 0) == 1 and ready != "True"

    turn("False")
    if not bench.until(namespace, told, SETTLE):
        raise Fail(
            "Once one of 2 Pods is no longer Ready, the status has readyReplicas 1 and is not "
            "Ready.",
            f"It is {(bench.world(app).webapp or {}).get('status')}.",
            why="Users, and everything that waits for Ready, rely on the status.",
            next="Let Pod events, updates too, enqueue the key of their owner.",
            diagnosis="stale-status",
        )
    bench.at_rest(app)
    turn("True")
    bench.settled(app, "the Pod was Ready again", diagnosis="stale-status")


@scenario("functional/pod-edited", "A Pod whose image was edited is replaced")
def pod_edited(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=2)
    bench.settled(app, "creating a WebApp")
    world = bench.at_rest(app)
    victim = bench.rng.choice(world.standing)
    container = victim["spec"]["containers"][0]["name"]
    bench.patch(
        "pods",
        victim["metadata"]["name"],
        {"spec": {"containers": [{"name": container, "image": "edited:by-hand"}]}},
        namespace,
        type="strategic",
    )
    _replaced(
        bench, app, victim["metadata"]["uid"], "editing the image of one Pod", "kept-edited-pod"
    )


def _replaced(bench: Bench, app: dict, uid: str, doing: str, diagnosis: str) -> None:
    """Wait until the Pod of that UID is gone and the WebApp has converged again."""
    gone = bench.until(
        app["metadata"]["namespace"],
        lambda: all(p["metadata"]["uid"] != uid for p in bench.world(app).pods),
        SETTLE,
    )
    if not gone:
        raise Fail(
            f"After {doing}, the Pod is replaced.",
            "It still exists.",
            why="An operator corrects any drift from the spec by itself.",
            next="Compare every Pod with the spec in each reconcile, and let Pod events enqueue "
            "their owner.",
            diagnosis=diagnosis,
        )
    bench.settled(app, doing, diagnosis=diagnosis)
    invariants.never_more_pods_than(bench.history, app, contract.wanted(app))


@scenario("functional/label-stolen", "A Pod that lost its label still belongs to its owner")
def label_stolen(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, "alpha", replicas=2)
    other = bench.create(namespace, "beta", replicas=1)
    bench.settled(app, "creating a WebApp")
    bench.settled(other, "creating a second WebApp")
    world = bench.at_rest(app)
    first, second = (pod["metadata"] for pod in world.standing)
    before = {pod["metadata"]["uid"] for pod in bench.world(other).pods}
    bench.patch("pods", first["name"], {"metadata": {"labels": {LABEL: None}}}, namespace)
    bench.settled(
        app, f"removing the label from Pod {first['name']}", diagnosis="lost-unlabelled-pod"
    )
    bench.at_rest(app)
    bench.patch("pods", second["name"], {"metadata": {"labels": {LABEL: "beta"}}}, namespace)
    bench.settled(app, f"giving Pod {second['name']} beta's label", diagnosis="lost-unlabelled-pod")
    bench.settled(other, "a Pod of alpha carried beta's label for a while")
    after = {pod["metadata"]["uid"] for pod in bench.world(other).pods}
    if before != after:
        raise Fail(
            "A Pod of alpha with beta's label does not concern beta: its controller is alpha.",
            "beta's Pods changed.",
            why="The owner reference says by UID who owns a Pod; anybody can write a label.",
            next="Count the Pods whose controller has the WebApp's UID.",
            diagnosis="counts-by-label",
        )


@scenario("functional/record-drift", "A DNS record that is deleted or edited is restored")
def record_drift(bench: Bench) -> None:
    app = bench.create(bench.namespace(), replicas=1)
    bench.settled(app, "creating a WebApp")
    bench.at_rest(app)
    record = contract.record_name(app)
    bench.delete("configmaps", record, contract.DNS_NAMESPACE)
    bench.settled(app, "deleting its DNS record", diagnosis="ignored-record-drift")
    bench.at_rest(app)
    changed = {"data": {"host": "elsewhere.example.com"}}
    bench.patch("configmaps", record, changed, contract.DNS_NAMESPACE)
    bench.settled(app, "editing its DNS record", diagnosis="ignored-record-drift")


@scenario("functional/foreign-fields", "Labels and annotations that others set survive everything")
def foreign_fields(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=2)
    world = bench.settled(app, "creating a WebApp")
    mark = {"metadata": {"labels": {"team": "red"}, "annotations": {"example.com/note": "keep"}}}
    pod = world.standing[0]["metadata"]
    bench.patch("pods", pod["name"], mark, namespace)
    bench.patch(contract.WEBAPPS, app["metadata"]["name"], mark, namespace)
    # Something for the operator to do while everything carries the marks.
    bench.settled(bench.change(app, replicas=3), "scaling up with labels that others set")
    bench.patch("pods", pod["name"], {"metadata": {"labels": {LABEL: None}}}, namespace)
    bench.settled(app, "removing the WebApp's label from a marked Pod")
    for what, obj in (
        ("Pod " + pod["name"], bench.history.live("pods", pod["name"], namespace)),
        ("the WebApp", bench.history.live("webapps", app["metadata"]["name"], namespace)),
    ):
        meta = obj["metadata"] if obj else {}
        if obj is not None and meta["uid"] not in (pod["uid"], app["metadata"]["uid"]):
            continue  # The Pod was replaced, and its marks with it.
        if (
            meta.get("labels", {}).get("team") != "red"
            or meta.get("annotations", {}).get("example.com/note") != "keep"
        ):
            raise Fail(
                f"The label and the annotation that somebody else set on {what} are still there.",
                f"Its labels are {meta.get('labels', {})}, its annotations "
                f"{meta.get('annotations', {})}.",
                why="A PUT of a whole object that is built from the spec erases what others wrote.",
                next="Change only the fields that are yours: a patch, server-side apply, or an "
                "update of the object as you read it.",
                diagnosis="stomped-foreign-fields",
            )


@scenario(
    "functional/adoption",
    "A Pod with the label and no controller is adopted; another owner's is left alone",
)
def adoption(bench: Bench) -> None:
    namespace = bench.namespace()
    name = bench.name()
    orphan = _pod(namespace, "orphan", {LABEL: name}, image="shop:1")
    bench.api.create(orphan)
    owner = bench.api.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "someone", "namespace": namespace},
        }
    )
    owned = _pod(namespace, "taken", {LABEL: name}, image="shop:1")
    owned["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "someone",
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
    ]
    bench.api.create(owned)
    app = bench.create(namespace, name, replicas=2, image="shop:1")
    bench.settled(
        app, "creating a WebApp next to a Pod that can be adopted", diagnosis="not-adopted"
    )
    adopted = bench.history.live("pods", "orphan", namespace)
    if adopted is None:
        raise Fail(
            "A Pod with the right image, the label and no controller is adopted.",
            "It was deleted.",
            why="An adopted Pod keeps serving; a deleted one is an outage.",
            next="Adopt first (add the controller owner reference), then count.",
            diagnosis="deleted-orphan",
        )
    touched = [
        exchange
        for exchange in bench.exchanges()
        if exchange.verb in WRITE_VERBS
        and (exchange.namespace, exchange.resource, exchange.name) == (namespace, "pods", "taken")
    ]
    if touched or bench.api.find("pods", "taken", namespace) is None:
        raise Fail(
            "A Pod that another controller owns is never touched.",
            f"The operator sent {touched[0].method} {touched[0].path} (answered {touched[0].status})."
            if touched
            else "It is gone.",
            why="Only one owner reference may have controller: true; the server answers 422 to a "
            "second.",
            next="Leave alone every Pod whose controller has another UID than the WebApp.",
            diagnosis="touched-another-owners-pod",
        )


def _pod(namespace: str, name: str, labels: dict, image: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "web", "image": image}]},
    }


@scenario("functional/recreated", "A WebApp recreated under the same name is another WebApp")
def recreated(bench: Bench) -> None:
    namespace, name = bench.namespace(), bench.name()
    first = bench.create(namespace, name, replicas=2)
    bench.settled(first, "creating a WebApp")
    bench.delete(contract.WEBAPPS, name, namespace)
    try:
        second = bench.create(namespace, name, replicas=2)
    except ApiError as error:
        if error.status != 409:
            raise
        # At once means as soon as the name is free.
        if not bench.until(namespace, lambda: bench.world(first).webapp is None, SETTLE):
            bench.gone(first, "deleting a WebApp", timeout=0.1)
        second = bench.create(namespace, name, replicas=2)
    bench.settled(second, "deleting a WebApp and creating it again at once, under the same name")
    bench.gone(first, "deleting it")


@scenario(
    "functional/burst", "Thirty edits in a row converge to the last one, with far fewer writes"
)
def burst(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=1)
    bench.settled(app, "creating a WebApp")
    since = time.time()
    for _ in range(29):
        app = bench.change(app, replicas=bench.rng.randrange(1, 5))
    app = bench.change(app, replicas=3)
    bench.settled(app, "30 edits of spec.replicas in a row", diagnosis="lost-last-edit")
    bench.measured["writes"] = len(
        [
            e
            for e in bench.exchanges()
            if e.verb in WRITE_VERBS and e.namespace == namespace and e.t_request >= since
        ]
    )


@scenario("functional/status", "The status is correct at every moment of a change")
def status(bench: Bench) -> None:
    app = bench.create(bench.namespace(), replicas=2)
    bench.settled(app, "creating a WebApp")
    app = bench.change(app, replicas=4, image="shop:3")
    bench.settled(app, "scaling up with a new image")
    invariants.status_is_correct(bench.history, app)
    invariants.transition_times(bench.history, app)


@scenario("functional/fifty", "Fifty WebApps at once converge")
def fifty(bench: Bench) -> None:
    namespace = bench.namespace()
    began = time.monotonic()
    apps = [bench.create(namespace, f"app-{n}", replicas=3) for n in range(50)]
    for app in apps:
        bench.settled(app, "creating 50 WebApps with 3 replicas at once", timeout=30.0)
    bench.measured["seconds"] = round(time.monotonic() - began, 2)
    bench.measured["writes"] = len(bench.writes())
