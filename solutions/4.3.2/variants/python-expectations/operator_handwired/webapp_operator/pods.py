"""The Pods of a WebApp: claim, keep, discard, create, with generated names.

A second create under a generated name makes a second Pod, so what has been made
and is not in the cache yet is remembered: the expectations. They are lost with
the process, which loses nothing: a new process lists before it does anything.
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
        #: UID of a WebApp → UID of a Pod made for it → the Pod as the server answered. A WebApp
        #: is one key, and one worker at a time has it: no lock is needed.
        self._expected: dict[str, dict[str, Object]] = {}

    def ensure(
        self, webapp: Object, confirm_live: Callable[[Object], None]
    ) -> tuple[list[Object], list[Exception]]:
        """The Pods that stand, and what went wrong on the way.

        ``confirm_live`` raises when the WebApp is not what the cache says: a
        delete cannot be taken back, so none is decided on a stale spec.
        """
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
                return keep + discard, [*failures, error]
        for pod in discard:
            try:
                # The name may be someone else's by now; the UID never is.
                self._client.delete(PODS, name_of(pod), namespace_of(pod), uid=uid_of(pod))
            except FAILURES as error:
                # Gone already is what we wanted. A Conflict is looked at again: the name
                # may be another Pod's by now.
                if not isinstance(error, ApiError) or not error.is_not_found:
                    failures.append(error)
            terminating.add(name_of(pod))
        self._fill(webapp, keep, terminating, failures)
        return keep, failures

    def _fill(
        self, webapp: Object, keep: list[Object], terminating: set[str], failures: list[Exception]
    ) -> None:
        """Create what is missing, once what is on its way out has gone."""
        if terminating:
            return
        for _ in range(wanted_replicas(webapp) - len(keep)):
            try:
                pod = self._client.create(PODS, new_pod(webapp), namespace_of(webapp))
            except FAILURES as error:
                # Where the namespace is on its way out nothing more can be made, and
                # the WebApp will be deleted as well: no failure, and no retry.
                if not isinstance(error, ApiError) or "NamespaceTerminating" not in error.causes:
                    failures.append(error)
                return  # The next create would most likely fail alike; the retry backs off.
            self._expected.setdefault(uid_of(webapp), {})[uid_of(pod)] = pod
            keep.append(pod)

    def _awaited(self, webapp: Object, seen: set[str], failures: list[Exception]) -> list[Object]:
        """The Pods that were made and that the cache has not shown yet.

        One that was deleted before its first event is never shown: the server is asked.
        """
        awaited = self._expected.get(uid_of(webapp), {})
        for uid in list(awaited):
            if uid in seen:
                del awaited[uid]
                continue
            try:
                live = self._client.get(PODS, name_of(awaited[uid]), namespace_of(webapp))
                awaited[uid] = live
            except FAILURES as error:
                if isinstance(error, ApiError) and error.is_not_found:
                    del awaited[uid]
                else:
                    failures.append(error)
        if not awaited:
            self._expected.pop(uid_of(webapp), None)
        return list(awaited.values())

    def _claim(
        self, webapp: Object, confirm_live: Callable[[Object], None], failures: list[Exception]
    ) -> list[Object]:
        """The Pods that this WebApp controls, with those that wait for adoption adopted."""
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
        seen = {uid_of(pod) for pod in claimed}
        return sorted([*claimed, *self._awaited(webapp, seen, failures)], key=name_of)

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


def webapp_of(pod: Object) -> str | None:
    """The key of the WebApp that a Pod belongs to, or asks to be adopted by."""
    owner = controller_of(pod)
    if owner is None:
        name = (pod["metadata"].get("labels") or {}).get(LABEL)
    elif owner["kind"] == KIND and owner["apiVersion"] == API_VERSION:
        name = owner["name"]
    else:
        name = None
    return f"{namespace_of(pod)}/{name}" if name else None


def new_pod(webapp: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": name_of(webapp)[:240] + "-",
            "namespace": namespace_of(webapp),
            "labels": {LABEL: name_of(webapp)},
            "ownerReferences": [controller_reference(webapp)],
        },
        "spec": {"containers": [{"name": "web", "image": webapp["spec"]["image"]}]},
    }
