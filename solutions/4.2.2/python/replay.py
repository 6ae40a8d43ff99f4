"""Answers the grader's traces with your limiters and queues. Nothing to write here.

By hand, one trace a line:

    echo '{"structure": "limiter", "limiter": {"type": "exponential", "base": 0.005, "max": 1000},
           "ops": [["when", "a"], ["when", "a"]]}' | tr -d '\n' | python3 replay.py
"""

from machinery.clock import FakeClock
from machinery.delaying import RateLimitingQueue
from machinery.replay.limiter import build_limiter, replay_limiter
from machinery.replay.loop import Trace, serve
from machinery.replay.queue import replay_queue


def replay_rate_limiting_queue(trace: Trace):
    clock = FakeClock()
    return replay_queue(
        trace, RateLimitingQueue(build_limiter(trace["limiter"], clock), clock), clock
    )


if __name__ == "__main__":
    serve({"limiter": replay_limiter, "workqueue": replay_rate_limiting_queue})
