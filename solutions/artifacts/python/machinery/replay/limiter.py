"""Traces on rate limiters; a ``LimiterSpec`` is as in oracle/workqueue.go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..clock import FakeClock
from ..rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
    RateLimiter,
    WithMaxWaitRateLimiter,
)
from .loop import Trace, calls


def build_limiter(spec: dict[str, Any], clock: FakeClock) -> RateLimiter[str]:
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


def replay_limiter(trace: Trace) -> Iterator[Any]:
    clock = FakeClock()
    limiter = build_limiter(trace["limiter"], clock)
    return calls(
        {
            "when": limiter.when,
            "forget": limiter.forget,
            "num_requeues": limiter.num_requeues,
            "step": clock.step,
        },
        trace,
    )
