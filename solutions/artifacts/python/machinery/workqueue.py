"""The work queue: each key at most once in the queue, and with one worker at a time.

Upstream: client-go v0.37.2, util/workqueue/queue.go — ``Typed`` (190), ``Add``
(227), ``Get`` (265), ``Done`` (289), ``Typed.ShutDown`` (307),
``Typed.ShutDownWithDrain`` (327).

A key is in at most two of these at any moment:

==============  ==========================================================
``_dirty``      needs processing: added, and not yet handed to a worker
``_processing`` a worker has it, between ``get`` and ``done``
``_queue``      the order in which workers get them; always dirty keys that
                are *not* processing
==============  ==========================================================

So a hundred ``add`` of one key before a worker comes are one ``get``; an
``add`` while a worker has the key is remembered in ``_dirty`` alone and put in
the queue by ``done``: it is neither lost nor given to a second worker.

Concurrency: one lock guards all three, one condition tells waiters of every
change. Any number of threads may call anything. Every operation is O(1).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class ShutDown(Exception):
    """Raised by :meth:`WorkQueue.get`: nothing is left, and nothing will come."""


class WorkQueue(Generic[K]):
    """A fair queue of keys for any number of workers.

    A worker's loop::

        while True:
            try:
                key = queue.get()
            except ShutDown:
                return
            try:
                reconcile(key)
            finally:
                queue.done(key)
    """

    def __init__(self) -> None:
        # A plain (not re-entrant) lock: no method calls another while it holds it.
        self._changed = threading.Condition(threading.Lock())
        self._queue: deque[K] = deque()
        self._dirty: set[K] = set()
        self._processing: set[K] = set()
        self._shutting_down = False
        self._drain = False

    def add(self, key: K) -> None:
        """Say that ``key`` needs processing. Ignored once shut down (queue.go:227)."""
        # phase4:solution 4.2.1
        with self._changed:
            if self._shutting_down or key in self._dirty:
                return
            self._dirty.add(key)
            if key in self._processing:
                # Not into the queue: a second worker would get it. done() puts it there.
                return
            self._queue.append(key)
            self._changed.notify()
        # phase4:stub
        # raise NotImplementedError("add is not written yet")
        # phase4:end

    def get(self) -> K:
        """Wait for a key and take it; call :meth:`done` with it when finished.

        Raises :class:`ShutDown` when the queue is shut down *and* empty: what
        was in it before the shut-down is still handed out (queue.go:265).
        """
        # phase4:solution 4.2.1
        with self._changed:
            while not self._queue:
                if self._shutting_down:
                    raise ShutDown
                self._changed.wait()
            key = self._queue.popleft()
            self._processing.add(key)
            # From here on an add() is a new reason to process, not the one we act on.
            self._dirty.remove(key)
            return key
        # phase4:stub
        # raise NotImplementedError("get is not written yet")
        # phase4:end

    def done(self, key: K) -> None:
        """Finish with ``key``; queue it again if it was added meanwhile (queue.go:289).

        A key that no worker has is ignored. (Upstream would put it into the
        queue a second time if it waits there: differences.md.)
        """
        # phase4:solution 4.2.1
        with self._changed:
            if key not in self._processing:
                return
            self._processing.remove(key)
            if key in self._dirty:
                self._queue.append(key)
                self._changed.notify()
            elif not self._processing:
                # Somebody may wait in shut_down_with_drain() for this moment.
                self._changed.notify_all()
        # phase4:stub
        # raise NotImplementedError("done is not written yet")
        # phase4:end

    def __len__(self) -> int:
        """Keys waiting in the queue, without those being processed. For information only."""
        with self._changed:
            return len(self._queue)

    @property
    def shutting_down(self) -> bool:
        with self._changed:
            return self._shutting_down

    def shut_down(self) -> None:
        """Take no more keys; workers get what is queued, then :class:`ShutDown`.

        Ends a :meth:`shut_down_with_drain` that another thread waits in.
        """
        # phase4:solution 4.2.1
        with self._changed:
            self._drain = False
            self._shutting_down = True
            self._changed.notify_all()
        # phase4:stub
        # raise NotImplementedError("shut_down is not written yet")
        # phase4:end

    def shut_down_with_drain(self) -> None:
        """As :meth:`shut_down`, and wait until no worker has a key any more.

        Returns when the set of keys being processed is empty (queue.go:327).
        Keys that are queued and that no worker takes are not waited for.
        """
        # phase4:solution 4.2.1
        with self._changed:
            self._drain = True
            self._shutting_down = True
            self._changed.notify_all()
            while self._processing and self._drain:
                self._changed.wait()
        # phase4:stub
        # raise NotImplementedError("shut_down_with_drain is not written yet")
        # phase4:end
