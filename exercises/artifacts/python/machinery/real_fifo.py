"""The queue that informers use today: everything that happened, in the order it happened.

Upstream: client-go v0.37.2, tools/cache/the_real_fifo.go — ``RealFIFO`` (93),
``Pop`` (390), ``whileProcessing_locked`` (454), ``Replace`` (604),
``reconcileReplacement`` (636); tools/cache/controller.go — ``newQueueFIFO``
(1063), ``processReplacedAllInfo`` (972).

Nothing is kept by key and nothing is compressed: ten updates are ten deltas,
and two keys' deltas keep their order. Coalescing is left to the work queue.

Two ways, as upstream (``AtomicFIFO``, on by default since 1.36):

* atomic (``known_objects`` None): a list is one delta, REPLACED_ALL, and so is
  a resync. What is missing from the list is found by the consumer, against its
  own cache, in one step with replacing it.
* not atomic: a list is taken apart here against ``known_objects``, tombstones
  first.

Concurrency: one lock. In the atomic way ``pop`` lets go of it while
``process`` runs (upstream: UnlockWhileProcessingFIFO), so that a slow consumer
does not stop the reflector — unless very much is queued already; then it keeps
the lock, and the reflector has to wait. One thread pops. Upstream also pops
in batches (``PopBatch``), which saves locking and changes nothing in the order.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from .deltas import (
    Bookmark,
    Closed,
    Delta,
    DeltaType,
    KnownObjects,
    PopProcess,
    ReplacedAll,
    SyncAll,
)
from .objects import DeletedFinalStateUnknown, KeyFunc, Object, key_of_deleted

#: Above this many queued deltas ``pop`` keeps the lock: two of upstream's batches.
MAX_QUEUED_UNLOCKED = 2000


class RealFIFO:
    """A plain FIFO of deltas."""

    def __init__(
        self,
        known_objects: KnownObjects | None = None,
        *,
        key_func: KeyFunc = key_of_deleted,
    ) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._known = known_objects
        self._atomic = known_objects is None
        self._key_of = key_func
        self._items: deque[Delta] = deque()
        self._populated = False
        #: Deltas of the first list that are not processed yet.
        self._initial_left = 0
        self._synced = threading.Event()
        self._closed = False

    def add(self, obj: Object) -> None:
        self._add_event(DeltaType.ADDED, obj)

    def update(self, obj: Object) -> None:
        self._add_event(DeltaType.UPDATED, obj)

    def delete(self, obj: Object | DeletedFinalStateUnknown) -> None:
        """Queue a deletion. Unlike DeltaFIFO, nobody asks whether the key was known."""
        self._add_event(DeltaType.DELETED, obj)

    def replace(self, objs: list[Object], resource_version: str = "") -> None:
        """A list. See the module's two ways."""
        with self._changed:
            if self._atomic:
                everything = ReplacedAll(tuple(objs), resource_version)
                self._append(Delta(DeltaType.REPLACED_ALL, everything))
            else:
                # Every key is made before anything is queued: a list with an object
                # that has none changes nothing.
                keys = {self._key_of(obj) for obj in objs}
                for tombstone in self._missing_from(keys):
                    self._append(Delta(DeltaType.DELETED, tombstone))
                for obj in objs:
                    self._append(Delta(DeltaType.REPLACED, obj))
            if not self._populated:
                self._populated = True
                self._initial_left = len(self._items)
                self._check_synced()

    def resync(self) -> None:
        """Have the handlers told again of everything in the cache."""
        with self._changed:
            if self._atomic:
                self._append(Delta(DeltaType.SYNC_ALL, SyncAll()))
                return
            queued = {self._key_of(delta.object) for delta in self._items}
            for key in self._known.keys():
                obj = self._known.get(key)
                if obj is not None and key not in queued:
                    self._append(Delta(DeltaType.SYNC, obj))

    def bookmark(self, resource_version: str) -> None:
        """Pass a bookmark on, in its place between the events. Atomic way only."""
        if self._atomic:
            with self._changed:
                self._append(Delta(DeltaType.BOOKMARK, Bookmark(resource_version)))

    def pop(self, process: PopProcess) -> list[Delta]:
        """Wait for a delta; call ``process`` with it; return it (a list of one).

        Raises :class:`~.deltas.Closed` once closed and empty.
        """
        with self._changed:
            while not self._items:
                if self._closed:
                    raise Closed
                self._changed.wait()
            in_initial_list = not self._synced.is_set()
            deltas = [self._items.popleft()]
            keep_locked = not self._atomic or len(self._items) >= MAX_QUEUED_UNLOCKED
            if keep_locked:
                try:
                    process(deltas, in_initial_list)
                finally:
                    self._processed_one()
                return deltas
        try:
            process(deltas, in_initial_list)
        finally:
            with self._changed:
                self._processed_one()
        return deltas

    def has_synced(self) -> bool:
        """Whether all of the first list was popped *and processed*. Never false again."""
        return self._synced.is_set()

    @property
    def synced(self) -> threading.Event:
        """Set when :meth:`has_synced` becomes true."""
        return self._synced

    def close(self) -> None:
        """Wake up ``pop``; what is queued can still be popped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __len__(self) -> int:
        with self._lock:
            return len(self._items)

    def _add_event(self, type_: DeltaType, obj: Any) -> None:
        with self._changed:
            self._populated = True
            self._check_synced()
            self._key_of(obj)  # an object without a key is refused here, not in the consumer
            self._append(Delta(type_, obj))

    # The lock is held.

    def _append(self, delta: Delta) -> None:
        self._items.append(delta)
        self._changed.notify_all()

    def _processed_one(self) -> None:
        if self._initial_left > 0:
            self._initial_left -= 1
            self._check_synced()

    def _check_synced(self) -> None:
        if self._populated and self._initial_left == 0:
            self._synced.set()

    def _missing_from(self, new_keys: set[str]) -> list[DeletedFinalStateUnknown]:
        """Tombstones for what is queued or known, and not in a list (``reconcileReplacement``)."""
        last_queued: dict[str, Delta] = {}
        for delta in self._items:
            last_queued[self._key_of(delta.object)] = delta
        tombstones = [
            DeletedFinalStateUnknown(key, delta.object)
            for key, delta in last_queued.items()
            # Already deleted at the end of the queue: once is enough.
            if key not in new_keys and delta.type is not DeltaType.DELETED
        ]
        tombstones += [
            DeletedFinalStateUnknown(key, self._known.get(key))
            for key in self._known.keys()
            if key not in new_keys and key not in last_queued
        ]
        return tombstones
