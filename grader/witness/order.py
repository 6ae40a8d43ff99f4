"""An order of exchanges that agrees with the API server's own.

Requests of several processes overlap, so their times alone do not say which
took effect first. The API server does: each write it applies gets the next
revision of etcd as its resourceVersion, and every answer to a read carries the
revision it was read at. Each exchange is given a *moment* between its request
and its answer such that moments rise with resourceVersions.

Revisions count across kinds only where the kinds live in the same etcd, which
the embedded cluster's do. With a cluster that splits them (events in an etcd of
their own is the common case) moments stay within each exchange's request and
answer, and the order is right within a kind.
"""

from __future__ import annotations

from collections.abc import Iterable

from grader.wire.records import Exchange
from grader.witness import objects


def revision(exchange: Exchange) -> int:
    """The etcd revision that the answer speaks of; 0 where it does not say.

    Of a write the revision it made, of a list the one it was read at, of a get
    that of the object's last change.
    """
    status = exchange.server_status
    if status is None or not 200 <= status < 300:
        return 0
    body = exchange.answer
    if not isinstance(body, dict) or body.get("kind") == "Status":
        return 0
    return objects.resource_version(body)


def moments(exchanges: Iterable[Exchange]) -> dict[int, float]:
    """``id(exchange)`` to its moment, seconds since the epoch.

    Where the answer has no revision (deletes answered with a Status, refusals),
    the moment is the request's time.
    """
    result: dict[int, float] = {}
    known = []
    for exchange in exchanges:
        rev = revision(exchange)
        if rev and exchange.verb != "watch":
            # Of one revision, the write that made it comes before who read it.
            known.append((rev, not exchange.is_write, exchange.t_request, exchange))
        result[id(exchange)] = exchange.t_request
    known.sort(key=lambda item: item[:3])
    latest = 0.0
    for _, is_read, t, exchange in known:
        end = exchange.t_response
        moment = max(t, latest)
        if end is not None and moment > end:
            # Another etcd's revision, or an old object read: it says nothing here.
            moment = t if is_read else min(moment, end)
        result[id(exchange)] = moment
        if not is_read:
            latest = max(latest, moment)
    return result
