"""The shared informer: one watch, one cache, any number of handlers.

Upstream: client-go v0.37.2, tools/cache/shared_informer.go —
``sharedIndexInformer`` (710), ``sharedIndexInformer.RunWithContext`` (841),
``sharedIndexInformer.AddEventHandlerWithOptions`` (999), ``handleDeltas`` (1066),
``sharedIndexInformer.OnUpdate`` (1091), ``sharedProcessor`` (1163);
tools/cache/controller.go — ``controller.RunWithContext`` (172), ``processDeltas`` (823),
``processReplacedAllInfo`` (972).

::

    reflector ──► RealFIFO ──► process ──► store            (the cache, first)
    (thread)                   (thread)└──► listener ──► handler   (then everyone is told)
                                       └──► listener ──► handler   (a thread each)

The cache changes before a handler hears of it, so a handler that asks the
cache never finds less than it was told — it may find more.

Concurrency: the threads above. ``_deltas`` is held while a delta is processed
and while a handler joins: the newcomer is given the cache as it is, and then
exactly what comes after. Lock order: ``_deltas``, then a listener's own lock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from .api import ListerWatcher
from .clock import Clock, RealClock
from .deltas import Bookmark, Closed, Delta, DeltaType, ReplacedAll
from .listener import (
    Added,
    Deleted,
    Handler,
    Listener,
    Notification,
    OnHandlerError,
    Updated,
    log_handler_error,
)
from .lister import Lister
from .objects import DeletedFinalStateUnknown, Object, key_of_deleted, resource_version
from .real_fifo import RealFIFO
from .reflector import Reflector
from .stop import Stop
from .store import NAMESPACE_INDEX, IndexFunc, Store, index_by_namespace

log = logging.getLogger("machinery.informer")


class SharedInformer:
    """A cache of one resource that tells its handlers of every change.

    ::

        informer = SharedInformer(ResourceClient(client, PODS))
        registration = informer.add_handler(MyHandler())
        informer.start()
        if not registration.wait_for_sync(30):
            raise SystemExit("the cache did not fill")
        ...
        informer.stop()

    ``resync_period`` in seconds; 0 is never. ``queue`` and ``store`` take the place of
    the informer's own delta queue and cache, for those who want to see what passes
    (upstream: ``Config.Queue`` and the ``clientState`` of ``newInformer``, controller.go
    46 and 1024). More keyword arguments go to the :class:`~.reflector.Reflector`.
    """

    def __init__(
        self,
        lister_watcher: ListerWatcher,
        *,
        indexers: Mapping[str, IndexFunc] | None = None,
        queue: RealFIFO | None = None,
        store: Store | None = None,
        resync_period: float = 0.0,
        on_handler_error: OnHandlerError = log_handler_error,
        clock: Clock | None = None,
        **reflector_options: Any,
    ) -> None:
        self._clock = clock or RealClock()
        # Not «or»: a queue and a store that are empty are false.
        self._store = Store() if store is None else store
        self._store.add_indexers({NAMESPACE_INDEX: index_by_namespace, **(indexers or {})})
        self._queue = RealFIFO() if queue is None else queue
        self._resync_period = resync_period
        self._on_handler_error = on_handler_error
        self._reflector = Reflector(
            lister_watcher,
            self._queue,
            resync_period=resync_period,
            should_resync=self._should_resync,
            clock=self._clock,
            **reflector_options,
        )
        self._stop = Stop()
        self._deltas = threading.RLock()
        #: Each listener, and whether the resync under way is for it.
        self._listeners: dict[Listener, bool] = {}
        self._started = False
        self._synced = threading.Event()
        self._threads = [
            threading.Thread(
                target=self._reflector.run, args=(self._stop,), name="reflector", daemon=True
            ),
            threading.Thread(target=self._process_all, name="informer", daemon=True),
        ]

    @property
    def store(self) -> Store:
        """The cache. Read only."""
        return self._store

    @property
    def lister(self) -> Lister:
        return Lister(self._store)

    @property
    def last_sync_resource_version(self) -> str:
        return self._reflector.last_sync_resource_version

    def add_handler(self, handler: Handler, resync_period: float | None = None) -> Listener:
        """Tell ``handler`` of every change from now on, and first of all that is there.

        A handler that comes late gets an ``on_add`` for each object in the
        cache, with ``in_initial_list``. ``resync_period``: this handler's own;
        resyncs happen no more often than the informer's. RuntimeError once
        stopped.
        """
        if resync_period is None:
            resync_period = self._resync_period
        if resync_period:
            resync_period = max(resync_period, self._resync_period) if self._resync_period else 0
        listener = Listener(handler, self._on_handler_error, resync_period, self._clock)
        with self._deltas:
            if self._stop.is_set():
                raise RuntimeError("this informer was stopped; it takes no more handlers")
            # Resyncing at first: whatever is under way is for this one, too.
            self._listeners[listener] = True
            if self._started:
                for obj in self._store.list():
                    listener.add(Added(obj, in_initial_list=True))
                listener.start()
            if self._synced.is_set():
                listener.informer_has_synced()
        return listener

    def remove_handler(self, listener: Listener) -> None:
        """Stop telling it. The notification in hand may still be finished."""
        with self._deltas:
            self._listeners.pop(listener, None)
        listener.close()

    def start(self) -> None:
        """Start the threads and return. RuntimeError for a second time."""
        with self._deltas:
            if self._started:
                raise RuntimeError("this informer was started already")
            self._started = True
            for listener in self._listeners:
                listener.start()
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float = 5.0) -> bool:
        """Stop for good; whether every thread ended within ``timeout`` seconds.

        The reflector first, handlers last. Notifications that wait are dropped.
        """
        until = time.monotonic() + timeout
        self._stop.set()
        self._queue.close()
        for thread in self._threads if self._started else ():
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))
        with self._deltas:
            listeners = list(self._listeners)
            self._listeners.clear()
        for listener in listeners:
            listener.close()
        ended = [listener.join(max(0.0, until - time.monotonic())) for listener in listeners]
        return all(ended) and not any(thread.is_alive() for thread in self._threads)

    def has_synced(self) -> bool:
        """Whether the cache has held all of the first list. Never false again.

        It says nothing of now: the cache is always behind by what is under way.
        And nothing of a handler: ask its registration.
        """
        return self._synced.is_set()

    def wait_for_sync(self, timeout: float | None = None) -> bool:
        """Wait until :meth:`has_synced`, at most ``timeout`` seconds; whether it is so."""
        return self._synced.wait(timeout)

    # The processing thread.

    def _process_all(self) -> None:
        while not self._stop.is_set():
            try:
                self._queue.pop(self._process)
            except Closed:
                return
            except Exception:  # an error of ours must not end the cache's only writer
                log.exception("a delta could not be processed; going on with the next")
            if not self._synced.is_set() and self._queue.has_synced():
                with self._deltas:
                    self._synced.set()
                    for listener in self._listeners:
                        listener.informer_has_synced()

    def _process(self, deltas: list[Delta], in_initial_list: bool) -> None:
        with self._deltas:
            for delta in deltas:
                self._process_one(delta, in_initial_list)

    def _process_one(self, delta: Delta, in_initial_list: bool) -> None:
        match delta:
            case Delta(DeltaType.REPLACED_ALL, ReplacedAll(objects, version)):
                self._replace_all(objects, version, in_initial_list)
            case Delta(DeltaType.SYNC_ALL, _):
                for obj in self._store.list():
                    self._tell_update(obj, obj)
            case Delta(DeltaType.BOOKMARK, Bookmark(version)):
                self._store.bookmark(version)
            case Delta(DeltaType.DELETED, obj):
                self._store.delete(obj)
                self._tell(Deleted(obj))
            case Delta(_, obj):
                old = self._store.get(key_of_deleted(obj))
                self._store.add(obj)
                self._tell_change(old, obj, in_initial_list)

    def _replace_all(self, objects: Iterable[Object], version: str, in_initial_list: bool) -> None:
        """A list: the cache becomes it in one step; then handlers hear the difference."""
        # phase4:solution 4.2.4
        objects = list(objects)
        keys = {key_of_deleted(obj) for obj in objects}
        gone = [
            DeletedFinalStateUnknown(key, self._store.get(key))
            for key in self._store.keys()
            if key not in keys
        ]
        changes = [(self._store.get(key_of_deleted(obj)), obj) for obj in objects]
        self._store.replace(objects, version)
        for tombstone in gone:
            self._tell(Deleted(tombstone))
        for old, new in changes:
            self._tell_change(old, new, in_initial_list)
        # phase4:stub
        # # What is in the store and not in the list is gone, and nobody saw it go.
        # for obj in objects:
        #     old = self._store.get(key_of_deleted(obj))
        #     self._store.add(obj)
        #     self._tell_change(old, obj, in_initial_list)
        # phase4:end

    def _tell_change(self, old: Object | None, new: Object, in_initial_list: bool) -> None:
        if old is None:
            self._tell(Added(new, in_initial_list))
        else:
            self._tell_update(old, new)

    def _tell_update(self, old: Object, new: Object) -> None:
        # The same version again is no news: only for those who asked for resyncs.
        unchanged = resource_version(old) == resource_version(new)
        self._tell(Updated(old, new), resync=unchanged)

    def _tell(self, notification: Notification, resync: bool = False) -> None:
        for listener, resyncing in self._listeners.items():
            if resyncing or not resync:
                listener.add(notification)

    def _should_resync(self) -> bool:
        """Whose resync is due? (shared_informer.go, ``shouldResync``)"""
        with self._deltas:
            now = self._clock.now()
            for listener in self._listeners:
                self._listeners[listener] = listener.should_resync(now)
            return any(self._listeners.values())
