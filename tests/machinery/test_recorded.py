"""What graders compare with is still what client-go does, and what the machinery does."""

from __future__ import annotations

import math

import pytest

from grader.labs.traces import recorded

from .record import LABS
from .test_against_client_go import replay


def close_enough(ours, theirs) -> bool:
    if isinstance(ours, float) and isinstance(theirs, int | float):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-6)
    return ours == theirs


@pytest.mark.parametrize("lab", LABS)
def test_recorded_outcomes_are_client_gos(oracle, lab):
    for one in recorded(lab):
        assert oracle(one.trace) == one.outcomes


@pytest.mark.parametrize("lab", LABS)
def test_recorded_outcomes_are_the_machinerys(lab):
    for one in recorded(lab):
        ours = replay(one.trace)
        assert len(ours) == len(one.outcomes)
        assert all(map(close_enough, ours, one.outcomes)), one.trace
