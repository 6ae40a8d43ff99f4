"""A run as entries in lanes: what the text timeline prints, and a page can draw."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from grader.wire.records import Exchange, Mark, Record, WatchEnd, WatchEvent
from grader.witness import wording
from grader.witness.timeline import Timeline
from grader.witness.trace import begin, end


@dataclass(frozen=True)
class Entry:
    """One thing that happened, ready to be shown.

    ``lane`` is the client; ``start`` and ``stop`` are seconds since the run began
    (equal for what has no length). ``kind`` is ``write``, ``read``, ``watch``,
    ``event``, ``mark`` or ``end``; ``tone`` is ``ok``, ``refused`` (the process was
    told of an error), ``withheld`` (it was not told) or ``fault`` (a rule acted).
    ``watch`` ties an event and an end to the entry (``seq``) that opened the watch.
    """

    lane: str
    start: float
    stop: float
    kind: str
    tone: str
    text: str
    line: str
    resource: str
    namespace: str
    name: str
    seq: int
    watch: int | None = None

    def to_json(self) -> dict:
        return asdict(self)


def entries(
    folder: Path,
    *,
    by: Collection[str] | None = None,
    resource: str | None = None,
    reads: bool = True,
) -> list[Entry]:
    """The entries of a run's folder in order of time, narrowed down to clients and a resource."""
    return of_timeline(Timeline(folder), by=by, resource=resource, reads=reads)


def of_timeline(
    timeline: Timeline,
    *,
    by: Collection[str] | None = None,
    resource: str | None = None,
    reads: bool = True,
) -> list[Entry]:
    """The same of a timeline at hand."""
    found = []
    for record in timeline:
        entry = _entry(timeline, record)
        if by is not None and entry.lane not in by:
            continue
        if resource is not None and entry.kind != "mark" and entry.resource != resource:
            continue
        if not reads and entry.kind in ("read", "watch", "end"):
            continue
        found.append(entry)
    return found


def _entry(timeline: Timeline, record: Record) -> Entry:
    opened = timeline.opened(record) if isinstance(record, (WatchEvent, WatchEnd)) else None
    resource, namespace, name = _about(record, opened)
    return Entry(
        lane=record.client,
        start=begin(record) - timeline.start,
        stop=_stop(record) - timeline.start,
        kind=_kind(record),
        tone=_tone(record),
        text=wording.what(record, opened.resource if opened else ""),
        line=timeline.line(record),
        resource=resource,
        namespace=namespace,
        name=name,
        seq=record.seq,
        watch=record.watch if isinstance(record, (WatchEvent, WatchEnd)) else None,
    )


def _about(record: Record, opened: Exchange | None) -> tuple[str, str, str]:
    if isinstance(record, Exchange):
        return record.resource, record.namespace, record.name
    if isinstance(record, WatchEvent):
        metadata = record.object.get("metadata") or {}
        return (
            opened.resource if opened else "",
            metadata.get("namespace", ""),
            metadata.get("name", ""),
        )
    if isinstance(record, WatchEnd):
        return (opened.resource, opened.namespace, "") if opened else ("", "", "")
    data = record.data
    return str(data.get("resource", "")), str(data.get("namespace", "")), str(data.get("name", ""))


def _stop(record: Record) -> float:
    return record.t if isinstance(record, WatchEvent) else end(record)


def _kind(record: Record) -> str:
    if isinstance(record, Exchange):
        return "write" if record.is_write else "watch" if record.verb == "watch" else "read"
    return {"event": "event", "watch_end": "end", "mark": "mark"}[record.kind]


def _tone(record: Record) -> str:
    if isinstance(record, Mark):
        return "fault" if record.what in ("rule_fired", "process_killed") else "ok"
    if isinstance(record, Exchange):
        if record.status is None:
            return "withheld"
        if record.faults:
            return "fault"
        return "refused" if record.status >= 400 else "ok"
    if isinstance(record, WatchEvent):
        if record.fate != "delivered":
            return "withheld"
        return "fault" if record.faults else "ok"
    return "fault" if record.by == "rule" else "ok"
