"""The Pods of a WebApp: claim, keep, discard, create.

Pods live in numbered slots, named after the WebApp's UID. A create that was
already done, whether or not the cache has heard of it, is answered
AlreadyExists: so no stale cache can make too many.
"""

from __future__ import annotations

from collections.abc import Callable

from machinery.api import ApiError, Unreachable
from machinery.client import Client
from machinery.objects import Object
from machinery.store import Store

from .types import (
    API_VERSION,
    KIND,
    LABEL,
    PODS,
    controller_of,
    controller_reference,
    is_finished,
    is_ready,
    is_terminating,
    name_of,
    namespace_of,
    pod_image,
    uid_of,
    wanted_replicas,
)

BY_CONTROLLER = "controller"


def index_by_controller(pod: Object) -> list[str]:
    """The controller's UID, or ``namespace/label`` for a Pod that waits to be adopted."""
    owner = controller_of(pod)
    if owner is not None:
        return [owner["uid"]]
    label = (pod["metadata"].get("labels") or {}).get(LABEL)
    return [f"{namespace_of(pod)}/{label}"] if label else []


class NotYet(Exception):
    """What is wanted cannot be done yet, and no event may tell when: try again later."""


#: What a step may raise that does not keep the other steps from being tried.
FAILURES = (ApiError, Unreachable, NotYet)


class Pods:
    """Brings the Pods of one WebApp at a time to what its spec says."""

    def __init__(self, client: Client, pods: Store) -> None:
        self._client = client
        self._pods = pods

    def ensure(
        self, webapp: Object, confirm_live: Callable[[Object], None]
    ) -> tuple[list[Object], list[Exception]]:
        """The Pods that stand, and what went wrong on the way.

        ``confirm_live`` raises when the WebApp is not what the cache says: a
        delete cannot be taken back, so none is decided on a stale spec.
        """
        # phase4:solution 4.3.2
        failures: list[Exception] = []
        owned = self._claim(webapp, confirm_live, failures)
        terminating = {name_of(pod) for pod in owned if is_terminating(pod)}
        keep, discard = [], []
        for pod in owned:
            if is_terminating(pod):
                continue
            current = not is_finished(pod) and pod_image(pod) == webapp["spec"]["image"]
            (keep if current else discard).append(pod)
        wanted = wanted_replicas(webapp)
        # Too many: the ones that are of least use go first.
        keep.sort(key=lambda pod: (not is_ready(pod), len(name_of(pod)), name_of(pod)))
        discard += keep[wanted:]
        keep = keep[:wanted]
        if discard:
            try:
                confirm_live(webapp)
            except FAILURES as error:
                return keep + _unfinished(discard), [*failures, error]
        left: list[Object] = []
        for pod in discard:
            try:
                # The name may be someone else's by now; the UID never is.
                self._client.delete(PODS, name_of(pod), namespace_of(pod), uid=uid_of(pod))
            except FAILURES as error:
                # Gone already is what we wanted. A Conflict is looked at again: the name
                # may be another Pod's by now.
                if not isinstance(error, ApiError) or not error.is_not_found:
                    failures.append(error)
                    left.append(pod)  # It stands, and the status says so.
            terminating.add(name_of(pod))
        self._fill(webapp, keep, terminating, failures)
        return keep + _unfinished(left), failures
        # phase4:stub
        # raise NotImplementedError("keep, discard, create")
        # phase4:end

    def _fill(
        self, webapp: Object, keep: list[Object], terminating: set[str], failures: list[Exception]
    ) -> None:
        """Create what is missing, in the first free slots.

        A slot whose Pod is still on its way out is waited for (its DELETED
        event comes), never worked around.
        """
        # phase4:solution 4.3.2
        wanted = wanted_replicas(webapp)
        missing = wanted - len(keep)
        taken = terminating | {name_of(pod) for pod in keep}
        for slot in range(wanted):
            if missing <= 0:
                return
            name = pod_name(webapp, slot)
            if name in taken:
                continue
            missing -= 1
            try:
                self._client.create(PODS, new_pod(webapp, name), namespace_of(webapp))
            except FAILURES as error:
                if isinstance(error, ApiError) and error.is_already_exists:
                    self._inspect(webapp, name, failures)
                    continue
                # Where the namespace is on its way out nothing more can be made, and
                # the WebApp will be deleted as well: no failure, and no retry.
                if not isinstance(error, ApiError) or "NamespaceTerminating" not in error.causes:
                    failures.append(error)
                return  # The next create would most likely fail alike; the retry backs off.
        # phase4:stub
        # raise NotImplementedError("create what is missing")
        # phase4:end

    def _inspect(self, webapp: Object, name: str, failures: list[Exception]) -> None:
        """What stands in a slot that the cache believes free: ours, or something in the way?"""
        try:
            pod = self._client.get(PODS, name, namespace_of(webapp))
        except FAILURES as error:
            failures.append(error)
            return
        if (controller_of(pod) or {}).get("uid") != uid_of(webapp) or is_terminating(pod):
            failures.append(NotYet(f"Pod {name} is not ours, or is on its way out"))

    def _claim(
        self, webapp: Object, confirm_live: Callable[[Object], None], failures: list[Exception]
    ) -> list[Object]:
        """The Pods that this WebApp controls, with those that wait for adoption adopted."""
        # phase4:solution 4.3.2
        claimed = [
            pod
            for pod in self._pods.by_index(BY_CONTROLLER, uid_of(webapp))
            if namespace_of(pod) == namespace_of(webapp)
        ]
        for pod in claimed:
            labels = pod["metadata"].get("labels") or {}
            if labels.get(LABEL) != name_of(webapp) and not is_terminating(pod):
                self._patch(pod, {"labels": {LABEL: name_of(webapp)}}, failures)
        orphans = self._pods.by_index(BY_CONTROLLER, f"{namespace_of(webapp)}/{name_of(webapp)}")
        orphans = [pod for pod in orphans if not is_terminating(pod)]
        if orphans:
            try:
                # Adopting for an owner that is gone would hand the Pod to the garbage collector.
                confirm_live(webapp)
            except FAILURES as error:
                failures.append(error)
                orphans = []
        for pod in orphans:
            owners = pod["metadata"].get("ownerReferences") or []
            change = {
                "ownerReferences": [*owners, controller_reference(webapp)],
                # A merge patch replaces a list whole: nobody's reference may be lost.
                "resourceVersion": pod["metadata"]["resourceVersion"],
            }
            if self._patch(pod, change, failures):
                claimed.append(pod)
        return sorted(claimed, key=name_of)
        # phase4:stub
        # raise NotImplementedError("which Pods are this WebApp's?")
        # phase4:end

    def _patch(self, pod: Object, metadata: Object, failures: list[Exception]) -> bool:
        """Change this metadata of that very Pod, and nothing else."""
        patch = {"metadata": {"uid": uid_of(pod), **metadata}}
        try:
            self._client.patch(PODS, name_of(pod), patch, namespace=namespace_of(pod))
            return True
        except FAILURES as error:
            if not isinstance(error, ApiError) or not error.is_not_found:
                failures.append(error)
        return False


