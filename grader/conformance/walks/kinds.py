"""The kinds of operations: what users, other controllers, the cluster and accidents do."""

from __future__ import annotations

from grader.conformance import contract
from grader.conformance.contract import DNS_NAMESPACE, LABEL, WEBAPPS, wanted
from grader.conformance.walks.hand import IMAGES, Hand, kind, label_of
from grader.conformance.walks.model import HELD
from grader.conformance.walks.walk import Op

# -- WebApps ------------------------------------------------------------------------------


@kind("create")
def create(hand: Hand, op: Op) -> bool:
    """Create the WebApp, where there is none of that name."""
    name = hand.name(op)
    if hand.api.find(WEBAPPS, name, hand.namespace) is not None:
        return False
    app = contract.webapp(name, hand.namespace, replicas=op.value % 4, host=f"{name}.example.com")
    hand.model.created(hand.create(app))
    return True


def _change(hand: Hand, op: Op, spec: dict) -> bool:
    app = hand.app(op)
    if app is None or all(app["spec"].get(key) == value for key, value in spec.items()):
        return False
    hand.model.changed(
        hand.patch(WEBAPPS, app, {"spec": spec}, f"webapp {app['metadata']['name']}")
    )
    return True


@kind("scale")
def scale(hand: Hand, op: Op) -> bool:
    return _change(hand, op, {"replicas": op.value % 5})


@kind("scale-down")
def scale_down(hand: Hand, op: Op) -> bool:
    """To fewer than it wants, if it wants any."""
    app = hand.app(op)
    if app is None or not wanted(app):
        return False
    return _change(hand, op, {"replicas": op.value % wanted(app)})


@kind("image")
def image(hand: Hand, op: Op) -> bool:
    return _change(hand, op, {"image": IMAGES[op.value % len(IMAGES)]})


@kind("both")
def both(hand: Hand, op: Op) -> bool:
    return _change(hand, op, {"image": IMAGES[op.value % 2], "replicas": op.value % 5})


@kind("touch")
def touch(hand: Hand, op: Op) -> bool:
    """An event that means nothing."""
    app = hand.app(op)
    if app is None:
        return False
    value = f"{hand.next_number()}"
    patch = {"metadata": {"annotations": {"example.com/touched": value}}}
    hand.patch(WEBAPPS, app, patch, f"webapp {hand.name(op)}")
    return True


@kind("delete")
def delete(hand: Hand, op: Op) -> bool:
    app = hand.app(op)
    if app is None:
        return False
    hand.model.removed(hand.name(op))
    hand.delete(WEBAPPS, app, f"webapp {hand.name(op)}")
    return True


@kind("recreate")
def recreate(hand: Hand, op: Op) -> bool:
    """Delete it, and make another of the same name as soon as that is free."""
    if not delete(hand, op):
        return False
    if hand.wait_free(hand.name(op)):
        create(hand, op)
    return True


@kind("app-marks")
def app_marks(hand: Hand, op: Op) -> bool:
    app = hand.app(op)
    if app is None:
        return False
    mark = {"labels": {"team": "red"}, "annotations": {"example.com/note": "keep"}}
    app = hand.patch(WEBAPPS, app, {"metadata": mark}, f"webapp {hand.name(op)}")
    hand.model.marked("WebApp", app, "labels", "team", "red")
    hand.model.marked("WebApp", app, "annotations", "example.com/note", "keep")
    return True


