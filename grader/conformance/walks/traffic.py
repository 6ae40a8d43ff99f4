"""When an operator last said something about a walk's objects, and what."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from grader.conformance.contract import DNS_NAMESPACE
from grader.wire.records import WRITE_VERBS
from grader.witness import describe

if TYPE_CHECKING:
    from grader.wire.records import Exchange

#: Writes that are kept of each namespace or record.
_KEPT = 10


class Traffic:
    """``read`` returns all exchanges of the operator's so far; each is looked at once."""

    def __init__(self, read: Callable[[], list[Exchange]]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._known = 0
        #: Namespace, or record's name, to the time (monotonic) of the last exchange.
        self._last: dict[str, float] = defaultdict(float)
        #: The same, to the time of the first write that failed.
        self._failed: dict[str, float] = {}
        #: UIDs of what the operator deleted.
        self._deleted: set[str] = set()
        self._writes: dict[str, deque[Exchange]] = defaultdict(lambda: deque(maxlen=_KEPT))

    def last(self, namespace: str, records: Iterable[str] = ()) -> float:
        """When (monotonic) the operator last sent a request about these; 0.0 for never."""
        with self._lock:
            self._look()
            return max(self._last[key] for key in (namespace, *records))

    def failing_since(self, namespace: str, records: Iterable[str] = ()) -> float | None:
        """When (monotonic) a write about these failed for the first time; None for never."""
        with self._lock:
            self._look()
            return min(
                (self._failed[key] for key in (namespace, *records) if key in self._failed),
                default=None,
            )

    def shown(self, namespace: str, records: Iterable[str] = ()) -> list[str]:
        """The last writes about these, a line each, in the order in which they were sent."""
        with self._lock:
            self._look()
            found = [e for key in (namespace, *records) for e in self._writes[key]]
        found = sorted(found, key=lambda e: e.t_request)[-_KEPT:]
        return [describe(e, start=found[0].t_request) for e in found]

    def deleted(self, uid: str) -> bool:
        """Whether the operator deleted that very object: the API server's answer has its UID."""
        with self._lock:
            self._look()
            return uid in self._deleted

    def busiest(self) -> list[str]:
        """The namespaces and records, those spoken of last first."""
        with self._lock:
            self._look()
            return sorted(self._last, key=lambda key: -self._last[key])

    def _look(self) -> None:
        exchanges = self._read()
        # From the records' clock to the one that does not jump.
        offset = time.monotonic() - time.time()
        for exchange in exchanges[self._known :]:
            at_dns = exchange.namespace == DNS_NAMESPACE
            key = _name(exchange) if at_dns else exchange.namespace
            said = exchange.t_end + offset
            self._last[key] = max(self._last[key], said)
            if exchange.verb in ("delete", "deletecollection") and exchange.applied:
                self._deleted |= _uids(exchange.answer)
            if exchange.verb in WRITE_VERBS:
                self._writes[key].append(exchange)
                if exchange.status is None or exchange.status >= 400:
                    self._failed.setdefault(key, said)
        self._known = len(exchanges)


def _name(exchange: Exchange) -> str:
    """The object's name, of one that is to be created as well."""
    body = exchange.request_body
    meta = body.get("metadata") if isinstance(body, dict) else None
    return exchange.name or (meta.get("name", "") if isinstance(meta, dict) else "")


def _uids(answer: object) -> set[str]:
    """The UIDs in what the API server answers to a delete: the object, a Status, or a list."""
    if not isinstance(answer, dict):
        return set()
    found = {(answer.get(part) or {}).get("uid") for part in ("metadata", "details")}
    found |= {item["metadata"]["uid"] for item in answer.get("items") or ()}
    return found - {None}
