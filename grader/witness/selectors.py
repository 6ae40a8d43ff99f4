"""The selectors of the timeline's queries: how ``by=``, ``verb=``, ``resource=`` are understood."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from grader.wire.records import WRITE_VERBS
from grader.wire.rules import READ_VERBS
from grader.wire.selector import ResourceSelector

#: One name, several, or any.
Names = str | Collection[str] | None
#: Stands for «not asked about» where None is an answer one may ask for.
ANY: Any = object()


def names(given: Names) -> frozenset[str] | None:
    """The names as a set; None for any."""
    if given is None:
        return None
    return frozenset([given] if isinstance(given, str) else given)


def resources(given: Names) -> list[ResourceSelector]:
    """The resources that are asked about; empty for all."""
    return [ResourceSelector.parse(name) for name in names(given) or ()]


def verbs(given: Names) -> frozenset[str] | None:
    """The verbs, with ``write`` and ``read`` for those that do."""
    wanted = names(given)
    if wanted is None:
        return None
    found: frozenset[str] = frozenset()
    for name in wanted:
        found |= {"write": WRITE_VERBS, "read": READ_VERBS}.get(name, frozenset([name]))
    return found


def is_status(status: int | None, wanted: Any) -> bool:
    """Whether a status is the one, or one of those, that are wanted."""
    if isinstance(wanted, (range, tuple, list, set, frozenset)):
        return status in wanted
    return status == wanted


def plain(given: Names) -> str:
    """For a sentence."""
    return given if isinstance(given, str) else ", ".join(sorted(given or ())) or "request"
