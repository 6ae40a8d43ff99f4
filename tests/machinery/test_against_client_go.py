"""The same random traces on client-go and on the Python machinery: equal outcomes.

How many is ``PHASE4_TRACES`` (1,000 for each structure unless set): some that
hypothesis draws, and makes small where they differ, and most recombined from
such, which takes a fifth of the time (many_traces.py; very many are run with
it alone). Where we differ on purpose, the traces do not go; test_differences.py
does.
"""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import HealthCheck, given, settings

from . import many_traces, traces
from .comparing import equal, replay

#: Random traces for each structure. CI runs 1,000; before a release, 100,000.
TRACES = int(os.environ.get("PHASE4_TRACES", "1000"))
DRAWN = TRACES * 3 // 10
many = settings(
    max_examples=DRAWN,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def agree(oracle, trace: dict) -> None:
    ours, theirs = replay(trace), oracle(trace)
    # The first is for the message: it says where.
    assert ours == theirs or equal(trace, ours, theirs)


@many
@given(trace=traces.plain_queue_traces())
def test_plain_workqueue(oracle, trace):
    agree(oracle, trace)


@many
@given(trace=traces.workqueue_traces())
def test_workqueue(oracle, trace):
    agree(oracle, trace)


@many
@given(trace=traces.limiter_traces())
def test_rate_limiters(oracle, trace):
    agree(oracle, trace)


@many
@given(trace=traces.delta_queue_traces("delta_fifo"))
def test_delta_fifo(oracle, trace):
    agree(oracle, trace)


@many
@given(trace=traces.delta_queue_traces("real_fifo"))
def test_real_fifo(oracle, trace):
    agree(oracle, trace)


@many
@given(trace=traces.store_traces())
def test_store_with_indices(oracle, trace):
    agree(oracle, trace)


@many
@given(trace=traces.informer_traces())
def test_informer(oracle, trace):
    """Requests, cache, notifications for each key, has_synced, and a handler that comes late."""
    agree(oracle, trace)


@pytest.mark.parametrize("name", many_traces.FAMILIES)
def test_recombined(oracle_binary, name):
    rest = TRACES - DRAWN
    number = random.SystemRandom().randrange(2**31)
    print(f"seed {number}")
    assert many_traces.compare(name, rest, number, oracle_binary)[0] == rest
