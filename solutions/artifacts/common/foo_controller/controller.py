"""For every Foo, one Deployment that runs it: what sample-controller does, in Python.

It is to ``machinery`` what sample-controller is to client-go: what all controllers
have in common is imported, and what is left is about Foos.

    API server --list + watch--> Source --> reflector --> Deltas --> informer
    informer --writes--> Cache, and only then --calls--> handlers
    handlers --keys--> work queue --keys--> worker --reads--> Cache
    worker --writes--> API server, and round again

It is safe to kill at any line: only keys are queued, and ``sync`` compares what should
be with what is; it writes the fields it owns and no others. ``Source``, ``Deltas`` and
``Cache`` are where a Foo goes from one stage to the next: lab 4.1.4 has them speak.

Run it where ``machinery`` is, with ``--kubeconfig FILE`` or ``KUBECONFIG``.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from machinery.api import ApiError, ListOptions, Page, Resource, WatchEvent, WatchStream
from machinery.client import Client, ResourceClient, client_for
from machinery.delaying import RateLimitingQueue
from machinery.informer import SharedInformer
from machinery.listener import Handler
from machinery.objects import (
    DeletedFinalStateUnknown,
    Object,
    key_of,
    key_of_deleted,
    last_known_state,
    resource_version,
    split_key,
    uid,
)
from machinery.rate_limiters import ItemExponentialFailureRateLimiter
from machinery.real_fifo import RealFIFO
from machinery.store import Store
from machinery.workqueue import ShutDown

FOOS = Resource("samplecontroller.k8s.io", "v1alpha1", "foos")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
#: The name under which managedFields records what this controller owns.
FIELD_MANAGER = "foo-controller"

log = logging.getLogger(FIELD_MANAGER)
_stdout = threading.Lock()


def emit(stage: str, key: str, obj: Object | None = None, **more: Any) -> None:
    """Print one line about a Foo on stdout, at once and whole, whichever thread calls it.

    It has the object's resourceVersion, where one is at hand, and what is in ``more``.
    """
    line = {"stage": stage, "key": key}
    if obj is not None:
        line["resourceVersion"] = resource_version(obj)
    with _stdout:
        sys.stdout.write(json.dumps(line | more) + "\n")
        sys.stdout.flush()


class Source(ResourceClient):
    """What the reflector calls: what these return is all it ever sees of the API server."""

    def list(self, options: ListOptions) -> Page:
        page = super().list(options)
        # phase4:solution 4.1.4
        for foo in page.items:
            emit("reflector", key_of(foo), foo)
        # phase4:stub
        # phase4:end
        return page

    def watch(self, options: ListOptions) -> WatchStream:
        return Events(super().watch(options))


class Events:
    """An open watch, event by event as the reflector takes them; bookmarks and errors as well."""

    def __init__(self, stream: WatchStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[WatchEvent]:
        for event in self._stream:
            # phase4:solution 4.1.4
            if event.type in ("ADDED", "MODIFIED", "DELETED"):
                emit("reflector", key_of(event.object), event.object)
            # phase4:stub
            # phase4:end
            yield event

    def close(self) -> None:
        self._stream.close()


class Deltas(RealFIFO):
    """The delta queue, filled by the reflector. A method declared here replaces RealFIFO's own:
    ``add``, ``update``, ``delete``, and ``replace`` for a whole list.
    """

    # phase4:solution 4.1.4
    def add(self, obj: Object) -> None:
        emit("queue", key_of(obj), obj)
        super().add(obj)

    def update(self, obj: Object) -> None:
        emit("queue", key_of(obj), obj)
        super().update(obj)

    def delete(self, obj: Object) -> None:
        emit("queue", key_of(obj), obj)
        super().delete(obj)

    def replace(self, objs: list[Object], resource_version: str = "") -> None:
        for obj in objs:
            emit("queue", key_of(obj), obj)
        super().replace(objs, resource_version)

    # phase4:stub
    # phase4:end


class Cache(Store):
    """The indexer, written by the informer. A method declared here replaces Store's own:
    ``add`` for what is new or changed, ``delete``, and ``replace`` for a whole list.
    """

    # phase4:solution 4.1.4
    def add(self, obj: Object) -> None:
        super().add(obj)
        emit("indexer", key_of(obj), obj)

    def delete(self, obj: Object | DeletedFinalStateUnknown) -> None:
        super().delete(obj)
        emit("indexer", key_of_deleted(obj), last_known_state(obj))

    def replace(self, objs: list[Object], resource_version: str = "") -> None:
        before = self.list()
        super().replace(objs, resource_version)
        gone = [old for old in before if self.get(key_of(old)) is None]
        for obj in [*gone, *objs]:
            emit("indexer", key_of(obj), obj)

    # phase4:stub
    # phase4:end


class Each(Handler):
    """Calls one function for adds, updates and deletes alike (for one unseen, with a tombstone)."""

    def __init__(self, changed: Callable[[Object | DeletedFinalStateUnknown], None]) -> None:
        self.on_add = lambda obj, in_initial_list: changed(obj)
        self.on_update = lambda old, new: changed(new)
        self.on_delete = changed


class FooController:
    """The handlers, the worker loop, and the one function that knows what a Foo is.

    ``resync``: seconds between two looks at every Foo without an event.
    """

    def __init__(self, client: Client, resync: float = 600.0) -> None:
        self.client = client
        # A key that fails waits 5 ms, 10 ms, 20 ms ... up to 5 min.
        self.queue = RateLimitingQueue(ItemExponentialFailureRateLimiter(0.005, 300.0))
        self.foos = Cache()
        foos = SharedInformer(
            Source(client, FOOS),
            queue=Deltas(),
            store=self.foos,
            resync_period=resync,
            use_watch_list=False,
        )
        deployments = SharedInformer(ResourceClient(client, DEPLOYMENTS), use_watch_list=False)
        self.deployments = deployments.store
        self.informers = (foos, deployments)
        foos.add_handler(Each(self.foo_changed))
        deployments.add_handler(Each(self.deployment_changed))

    def run(self, workers: int, stopping: threading.Event) -> None:
        """Work until ``stopping`` is set, then finish what is in hand. Once only."""
        for informer in self.informers:
            informer.start()
        for informer in self.informers:
            # An empty cache says that nothing exists: no worker may start on it.
            while not informer.wait_for_sync(0.2):
                if stopping.is_set():
                    return
        threads = [threading.Thread(target=self.work, daemon=True) for _ in range(workers)]
        for thread in threads:
            thread.start()
        stopping.wait()
        for informer in self.informers:
            informer.stop()
        self.queue.shut_down()
        for thread in threads:
            thread.join(timeout=5)

    # Handlers run in a thread of the informer's: they say which key to look at, no more.

    def foo_changed(self, obj: Object | DeletedFinalStateUnknown) -> None:
        key = key_of_deleted(obj)
        # phase4:solution 4.1.4
        held = self.foos.get(key)
        cached = None if held is None else resource_version(held)
        emit("handler", key, last_known_state(obj), cached=cached)
        # phase4:stub
        # phase4:end
        self.enqueue(key)

    def deployment_changed(self, obj: Object | DeletedFinalStateUnknown) -> None:
        """A Deployment is worked on as part of the Foo that controls it."""
        namespace, _ = split_key(key_of_deleted(obj))
        owner = controller_of(last_known_state(obj) or {})
        if owner.get("kind") == "Foo":
            self.enqueue(f"{namespace}/{owner['name']}")

    def enqueue(self, key: str) -> None:
        # phase4:solution 4.1.4
        emit("enqueue", key)
        # phase4:stub
        # phase4:end
        self.queue.add(key)

    def work(self) -> None:
        """One worker, until the queue is shut down."""
        while True:
            try:
                key = self.queue.get()
            except ShutDown:
                return
            # phase4:solution 4.1.4
            emit("dequeue", key)
            # phase4:stub
            # phase4:end
            try:
                self.sync(key)
            except Exception as error:  # whatever one Foo does must not stop the others
                log.warning("sync of %s failed, will be tried again: %r", key, error)
                self.queue.add_rate_limited(key)
            else:
                self.queue.forget(key)
            finally:
                self.queue.done(key)

    def sync(self, key: str) -> None:
        """Make the cluster match the Foo that has this key, whatever led here."""
        foo = self.foos.get(key)
        # phase4:solution 4.1.4
        emit("reconcile", key, foo)
        # phase4:stub
        # phase4:end
        if foo is None or "deletionTimestamp" in foo["metadata"]:
            return  # what it owns goes by its owner reference: the garbage collector's work
        namespace, name = split_key(key)
        wanted = deployment_for(foo)
        child = wanted["metadata"]["name"]
        live = self.deployments.get(f"{namespace}/{child}")
        owning = [("fieldManager", FIELD_MANAGER)]

        if live is None:
            # POST, not apply: if somebody else has just taken the name, a 409
            # is right and taking the Deployment over is not.
            path = DEPLOYMENTS.path(namespace=namespace)
            live = self.client.request("POST", path, owning, body=wanted)
            log.info("created Deployment %s for Foo %s", child, key)
        elif controller_of(live).get("uid") != uid(foo):
            raise ApiError(409, message=f"Deployment {child} belongs to someone else")
        elif "deletionTimestamp" not in live["metadata"] and not contains(live, wanted):
            # The UID makes the apply fail if this is no longer the Deployment we looked at.
            wanted["metadata"]["uid"] = uid(live)
            query = [*owning, ("force", "true")]
            live = self.client.patch(
                DEPLOYMENTS, child, wanted, namespace=namespace, type="apply", query=query
            )
            log.info("brought Deployment %s back to what Foo %s says", child, key)

        available = live.get("status", {}).get("availableReplicas", 0)
        if foo.get("status", {}).get("availableReplicas") != available:
            status = {"status": {"availableReplicas": available}}
            self.client.patch(FOOS, name, status, namespace=namespace, subresource="status")


def controller_of(obj: Object) -> dict[str, Any]:
    """The one owner reference that has ``controller: true``; empty if there is none."""
    owners = obj.get("metadata", {}).get("ownerReferences", ())
    return next((owner for owner in owners if owner.get("controller")), {})


def deployment_for(foo: Object) -> Object:
    """The Deployment a Foo asks for: every field that this controller owns, and no other."""
    metadata, labels = foo["metadata"], {"app": "nginx", "controller": foo["metadata"]["name"]}
    owner = {"apiVersion": foo["apiVersion"], "kind": "Foo", "name": metadata["name"]}
    owner |= {"uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}
    container = {"name": "nginx", "image": "nginx:latest"}
    spec: dict[str, Any] = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    if "replicas" in foo["spec"]:
        spec["replicas"] = foo["spec"]["replicas"]
    named = {"name": foo["spec"]["deploymentName"], "namespace": metadata["namespace"]}
    named["ownerReferences"] = [owner]
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": named, "spec": spec}


def contains(live: Any, wanted: Any) -> bool:
    """Whether ``live`` has everything in ``wanted``, whatever else defaults and others added.

    To compare for equality instead would find a difference for ever: the API
    server fills in defaults that we never sent.
    """
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            key in live and contains(live[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(live, list) and all(
            any(contains(candidate, item) for candidate in live) for item in wanted
        )
    return live == wanted


def main() -> int:
    """Run until SIGTERM or SIGINT: finish what is in hand, then exit 0."""
    parser = argparse.ArgumentParser(description="For every Foo, one Deployment.")
    parser.add_argument("--kubeconfig", default=os.environ.get("KUBECONFIG"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--resync", type=float, default=600.0, help="seconds between full passes")
    options = parser.parse_args()
    if not options.kubeconfig:
        parser.error("say where the API server is: --kubeconfig FILE, or set KUBECONFIG")
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)8d ms  %(message)s")
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    # A controller with one thread dead looks alive and does nothing: rather end it all.
    threading.excepthook = lambda failure: (
        log.critical("a thread failed", exc_info=failure.exc_value),
        os._exit(1),
    )
    controller = FooController(client_for(options.kubeconfig, FIELD_MANAGER), options.resync)
    controller.run(options.workers, stopping)
    return 0


if __name__ == "__main__":
    sys.exit(main())
