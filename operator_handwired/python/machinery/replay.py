"""Replay traces on the machinery, and print what happened.

The twin of oracle/ (which does the same with client-go): one JSON trace a line
on standard input, its outcomes as one JSON array a line on standard output::

    {"structure": "workqueue", "ops": [["add", "a"], ["get"], ["done", "a"]]}
    [null, {"key": "a"}, null]

A ``get`` or ``pop`` that would wait for ever says ``"blocked"`` instead. Time
is a :class:`~.clock.FakeClock`, moved by ``["step", SECONDS]``.

Run it with ``python -m machinery.replay``.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from .clock import FakeClock
from .delaying import RateLimitingQueue
from .delta_fifo import DeltaFIFO
from .deltas import Bookmark, Closed, Delta, DeltaType, ReplacedAll, SyncAll
from .objects import DeletedFinalStateUnknown, key_of, key_of_deleted, resource_version
from .rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
    RateLimiter,
    WithMaxWaitRateLimiter,
)
from .real_fifo import RealFIFO
from .store import NAMESPACE_INDEX, Store, index_by_namespace
from .workqueue import ShutDown

Trace = dict[str, Any]


def replay(trace: Trace) -> list[Any]:
    """The outcome of each op of a trace: null where the call returns nothing."""
    return REPLAYS[trace["structure"]](trace)


def build_limiter(spec: dict[str, Any], clock: FakeClock) -> RateLimiter[str]:
    """A limiter as ``LimiterSpec`` in oracle/workqueue.go describes it."""
    match spec["type"]:
        case "exponential":
            return ItemExponentialFailureRateLimiter(spec["base"], spec["max"])
        case "bucket":
            return BucketRateLimiter(spec["qps"], spec["burst"], clock)
        case "max_of":
            return MaxOfRateLimiter(*(build_limiter(one, clock) for one in spec["limiters"]))
        case "max_wait":
            return WithMaxWaitRateLimiter(build_limiter(spec["limiters"][0], clock), spec["max"])
    raise ValueError(f"there is no limiter {spec['type']!r}")


def replay_limiter(trace: Trace) -> list[Any]:
    clock = FakeClock()
    limiter = build_limiter(trace["limiter"], clock)
    calls: dict[str, Callable[..., Any]] = {
        "when": limiter.when,
        "forget": limiter.forget,
        "num_requeues": limiter.num_requeues,
        "step": clock.step,
    }
    return [calls[name](*arguments) for name, *arguments in trace["ops"]]


class _QueueReplay:
    """A rate-limiting queue, and the one thread that may wait in a drain."""

    def __init__(self, trace: Trace) -> None:
        self.clock = FakeClock()
        spec = trace.get("limiter") or {"type": "exponential", "base": 0.005, "max": 1000}
        self.queue: RateLimitingQueue[str] = RateLimitingQueue(
            build_limiter(spec, self.clock), self.clock
        )
        #: In the order in which they were got.
        self.processing: list[str] = []
        self.drain: threading.Thread | None = None
        self.drain_may_end = False

    def run(self, ops: list[list[Any]]) -> list[Any]:
        outcomes = []
        try:
            for name, *arguments in ops:
                call = getattr(self, f"op_{name}", None) or getattr(self.queue, name)
                outcomes.append(call(*arguments))
                if self.drain is not None and not self.processing:
                    self.drain_may_end = True
        finally:
            self.queue.shut_down()
        return outcomes

    def op_get(self) -> Any:
        if len(self.queue) == 0 and not self.queue.shutting_down:
            return "blocked"
        try:
            key = self.queue.get()
        except ShutDown:
            return "shutdown"
        self.processing.append(key)
        return {"key": key}

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
        self.drain = threading.Thread(target=self.queue.shut_down_with_drain, daemon=True)
        self.drain.start()
        give_up = time.monotonic() + 5
        while not self.queue.shutting_down and time.monotonic() < give_up:
            time.sleep(0)

    def op_drained(self) -> bool:
        if self.drain is None:
            return False
        # Whether it ends is known; for how long to wait until it has, is not.
        self.drain.join(5 if self.drain_may_end else 0.002)
        return not self.drain.is_alive()


def replay_workqueue(trace: Trace) -> list[Any]:
    return _QueueReplay(trace).run(trace["ops"])


def plain(value: Any) -> Any:
    """What a queue hands out, as JSON."""
    match value:
        case DeletedFinalStateUnknown(key, obj):
            return {"tombstone": key, "obj": obj}
        case ReplacedAll(objects, version):
            return {"objects": list(objects), "resource_version": version}
        case Bookmark(version):
            return {"resource_version": version}
        case SyncAll():
            return {}
    return value


def replay_delta_queue(trace: Trace) -> list[Any]:
    known = Store()
    atomic = trace.get("atomic", False)
    queue: DeltaFIFO | RealFIFO
    if trace["structure"] == "delta_fifo":
        queue = DeltaFIFO(known if trace.get("known_objects") else None)
    else:
        queue = RealFIFO(None if atomic else known)
    #: Whether anything is queued: what a pop would wait for. Neither queue tells.
    closed = False

    def close() -> None:
        nonlocal closed
        closed = True
        queue.close()

    def pop() -> Any:
        outcome: Any = "closed"

        def process(deltas: list[Delta], in_initial_list: bool) -> None:
            nonlocal outcome
            outcome = {
                "deltas": [[delta.type.value, plain(delta.object)] for delta in deltas],
                "initial": in_initial_list,
                "synced_inside": queue.has_synced() if atomic else None,
            }
            for delta in deltas if not atomic else ():
                if delta.type is DeltaType.DELETED:
                    known.delete(delta.object)
                else:
                    known.add(delta.object)

        if len(queue) == 0 and not closed:
            return "blocked"
        try:
            queue.pop(process)
        except Closed:
            pass
        return outcome

    def delete_tombstone(key: str, obj: Any) -> None:
        queue.delete(DeletedFinalStateUnknown(key, obj))

    calls: dict[str, Callable[..., Any]] = {
        "add": queue.add,
        "update": queue.update,
        "delete": queue.delete,
        "delete_tombstone": delete_tombstone,
        "replace": queue.replace,
        "resync": queue.resync,
        "bookmark": queue.bookmark,
        "has_synced": queue.has_synced,
        "close": close,
        "pop": pop,
    }
    return [calls[name](*arguments) for name, *arguments in trace["ops"]]


def _by_label(label: str) -> Callable[[dict], list[str]]:
    def index(obj: dict) -> list[str]:
        value = (obj["metadata"].get("labels") or {}).get(label)
        return [] if value is None else value.split(",")

    return index


def _briefs(objects: Iterable[dict]) -> list[str]:
    return sorted(f"{key_of(obj)}@{resource_version(obj)}" for obj in objects)


def _or_error(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (LookupError, ValueError):
        return "error"


def replay_store(trace: Trace) -> list[Any]:
    store = Store({NAMESPACE_INDEX: index_by_namespace, "app": _by_label("app")}, key_of_deleted)
    calls: dict[str, Callable[..., Any]] = {
        "add": store.add,
        "update": store.update,
        "delete": store.delete,
        "delete_tombstone": lambda key, obj: store.delete(DeletedFinalStateUnknown(key, obj)),
        "replace": store.replace,
        "bookmark": store.bookmark,
        "get": store.get,
        "list": lambda: _briefs(store.list()),
        "keys": lambda: sorted(store.keys()),
        "by_index": lambda *a: _or_error(lambda: _briefs(store.by_index(*a))),
        "keys_by_index": lambda *a: _or_error(lambda: store.keys_by_index(*a)),
        "like": lambda *a: _or_error(lambda: _briefs(store.like(*a))),
        "index_values": lambda *a: sorted(store.index_values(*a)),
        "add_indexer": lambda label: _or_error(
            lambda: store.add_indexers({label: _by_label(label)})
        ),
        "version": lambda: store.last_resource_version,
    }
    return [calls[name](*arguments) for name, *arguments in trace["ops"]]


REPLAYS: dict[str, Callable[[Trace], list[Any]]] = {
    "limiter": replay_limiter,
    "workqueue": replay_workqueue,
    "delta_fifo": replay_delta_queue,
    "real_fifo": replay_delta_queue,
    "store": replay_store,
}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(replay(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
