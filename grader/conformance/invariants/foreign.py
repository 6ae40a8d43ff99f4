"""Nothing of anybody else's is touched: objects, fields, the spec.

What is foreign is told by who wrote it. A key (a label, an annotation, an entry
of the record's data, a condition) is the operator's business where the contract
says so, or where the operator itself has written it on that object.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from grader.conformance import contract
from grader.conformance.contract import (
    API_VERSION,
    DNS_NAMESPACE,
    FINALIZER,
    KIND,
    LABEL,
    LEASE_NAMESPACE,
    controller_of,
)
from grader.conformance.leaves import Leaf, leaves
from grader.verdict import Fail
from grader.witness import describe

if TYPE_CHECKING:
    from grader.conformance.past import Past

#: Seconds. Who was its owner so recently may still be taken for it.
_STALE = 3.0


def objects(past: Past) -> Iterator[Fail]:
    """Only Pods that a WebApp controls are deleted; only those and orphans with the label are
    changed; no other ConfigMap in ``dns`` than records; no WebApp is made or deleted."""
    yield from _deleted_pods(past)
    for change in past.changes:
        if change.exchange.resource == "pods" and change.before is not None:
            if not _may_change(change.before) and not _was_ours(
                past, change.uid, change.exchange.t
            ):
                yield _touched(change.exchange, change.before)
    for e in past.writes:
        if e.resource == "webapps" and not e.subresource and e.applied:
            if e.verb in ("create", "delete", "deletecollection"):
                yield Fail(
                    "WebApps are made and deleted by users alone.",
                    f"The operator sent {e.method} {e.path}.",
                    why="What users asked for is theirs: an operator brings it about, or says why "
                    "it cannot.",
                    next="Which step takes a WebApp for a child?",
                    diagnosis="made-or-deleted-a-webapp",
                    evidence=[describe(e)],
                )
    yield from _elsewhere(past)


def _deleted_pods(past: Past) -> Iterator[Fail]:
    for e, uid in past.deleted():
        if e.resource != "pods":
            continue
        states = past.states(uid=uid)
        # What it was when the DELETE came; later states only say that it went.
        before = [s for s in states if past.by(s) is not e and s.type != "DELETED"]
        if not before or _was_ours(past, uid, e.t_request):
            continue
        pod = before[-1].object
        owner = controller_of(pod)
        yield Fail(
            "Only Pods that a WebApp controls are deleted.",
            f"The operator deleted Pod {pod['metadata']['name']}, which "
            + (f"{owner['kind']} {owner['name']} controls." if owner else "has no controller."),
            why="A name may be another object's by the time a DELETE arrives: what is deleted "
            "cannot be brought back.",
            next="Send the UID that you decided on as a precondition of the DELETE; and adopt an "
            "orphan before you replace it.",
            diagnosis="deleted-foreign-pod",
            evidence=[describe(e)],
        )


def _is_ours(pod: dict) -> bool:
    owner = controller_of(pod) or {}
    return owner.get("kind") == KIND and owner.get("apiVersion") == API_VERSION


def _may_change(pod: dict) -> bool:
    orphan = controller_of(pod) is None and LABEL in (pod["metadata"].get("labels") or {})
    return orphan or _is_ours(pod)


def _was_ours(past: Past, uid: str, t: float) -> bool:
    """Whether a WebApp controlled the Pod when a request came, or a moment before it."""
    states = past.states(uid=uid)
    known = [s for s in states if s.seen <= t] or states[:1]
    if not past.blinded(t - _STALE, t):
        recent = [s for s in known if s.seen >= t - _STALE]
        known = [s for s in known if s.seen < t - _STALE][-1:] + recent
    return any(_is_ours(s.object) for s in known)


def _touched(e: Any, pod: dict) -> Fail:
    owner = controller_of(pod)
    return Fail(
        "A Pod that another controller owns, or that has neither the label nor this controller, is "
        "never touched.",
        f"The operator sent {e.method} {e.path} for a Pod that "
        + (f"{owner['kind']} {owner['name']} controls." if owner else "is nobody's concern here."),
        why="Whoever it belongs to relies on it.",
        next="Work on the Pods whose controller has the WebApp's UID, and adopt those that carry "
        "the label and have no controller.",
        diagnosis="touched-another-owners-pod",
        evidence=[describe(e)],
    )


def _elsewhere(past: Past) -> Iterator[Fail]:
    """Writes in namespaces where there never was a WebApp: they are no scenario's in particular,
    and the first that looks is failed for all that there are by then."""
    known = past.namespaces | past.elsewhere | {DNS_NAMESPACE, LEASE_NAMESPACE}
    found = []
    for said in past.said:
        for e in said.exchanges:
            if not e.applied or e.resource not in ("pods", "configmaps", "webapps"):
                continue
            stranger = e.namespace not in known and e.resource != "configmaps"
            unrecorded = e.namespace == DNS_NAMESPACE and not e.name.startswith("record-")
            mine = stranger or (unrecorded and e.verb != "create")
            if mine and (e.client, e.seq) not in past.charged:
                found.append(e)
    if found:
        past.charged |= {(e.client, e.seq) for e in found}
        yield Fail(
            "Objects that have nothing to do with a WebApp are left alone.",
            f"The operator sent {found[0].method} {found[0].path}.",
            why="Whoever it belongs to relies on it.",
            next="How did it come to be taken for a WebApp's?",
            diagnosis="touched-a-strangers-object",
            evidence=[describe(e) for e in found[:4]],
        )


def fields(past: Past, resource: str) -> Iterator[Fail]:
    """No key that somebody else put on an object of that kind is changed or removed."""
    changes = {
        id(change.exchange): change
        for change in past.changes
        if change.exchange.resource == resource
    }
    own: dict[str, set[Leaf]] = defaultdict(set)
    for state in past.states(resource=resource):
        e = past.by(state)
        change = changes.pop(id(e), None) if e is not None else None
        if change is not None:
            yield from _lost(change, own[state.uid])
    # Those that ended their object.
    for change in changes.values():
        yield from _lost(change, own[change.uid])


def _lost(change: Any, own: set[Leaf]) -> Iterator[Fail]:
    resource = change.exchange.resource
    after = dict(leaves(change.after))
    before = dict(leaves(change.before)) if change.before is not None else {}
    altered = [path for path in before if path not in after or after[path] != before[path]]
    foreign = [path for path in altered if path not in own and not _our_business(resource, path)]
    own |= {path for path in after if path not in before or after[path] != before[path]}
    if foreign:
        path = foreign[0]
        meta = change.after["metadata"]
        what = {"pods": "Pod", "configmaps": "the DNS record", "webapps": "WebApp"}[resource]
        yield Fail(
            "What others wrote on a Pod, a record or a WebApp stays as they wrote it.",
            f"On {what} {meta['name']}, the operator "
            + ("changed " if path in after else "removed ")
            + f"{'.'.join(path)}, which was {_short(before[path])}.",
            why="Labels, annotations, finalizers, references and conditions of others are how they "
            "do their work.",
            next="Change only the fields that are yours: a patch, server-side apply, or an "
            "update of the object as you read it.",
            diagnosis=_FIELD_NAMES.get(path[1] if len(path) > 1 else "", "stomped-foreign-fields"),
            evidence=[describe(change.exchange)],
        )


#: Where the field itself says what is wrong.
_FIELD_NAMES = {
    "finalizers": "removed-others-finalizer",
    "ownerReferences": "removed-others-reference",
    "conditions": "removed-others-condition",
}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _our_business(resource: str, path: Leaf) -> bool:
    """Whether the contract has the operator write this path, whoever wrote it last."""
    if resource == "webapps":
        return (
            path[:1] == ("spec",)  # That is another sentence.
            or path[:3] == ("metadata", "finalizers", FINALIZER)
            or path[:2]
            in (
                ("status", "observedGeneration"),
                ("status", "replicas"),
                ("status", "readyReplicas"),
            )
            or path[:3] == ("status", "conditions", "Ready")
        )
    if resource == "configmaps":
        return path in (("data", "host"), ("data", "owner"))
    return (
        path == ("metadata", "labels", LABEL)
        or (path[:2] == ("metadata", "ownerReferences") and path[-1:] == (KIND,))
        or (path[:2] == ("spec", "containers") and path[-1] == "image")
    )


def spec(past: Past) -> Iterator[Fail]:
    """No write of the operator changes a WebApp's spec."""
    for change in past.changes:
        if change.exchange.resource != "webapps" or change.before is None:
            continue
        if change.before["spec"] != change.after["spec"]:
            yield Fail(
                "The operator never writes a WebApp's spec.",
                f"It changed it from {change.before['spec']} to {change.after['spec']}.",
                why="The spec is what the user wants; an operator that edits it fights with "
                "whoever keeps it in Git.",
                next="Write the status to …/status, and nothing of the spec; a PUT carries the "
                "spec that you read, so send the resourceVersion with it.",
                diagnosis="wrote-the-spec",
                evidence=[describe(change.exchange)],
            )


def finalizers(past: Past) -> Iterator[Fail]:
    """At the end, no finalizer of the operator's but the one is on a WebApp that has converged."""
    added: dict[str, tuple[str, Any]] = {}
    for change in past.changes:
        if change.exchange.resource == "webapps" and change.before is not None:
            new = set(change.after["metadata"].get("finalizers", ())) - {FINALIZER}
            for one in new - set(change.before["metadata"].get("finalizers", ())):
                added[change.uid] = (one, change.exchange)
    for uid, (one, e) in added.items():
        last = past.states(uid=uid)[-1]
        there = one in last.object["metadata"].get("finalizers", ())
        if last.type != "DELETED" and there and contract.condition(last.object, "Ready"):
            yield Fail(
                f"The operator has one finalizer, {FINALIZER}.",
                f"It added {one} to WebApp {last.name} and left it there.",
                why="Whoever removes a WebApp by hand knows of the one that the contract names.",
                next="Use the contract's finalizer for all your cleanup.",
                diagnosis="another-finalizer",
                evidence=[describe(e)],
            )
