"""Everything that was seen of a run: wires' records and audit events, merged as they grow."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grader.wire.records import Exchange, Record, WatchEnd, WatchEvent
from grader.witness import audit as audit_log
from grader.witness import objects, order
from grader.witness.sources import AuditFeed, AuditSource, RecordFile, record_files
from grader.witness.trace import begin


class Ledger:
    """What a :class:`~grader.witness.timeline.Timeline` and its parts have in common.

    ``records`` is all that :meth:`refresh` has read so far, in order of time.
    """

    def __init__(
        self,
        places: Iterable[Path] = (),
        *,
        cluster: AuditSource | None = None,
        since: float | None = None,
    ) -> None:
        self.records: list[Record] = []
        self._places = list(places)
        self._files: dict[Path, RecordFile] = {}
        self._cluster = cluster
        self._since = since
        self._feed: AuditFeed | None = None
        self._wired: dict[str, Exchange] = {}
        self._audited: dict[str, Exchange] = {}
        self._watches: dict[tuple[str, int], Exchange] = {}
        self._by_uid: dict[str, dict] = {}
        self._moments: dict[int, float] | None = None

    def refresh(self) -> bool:
        """Read what is new; whether there was anything."""
        for path in record_files(self._places):
            self._files.setdefault(path, RecordFile(path))
        records = [record for file in self._files.values() for record in file.new()]
        events: list[dict] = []
        if self._cluster is not None:
            if self._feed is None:
                since = self._since
                if since is None and (first := [*self.records, *records]):
                    since = min(begin(r) for r in first)
                if since is not None:
                    self._feed = AuditFeed(self._cluster, since)
            if self._feed is not None:
                events = self._feed.new()
        if not records and not events:
            return False
        self.add(records, events)
        return True

    def add(self, records: Iterable[Record], events: Iterable[dict]) -> None:
        """Merge wires' records and audit events into what is there."""
        records = list(records)
        for record in records:
            if isinstance(record, Exchange):
                self._wired[record.audit_id] = record
                if record.verb == "watch":
                    self._watches[record.client, record.seq] = record
        added: list[Exchange] = []
        for event in events:
            if audit_log.is_final(event):
                exchange = audit_log.exchange(event)
                added.append(exchange)
                known = self._audited.get(exchange.audit_id)
                # A watch is logged when it begins and when it ends; the first counts.
                if known is None or exchange.verb != "watch":
                    self._audited[exchange.audit_id] = exchange
        # A request is known from the audit log alone only while no wire has told of it.
        kept = [r for r in (*self.records, *records) if getattr(r, "source", "") != "audit"]
        for id, exchange in self._audited.items():
            wired = self._wired.get(id)
            if wired is None:
                kept.append(exchange)
            elif wired.forwarded and wired.server_status is None:
                # The wire never heard the answer; the API server knows what it was.
                wired.server_status = exchange.server_status
                wired.withheld_body = exchange.response_body
        kept.sort(key=lambda r: (begin(r), r.seq))
        self.records = kept
        self._moments = None
        for record in (*records, *added):
            self._remember(record)

    def _remember(self, record: Record) -> None:
        """Keep the last state of each object by UID: what a delete's Status speaks of."""
        if isinstance(record, WatchEvent):
            bodies: Iterable[Any] = (record.object,)
        elif isinstance(record, Exchange) and not record.subresource_is_view:
            answer = record.answer
            bodies = (answer, *objects.items(answer)) if answer is not None else ()
        else:
            return
        for body in bodies:
            if uid := objects.uid(body):
                known = self._by_uid.get(uid)
                if known is None or objects.resource_version(body) >= objects.resource_version(
                    known
                ):
                    self._by_uid[uid] = body

    @property
    def start(self) -> float:
        """When the first record began; 0 where there is none."""
        return begin(self.records[0]) if self.records else 0.0

    @property
    def damaged(self) -> int:
        """Lines that could not be read: where it is not 0, a writer was killed."""
        return sum(file.damaged for file in self._files.values())

    def moment(self, exchange: Exchange) -> float:
        """When an exchange took effect: see :mod:`grader.witness.order`."""
        if self._moments is None:
            self._moments = order.moments(r for r in self.records if isinstance(r, Exchange))
        return self._moments[id(exchange)]

    def opened(self, record: WatchEvent | WatchEnd) -> Exchange | None:
        """The exchange that opened the watch which an event or an end belongs to."""
        return self._watches.get((record.client, record.watch))

    def last_state(self, uid: str) -> dict | None:
        """The newest state of an object that anything told of."""
        return self._by_uid.get(uid)
