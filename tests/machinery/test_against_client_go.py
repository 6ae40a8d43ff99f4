"""The same random traces on client-go and on the Python machinery: equal outcomes.

How many is ``PHASE4_TRACES`` (1,000 for each structure unless set). Where we
differ on purpose, the traces do not go; test_differences.py does.
"""

from __future__ import annotations

import math
import os

from hypothesis import HealthCheck, given, settings
from machinery.replay.__main__ import REPLAYS
from machinery.replay.loop import outcomes

from . import traces
from .script import replay_informer

#: Random traces for each structure. CI runs 1,000; before a release, 100,000.
TRACES = int(os.environ.get("PHASE4_TRACES", "1000"))
many = settings(
    max_examples=TRACES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def replay(trace: dict) -> list:
    """The outcomes on the Python machinery."""
    return outcomes(REPLAYS[trace["structure"]], trace)


@many
@given(trace=traces.plain_queue_traces())
def test_plain_workqueue(oracle, trace):
    assert replay(trace) == oracle(trace)


@many
@given(trace=traces.workqueue_traces())
def test_workqueue(oracle, trace):
    assert replay(trace) == oracle(trace)


@many
@given(trace=traces.limiter_traces())
def test_rate_limiters(oracle, trace):
    ours, theirs = replay(trace), oracle(trace)
    assert len(ours) == len(theirs)
    for op, mine, other in zip(trace["ops"], ours, theirs, strict=True):
        if op[0] == "when":
            # Go counts whole nanoseconds.
            assert math.isclose(mine, other, rel_tol=1e-9, abs_tol=1e-6), (op, mine, other)
        else:
            assert mine == other, op


@many
@given(trace=traces.delta_queue_traces("delta_fifo"))
def test_delta_fifo(oracle, trace):
    assert replay(trace) == oracle(trace)


@many
@given(trace=traces.delta_queue_traces("real_fifo"))
def test_real_fifo(oracle, trace):
    assert replay(trace) == oracle(trace)


@many
@given(trace=traces.store_traces())
def test_store_with_indices(oracle, trace):
    assert replay(trace) == oracle(trace)


def by_key(notes: list | None) -> dict[str, list]:
    """What a handler was told of each key, in order. Between keys client-go's order is random."""
    told: dict[str, list] = {}
    for note in notes or []:
        key = note[1].removeprefix("tombstone of ").split("@")[0].split(":")[0]
        told.setdefault(key, []).append(note)
    return told


def without_order_between_keys(outcome: dict) -> dict:
    return {
        **outcome,
        "notes": by_key(outcome["notes"]),
        "late": by_key(outcome["late"]),
    }


@many
@given(trace=traces.informer_traces())
def test_informer(oracle, trace):
    """Requests, cache, notifications for each key, has_synced, and a handler that comes late."""
    ours, theirs = replay_informer(trace), oracle(trace)
    assert without_order_between_keys(ours) == without_order_between_keys(theirs)
