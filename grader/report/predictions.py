"""A prediction next to the right value: whether it is right, and within what tolerance.

The right value is what the machinery in question does: a formula's value, what
client-go does with the same calls. It is never what the learner's own program did, which
may be wrong; that is shown next to it as measured. A number is right within a
tolerance that the lab's page states.
"""

from __future__ import annotations

from typing import Any


def compared(
    predicted: Any,
    right: Any,
    *,
    within: float = 0.0,
    share: bool = False,
    agrees: bool | None = None,
    measured: Any = None,
) -> dict[str, Any]:
    """An observation's value: what was predicted, what is right, whether they agree.

    ``within`` is how far a number may be off, in its own unit or, with ``share``, as a share
    of the right one. ``agrees`` says it where equality is not the measure. ``measured`` is
    what the learner's own program did; None where there is nothing of it to show.
    """
    if agrees is None:
        numbers = all(isinstance(one, int | float) for one in (predicted, right))
        # A margin for binary fractions: 0.088 is within a tenth of 0.08.
        room = (abs(right) * within if share else within) + 1e-9 if numbers else 0.0
        agrees = abs(predicted - right) <= room if numbers else predicted == right
    value = {"predicted": predicted, "right": right, "agrees": agrees}
    if within:
        value["within"] = f"{within:.0%}" if share else f"{within:g}"
    if measured is not None:
        value["measured"] = measured
    return value


def is_one(value: Any) -> bool:
    """Whether an observation's value is a prediction beside the truth, of this version or before."""
    return isinstance(value, dict) and "predicted" in value


def said(value: dict[str, Any]) -> str:
    """It in words, as every report shows it."""
    if "agrees" not in value:
        return f"predicted {value['predicted']}, measured {value.get('measured')}"
    tolerance = f" within {value['within']}" if "within" in value else ""
    words = f"predicted {value['predicted']}: "
    words += f"right{tolerance}" if value["agrees"] else f"it is {value['right']}{tolerance}"
    return f"{words}; measured {value['measured']}" if "measured" in value else words
