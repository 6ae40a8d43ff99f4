"""How long a key waits before it is tried again.

Upstream: client-go v0.37.2, util/workqueue/default_rate_limiters.go —
``TypedItemExponentialFailureRateLimiter`` (84), ``TypedBucketRateLimiter``
(62, golang.org/x/time/rate underneath), ``TypedMaxOfRateLimiter`` (218),
``TypedWithMaxWaitRateLimiter`` (266), ``DefaultTypedControllerRateLimiter``
(50).

A limiter says *how long*; it neither waits nor queues. ``forget`` is the
caller's word that the key succeeded (or was given up): until it is said, the
next failure counts as one more in a row.

Concurrency: each limiter has its own lock; any thread may call anything.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from .clock import Clock, RealClock

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    def when(self, key: K_contra) -> float:
        """Count one more failure of ``key``; seconds to wait before the next try."""

    def forget(self, key: K_contra) -> None:
        """Stop tracking ``key``: its next failure is a first one."""

    def num_requeues(self, key: K_contra) -> int:
        """Failures of ``key`` counted since it was last forgotten."""


class ItemExponentialFailureRateLimiter(Generic[K]):
    """``base * 2**failures`` seconds for each key on its own, at most ``maximum``."""

    def __init__(self, base: float, maximum: float) -> None:
        self._lock = threading.Lock()
        self._failures: dict[K, int] = {}
        self._base = base
        self._maximum = maximum

    def when(self, key: K) -> float:
        raise NotImplementedError("when is not written yet")

    def forget(self, key: K) -> None:
        raise NotImplementedError("forget is not written yet")

    def num_requeues(self, key: K) -> int:
        with self._lock:
            return self._failures.get(key, 0)


class BucketRateLimiter(Generic[K]):
    """One bucket for all keys: ``burst`` at once, then ``qps`` a second.

    Each ``when`` takes a token, in advance if there is none left, and says how
    long it takes until that token exists. Knows no failures: ``forget`` does
    nothing (golang.org/x/time/rate, ``Limiter.Reserve``).
    """

    def __init__(self, qps: float, burst: int, clock: Clock | None = None) -> None:
        self._lock = threading.Lock()
        self._clock = clock or RealClock()
        self._qps = qps
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at = self._clock.now()

    def when(self, key: K) -> float:
        raise NotImplementedError("when is not written yet")

    def forget(self, key: K) -> None:
        pass

    def num_requeues(self, key: K) -> int:
        return 0


class MaxOfRateLimiter(Generic[K]):
    """Asks every limiter, each time, and takes the longest wait."""

    def __init__(self, *limiters: RateLimiter[K]) -> None:
        self._limiters = limiters

    def when(self, key: K) -> float:
        raise NotImplementedError("when is not written yet")

    def forget(self, key: K) -> None:
        for limiter in self._limiters:
            limiter.forget(key)

    def num_requeues(self, key: K) -> int:
        return max((limiter.num_requeues(key) for limiter in self._limiters), default=0)


class WithMaxWaitRateLimiter(Generic[K]):
    """Another limiter's wait, cut off at ``maximum`` seconds."""

    def __init__(self, limiter: RateLimiter[K], maximum: float) -> None:
        self._limiter = limiter
        self._maximum = maximum

    def when(self, key: K) -> float:
        return min(self._limiter.when(key), self._maximum)

    def forget(self, key: K) -> None:
        self._limiter.forget(key)

    def num_requeues(self, key: K) -> int:
        return self._limiter.num_requeues(key)


def default_controller_rate_limiter(clock: Clock | None = None) -> MaxOfRateLimiter:
    """5 ms doubling to 1000 s for each key; 10 a second, burst 100, over all keys."""
    return MaxOfRateLimiter(
        ItemExponentialFailureRateLimiter(0.005, 1000.0),
        BucketRateLimiter(10.0, 100, clock),
    )
