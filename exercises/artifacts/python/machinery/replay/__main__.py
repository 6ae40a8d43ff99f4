"""``python -m machinery.replay``: every structure there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..clock import FakeClock
from ..delaying import RateLimitingQueue
from ..delta_fifo import DeltaFIFO
from ..real_fifo import RealFIFO
from ..store import Store
from .deltas import replay_deltas
from .limiter import build_limiter, replay_limiter
from .loop import Trace, serve
from .queue import replay_queue
from .store import replay_store

DEFAULT_LIMITER = {"type": "exponential", "base": 0.005, "max": 1000}


def _queue(trace: Trace) -> Iterator[Any]:
    clock = FakeClock()
    limiter = build_limiter(trace.get("limiter") or DEFAULT_LIMITER, clock)
    return replay_queue(trace, RateLimitingQueue(limiter, clock), clock)


def _delta_fifo(trace: Trace) -> Iterator[Any]:
    known = Store()
    queue = DeltaFIFO(known if trace.get("known_objects") else None)
    return replay_deltas(trace, queue, known)


def _real_fifo(trace: Trace) -> Iterator[Any]:
    known = Store()
    return replay_deltas(trace, RealFIFO(None if trace.get("atomic") else known), known)


REPLAYS = {
    "workqueue": _queue,
    "limiter": replay_limiter,
    "delta_fifo": _delta_fifo,
    "real_fifo": _real_fifo,
    "store": replay_store,
}

if __name__ == "__main__":
    serve(REPLAYS)
