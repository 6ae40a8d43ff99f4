"""Queues that add a key later: after a delay, or after what a limiter says.

Upstream: client-go v0.37.2, util/workqueue/delaying_queue.go — ``AddAfter``
(249), ``waitingLoop`` (276), ``insert`` (355: of two delays of one key the
sooner wins) — and rate_limiting_queue.go — ``AddRateLimited`` (137), ``Forget``
(145).

A key that waits here is in neither ``_dirty`` nor ``_queue``: ``add`` of the
same key meanwhile is processed at once, and the waiting one still comes. Delay
does not mean «instead of»: it means «at the latest».

Concurrency: one thread (upstream's waitingLoop goroutine) sleeps until the
soonest key is due. The heap and ``_due`` are guarded by ``_waiting``, a
condition of their own: ``add_after`` never waits for a worker. Lock order:
``_waiting``, then the work queue's own lock.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Hashable
from typing import TypeVar

from .clock import Clock, RealClock
from .rate_limiters import RateLimiter
from .workqueue import WorkQueue

K = TypeVar("K", bound=Hashable)


class DelayingQueue(WorkQueue[K]):
    """A work queue with :meth:`add_after`. O(log n) in the keys that wait."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self._clock = clock or RealClock()
        self._waiting = threading.Condition(threading.Lock())
        #: (due, tie-breaker, key). An entry whose due is not _due[key] any more is stale.
        self._heap: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._order = itertools.count()
        self._stopped = False
        self._thread = threading.Thread(
            target=self._add_when_due, name="delaying-queue", daemon=True
        )
        self._thread.start()

    def add_after(self, key: K, delay: float) -> None:
        """Add ``key`` in ``delay`` seconds; at once if that is not positive.

        If the key waits already, the sooner of the two times is kept.
        """
        # phase4:solution 4.2.2
        if delay <= 0:
            self.add(key)
            return
        with self._waiting:
            if self._stopped:
                return
            due = self._clock.now() + delay
            if key in self._due and self._due[key] <= due:
                return
            self._due[key] = due
            heapq.heappush(self._heap, (due, next(self._order), key))
            if self._heap[0][2] == key:
                # It is the soonest of all: the sleeping thread must look again.
                self._waiting.notify_all()
        # phase4:stub
        # raise NotImplementedError("add_after is not written yet")
        # phase4:end

    def waiting(self) -> int:
        """Keys that wait for their time. For information only."""
        with self._waiting:
            return len(self._due)

    def _add_when_due(self) -> None:
        with self._waiting:
            while not self._stopped:
                # phase4:solution 4.2.2
                now = self._clock.now()
                while self._heap and self._heap[0][0] <= now:
                    due, _order, key = heapq.heappop(self._heap)
                    if self._due.get(key) == due:
                        del self._due[key]
                        self.add(key)
                timeout = self._heap[0][0] - now if self._heap else None
                self._clock.wait(self._waiting, timeout)
                # phase4:stub
                # # Add what is due, then wait for the next; see Clock.wait.
                # self._clock.wait(self._waiting, None)
                # phase4:end

    def _stop_waiting(self) -> None:
        with self._waiting:
            self._stopped = True
            self._heap.clear()
            self._due.clear()
            self._waiting.notify_all()

    def shut_down(self) -> None:
        """As :meth:`WorkQueue.shut_down`; keys that still wait for their time are dropped."""
        self._stop_waiting()
        super().shut_down()

    def shut_down_with_drain(self) -> None:
        """As :meth:`WorkQueue.shut_down_with_drain`; keys that still wait are dropped."""
        self._stop_waiting()
        super().shut_down_with_drain()


class RateLimitingQueue(DelayingQueue[K]):
    """A delaying queue whose delays come from a limiter.

    After a failure: ``add_rate_limited(key)``. After a success:
    ``forget(key)``. After either: ``done(key)``.
    """

    def __init__(self, limiter: RateLimiter[K], clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._limiter = limiter

    def add_rate_limited(self, key: K) -> None:
        """Add ``key`` after the time its limiter says, and count one more failure."""
        # phase4:solution 4.2.2
        self.add_after(key, self._limiter.when(key))
        # phase4:stub
        # raise NotImplementedError("add_rate_limited is not written yet")
        # phase4:end

    def forget(self, key: K) -> None:
        """Tell the limiter that ``key`` succeeded or was given up. Not ``done``."""
        self._limiter.forget(key)

    def num_requeues(self, key: K) -> int:
        return self._limiter.num_requeues(key)
