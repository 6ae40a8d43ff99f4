"""The same random traces on client-go and on the Python machinery: equal outcomes.

How many is ``PHASE4_TRACES`` (1,000 for each structure unless set).
"""

from __future__ import annotations

import math

from hypothesis import given, settings
from machinery.replay import replay

from . import traces

settings.load_profile("traces")


@given(trace=traces.workqueue_traces())
def test_workqueue(oracle, trace):
    assert replay(trace) == oracle(trace)


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


@given(trace=traces.delta_queue_traces("delta_fifo"))
def test_delta_fifo(oracle, trace):
    assert replay(trace) == oracle(trace)


@given(trace=traces.delta_queue_traces("real_fifo"))
def test_real_fifo(oracle, trace):
    assert replay(trace) == oracle(trace)


@given(trace=traces.store_traces())
def test_store_with_indices(oracle, trace):
    assert replay(trace) == oracle(trace)