# phase4:solution 4.3.2
def _unfinished(pods: list[Object]) -> list[Object]:
    """Those that have not finished: the others stand for nothing, deleted or not."""
    return [pod for pod in pods if not is_finished(pod)]


# phase4:end
def webapp_of(pod: Object) -> str | None:
    """The key of the WebApp that a Pod belongs to, or asks to be adopted by."""
    # phase4:solution 4.3.2
    owner = controller_of(pod)
    if owner is None:
        name = (pod["metadata"].get("labels") or {}).get(LABEL)
    elif owner["kind"] == KIND and owner["apiVersion"] == API_VERSION:
        name = owner["name"]
    else:
        name = None
    return f"{namespace_of(pod)}/{name}" if name else None
    # phase4:stub
    # return None  # which WebApp must hear of this Pod?
    # phase4:end


def pod_name(webapp: Object, slot: int) -> str:
    """NAME-UUUUUUUU-SLOT.

    A WebApp that is made again under the same name has another UID, and never
    waits for the Pods of the one before. The name of a WebApp has at most 63
    characters, that of a Pod may have 253.
    """
    return f"{name_of(webapp)}-{uid_of(webapp)[:8]}-{slot}"


def new_pod(webapp: Object, name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace_of(webapp),
            "labels": {LABEL: name_of(webapp)},
            "ownerReferences": [controller_reference(webapp)],
        },
        "spec": {"containers": [{"name": "web", "image": webapp["spec"]["image"]}]},
    }
