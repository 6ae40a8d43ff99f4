"""How fast an operator works, seen from its requests: a slow one is waited for, and told so.

What it does between two pauses for one WebApp is taken for one reconcile. That
is a guess at what goes on inside, and judges nothing.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from grader.conformance import contract
from grader.wire.records import Exchange

#: Seconds. The contract's limit for an operator that works off what it has.
LIMIT = 60.0
#: Seconds without a request for a WebApp, after which the next is another reconcile's.
_PAUSE = 0.25


def places(exchanges: Iterable[Exchange]) -> set[tuple[str, str, str]]:
    """What the requests were about, each thing once.

    Leases, events and watches are left out: they go on where nothing is done. So an
    operator that asks about the same things over and over is not at work for ever.
    """
    return {
        (e.namespace, e.target, e.name)
        for e in exchanges
        if e.verb != "watch" and e.resource and e.resource not in ("leases", "events")
    }


@dataclass(frozen=True)
class Pace:
    """Medians over ``reconciles`` of them; ``seconds`` from first request to last response."""

    reconciles: int = 0
    requests: float = 0.0
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.requests:g} requests and {self.seconds:.2f} s for each reconcile"

    def to_json(self) -> dict[str, Any]:
        return {
            "reconciles": self.reconciles,
            "requests": self.requests,
            "seconds": round(self.seconds, 3),
        }


def pace(exchanges: Iterable[Exchange]) -> Pace:
    """The pace of one operator, from all its exchanges in order of time.

    Requests for all namespaces, as a watch or a list of everything, are no WebApp's.
    """
    of_webapp: dict[str, list[Exchange]] = defaultdict(list)
    owners: dict[str, str] = {}
    for e in exchanges:
        if e.verb == "watch" or e.resource in ("leases", "events", "") or not e.namespace:
            continue
        if e.resource == "webapps" and isinstance(e.answer, dict):
            uid = (e.answer.get("metadata") or {}).get("uid")
            owners[f"record-{uid}"] = e.namespace
        where = e.namespace
        if where == contract.DNS_NAMESPACE:
            where = owners.get(e.name, e.name)
        if where:
            of_webapp[where].append(e)
    counts: list[int] = []
    spans: list[float] = []
    for mine in of_webapp.values():
        ended = float("-inf")
        for e in mine:
            last = e.t_response or e.t_request
            if e.t_request > ended + _PAUSE:
                counts.append(1)
                spans.append(last - e.t_request)
                began = e.t_request
            else:
                counts[-1] += 1
                spans[-1] = max(spans[-1], last - began)
            ended = max(ended, last)
    if not counts:
        return Pace()
    return Pace(len(counts), statistics.median(counts), statistics.median(spans))
