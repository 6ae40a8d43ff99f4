"""One signal that ends everything: what a cancelled ``context.Context`` is in Go.

Python's threads cannot be interrupted. So whatever blocks must be able to be
woken: a waiting thread by its condition, a thread that reads a watch by
shutting its socket down. Each says how, with :meth:`Stop.on_stop`.

Concurrency: any thread may call anything. Callbacks run once, in the thread
that stops (or at once, if it has stopped already).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from .clock import Clock, RealClock

T = TypeVar("T")


class Stopped(Exception):
    """Raised by what was interrupted by a :class:`Stop`."""


class Stop:
    """Not stopped at first; stopped for good after :meth:`set`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._set = False
        self._callbacks: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        """Stop. A second call does nothing."""
        with self._changed:
            if self._set:
                return
            self._set = True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback()

    @contextmanager
    def on_stop(self, callback: Callable[[], None]) -> Iterator[None]:
        """For the length of the block: ``callback`` is called when this stops."""
        with self._changed:
            now = self._set
            if not now:
                self._callbacks.append(callback)
        if now:
            callback()
        try:
            yield
        finally:
            with self._changed:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

    def wait(self, timeout: float | None = None, clock: Clock | None = None) -> bool:
        """Wait until stopped, at most ``timeout`` seconds; whether it is stopped."""
        clock = clock or RealClock()
        until = None if timeout is None else clock.now() + timeout
        with self._changed:
            while not self._set:
                left = None if until is None else until - clock.now()
                if left is not None and left <= 0:
                    break
                clock.wait(self._changed, left)
            return self._set

    def call(self, function: Callable[[], T], discard: Callable[[T], None] | None = None) -> T:
        """``function()``, given up on when stopped: then :class:`Stopped` is raised.

        For calls that cannot be woken, such as waiting for the head of an
        answer. It runs in a thread of its own, left behind when given up on;
        what it returns after that is handed to ``discard``.
        (Upstream: the goroutine and ``select`` in ``list`` (reflector.go:674).)
        """
        outcome: list[tuple[T | None, BaseException | None]] = []
        given_up = False

        def run() -> None:
            try:
                result, error = function(), None
            except BaseException as raised:  # handed over to the caller
                result, error = None, raised
            with self._changed:
                abandoned = given_up
                outcome.append((result, error))
                self._changed.notify_all()
            if abandoned and error is None and discard is not None:
                discard(result)

        threading.Thread(target=run, name="request", daemon=True).start()
        with self._changed:
            while not outcome:
                if self._set:
                    given_up = True
                    raise Stopped
                self._changed.wait()
        result, error = outcome[0]
        if error is not None:
            raise error
        return result
