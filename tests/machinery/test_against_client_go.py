"""The same random traces on client-go and on the Python machinery: equal outcomes.

How many is ``PHASE4_TRACES`` (1,000 for each structure unless set): some that
hypothesis draws, and makes small where they differ, and most recombined from
just those, which takes a fifth of the time (many_traces.py; very many are run with
it alone). Where we differ on purpose, the traces do not go; test_differences.py
does.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from . import many_traces
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


@pytest.mark.parametrize("name", many_traces.FAMILIES)
def test_outcomes_are_client_gos(oracle, oracle_binary, name):
    """Of an informer: requests, cache, notifications for each key, a handler that comes late."""
    family = many_traces.FAMILIES[name]
    pool: list[Any] = []

    @many
    @given(drawn=family.drawn)
    def agree(drawn: Any) -> None:
        trace = family.whole(*family.parts(drawn))
        ours, theirs = replay(trace), oracle(trace)
        # The first is for the message: it says where.
        assert ours == theirs or equal(trace, ours, theirs)
        pool.append(drawn)

    agree()
    rest = TRACES - DRAWN
    number = random.SystemRandom().randrange(2**31)
    print(f"seed {number}")
    assert many_traces.compare(name, rest, number, oracle_binary, pool)[0] == rest
