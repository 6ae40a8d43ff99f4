"""Traces on a work queue (also one that delays and limits).

A ``get`` that would wait for ever says ``"blocked"`` instead, and one that
ends the worker ``"shutdown"``. Time is a fake clock's, moved by ``["step",
SECONDS]``. ``["waiter"]`` has a thread of its own wait in ``get``, and ``["told"]`` says
what it was given since, ``"nothing"`` where nobody woke it. ``["workers", COUNT, ADDS]`` is no single call: that many real
threads work on keys that others add, and what is told is how often two had the
same key, how many keys' last add nobody acted on, how many keys waited beside
idle workers, and how many workers did not end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from ..workqueue import ShutDown
from .waiting import Waiter, until_all_wait

KEYS = "abcde"


class QueueReplay:
    """One queue, what its workers have, and the one thread that may wait in a drain."""

    #: Seconds that a drain has to return once it may.
    patience = 5.0

    def __init__(self, queue: Any, clock: Any = None) -> None:
        self.queue = queue
        self.clock = clock
        if clock is not None:
            clock.wait_for_waiter(1.0)
        #: In the order in which they were got.
        self.processing: list[str] = []
        self.drain: threading.Thread | None = None
        self.drain_may_end = False
        self.drain_error: Exception | None = None
        self.waiter: Waiter | None = None

    def run(self, ops: list[list[Any]]) -> Iterator[Any]:
        try:
            for name, *arguments in ops:
                call = getattr(self, f"op_{name}", None) or getattr(self.queue, name)
                yield call(*arguments)
                if self.drain is not None and not self.processing:
                    # Its moment: it must see it before the next call puts an end to it.
                    self.drain_may_end = True
                    self.op_drained()
        finally:
            self.queue.shut_down()

    def op_get(self) -> Any:
        if len(self.queue) == 0 and not self.queue.shutting_down:
            return "blocked"
        # In a thread: it should not wait, but who knows.
        taken = Waiter(self._take).told(2)
        if taken == "nothing":
            raise TimeoutError("get waits, though the queue is not empty")
        if isinstance(taken, dict):
            self.processing.append(taken["key"])
        return taken

    def _take(self) -> Any:
        try:
            return {"key": self.queue.get()}
        except ShutDown:
            return "shutdown"

    def op_waiter(self) -> None:
        self.waiter = Waiter(self._take)
        until_all_wait([self.waiter.thread])

    def op_told(self) -> Any:
        return self.waiter.told() if self.waiter is not None else None

    def op_done(self, key: str) -> None:
        if key in self.processing:
            self.processing.remove(key)
        self.queue.done(key)

    def op_done_nth(self, n: int) -> None:
        """Done with one of the keys being processed, if there is any: the n-th, modulo."""
        if self.processing:
            self.op_done(self.processing[n % len(self.processing)])

    def op_len(self) -> int:
        return len(self.queue)

    def op_shutting_down(self) -> bool:
        return self.queue.shutting_down

    def op_shut_down(self) -> None:
        self.drain_may_end = True
        self.queue.shut_down()

    def op_step(self, seconds: float) -> None:
        self.clock.step(seconds)

    def op_drain(self) -> None:
        """In a thread, since it waits; this returns once it has begun (of a queue not shut down)."""
        self.drain_may_end = False

        def wait() -> None:
            try:
                self.queue.shut_down_with_drain()
            except Exception as error:
                self.drain_error = error

        self.drain = threading.Thread(target=wait, daemon=True)
        self.drain.start()
        give_up = time.monotonic() + 5
        while not self.queue.shutting_down and time.monotonic() < give_up:
            if self.drain_error is not None:
                raise self.drain_error
            time.sleep(0)

    def op_drained(self) -> bool:
        if self.drain is None:
            return False
        # Whether it ends is known; for how long to wait until it has, is not.
        self.drain.join(QueueReplay.patience if self.drain_may_end else 0.002)
        if self.drain_error is not None:
            raise self.drain_error
        if self.drain_may_end and self.drain.is_alive():
            # Waited for in vain once: not for so long in the traces to come.
            QueueReplay.patience = 0.05
        return not self.drain.is_alive()

    def op_workers(self, count: int, adds: int) -> dict[str, int]:
        lock = threading.Lock()
        busy: set[str] = set()
        #: The newest version of each key, and the newest that a worker has seen.
        latest = dict.fromkeys(KEYS, 0)
        seen = dict.fromkeys(KEYS, 0)
        overlaps = 0

        def work() -> None:
            nonlocal overlaps
            while True:
                try:
                    key = self.queue.get()
                except ShutDown:
                    return
                with lock:
                    overlaps += key in busy
                    busy.add(key)
                    version = latest[key]
                time.sleep(0)  # let somebody else in
                with lock:
                    seen[key] = max(seen[key], version)
                    busy.discard(key)
                self.queue.done(key)

        workers = [threading.Thread(target=work, daemon=True) for _ in range(count)]
        for worker in workers:
            worker.start()
        until_all_wait(workers)
        for i in range(adds):
            key = KEYS[i % len(KEYS)]
            with lock:
                latest[key] += 1
            self.queue.add(key)
        give_up = time.monotonic() + 3
        while (len(self.queue) or busy) and time.monotonic() < give_up:
            time.sleep(0.001)
        waiting = len(self.queue)
        self.queue.shut_down()
        give_up = time.monotonic() + 5
        for worker in workers:
            worker.join(max(0.0, give_up - time.monotonic()))
        return {
            "overlaps": overlaps,
            "lost": sum(seen[key] != latest[key] for key in KEYS),
            "waiting": waiting,
            "stuck": sum(worker.is_alive() for worker in workers),
        }


def replay_queue(trace: dict[str, Any], queue: Any, clock: Any = None) -> Iterator[Any]:
    return QueueReplay(queue, clock).run(trace["ops"])
