"""The queue that informers used for years: for each key, everything that happened to it.

Upstream: client-go v0.37.2, tools/cache/delta_fifo.go — ``DeltaFIFO`` (108),
``Delete`` (408), ``dedupDeltas`` (443), ``isDeletionDup`` (469), ``Pop`` (562),
``Replace`` (619), ``Resync`` (704). By default since client-go 0.33, and always
since 0.36, an informer fills a RealFIFO instead (real_fifo.py); DeltaFIFO is still
exported.

Keys are popped in the order in which they were first queued, and a pop takes
all the deltas of one key. So two keys' deltas change places, but one key's own
deltas never do. Nothing is compressed except two deletions in a row.

``known_objects`` is the consumer's cache: what it has and a list does not is
gone without a DELETED event, and gets a tombstone.

Concurrency: one lock. ``pop`` holds it while ``process`` runs, so that the
cache that ``process`` fills and the queue never disagree; a slow ``process``
therefore stops the reflector. The lock is re-entrant where upstream's is not:
``process`` may call ``has_synced``.
"""

from __future__ import annotations

import threading
from collections import deque

from .deltas import Closed, Delta, DeltaType, KnownObjects, PopProcess
from .objects import DeletedFinalStateUnknown, KeyFunc, Object, key_of


def dedup_deltas(deltas: list[Delta]) -> None:
    """Make two deletions at the end one, in place (delta_fifo.go:443).

    The older stays, unless it is a tombstone: that never knows more than the newer.
    """
    raise NotImplementedError("dedup_deltas is not written yet")


class DeltaFIFO:
    """A FIFO of keys, each with its deltas, oldest first.

    ``emit_replaced`` False gives lists the type SYNC instead of REPLACED, as
    before that type existed.
    """

    def __init__(
        self,
        known_objects: KnownObjects | None = None,
        *,
        key_func: KeyFunc = key_of,
        emit_replaced: bool = True,
    ) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._known = known_objects
        self._key_func = key_func
        self._list_type = DeltaType.REPLACED if emit_replaced else DeltaType.SYNC
        #: A key is in _queue, once, if and only if it is in _items.
        self._items: dict[str, list[Delta]] = {}
        self._queue: deque[str] = deque()
        #: True from the first call that brings anything; see has_synced().
        self._populated = False
        #: Keys of the first list that are not popped yet.
        self._initial_left = 0
        self._synced = False
        self._closed = False

    def add(self, obj: Object) -> None:
        with self._changed:
            self._mark_populated()
            self._queue_delta(DeltaType.ADDED, obj)

    def update(self, obj: Object) -> None:
        with self._changed:
            self._mark_populated()
            self._queue_delta(DeltaType.UPDATED, obj)

    def delete(self, obj: Object | DeletedFinalStateUnknown) -> None:
        """Queue a deletion, unless neither the queue nor the cache has ever heard of the key.

        Then a relist has reported it already, and nobody needs to hear it twice.
        """
        raise NotImplementedError("delete is not written yet")

    def replace(self, objs: list[Object], resource_version: str = "") -> None:
        """A list: REPLACED for each of its objects, a tombstone for all else that is known."""
        raise NotImplementedError("replace is not written yet")

    def resync(self) -> None:
        """SYNC for everything in the cache, except for keys with news in the queue.

        Their cached state is older than the queued one: it must not come after it.
        """
        raise NotImplementedError("resync is not written yet")

    def bookmark(self, resource_version: str) -> None:
        """Nothing: DeltaFIFO has no place for a bookmark."""

    def pop(self, process: PopProcess) -> list[Delta]:
        """Wait for a key; call ``process`` with all its deltas, the lock held; return them.

        Raises :class:`~.deltas.Closed` once closed and empty.
        """
        raise NotImplementedError("pop is not written yet")

    def has_synced(self) -> bool:
        """Whether every key of the first list was popped.

        True as well when anything but a list came first: then there is nothing
        to wait for. Never false again.
        """
        with self._changed:
            return self._synced

    def close(self) -> None:
        """Wake up ``pop``; what is queued can still be popped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __len__(self) -> int:
        """Keys that are queued. For information only."""
        with self._changed:
            return len(self._queue)

    # The lock is held.

    def _key_of(self, obj: Object | DeletedFinalStateUnknown) -> str:
        if isinstance(obj, DeletedFinalStateUnknown):
            return obj.key
        return self._key_func(obj)

    def _queue_delta(self, type_: DeltaType, obj: Object | DeletedFinalStateUnknown) -> None:
        raise NotImplementedError("_queue_delta is not written yet")

    def _mark_populated(self) -> None:
        self._populated = True
        self._check_synced()

    def _check_synced(self) -> None:
        if self._populated and self._initial_left == 0:
            self._synced = True
