"""The model: what must be so at rest, and what may be, after all that was done.

It is told what the hand does (:class:`Model`), looks at what the API server stores
(:class:`View`), and says where they differ. It knows no cluster and waits for nothing. The
contract is :mod:`grader.conformance.contract`'s; here is what it means while states are held:
Pods that are kept from going, that do not become Ready, names that somebody else took.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from grader.conformance.contract import (
    FINALIZER,
    LABEL,
    condition,
    controller_of,
    images,
    is_finished,
    is_ready,
    is_terminating,
    wanted,
)

#: The image that no Pod becomes Ready with.
NEVER_READY = "phase4.example.com/never-ready"
#: The finalizer with which a state is held.
HELD = "example.com/hold"


@dataclass(frozen=True)
class Difference:
    """One sentence on what is not as it must be.

    ``final`` says that no waiting can mend it; ``cluster`` that it is not the
    operator's doing: Pods that the cluster has not made Ready or taken away yet. ``lost`` is
    the UID of somebody else's Pod that is gone: who deleted it only the wire tells.
    """

    text: str
    final: bool = False
    cluster: bool = False
    lost: str = ""


@dataclass
class View:
    """What the API server stores of a walk: WebApps and records by name, and every Pod."""

    webapps: dict[str, dict] = field(default_factory=dict)
    pods: list[dict] = field(default_factory=list)
    records: dict[str, dict] = field(default_factory=dict)

    def controlled(self, uid: str) -> list[dict]:
        """The Pods that a WebApp controls, in whatever state."""
        return [pod for pod in self.pods if (controller_of(pod) or {}).get("uid") == uid]


@dataclass(frozen=True)
class Mark:
    """Something that is somebody else's on an object: it stays as long as the object does.

    ``place`` is labels, annotations, data, finalizers, ownerReferences or conditions; ``key``
    a key, a finalizer, an owner's UID or a condition's type.
    """

    resource: str
    uid: str
    place: str
    key: str
    value: str = ""

    def is_on(self, obj: dict) -> bool:
        meta = obj["metadata"]
        if self.place in ("labels", "annotations"):
            return (meta.get(self.place) or {}).get(self.key) == self.value
        if self.place == "data":
            return (obj.get("data") or {}).get(self.key) == self.value
        if self.place == "finalizers":
            return self.key in (meta.get("finalizers") or ())
        if self.place == "ownerReferences":
            return any(one["uid"] == self.key for one in meta.get("ownerReferences") or ())
        return condition(obj, self.key).get("status") == self.value


@dataclass
class Model:
    """What was done so far, as far as it bears on what must be."""

    #: The WebApp of each name that must be there: UID, and spec as we wrote it.
    uids: dict[str, str] = field(default_factory=dict)
    specs: dict[str, dict] = field(default_factory=dict)
    #: UID to name of the WebApps that were deleted.
    deleted: dict[str, str] = field(default_factory=dict)
    #: UID to Pod as its owner left it: nobody of ours may touch it.
    foreign: dict[str, dict] = field(default_factory=dict)
    marks: set[Mark] = field(default_factory=set)
    #: UIDs of Pods that were told not to be Ready.
    unready: set[str] = field(default_factory=set)
    #: UID of somebody else's Pod to the WebApp a Pod of which had its name.
    squatters: dict[str, str] = field(default_factory=dict)

    # -- what the hand says that it did -----------------------------------------------

    def created(self, app: dict) -> None:
        name = app["metadata"]["name"]
        self.uids[name], self.specs[name] = app["metadata"]["uid"], dict(app["spec"])

    def changed(self, app: dict) -> None:
        self.specs[app["metadata"]["name"]] = dict(app["spec"])

    def removed(self, name: str) -> None:
        self.deleted[self.uids.pop(name)] = name
        self.specs.pop(name, None)

    def marked(self, resource: str, obj: dict, place: str, key: str, value: str = "") -> None:
        self.marks.add(Mark(resource, obj["metadata"]["uid"], place, key, value))

    def released(self, uid: str) -> None:
        """Nobody's finalizers are on that object any more."""
        self.marks = {m for m in self.marks if m.uid != uid or m.place != "finalizers"}

    def squats(self, pod: dict, app: str) -> None:
        """Somebody else's Pod stands under a name that a Pod of the WebApp had."""
        self.theirs(pod)
        self.squatters[pod["metadata"]["uid"]] = app

    def theirs(self, pod: dict) -> None:
        """That Pod is somebody else's, as it is now."""
        uid = pod["metadata"]["uid"]
        self.foreign[uid] = pod
        # What was foreign on it while it was ours, is now part of the whole.
        self.marks = {mark for mark in self.marks if mark.uid != uid}

    def not_there(self, uid: str) -> None:
        """Its owner deleted somebody else's Pod."""
        self.foreign.pop(uid, None)
        self.squatters.pop(uid, None)

    def held(self, uid: str) -> bool:
        """Whether somebody's finalizer keeps the object."""
        return any(mark.uid == uid and mark.place == "finalizers" for mark in self.marks)

    # -- what must be -----------------------------------------------------------------

    def differences(self, view: View, hindered: frozenset[str] = frozenset()) -> list[Difference]:
        """Where the stored objects are not as they must be at rest, from cause to effect.

        ``hindered`` is what a fault in force keeps from being done: ``pods`` or ``record``.
        What is then not there is no difference; a status that claims it is.
        """
        found = [*self._others(view), *self._marks(view)]
        for name, uid in self.uids.items():
            app = view.webapps.get(name)
            if app is None or app["metadata"]["uid"] != uid:
                found.append(Difference(f"WebApp {name} is gone. Nobody deleted it.", final=True))
            elif is_terminating(app):
                found.append(
                    Difference(f"WebApp {name} is being deleted. Nobody deleted it.", True)
                )
            else:
                found += self._stands(app, view, hindered)
        for uid, name in self.deleted.items():
            found += self._goes(uid, name, view, hindered)
        return found

    def _others(self, view: View) -> Iterator[Difference]:
        live = {pod["metadata"]["uid"]: pod for pod in view.pods}
        for uid, left in self.foreign.items():
            name = left["metadata"]["name"]
            pod = live.get(uid)
            if pod is None or is_terminating(pod):
                text = f"Pod {name}, which is somebody else's, was deleted."
                yield Difference(text, final=True, lost=uid)
                continue
            for what in ("labels", "ownerReferences", "finalizers", "annotations"):
                before, now = (one["metadata"].get(what) or None for one in (left, pod))
                if before != now:
                    yield Difference(
                        f"Pod {name}, which is somebody else's, has other {what}: {now}.", True
                    )
            if left["spec"]["containers"][0]["image"] not in images(pod):
                yield Difference(f"Pod {name}, which is somebody else's, has another image.", True)

    def _marks(self, view: View) -> Iterator[Difference]:
        objects: dict[str, dict] = {
            obj["metadata"]["uid"]: obj
            for some in (view.webapps.values(), view.pods, view.records.values())
            for obj in some
        }
        for mark in sorted(self.marks, key=lambda m: (m.resource, m.uid, m.place, m.key)):
            obj = objects.get(mark.uid)
            if obj is None:
                # Without its finalizers an object may go whenever its owner likes.
                if mark.place == "finalizers":
                    yield Difference(
                        f"A {mark.resource} is gone although {mark.key} was among its finalizers.",
                        final=True,
                    )
            elif not mark.is_on(obj):
                where = f"{mark.resource} {obj['metadata']['name']}"
                what = f"{mark.key}={mark.value}" if mark.value else mark.key
                what = "An owner" if mark.place == "ownerReferences" else what
                yield Difference(
                    f"{what}, which somebody else put into the {mark.place} of {where}, is gone.",
                    final=True,
                )

    def _stands(self, app: dict, view: View, hindered: frozenset[str]) -> Iterator[Difference]:
        meta, spec = app["metadata"], app["spec"]
        name, uid = meta["name"], meta["uid"]
        if spec != self.specs[name]:
            yield Difference(
                f"The spec of WebApp {name} is {spec}; its user wrote {self.specs[name]}.", True
            )
        if FINALIZER not in (meta.get("finalizers") or ()) and "webapps" not in hindered:
            yield Difference(f"WebApp {name} does not have the finalizer {FINALIZER}.")
        own = [
            one
            for one in meta.get("finalizers") or ()
            if one != FINALIZER and not self._is_marked(uid, "finalizers", one)
        ]
        if own:
            yield Difference(f"WebApp {name} has the finalizers {own}, which nobody needs.")
        record = view.records.get(f"record-{uid}")
        off = list(self._record(app, record))
        record_right = record is not None and not is_terminating(record) and not off
        if "record" not in hindered:
            yield from off
        pods = view.controlled(uid)
        active = [pod for pod in pods if not is_terminating(pod) and not is_finished(pod)]
        right = yield from self._pods(app, pods, active, view, "pods" in hindered)
        if "status" not in hindered:
            yield from self._status(app, active, right and record_right, bool(hindered))

    def _is_marked(self, uid: str, place: str, key: str) -> bool:
        return any((m.uid, m.place, m.key) == (uid, place, key) for m in self.marks)

    def _record(self, app: dict, record: dict | None) -> Iterator[Difference]:
        meta = app["metadata"]
        if record is None:
            yield Difference(f"The DNS record of {meta['name']} does not exist.")
            return
        if is_terminating(record):
            # Where somebody holds it, it is waited for.
            if not self.held(record["metadata"]["uid"]):
                yield Difference(f"The DNS record of {meta['name']} is being deleted.")
            return
        data = record.get("data") or {}
        right = {"host": app["spec"]["host"], "owner": f"{meta['namespace']}/{meta['name']}"}
        for key, value in right.items():
            if data.get(key) != value:
                yield Difference(
                    f"The DNS record of {meta['name']} says {key}={data.get(key)!r} instead of "
                    f"{value!r}."
                )

    def _pods(self, app: dict, pods: list, active: list, view: View, hindered: bool) -> Any:
        """The differences of a WebApp's Pods; returns whether all that is wanted is there."""
        name, want, image = app["metadata"]["name"], wanted(app), app["spec"]["image"]
        found: list[Difference] = []
        excused = 0
        names = {pod["metadata"]["name"] for pod in pods}
        for pod in pods:
            pod_name = pod["metadata"]["name"]
            if is_terminating(pod):
                excused += self.held(pod["metadata"]["uid"])
                if not self.held(pod["metadata"]["uid"]):
                    found.append(Difference(f"Pod {pod_name} is still terminating.", cluster=True))
            elif is_finished(pod):
                phase = pod["status"]["phase"]
                found.append(Difference(f"Pod {pod_name} has finished ({phase}) and still exists."))
        # Under a name that a Pod of its had, somebody else's may stand: that one is waited for.
        excused += sum(
            app_name == name and self.foreign[uid]["metadata"]["name"] not in names
            for uid, app_name in self.squatters.items()
        )
        fewest = max(0, want - excused)
        if not fewest <= len(active) <= want:
            found.append(
                Difference(f"There are {len(active)} active Pods of {name} instead of {want}.")
            )
        for pod in active:
            found += self._pod(app, pod)
        for pod in view.pods:
            label = (pod["metadata"].get("labels") or {}).get(LABEL)
            if label == name and controller_of(pod) is None and not is_terminating(pod):
                found.append(
                    Difference(
                        f"Pod {pod['metadata']['name']} carries the label of {name}, has no "
                        "controller and was not adopted."
                    )
                )
        # How far a rollout goes whose Pods do not become Ready is left open.
        if not hindered and image != NEVER_READY:
            yield from found
        return len(active) == want and all(is_ready(pod) and image in images(pod) for pod in active)

    def _pod(self, app: dict, pod: dict) -> Iterator[Difference]:
        name, meta = app["metadata"]["name"], pod["metadata"]
        label = (meta.get("labels") or {}).get(LABEL)
        if label != name:
            yield Difference(f"Pod {meta['name']} of {name} has the label {LABEL}={label!r}.")
        if app["spec"]["image"] not in images(pod):
            yield Difference(
                f"Pod {meta['name']} runs {', '.join(images(pod))} instead of "
                f"{app['spec']['image']}."
            )
        if not (controller_of(pod) or {}).get("blockOwnerDeletion"):
            yield Difference(
                f"The owner reference of Pod {meta['name']} does not set blockOwnerDeletion."
            )
        if not is_ready(pod) and meta["uid"] not in self.unready:
            yield Difference(f"Pod {meta['name']} is not Ready.", cluster=True)

    def _status(self, app: dict, active: list, right: bool, hindered: bool) -> Iterator[Difference]:
        name, status = app["metadata"]["name"], app.get("status") or {}
        generation, ready = app["metadata"]["generation"], sum(map(is_ready, active))
        says = condition(app, "Ready").get("status", "missing")
        if status.get("observedGeneration") != generation and not hindered:
            yield Difference(
                f"status.observedGeneration of {name} is {status.get('observedGeneration')}, its "
                f"generation {generation}."
            )
        for key, true in (("replicas", len(active)), ("readyReplicas", ready)):
            if status.get(key, 0) != true:
                what = "active Pods" if key == "replicas" else "Ready Pods"
                yield Difference(
                    f"status.{key} of {name} is {status.get(key)}, there are {true} {what}."
                )
        if says == "True" and not right:
            yield Difference(f"The condition Ready of {name} is True, and it is not so.")
        if says != "True" and right and not hindered:
            yield Difference(
                f"The condition Ready of {name} is {says}, and all that it wants is there."
            )

    def _goes(
        self, uid: str, name: str, view: View, hindered: frozenset[str]
    ) -> Iterator[Difference]:
        app = view.webapps.get(name)
        if app is not None and app["metadata"]["uid"] != uid:
            app = None
        record = view.records.get(f"record-{uid}")
        held_record = record is not None and self.held(record["metadata"]["uid"])
        finalizers = (app or {"metadata": {}})["metadata"].get("finalizers") or ()
        if record is not None and app is None:
            yield Difference(f"WebApp {name} is gone, and its DNS record is still there.")
        if held_record:
            if app is not None and FINALIZER not in finalizers:
                yield Difference(
                    f"WebApp {name} has lost its finalizer, and its DNS record is still there."
                )
            return
        if "record" in hindered or "webapps" in hindered:
            return
        if record is not None:
            yield Difference(f"WebApp {name} was deleted, and its DNS record is still there.")
        if FINALIZER in finalizers:
            yield Difference(f"WebApp {name} was deleted, and still has the finalizer {FINALIZER}.")
        elif app is not None and not self.held(uid):
            yield Difference(f"WebApp {name} was deleted, and is still there: {finalizers}.")
        if app is None:
            for pod in view.controlled(uid):
                if not self.held(pod["metadata"]["uid"]):
                    text = f"Pod {pod['metadata']['name']} of {name}, which is gone, still exists."
                    yield Difference(text, cluster=True)
