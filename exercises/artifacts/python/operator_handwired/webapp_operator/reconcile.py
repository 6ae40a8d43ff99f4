"""What is done for one WebApp.

A reconcile keeps nothing between two runs. All that it knows it reads from the
caches, and before it destroys anything, from the API server. Every write is
either named after what it makes, so that a second create is answered
AlreadyExists, or carries the UID or resourceVersion it was decided on, so that
a second one is answered Conflict or NotFound.

Concurrency: any number of threads may reconcile, each another key.
"""

from __future__ import annotations

import copy
from datetime import UTC, datetime

from machinery.api import ApiError
from machinery.client import Client
from machinery.objects import Object
from machinery.store import Store

from .pods import FAILURES, NotYet, Pods
from .types import (
    DNS_NAMESPACE,
    FINALIZER,
    RECORDS,
    WEBAPPS,
    is_ready,
    is_terminating,
    name_of,
    namespace_of,
    pod_image,
    record_name,
    uid_of,
    wanted_replicas,
)


class Reconciler:
    """``reconcile(key)`` returns when nothing is left to do for now, and raises to be called again."""

    def __init__(self, client: Client, webapps: Store, pods: Store, records: Store) -> None:
        self._client = client
        self._webapps = webapps
        self._records = records
        self._pods = Pods(client, pods)

    def reconcile(self, key: str) -> None:
        raise NotImplementedError("look the key up, and do what is missing")

    def _with_finalizer(self, cached: Object) -> Object:
        """The WebApp with our finalizer stored: before the record is made, or a delete loses it."""
        raise NotImplementedError("store the finalizer before anything needs it")

    def _finalize(self, cached: Object) -> None:
        """Remove the record, make sure that it is gone, and only then let the WebApp go."""
        raise NotImplementedError("remove the record, and then the finalizer")

    def _ensure_record(self, webapp: Object) -> None:
        raise NotImplementedError("make the record, or put it right")

    def _confirm_live(self, webapp: Object) -> None:
        """Raise NotYet unless the live WebApp is the one that was decided on."""
        live = self._client.get(WEBAPPS, name_of(webapp), namespace_of(webapp))
        same = (
            uid_of(live) == uid_of(webapp)
            and live["metadata"]["generation"] == webapp["metadata"]["generation"]
            and not is_terminating(live)
        )
        if not same:
            raise NotYet("the cached WebApp is older than the live one")

    def _write_status(self, webapp: Object, standing: list[Object], record_exists: bool) -> None:
        """Write the status if it changed.

        It speaks of the generation that everything before was decided on, so
        observedGeneration never runs ahead of the rest.
        """
        raise NotImplementedError("say what is, and write it if it changed")


def _with_condition(conditions: list[Object], wanted: Object) -> list[Object]:
    """The conditions with ``wanted`` in place of the one of its type.

    lastTransitionTime moves only when the status does.
    """
    before = next((c for c in conditions if c["type"] == wanted["type"]), None)
    if before is not None and before["status"] == wanted["status"]:
        since = before["lastTransitionTime"]
    else:
        since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    others = [c for c in conditions if c["type"] != wanted["type"]]
    return [*others, {**wanted, "lastTransitionTime": since}]
