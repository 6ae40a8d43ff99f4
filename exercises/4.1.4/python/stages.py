"""The course's Foo controller, to be made to talk: lab 4.1.4.

This is ``foo_controller/controller.py`` with one function more, :func:`emit`.
The controller works as it is, and prints nothing on stdout.

It does the job of Kubernetes' sample-controller with nothing hidden in a
library, so that each stage can be read, and interrupted, by itself. Read the
classes from top to bottom: that is the way a change travels.

    API server --list + watch--> Reflector --deltas--> DeltaQueue --> Informer
    Informer --writes--> Indexer, and only then --calls--> handlers
    handlers --keys--> WorkQueue --keys--> worker --reads--> Indexer
    worker --writes--> API server, and round again

Three rules make it safe to kill at any line:

* Only keys are queued. The worker asks the indexer what the object looks like
  now; what an event said is forgotten as soon as the indexer has it.
* ``FooController.sync`` compares what should be with what is, and does the
  difference. Running it once more changes nothing.
* It writes the fields it owns and no others: the Deployment by server-side
  apply, the Foo's status through the status subresource.

Threads: a reflector and an informer for each resource, some workers, and the
main thread, which waits for SIGTERM. They share the indexers and the work
queue, which lock for themselves; an object in an indexer is never changed.

Run it with ``python3 controller.py --kubeconfig FILE`` (or ``KUBECONFIG``).
It needs urllib3 and PyYAML, which the ``kubernetes`` package brings along.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import queue
import random
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import urllib3
import yaml

API_VERSION = "samplecontroller.k8s.io/v1alpha1"
#: The name under which managedFields records what this controller owns.
FIELD_MANAGER = "foo-controller"
#: Seconds after which the API server ends a watch, so that none outlives its usefulness.
WATCH_SECONDS = 300

log = logging.getLogger(FIELD_MANAGER)
_stdout = threading.Lock()


def emit(stage: str, key: str, obj: dict | None = None, **more: Any) -> None:
    """Print one line about a Foo on stdout: at once and whole, whichever thread calls it.

    The line has the object's resourceVersion, if there is an object at hand, and
    whatever is in ``more``. Objects other than Foos are passed over.
    """
    if obj is not None and obj.get("kind") != "Foo":
        return
    line = {"stage": stage, "key": key}
    if obj is not None:
        line["resourceVersion"] = version_of(obj)
    with _stdout:
        sys.stdout.write(json.dumps(line | more) + "\n")
        sys.stdout.flush()


# ---------------------------------------------------------------- API server


class ApiError(Exception):
    """The API server said no. ``status`` is the HTTP code, ``reason`` Kubernetes' word for it."""

    def __init__(self, status: int, body: dict) -> None:
        self.status = status
        self.reason = body.get("reason", "")
        super().__init__(f"{status} {self.reason}: {body.get('message', '')}")


class Api:
    """The API server of a kubeconfig's current context: JSON in, JSON out.

    It sends no credential: the course's wire, between here and the API server,
    adds one. So a kubeconfig with an ``https`` server is of no use to it.
    """

    def __init__(self, kubeconfig: str) -> None:
        with open(kubeconfig, encoding="utf-8") as file:
            config = yaml.safe_load(file)
        context = next(c for c in config["contexts"] if c["name"] == config["current-context"])
        name = context["context"]["cluster"]
        cluster = next(c for c in config["clusters"] if c["name"] == name)
        self.server = cluster["cluster"]["server"].rstrip("/")
        # maxsize: two watches and a few workers keep a connection each.
        self.pool = urllib3.PoolManager(
            maxsize=8, retries=False, headers={"User-Agent": FIELD_MANAGER}
        )

    def call(
        self, method: str, path: str, body: dict | None = None, kind: str = "json", **query: str
    ) -> dict:
        """One request, answered within 30 s. Raises :class:`ApiError` for a 4xx or 5xx.

        ``kind`` is how the body is meant: ``json``, ``merge-patch+json``, ``apply-patch+yaml``.
        """
        answer = self.pool.request(
            method,
            f"{self.server}{path}?{urlencode(query)}",
            body=None if body is None else json.dumps(body),
            headers={**self.pool.headers, "Content-Type": f"application/{kind}"},
            timeout=30,
        )
        if answer.status >= 400:
            raise ApiError(answer.status, _json(answer.data))
        return _json(answer.data)

    def watch(self, path: str, resource_version: str) -> Iterator[tuple[str, dict]]:
        """Yield (type, object) until the server ends the watch. Raises :class:`ApiError`.

        The read time-out is a little longer than the watch is allowed to last:
        a connection that died without a word is noticed then, not never.
        """
        answer = self.pool.request(
            "GET",
            f"{self.server}{path}?watch=true&allowWatchBookmarks=true"
            f"&resourceVersion={resource_version}&timeoutSeconds={WATCH_SECONDS}",
            timeout=urllib3.Timeout(connect=10, read=WATCH_SECONDS + 10),
            preload_content=False,
        )
        try:
            if answer.status >= 400:
                raise ApiError(answer.status, _json(answer.read()))
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":  # a Status, not one of the watched objects
                    raise ApiError(event["object"].get("code", 500), event["object"])
                yield event["type"], event["object"]
        finally:
            answer.close()


