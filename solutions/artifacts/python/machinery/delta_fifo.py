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
    # phase4:solution 4.2.3
    if len(deltas) < 2:
        return
    older, newer = deltas[-2], deltas[-1]
    if older.type is DeltaType.DELETED and newer.type is DeltaType.DELETED:
        deltas.pop()
        if isinstance(older.object, DeletedFinalStateUnknown):
            deltas[-1] = newer
    # phase4:stub
    # raise NotImplementedError("dedup_deltas is not written yet")
    # phase4:end


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
        # phase4:solution 4.2.3
        key = self._key_of(obj)
        with self._changed:
            self._mark_populated()
            queued = key in self._items
            known = self._known is not None and self._known.get(key) is not None
            if queued or known:
                self._queue_delta(DeltaType.DELETED, obj)
        # phase4:stub
        # raise NotImplementedError("delete is not written yet")
        # phase4:end

    def replace(self, objs: list[Object], resource_version: str = "") -> None:
        """A list: REPLACED for each of its objects, a tombstone for all else that is known."""
        # phase4:solution 4.2.3
        with self._changed:
            keys = {self._key_of(obj) for obj in objs}
            for obj in objs:
                self._queue_delta(self._list_type, obj)
            deletions = 0
            # What is queued and not in the list. Its last state is the newest delta's.
            for key, deltas in list(self._items.items()):
                if key not in keys:
                    last = deltas[-1].object
                    if isinstance(last, DeletedFinalStateUnknown):
                        last = last.obj
                    deletions += 1
                    self._queue_delta(DeltaType.DELETED, DeletedFinalStateUnknown(key, last))
            # What is in the cache, and neither in the list nor in the queue.
            for key in self._known.keys() if self._known is not None else ():
                if key not in keys and key not in self._items:
                    deletions += 1
                    tombstone = DeletedFinalStateUnknown(key, self._known.get(key))
                    self._queue_delta(DeltaType.DELETED, tombstone)
            if not self._populated:
                self._populated = True
                self._initial_left = len(keys) + deletions
                self._check_synced()
        # phase4:stub
        # raise NotImplementedError("replace is not written yet")
        # phase4:end

    def resync(self) -> None:
        """SYNC for everything in the cache, except for keys with news in the queue.

        Their cached state is older than the queued one: it must not come after it.
        """
        # phase4:solution 4.2.3
        with self._changed:
            for key in self._known.keys() if self._known is not None else ():
                obj = self._known.get(key)
                if obj is not None and key not in self._items:
                    self._queue_delta(DeltaType.SYNC, obj)
        # phase4:stub
        # raise NotImplementedError("resync is not written yet")
        # phase4:end

    def bookmark(self, resource_version: str) -> None:
        """Nothing: DeltaFIFO has no place for a bookmark."""

    def pop(self, process: PopProcess) -> list[Delta]:
        """Wait for a key; call ``process`` with all its deltas, the lock held; return them.

        Raises :class:`~.deltas.Closed` once closed and empty.
        """
        # phase4:solution 4.2.3
        with self._changed:
            while not self._queue:
                if self._closed:
                    raise Closed
                self._changed.wait()
            in_initial_list = not self._synced
            deltas = self._items.pop(self._queue.popleft())
            if self._initial_left > 0:
                self._initial_left -= 1
                self._check_synced()
            process(deltas, in_initial_list)
            return deltas
        # phase4:stub
        # raise NotImplementedError("pop is not written yet")
        # phase4:end

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
        # phase4:solution 4.2.3
        key = self._key_of(obj)
        if key not in self._items:
            self._queue.append(key)
            self._items[key] = []
        self._items[key].append(Delta(type_, obj))
        dedup_deltas(self._items[key])
        self._changed.notify_all()
        # phase4:stub
        # raise NotImplementedError("_queue_delta is not written yet")
        # phase4:end

    def _mark_populated(self) -> None:
        self._populated = True
        self._check_synced()

    def _check_synced(self) -> None:
        if self._populated and self._initial_left == 0:
            self._synced = True
