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
        # phase4:solution 4.3.2
        cached = self._webapps.get(key)
        if cached is None:
            # The finalizer saw to the record; the garbage collector sees to the Pods.
            return
        if is_terminating(cached):
            self._finalize(cached)
            return
        webapp = self._with_finalizer(cached)
        failures: list[Exception] = []
        try:
            self._ensure_record(webapp)
            record_exists = True
        except FAILURES as error:
            failures.append(error)  # raised when the status has been written
            record_exists = False
        standing, pod_failures = self._pods.ensure(webapp, self._confirm_live)
        failures += pod_failures
        # After an error too: the status says what is, not what was tried.
        self._write_status(webapp, standing, record_exists)
        if failures:
            raise failures[0]
        # phase4:stub
        # raise NotImplementedError("look the key up, and do what is missing")
        # phase4:end

    def _with_finalizer(self, cached: Object) -> Object:
        """The WebApp with our finalizer stored: before the record is made, or a delete loses it."""
        # phase4:solution 4.3.2
        if FINALIZER in cached["metadata"].get("finalizers", ()):
            return cached
        webapp = copy.deepcopy(cached)
        webapp["metadata"].setdefault("finalizers", []).append(FINALIZER)
        return self._client.update(WEBAPPS, webapp)
        # phase4:stub
        # raise NotImplementedError("store the finalizer before anything needs it")
        # phase4:end

    def _finalize(self, cached: Object) -> None:
        """Remove the record, make sure that it is gone, and only then let the WebApp go."""
        # phase4:solution 4.3.2
        finalizers = cached["metadata"].get("finalizers", [])
        if FINALIZER not in finalizers:
            return  # Others' finalizers are theirs to remove.
        name = record_name(cached)
        try:
            self._client.delete(RECORDS, name, DNS_NAMESPACE)
        except ApiError as error:
            if not error.is_not_found:
                raise
        # A DELETE that was accepted is not yet an object that is gone: the record
        # may have finalizers of its own. The cache may lag, so ask the server.
        try:
            self._client.get(RECORDS, name, DNS_NAMESPACE)
        except ApiError as error:
            if not error.is_not_found:
                raise
        else:
            raise NotYet(f"the DNS record {name} is still there")
        webapp = copy.deepcopy(cached)
        webapp["metadata"]["finalizers"] = [f for f in finalizers if f != FINALIZER]
        try:
            self._client.update(WEBAPPS, webapp)
        except ApiError as error:
            if not error.is_not_found:
                raise
        # phase4:stub
        # raise NotImplementedError("remove the record, and then the finalizer")
        # phase4:end

    def _ensure_record(self, webapp: Object) -> None:
        # phase4:solution 4.3.2
        name = record_name(webapp)
        wanted = {
            "host": webapp["spec"]["host"],
            "owner": f"{namespace_of(webapp)}/{name_of(webapp)}",
        }
        record = self._records.get(f"{DNS_NAMESPACE}/{name}")
        if record is None:
            made = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": DNS_NAMESPACE},
                "data": wanted,
            }
            try:
                self._client.create(RECORDS, made, DNS_NAMESPACE)
                return
            except ApiError as error:
                if not error.is_already_exists:
                    raise
            # Ours, from a run whose answer or event has not reached us.
            record = self._client.get(RECORDS, name, DNS_NAMESPACE)
        if is_terminating(record):
            raise NotYet(f"the DNS record {name} is being deleted")
        # Two keys are ours: the rest of the data is whoever put it there.
        data = {**(record.get("data") or {}), **wanted}
        if data != record.get("data"):
            self._client.update(RECORDS, {**record, "data": data})
        # phase4:stub
        # raise NotImplementedError("make the record, or put it right")
        # phase4:end

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
        # phase4:solution 4.3.2
        before = webapp.get("status") or {}
        generation, wanted = webapp["metadata"]["generation"], wanted_replicas(webapp)
        ready = [pod for pod in standing if is_ready(pod)]
        current = sum(pod_image(pod) == webapp["spec"]["image"] for pod in ready)
        if not record_exists:
            truth, reason, message = "False", "RecordMissing", "The DNS record does not exist yet."
        elif current < wanted:
            truth, reason = "False", "PodsNotReady"
            message = f"{current} of {wanted} Pods are Ready with the wanted image."
        elif len(standing) > wanted:
            truth, reason = "False", "TooManyPods"
            message = f"{len(standing)} Pods exist, {wanted} are wanted."
        else:
            truth, reason = "True", "Available"
            message = f"{current} of {wanted} Pods are Ready and the DNS record exists."
        condition = {
            "type": "Ready",
            "status": truth,
            "reason": reason,
            "message": message,
            "observedGeneration": generation,
        }
        status = {
            **before,
            "observedGeneration": generation,
            "replicas": len(standing),
            "readyReplicas": len(ready),
            "conditions": _with_condition(before.get("conditions") or [], condition),
        }
        if status != before:
            self._client.update(WEBAPPS, {**webapp, "status": status}, "status")
        # phase4:stub
        # raise NotImplementedError("say what is, and write it if it changed")
        # phase4:end


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
