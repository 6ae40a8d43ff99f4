"""No work outside the lease, as the holder's own record of it says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from grader.conformance.contract import LEASE, LEASE_NAMESPACE
from grader.verdict import Fail
from grader.witness import describe

if TYPE_CHECKING:
    from grader.conformance.past import Past, Said
    from grader.wire.records import Exchange

#: Seconds between a process's decision to send and the arrival of the request.
_ON_ITS_WAY = 0.3


def held(past: Past) -> Iterator[Fail]:
    """A process that takes part in the election writes only while its own lease lasts.

    It lasts from the answer to the request that took or renewed it to the renewTime in
    it and leaseDurationSeconds on, or until the process itself gave it up.
    """
    for said in past.said:
        late = _outside(said)
        if late is None:
            continue
        write, last = late
        if last is None:
            seen = "It had never held the lease."
        elif not _spec(last).get("holderIdentity"):
            seen = "It had released the lease before that."
        else:
            end = _end(last)
            seen = f"Its lease had ended {write.t_request - end:.1f} s before that."
        yield Fail(
            f"A process that takes part in the election of {LEASE_NAMESPACE}/{LEASE} writes only "
            "while its own lease lasts.",
            f"It sent {write.method} {write.path}. {seen}",
            why="Two writers undo each other's work, each taking itself for the only one.",
            next="Start the workers when the lease is yours. The deadline counts from the request "
            "that renewed it last; stop working before you release it.",
            diagnosis="no-leader-election" if last is None else "wrote-after-lost-lease",
            evidence=[*([describe(last)] if last else []), describe(write)],
        )


def _outside(said: Said) -> tuple[Exchange, Exchange | None] | None:
    """The first write outside the lease, and the last write of the lease before it."""
    if not any(e.resource == "leases" and e.name == LEASE for e in said.exchanges):
        return None
    starts = [mark.t for mark in said.marks if mark.what == "process_started"]
    last: Exchange | None = None
    for e in sorted(said.exchanges, key=lambda e: e.t_request):
        if e.resource == "leases":
            if e.name == LEASE and e.is_write and e.applied and _spec(e):
                last = e
        elif e.is_write and e.resource != "events" and e.forwarded:
            if last is not None and any(last.t_request < t <= e.t_request for t in starts):
                last = None  # Another process by now.
            holds = last is not None and bool(_spec(last).get("holderIdentity"))
            if last is None or not holds or e.t_request > _end(last) + _ON_ITS_WAY:
                return e, last
    return None


def _spec(e: Exchange) -> dict:
    """The lease as it was stored: the request itself may be protobuf."""
    answer = e.answer
    return (answer.get("spec") or {}) if isinstance(answer, dict) else {}


def _end(e: Exchange) -> float:
    spec = _spec(e)
    renewed = spec.get("renewTime")
    since = datetime.fromisoformat(renewed.replace("Z", "+00:00")).timestamp() if renewed else 0.0
    # A clock of its own may be off; the request itself is never later than its record.
    return max(since, e.t_request) + spec.get("leaseDurationSeconds", 0)
