"""The wiring: informers, handlers, queue, workers.

::

    WebApps ──► handler ─┐
    Pods ─────► handler ─┼─► queue of keys ──► worker ──► Reconciler
    records ──► handler ─┘                     worker        │
       ▲                                                     │ reads the caches,
       └────────────── the API server ◄──────────────────────┘ writes

Concurrency: each informer calls its handler from a thread of its own; handlers
only put keys into the queue. Any number of workers take keys, and the queue
never gives one key to two of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from machinery.api import ApiError, ListerWatcher, Resource, Unreachable
from machinery.client import Client, ResourceClient
from machinery.delaying import RateLimitingQueue
from machinery.informer import SharedInformer
from machinery.objects import DeletedFinalStateUnknown, Object, key_of, last_known_state
from machinery.rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
)
from machinery.stop import Stop
from machinery.workqueue import ShutDown

from .pods import BY_CONTROLLER, NotYet, index_by_controller, webapp_of
from .reconcile import Reconciler
from .resume import Resuming
from .types import PODS, RECORD_PREFIX, RECORDS, WEBAPPS, name_of, uid_of

log = logging.getLogger("webapp_operator")

BY_UID = "uid"


class Enqueue:
    """A handler that puts the keys an object belongs to into the queue.

    An update enqueues the keys of both states, so that a WebApp hears of a Pod
    that was taken from it. A delete may come as a tombstone, with the last
    state that was seen.
    """

    def __init__(self, queue: RateLimitingQueue[str], keys: Callable[[Object], list[str]]) -> None:
        self._queue = queue
        self._keys = keys

    def _add(self, obj: Object | None) -> None:
        for key in self._keys(obj) if obj is not None else ():
            # The key, not the object: by the time a worker comes, the object may be old.
            self._queue.add(key)

    def on_add(self, obj: Object, in_initial_list: bool) -> None:
        self._add(obj)

    def on_update(self, old: Object, new: Object) -> None:
        # phase4:solution 4.3.2
        self._add(old)
        self._add(new)
        # phase4:stub
        # pass  # whose keys?
        # phase4:end

    def on_delete(self, obj: Object | DeletedFinalStateUnknown) -> None:
        # phase4:solution 4.3.2
        self._add(last_known_state(obj))
        # phase4:stub
        # pass  # what is handed in here?
        # phase4:end


class Controller:
    """Keeps Pods, DNS record and status of every WebApp as its spec says."""

    def __init__(self, client: Client, *, resync: float, resume: Path | None = None) -> None:
        """``resync``: seconds between two looks at every WebApp without an event; 0 is never.

        ``resume``: edge mode, with the folder that remembers; see ``resume.py``.
        """
        self.queue: RateLimitingQueue[str] = RateLimitingQueue(
            MaxOfRateLimiter(
                ItemExponentialFailureRateLimiter(0.005, 30.0), BucketRateLimiter(50.0, 300)
            )
        )
        webapps = SharedInformer(
            _source(client, WEBAPPS, resume),
            indexers={BY_UID: lambda webapp: [uid_of(webapp)]},
            resync_period=resync,
            use_watch_list=resume is None,
        )
        # Pods are watched whole, not by label: a Pod whose label was taken away is
        # still ours to put right.
        pods = SharedInformer(
            _source(client, PODS, resume),
            indexers={BY_CONTROLLER: index_by_controller},
            use_watch_list=resume is None,
        )
        records = SharedInformer(_source(client, RECORDS, resume), use_watch_list=resume is None)
        self._informers = (webapps, pods, records)
        self._webapps = webapps.store
        self._reconciler = Reconciler(client, webapps.store, pods.store, records.store)
        self._registrations = [
            webapps.add_handler(Enqueue(self.queue, lambda webapp: [key_of(webapp)])),
            pods.add_handler(Enqueue(self.queue, self._keys_of_pod)),
            records.add_handler(Enqueue(self.queue, self._keys_of_record)),
        ]

    @staticmethod
    def _keys_of_pod(pod: Object) -> list[str]:
        key = webapp_of(pod)
        return [key] if key else []

    def _keys_of_record(self, record: Object) -> list[str]:
        """By the UID in the record's name: its data may have been edited, its name cannot be."""
        if not name_of(record).startswith(RECORD_PREFIX):
            return []
        uid = name_of(record).removeprefix(RECORD_PREFIX)
        return [key_of(webapp) for webapp in self._webapps.by_index(BY_UID, uid)]

    def run(self, workers: int, stopping: Stop) -> None:
        """Work until ``stopping`` is set, finish what is in hand, and return.

        A second call is not possible: informers start once.
        """
        for informer in self._informers:
            informer.start()
        # phase4:solution 4.3.2
        # An empty cache says that nothing exists: no worker may start on it. The
        # registration's sync, not the informer's: true once the handler has been
        # told of the whole first list, so that every key is in the queue.
        for registration in self._registrations:
            while not registration.wait_for_sync(0.2):
                if stopping.is_set():
                    return
        # phase4:stub
        # # When may a worker start?
        # phase4:end
        log.info("the caches are in sync; starting %d workers", workers)
        threads = [
            threading.Thread(
                target=self._work, args=(stopping,), name=f"worker-{number}", daemon=True
            )
            for number in range(workers)
        ]
        for thread in threads:
            thread.start()
        stopping.wait()
        # Wakes the workers that wait for a key.
        self.queue.shut_down()
        for thread in threads:
            thread.join()

    def _work(self, stopping: Stop) -> None:
        while True:
            try:
                key = self.queue.get()
            except ShutDown:
                return
            try:
                # A queue that is shut down still hands out what is in it. That is left
                # to whoever comes next, and lists everything again.
                if stopping.is_set():
                    return
                self._process(key)
            finally:
                self.queue.done(key)

    def _process(self, key: str) -> None:
        # phase4:solution 4.3.2
        try:
            self._reconciler.reconcile(key)
        except Exception as error:
            # The line that makes a failure, or a kill, lose nothing: the key goes
            # back, and the next run reads the world again.
            self.queue.add_rate_limited(key)
            _report(key, error)
        else:
            self.queue.forget(key)
        # phase4:stub
        # try:
        #     self._reconciler.reconcile(key)
        # except Exception as error:
        #     _report(key, error)
        # phase4:end


def _source(client: Client, resource: Resource, resume: Path | None) -> ListerWatcher:
    source = ResourceClient(client, resource)
    return source if resume is None else Resuming(source, resume / resource.plural)


def _report(key: str, error: Exception) -> None:
    if isinstance(error, NotYet) or (isinstance(error, ApiError) and error.is_conflict):
        log.debug("%s: again later: %s", key, error)
    elif isinstance(error, (ApiError, Unreachable)):
        log.warning("%s: failed, again later: %s", key, error)
    else:
        log.exception("%s: failed, again later", key)
