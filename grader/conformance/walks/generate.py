"""Walks drawn from a seed, by hypothesis.

A walk is one value that hypothesis draws, not a state machine that it steps: walks are then
drawn whole before any of them begins, so that several run side by side on one operator, and
one walk is one seed: whatever ran before it, ``draw(seed)`` is the same.

Shrinking is :mod:`~.shrink`'s: hypothesis' own takes one step after the other, and 200 of them
for a walk of ten operations. Each is seconds of a live operator here.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from grader.conformance.walks.walk import Burst, Op, Walk
from grader.conformance.walks.wirefaults import ASIDE, FAULTS, WHOLE

#: Kinds of operations and how often they come; the simplest to explain first.
WEIGHTS = {
    "scale": 4,
    "scale-down": 1,
    "image": 4,
    "both": 2,
    "touch": 1,
    "delete": 2,
    "create": 3,
    "recreate": 2,
    "pod-delete": 3,
    "pod-kill": 3,
    "pod-fail": 3,
    "pod-unready": 2,
    "pods-ready": 1,
    "pod-image": 2,
    "pod-label": 2,
    "pod-marks": 2,
    "pod-owner": 2,
    "pod-held": 4,
    "squat": 3,
    "orphan": 3,
    "disown": 2,
    "taken": 1,
    "stranger": 2,
    "record-edit": 2,
    "record-null": 3,
    "record-delete": 2,
    "record-held": 2,
    "record-marks": 2,
    "app-marks": 1,
    "app-condition": 1,
    "app-held": 2,
    "let-go": 3,
    "theirs-gone": 1,
}
_KINDS = tuple(kind for kind, weight in WEIGHTS.items() for _ in range(weight))
#: One thread at a time asks hypothesis.
_ONE = threading.Lock()


def _op(kinds: Sequence[str]) -> st.SearchStrategy[Op]:
    small = st.integers(0, 2)
    return st.builds(Op, st.sampled_from(kinds), small, small, st.integers(0, 5))


@st.composite
def _burst(draw: st.DrawFn, faults: Sequence[str], most: int) -> Burst:
    fault = draw(st.sampled_from(faults))
    ops = []
    if causes := FAULTS[fault].causes:
        ops.append(draw(_op(causes)))
    if beside := FAULTS[fault].beside:
        # To the same Pod: that is where the fault was caused.
        ops.append(replace(ops[0], kind=draw(st.sampled_from(beside))))
    ops += draw(st.lists(_op(_KINDS), min_size=0 if ops else 1, max_size=most))
    return Burst(tuple(ops), fault)


@st.composite
def _walk(draw: st.DrawFn, faults: Sequence[str], apps: int, most: int) -> Walk:
    replicas = draw(st.lists(st.integers(1, 3), min_size=1, max_size=apps))
    bursts = draw(st.lists(_burst(faults, most), min_size=1, max_size=10))
    return Walk(tuple(replicas), tuple(bursts))


def walks(*, alone: bool) -> st.SearchStrategy[Walk]:
    """All walks that there are: those beside each other, or those that have the process alone."""
    if alone:
        return _walk(tuple(["", *WHOLE]), 5, 7)
    lasting = [name for name, fault in ASIDE.items() if fault.lasts]
    return _walk(tuple([""] * len(ASIDE) + list(ASIDE) + 2 * lasting), 2, 4)


def draw(number: int, *, alone: bool = False) -> Walk:
    """The walk of a seed."""
    drawn: list[Walk] = []

    @seed(number)
    @settings(
        max_examples=2,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(walks(alone=alone))
    def keep(walk: Walk) -> None:
        drawn.append(walk)

    with _ONE:
        keep()
    # The first one that hypothesis tries is the simplest there is, for every seed.
    return drawn[-1]
