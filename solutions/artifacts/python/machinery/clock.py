"""Time that a test can hold still.

Everything here that waits (the delaying queue, the bucket, the reflector's
backoff) asks a :class:`Clock`, as client-go's structures ask
``k8s.io/utils/clock`` (``clock.Clock`` and ``clock/testing.FakeClock``).

Concurrency: both clocks may be used from any thread. ``wait`` is called with
the condition's lock held, exactly as :meth:`threading.Condition.wait` is.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic time in seconds, and a way to wait for it."""

    def now(self) -> float:
        """Seconds since an arbitrary start; never goes back."""

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """Wait until notified or until ``timeout`` seconds have passed (None: for ever).

        The caller holds ``condition`` and looks again at what it waited for:
        as with every condition variable, waking up proves nothing.
        """


class RealClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        if timeout is None or timeout > 0:
            condition.wait(timeout)


class FakeClock:
    """A clock that stands still until :meth:`step`.

    Used from a test's thread while other threads wait on it. ``step`` returns
    only when every thread that has ever waited on this clock has looked at the
    new time and waits again (or has ended), so that a test never has to sleep.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._now = 0.0
        #: For each thread that waits here: how often it has, until when, on what.
        self._waits: dict[threading.Thread, tuple[int, float, threading.Condition]] = {}

    def now(self) -> float:
        with self._changed:
            return self._now

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        me = threading.current_thread()
        with self._changed:
            until = float("inf") if timeout is None else self._now + timeout
            if until <= self._now:
                return
            count = self._waits[me][0] + 1 if me in self._waits else 1
            self._waits[me] = (count, until, condition)
            self._changed.notify_all()
        condition.wait()

    def step(self, seconds: float) -> None:
        """Move the time forward, and let every waiting thread act on it."""
        with self._changed:
            self._now += seconds
            waits = dict(self._waits)
        before: dict[threading.Thread, int] = {}
        for thread, (_count, _until, condition) in waits.items():
            # While its condition is held, a thread is in none of the places between
            # asking for the time and waiting: what it waits for next, it works out anew.
            with condition:
                with self._changed:
                    before[thread] = self._waits[thread][0]
                condition.notify_all()
        with self._changed:
            for thread, count in before.items():
                while thread.is_alive() and not self._settled(thread, count):
                    # The poll is for a thread that ends without waiting again.
                    self._changed.wait(0.01)

    def wait_for_waiter(self, timeout: float) -> bool:
        """Wait until some thread waits here, at most ``timeout`` real seconds; whether one does.

        A thread that was only just started is not yet among those that ``step`` minds.
        (Upstream: k8s.io/utils/clock/testing, ``FakeClock.HasWaiters``.)
        """
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._waits), timeout)

    def _settled(self, thread: threading.Thread, count_before: int) -> bool:
        count, until, _condition = self._waits[thread]
        return count > count_before and until > self._now
