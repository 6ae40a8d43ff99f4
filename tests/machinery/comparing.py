"""A trace's outcomes on the Python machinery, and whether they are client-go's."""

from __future__ import annotations

import math
from typing import Any

from machinery.replay.__main__ import REPLAYS
from machinery.replay.loop import outcomes

from .script import replay_informer


def replay(trace: dict[str, Any]) -> Any:
    """The outcomes on the Python machinery."""
    if trace["structure"] == "informer":
        return replay_informer(trace)
    return outcomes(REPLAYS[trace["structure"]], trace)


def equal(trace: dict[str, Any], ours: Any, theirs: Any) -> bool:
    """Whether the outcomes are the same, as far as client-go promises them."""
    if trace["structure"] == "informer":
        return _without_order_between_keys(ours) == _without_order_between_keys(theirs)
    if trace["structure"] == "limiter":
        return len(ours) == len(theirs) and all(
            # Go counts whole nanoseconds.
            math.isclose(mine, other, rel_tol=1e-9, abs_tol=1e-6)
            if op[0] == "when"
            else mine == other
            for op, mine, other in zip(trace["ops"], ours, theirs, strict=True)
        )
    return ours == theirs


def _by_key(notes: list | None) -> dict[str, list]:
    """What a handler was told of each key, in order. Between keys client-go's order is random."""
    told: dict[str, list] = {}
    for note in notes or []:
        key = note[1].removeprefix("tombstone of ").split("@")[0].split(":")[0]
        told.setdefault(key, []).append(note)
    return told


def _without_order_between_keys(outcome: dict) -> dict:
    return {**outcome, "notes": _by_key(outcome["notes"]), "late": _by_key(outcome["late"])}
