"""The proxy between a learner's process and the API server: it records, and it injects faults.

Start with :class:`Wire`; :mod:`grader.wire.rules` has the grammar of rules,
:mod:`grader.wire.records` what is written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grader.wire.records import Exchange, Mark, Record, WatchEnd, WatchEvent
from grader.wire.rules import Rule, RuleError, parse_rule

if TYPE_CHECKING:
    from grader.wire.wire import Identity, RuleHandle, Rules, Wire

__all__ = [
    "Exchange",
    "Identity",
    "Mark",
    "Record",
    "Rule",
    "RuleError",
    "RuleHandle",
    "Rules",
    "WatchEnd",
    "WatchEvent",
    "Wire",
    "parse_rule",
]

_LAZY = {"Identity", "RuleHandle", "Rules", "Wire"}


def __getattr__(name: str):
    # aiohttp takes 0.2 s to import, which commands that only read records need not pay.
    if name in _LAZY:
        from grader.wire import wire

        return getattr(wire, name)
    raise AttributeError(name)
