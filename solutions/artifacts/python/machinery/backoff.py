"""The pause between two attempts: it doubles, and no two clients keep the same step.

Upstream: apimachinery v0.37.2, pkg/util/wait/backoff.go — ``delay`` (98),
``backoffManager.Step`` (292); the numbers are client-go's,
tools/cache/reflector.go, ``defaultBackoffInit`` (62) and those below it.

Concurrency: one thread.
"""

from __future__ import annotations

import random

from .clock import Clock, RealClock


class Backoff:
    """``step()`` gives the seconds to wait before the next attempt.

    0.8, 1.6, 3.2 … up to 30 s, each stretched by a random share of itself (so
    that a thousand clients of a server that comes back do not come at once):
    the longest pause is just under 60 s. Two minutes after the first step it
    starts again from the beginning, whatever happened meanwhile.
    """

    def __init__(
        self,
        initial: float = 0.8,
        maximum: float = 30.0,
        *,
        factor: float = 2.0,
        jitter: float = 1.0,
        reset_after: float = 120.0,
        clock: Clock | None = None,
        random_: random.Random | None = None,
    ) -> None:
        self._clock = clock or RealClock()
        self._random = random_ or random.Random()
        self._initial = initial
        self._maximum = maximum
        self._factor = factor
        self._jitter = jitter
        self._reset_after = reset_after
        self._next = initial
        self._started = self._clock.now()

    def step(self) -> float:
        now = self._clock.now()
        if now - self._started > self._reset_after:
            self._next = self._initial
            self._started = now
        pause = self._next * (1 + self._jitter * self._random.random())
        self._next = min(self._next * self._factor, self._maximum)
        return pause
