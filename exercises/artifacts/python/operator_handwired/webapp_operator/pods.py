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
        raise NotImplementedError("keep, discard, create")

    def _fill(
        self, webapp: Object, keep: list[Object], terminating: set[str], failures: list[Exception]
    ) -> None:
        """Create what is missing, in the first free slots.

        A slot whose Pod is still on its way out is waited for (its DELETED
        event comes), never worked around.
        """
        raise NotImplementedError("create what is missing")

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
        raise NotImplementedError("which Pods are this WebApp's?")

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
    return None  # which WebApp must hear of this Pod?


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