@kind("app-condition")
def app_condition(hand: Hand, op: Op) -> bool:
    """Somebody else's condition in the status."""
    app = hand.app(op)
    if app is None or contract.condition(app, "Audited"):
        return False
    theirs = {
        "type": "Audited",
        "status": "True",
        "reason": "Audited",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    if not (app.get("status") or {}).get("conditions"):
        return False
    # Added to the list: a merge patch would replace it whole.
    patch = [{"op": "add", "path": "/status/conditions/-", "value": theirs}]
    shown = f"webapp {hand.name(op)}"
    app = hand.patch(WEBAPPS, app, patch, shown, type="json", subresource="status")
    hand.model.marked("WebApp", app, "conditions", "Audited", "True")
    return True


@kind("app-held")
def app_held(hand: Hand, op: Op) -> bool:
    """Somebody's finalizer on the WebApp: deleted, it stays until that is gone."""
    app = hand.app(op)
    finalizers = (app or {"metadata": {}})["metadata"].get("finalizers") or []
    if app is None or not finalizers or HELD in finalizers:
        return False
    patch = [{"op": "add", "path": "/metadata/finalizers/-", "value": HELD}]
    app = hand.patch(WEBAPPS, app, patch, f"webapp {hand.name(op)}", type="json")
    hand.model.marked("WebApp", app, "finalizers", HELD)
    return True


# -- Pods ---------------------------------------------------------------------------------


@kind("pod-delete")
def pod_delete(hand: Hand, op: Op) -> bool:
    if (found := hand.pod(op)) is None:
        return False
    hand.delete("pods", found[0], found[1])
    return True


@kind("pod-kill")
def pod_kill(hand: Hand, op: Op) -> bool:
    """Without a grace period: its end is one event."""
    if (found := hand.pod(op)) is None:
        return False
    hand.delete("pods", found[0], found[1], "--force --grace-period=0", grace_seconds=0)
    return True


def _status(hand: Hand, op: Op, status: dict) -> dict | None:
    if (found := hand.pod(op)) is None:
        return None
    return hand.patch(
        "pods", found[0], {"status": status}, found[1], type="strategic", subresource="status"
    )


@kind("pod-fail")
def pod_fail(hand: Hand, op: Op) -> bool:
    """It fails, is evicted, or has finished."""
    status = (
        {"phase": "Failed"},
        {"phase": "Failed", "reason": "Evicted"},
        {"phase": "Succeeded"},
    )[op.value % 3]
    return _status(hand, op, status) is not None


@kind("pod-unready")
def pod_unready(hand: Hand, op: Op) -> bool:
    pod = _status(hand, op, {"conditions": [{"type": "Ready", "status": "False"}]})
    if pod is None:
        return False
    hand.model.unready.add(pod["metadata"]["uid"])
    return True


@kind("pod-image")
def pod_image(hand: Hand, op: Op) -> bool:
    """Somebody edits the image of one Pod."""
    if (found := hand.pod(op)) is None:
        return False
    container = found[0]["spec"]["containers"][0]["name"]
    patch = {"spec": {"containers": [{"name": container, "image": "edited:by-hand"}]}}
    hand.patch("pods", found[0], patch, found[1], type="strategic")
    return True


@kind("pod-label")
def pod_label(hand: Hand, op: Op) -> bool:
    """Its label is taken away, or becomes another WebApp's."""
    if (found := hand.pod(op)) is None:
        return False
    value = (None, "nobody", hand.names[(op.app + 1) % len(hand.names)])[op.value % 3]
    if value == hand.name(op):
        return False
    hand.patch("pods", found[0], {"metadata": {"labels": {LABEL: value}}}, found[1])
    return True


@kind("pod-marks")
def pod_marks(hand: Hand, op: Op) -> bool:
    if (found := hand.pod(op)) is None:
        return False
    mark = {"labels": {"team": "red"}, "annotations": {"example.com/note": "keep"}}
    pod = hand.patch("pods", found[0], {"metadata": mark}, found[1])
    hand.model.marked("Pod", pod, "labels", "team", "red")
    hand.model.marked("Pod", pod, "annotations", "example.com/note", "keep")
    return True


@kind("pod-owner")
def pod_owner(hand: Hand, op: Op) -> bool:
    """A second owner, that is no controller."""
    if (found := hand.pod(op)) is None:
        return False
    reference = hand.reference(controller=False)
    patch = [{"op": "add", "path": "/metadata/ownerReferences/-", "value": reference}]
    pod = hand.patch("pods", found[0], patch, found[1], type="json")
    hand.model.marked("Pod", pod, "ownerReferences", reference["uid"])
    return True


@kind("pod-held")
def pod_held(hand: Hand, op: Op) -> bool:
    """It is deleted, and somebody's finalizer keeps it."""
    if (found := hand.pod(op)) is None:
        return False
    pod, shown = found
    # With the UID: a Pod of the same name would be another one.
    patch = {"metadata": {"uid": pod["metadata"]["uid"], "finalizers": [HELD]}}
    said = {"metadata": {"finalizers": [HELD]}}
    pod = hand.patch("pods", pod, patch, shown, said=said)
    hand.model.marked("Pod", pod, "finalizers", HELD)
    hand.delete("pods", pod, shown)
    hand.written[pod["metadata"]["uid"]] = int(pod["metadata"]["resourceVersion"])
    return True


@kind("squat")
def squat(hand: Hand, op: Op) -> bool:
    """It ends at once, and somebody makes a Pod of its own under that name."""
    if (found := hand.pod(op)) is None:
        return False
    pod, shown = found
    meta = pod["metadata"]
    hand.say(f"name={shown}")
    hand.delete("pods", pod, '"$name"', "--force --grace-period=0", grace_seconds=0)
    theirs = hand.new_pod(meta["name"], "theirs:1", {"team": "blue"}, [])
    made = hand.create_to_stay(theirs)
    hand.say('kubectl run "${name#pod/}" --image=theirs:1 --labels=team=blue')
    hand.model.squats(made, hand.name(op))
    return True


@kind("orphan")
def orphan(hand: Hand, op: Op) -> bool:
    """A Pod with the label and no controller; it may have another owner."""
    app = hand.app(op)
    if app is None:
        return False
    owners = [hand.reference(controller=False)] if op.value % 2 else []
    pod = hand.new_pod(
        f"orphan-{hand.next_number()}", app["spec"]["image"], label_of(hand.name(op)), owners
    )
    made = hand.create(pod)
    for owner in owners:
        hand.model.marked("Pod", made, "ownerReferences", owner["uid"])
    return True


@kind("disown", apart=True)
def disown(hand: Hand, op: Op) -> bool:
    """Its controller is taken away: it is to be adopted again."""
    if (found := hand.pod(op)) is None:
        return False
    hand.patch("pods", found[0], {"metadata": {"ownerReferences": None}}, found[1])
    hand.model.marks = {
        mark
        for mark in hand.model.marks
        if mark.uid != found[0]["metadata"]["uid"] or mark.place != "ownerReferences"
    }
    return True


@kind("taken", apart=True)
def taken(hand: Hand, op: Op) -> bool:
    """Another controller has it from now on."""
    if (found := hand.pod(op)) is None:
        return False
    reference = hand.reference(controller=True)
    pod = hand.patch("pods", found[0], {"metadata": {"ownerReferences": [reference]}}, found[1])
    # It has a name that an operator with fixed names would give to the next one.
    hand.model.squats(pod, hand.name(op))
    return True


@kind("stranger")
def stranger(hand: Hand, op: Op) -> bool:
    """A Pod with the label, of another controller; or without the label, of nobody."""
    number = hand.next_number()
    if op.value % 2:
        pod = hand.new_pod(f"theirs-{number}", "theirs:1", {"team": "blue"}, [])
    else:
        owner = hand.reference(controller=True)
        pod = hand.new_pod(f"theirs-{number}", "theirs:1", label_of(hand.name(op)), [owner])
    hand.model.theirs(hand.create(pod))
    return True


# -- the DNS record -----------------------------------------------------------------------


def _record(hand: Hand, op: Op, patch: dict) -> dict | None:
    if (record := hand.record(op)) is None:
        return None
    shown = f'configmap "$(record {hand.name(op)})" -n {DNS_NAMESPACE}'
    return hand.patch("configmaps", record, patch, shown)


@kind("record-edit")
def record_edit(hand: Hand, op: Op) -> bool:
    """One of its values is another, or is gone."""
    key = ("host", "owner")[op.pod % 2]
    value = ("elsewhere.example.com", None, "")[op.value % 3]
    return _record(hand, op, {"data": {key: value}}) is not None


@kind("record-null")
def record_null(hand: Hand, op: Op) -> bool:
    """All its data is gone."""
    record = _record(hand, op, {"data": None})
    if record is None:
        return False
    hand.model.marks = {
        m for m in hand.model.marks if (m.uid, m.place) != (record["metadata"]["uid"], "data")
    }
    return True


@kind("record-delete")
def record_delete(hand: Hand, op: Op) -> bool:
    if (record := hand.record(op)) is None:
        return False
    shown = f'configmap "$(record {hand.name(op)})" -n {DNS_NAMESPACE}'
    hand.delete("configmaps", record, shown)
    return True


@kind("record-held")
def record_held(hand: Hand, op: Op) -> bool:
    """It is deleted, and somebody's finalizer keeps it."""
    record = _record(hand, op, {"metadata": {"finalizers": [HELD]}})
    if record is None:
        return False
    hand.model.marked("ConfigMap", record, "finalizers", HELD)
    record_delete(hand, op)
    hand.written[record["metadata"]["uid"]] = int(record["metadata"]["resourceVersion"])
    return True


@kind("record-marks")
def record_marks(hand: Hand, op: Op) -> bool:
    patch = {
        "metadata": {"labels": {"team": "red"}, "annotations": {"example.com/note": "keep"}},
        "data": {"ttl": "60"},
    }
    record = _record(hand, op, patch)
    if record is None:
        return False
    hand.model.marked("ConfigMap", record, "labels", "team", "red")
    hand.model.marked("ConfigMap", record, "annotations", "example.com/note", "keep")
    hand.model.marked("ConfigMap", record, "data", "ttl", "60")
    return True


# -- states that were held ----------------------------------------------------------------


@kind("let-go")
def let_go(hand: Hand, op: Op) -> bool:
    """Every finalizer with which something is held goes."""
    return hand.let_go()


@kind("pods-ready")
def pods_ready(hand: Hand, op: Op) -> bool:
    """What was told not to be Ready is Ready again."""
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    done = False
    for place, pod in enumerate(hand.pods(op), 1):
        if pod["metadata"]["uid"] in hand.model.unready:
            hand.model.unready.discard(pod["metadata"]["uid"])
            shown = f'"$(pod {hand.name(op)} {place})"'
            hand.patch("pods", pod, ready, shown, type="strategic", subresource="status")
            done = True
    return done


@kind("theirs-gone")
def theirs_gone(hand: Hand, op: Op) -> bool:
    """The owner of the others' Pods deletes them, but for those in the way of a name.

    No event tells an operator that such a name is free; it asks again after pauses that grow
    as long as the name was taken.
    """
    foreign = [
        (uid, pod) for uid, pod in hand.model.foreign.items() if uid not in hand.model.squatters
    ]
    if not foreign:
        return False
    for uid, pod in foreign:
        hand.model.not_there(uid)
        shown = f"pod {pod['metadata']['name']}"
        hand.delete("pods", pod, shown, "--force --grace-period=0", grace_seconds=0)
    return True