def _json(data: bytes) -> dict:
    try:
        return json.loads(data)
    except ValueError:
        return {"message": data[:200].decode(errors="replace")}


def key_of(obj: dict) -> str:
    """``namespace/name``: all that ever goes into the work queue."""
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def version_of(obj: dict) -> str:
    return obj["metadata"]["resourceVersion"]


def controller_uid(obj: dict) -> str | None:
    """UID of the one owner that has ``controller: true``, or None."""
    owners = obj["metadata"].get("ownerReferences", ())
    return next((o["uid"] for o in owners if o.get("controller")), None)


# ----------------------------------------------------- stage 1: the reflector


class Reflector:
    """Lists once, then watches from there, and puts what it hears into a DeltaQueue."""

    def __init__(self, api: Api, path: str, deltas: DeltaQueue) -> None:
        self.api, self.path, self.deltas = api, path, deltas

    def run(self) -> None:
        """Never returns. After any failure: wait, list again, go on from what is true now.

        The waits double from 0.2 s to 30 s, with jitter; two calm minutes reset them.
        """
        delay, failed_at = 0.2, 0.0
        while True:
            try:
                self.list_and_watch()
            except (ApiError, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                # A 410 (the resourceVersion is too old to go on from) is no different:
                # never try the same resourceVersion again.
                log.warning("listing %s again: %s", self.path, error)
            delay = 0.2 if time.monotonic() - failed_at > 120 else min(delay * 2, 30.0)
            failed_at = time.monotonic()
            time.sleep(delay * random.uniform(0.5, 1.0))

    def list_and_watch(self) -> None:
        """One LIST, then watches that continue each other. Ends only by raising."""
        answer = self.api.call("GET", self.path)
        objects = answer.get("items") or []
        self.deltas.push("Replaced", objects)
        resource_version = answer["metadata"]["resourceVersion"]
        while True:
            started = time.monotonic()
            for kind, obj in self.api.watch(self.path, resource_version):
                resource_version = version_of(obj)
                if kind == "BOOKMARK":  # no object changed: only the place to go on from
                    continue
                self.deltas.push(kind.capitalize(), obj)
            if time.monotonic() - started < 1:
                raise ConnectionError("the API server closed the watch at once")


# --------------------------------------------------- stage 2: the delta queue


class DeltaQueue:
    """What happened, in order, not yet applied: (``Added``, obj), ..., (``Replaced``, [obj, ...]).

    A list arrives as one ``Replaced``, because only the whole of it says what
    is missing: an object deleted while nobody watched has no event of its own.
    """

    def __init__(self) -> None:
        self._deltas: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    def push(self, kind: str, what: Any) -> None:
        self._deltas.put((kind, what))

    def pop(self) -> tuple[str, Any]:
        """Blocks until there is a delta."""
        return self._deltas.get()


# ------------------------------------------------------- stage 3: the indexer


class Indexer:
    """The local cache: the newest object known for each key. Read it, never change what it gives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, dict] = {}

    def get(self, key: str) -> dict | None:
        with self._lock:
            return self._objects.get(key)

    def all_keys(self) -> list[str]:
        with self._lock:
            return list(self._objects)

    def put(self, obj: dict) -> dict | None:
        """Store it; returns what was there before."""
        with self._lock:
            old = self._objects.get(key_of(obj))
            self._objects[key_of(obj)] = obj
        return old

    def remove(self, key: str) -> dict | None:
        with self._lock:
            return self._objects.pop(key, None)


# ------------------------------------------- stage 4: informer, then handlers


@dataclass(frozen=True)
class Tombstone:
    """A delete that nobody saw: a list no longer has ``key``; ``last_known`` may be out of date."""

    key: str
    last_known: dict


class Informer:
    """Takes deltas one by one: first into the indexer, then to the handlers.

    In that order, so that whoever a handler wakes finds in the indexer at least
    what the handler was told.
    """

    def __init__(self, deltas: DeltaQueue, indexer: Indexer) -> None:
        self.deltas, self.indexer = deltas, indexer
        #: Set once the first list is in the indexer and the handlers have heard of it.
        self.synced = threading.Event()
        self.on_add: Callable[[dict], None]
        self.on_update: Callable[[dict, dict], None]
        self.on_delete: Callable[[dict | Tombstone], None]

    def run(self) -> None:
        while True:
            kind, what = self.deltas.pop()
            if kind == "Replaced":
                self._replace(what)
                self.synced.set()
            elif kind == "Deleted":
                self.indexer.remove(key_of(what))
                self.on_delete(what)
            else:
                self._upsert(what)

    def _upsert(self, obj: dict) -> None:
        # Whether it is new is for the indexer to say: after a relist, an ADDED
        # event may well be about an object that we have had for a long time.
        old = self.indexer.put(obj)
        if old is None:
            self.on_add(obj)
        else:
            self.on_update(old, obj)

    def _replace(self, objects: list[dict]) -> None:
        listed = {key_of(obj) for obj in objects}
        for key in self.indexer.all_keys():
            if key not in listed:
                last_known = self.indexer.remove(key)
                self.on_delete(Tombstone(key, last_known))
        for obj in objects:
            self._upsert(obj)


# ---------------------------------------------------- stage 5: the work queue


class WorkQueue:
    """Keys waiting for a worker: each at most once, and never with two workers at a time.

    ``_dirty`` holds what has to be worked on, ``_processing`` what a worker has
    in hand. A key added while it is in hand stays dirty and is queued by
    :meth:`done`: nothing that happens during the work is lost.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ready: deque[str] = deque()
        self._dirty: set[str] = set()
        self._processing: set[str] = set()
        self._failures: dict[str, int] = {}
        self._shutting_down = False

    def add(self, key: str) -> None:
        with self._changed:
            if self._shutting_down or key in self._dirty:
                return
            self._dirty.add(key)
            if key not in self._processing:
                self._ready.append(key)
                self._changed.notify()

    def add_rate_limited(self, key: str) -> None:
        """Add it after 5 ms, 10 ms, 20 ms ... up to 5 min, doubling until :meth:`forget`."""
        with self._changed:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
        timer = threading.Timer(min(0.005 * 2**failures, 300.0), self.add, [key])
        timer.daemon = True
        timer.start()

    def forget(self, key: str) -> None:
        with self._changed:
            self._failures.pop(key, None)

    def get(self) -> str | None:
        """Block for a key, which is then the caller's until :meth:`done`. None: shut down."""
        with self._changed:
            while not self._ready and not self._shutting_down:
                self._changed.wait()
            if self._shutting_down:
                return None
            key = self._ready.popleft()
            self._dirty.discard(key)
            self._processing.add(key)
            return key

    def done(self, key: str) -> None:
        with self._changed:
            self._processing.discard(key)
            if key in self._dirty:
                self._ready.append(key)
                self._changed.notify()

    def shut_down(self) -> None:
        """Hand out no more keys. What is still queued is not lost: the next start lists everything."""
        with self._changed:
            self._shutting_down = True
            self._changed.notify_all()


# ------------------------------------------- stage 6: the worker and its sync


class FooController:
    """The handlers, the worker loop, and the one function that knows what a Foo is."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.queue = WorkQueue()
        self.foos, self.deployments = Indexer(), Indexer()
        foo_deltas, deployment_deltas = DeltaQueue(), DeltaQueue()
        self.reflectors = (
            Reflector(api, f"/apis/{API_VERSION}/foos", foo_deltas),
            Reflector(api, "/apis/apps/v1/deployments", deployment_deltas),
        )
        foo_informer = Informer(foo_deltas, self.foos)
        foo_informer.on_add = self.foo_changed
        foo_informer.on_update = lambda old, new: self.foo_changed(new)
        foo_informer.on_delete = self.foo_changed
        deployment_informer = Informer(deployment_deltas, self.deployments)
        deployment_informer.on_add = self.deployment_changed
        deployment_informer.on_update = self.deployment_updated
        deployment_informer.on_delete = self.deployment_changed
        self.informers = (foo_informer, deployment_informer)

    # Handlers run in the informer's thread: they say which key to look at, and nothing more.

    def foo_changed(self, obj: dict | Tombstone) -> None:
        key = obj.key if isinstance(obj, Tombstone) else key_of(obj)
        self.enqueue(key)

    def deployment_updated(self, old: dict, new: dict) -> None:
        if version_of(old) != version_of(new):  # a relist repeats what we know
            self.deployment_changed(new)

    def deployment_changed(self, obj: dict | Tombstone) -> None:
        """A Deployment is worked on as part of the Foo that controls it."""
        deployment = obj.last_known if isinstance(obj, Tombstone) else obj
        for owner in deployment["metadata"].get("ownerReferences", ()):
            if owner.get("controller") and owner["kind"] == "Foo":
                self.enqueue(f"{deployment['metadata']['namespace']}/{owner['name']}")

    def enqueue(self, key: str) -> None:
        self.queue.add(key)

    def work(self) -> None:
        """One worker. It starts when both indexers are filled: an empty one proves nothing."""
        for informer in self.informers:
            informer.synced.wait()
        while (key := self.queue.get()) is not None:
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
        if foo is None or "deletionTimestamp" in foo["metadata"]:
            return  # what it owns goes by its owner reference: the garbage collector's work
        namespace, uid = foo["metadata"]["namespace"], foo["metadata"]["uid"]
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        wanted = deployment_for(foo)
        name = wanted["metadata"]["name"]
        live = self.deployments.get(f"{namespace}/{name}")

        if live is None:
            # POST, not apply: if somebody else has just taken the name, a 409
            # is right and taking the Deployment over is not.
            live = self.api.call("POST", path, wanted, fieldManager=FIELD_MANAGER)
            log.info("created Deployment %s for Foo %s", name, key)
        elif controller_uid(live) != uid:
            raise ApiError(409, {"message": f"Deployment {name} belongs to someone else"})
        elif "deletionTimestamp" not in live["metadata"] and not contains(live, wanted):
            # The UID makes the apply fail if this is no longer the Deployment we looked at.
            wanted["metadata"]["uid"] = live["metadata"]["uid"]
            owning = {"fieldManager": FIELD_MANAGER, "force": "true"}
            live = self.api.call("PATCH", f"{path}/{name}", wanted, "apply-patch+yaml", **owning)
            log.info("brought Deployment %s back to what Foo %s says", name, key)

        available = live.get("status", {}).get("availableReplicas", 0)
        if foo.get("status", {}).get("availableReplicas") != available:
            path = f"/apis/{API_VERSION}/namespaces/{namespace}/foos/{foo['metadata']['name']}"
            status = {"status": {"availableReplicas": available}}
            self.api.call("PATCH", f"{path}/status", status, "merge-patch+json")


def deployment_for(foo: dict) -> dict:
    """The Deployment a Foo asks for: every field that this controller owns, and no other."""
    metadata, labels = foo["metadata"], {"app": "nginx", "controller": foo["metadata"]["name"]}
    owner = {"apiVersion": API_VERSION, "kind": "Foo", "name": metadata["name"]}
    owner |= {"uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}
    container = {"name": "nginx", "image": "nginx:latest"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    if "replicas" in foo["spec"]:
        spec["replicas"] = foo["spec"]["replicas"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": foo["spec"]["deploymentName"],
            "namespace": metadata["namespace"],
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


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


# ------------------------------------------------------------------ process


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

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    # A controller with one thread dead looks alive and does nothing: rather end it all.
    threading.excepthook = lambda failure: (
        log.critical("a thread failed", exc_info=failure.exc_value),
        os._exit(1),
    )

    controller = FooController(Api(options.kubeconfig))
    for part in (*controller.reflectors, *controller.informers):
        threading.Thread(target=part.run, daemon=True).start()
    workers = [
        threading.Thread(target=controller.work, daemon=True) for _ in range(options.workers)
    ]
    for worker in workers:
        worker.start()
    while not stop.wait(options.resync):
        for key in controller.foos.all_keys():
            controller.enqueue(key)
    controller.queue.shut_down()
    for worker in workers:
        worker.join(timeout=5)
    return 0


if __name__ == "__main__":
    sys.exit(main())
