"""Where a timeline's records come from, read as they grow."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from grader.wire import redaction
from grader.wire.records import Record, RecordError, parse_line
from grader.witness.audit import timestamp


class RecordFile:
    """A ``wire.jsonl`` that may still be written to. Whole lines only are read.

    ``damaged`` counts lines that could not be read: a line torn by a kill.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self._offset = 0

    def new(self) -> list[Record]:
        """The records that were written since the last call."""
        try:
            if self.path.stat().st_size <= self._offset:
                return []
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        end = data.rfind(b"\n") + 1
        self._offset += end
        records: list[Record] = []
        for line in data[:end].split(b"\n"):
            if not line:
                continue
            try:
                records.append(parse_line(line))
            except RecordError:
                self.damaged += 1
        return records


class AuditSource(Protocol):
    """What a timeline asks a cluster for; :class:`grader.cluster.interface.Cluster` has it."""

    def audit(self, since: float) -> Any: ...


class AuditFeed:
    """A cluster's audit events from ``since`` (epoch seconds) on, each given out once.

    Where the cluster says where its log is (``audit_log``), only what was added is
    read; else the cluster is asked again.
    """

    #: An event is logged when its request ends, so one that began this long (seconds)
    #: before the newest may still come. Watches are logged when they begin.
    OVERLAP = 60.0

    def __init__(self, cluster: AuditSource, since: float) -> None:
        self._cluster = cluster
        self._since = since
        self._newest = since
        self._seen: set[tuple[str, str]] = set()
        self._log: Path | None = getattr(cluster, "audit_log", None)
        self._position: tuple[int, int] | None = None

    def new(self) -> list[dict]:
        """The events that were logged since the last call."""
        if self._log is not None:
            if (added := self._added()) is not None:
                return self._fresh(added)
        events = list(self._cluster.audit(max(self._since, self._newest - self.OVERLAP)))
        return self._fresh(events)

    def _added(self) -> list[dict] | None:
        """What was added to the log; None where it must be read from the cluster.

        That is the first time, and once it was rotated or replaced.
        """
        try:
            with self._log.open("rb") as file:  # type: ignore[union-attr]
                stat = os.fstat(file.fileno())
                if self._position is None or self._position[0] != stat.st_ino:
                    # From a little before its end: a line may be there in part.
                    self._position = (stat.st_ino, _line_end(file, stat.st_size))
                    return None
                if stat.st_size < self._position[1]:
                    self._position = None
                    return None
                file.seek(self._position[1])
                data = file.read()
        except FileNotFoundError:
            self._position = None
            return []
        end = data.rfind(b"\n") + 1
        self._position = (stat.st_ino, self._position[1] + end)
        return [json.loads(line) for line in data[:end].split(b"\n") if line]

    def _fresh(self, events: list[dict]) -> list[dict]:
        found = []
        for event in events:
            received = timestamp(event["requestReceivedTimestamp"])
            mark = (event.get("auditID", ""), event.get("stage", ""))
            if received >= self._since and mark not in self._seen:
                self._seen.add(mark)
                self._newest = max(self._newest, received)
                found.append(redaction.audit_event(event))
        return found


def _line_end(file: BinaryIO, size: int) -> int:
    """The offset after the last whole line of a file."""
    start = max(0, size - (1 << 20))
    file.seek(start)
    return start + file.read(size - start).rfind(b"\n") + 1


def record_files(places: list[Path]) -> list[Path]:
    """The record files that ``places`` (files, run folders) hold, each once."""
    found: dict[Path, None] = {}
    for place in places:
        if place.is_dir():
            found.update(dict.fromkeys(sorted(place.glob("**/wire.jsonl"))))
        else:
            found[place] = None
    return list(found)
