"""A thread that waits in a call until somebody wakes it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any


class Waiter:
    """Makes one call in a thread of its own."""

    #: Seconds that a thread which waits has to be woken; fewer once one was not.
    patience = 5.0

    def __init__(self, call: Callable[[], Any]) -> None:
        self._outcome: list[Any] = []

        def make() -> None:
            try:
                self._outcome.append(call())
            except Exception as error:
                self._outcome.append(error)

        self.thread = threading.Thread(target=make, daemon=True)
        self.thread.start()

    def told(self, patience: float | None = None) -> Any:
        """What the call returned, ``"nothing"`` where it still waits; raises what it raised."""
        self.thread.join(Waiter.patience if patience is None else patience)
        if not self._outcome:
            if patience is None:
                Waiter.patience = 0.05
            return "nothing"
        if isinstance(self._outcome[0], Exception):
            raise self._outcome[0]
        return self._outcome[0]


def until_all_wait(threads: Iterable[threading.Thread]) -> None:
    """Until each thread waits, so that somebody has to wake it.

    Who waits in another way than on the standard library's conditions cannot be seen to:
    a second is enough for that.
    """
    give_up = time.monotonic() + 1
    while not all(map(_waits, threads)) and time.monotonic() < give_up:
        time.sleep(0.001)


def _waits(thread: threading.Thread) -> bool:
    """Whether a thread waits for a condition of the standard library, or has ended."""
    frame = sys._current_frames().get(thread.ident)
    if frame is None:
        return True
    return frame.f_code.co_filename == threading.__file__ and frame.f_code.co_name == "wait"
