"""A recording that is handed in: one file with everything, that shows whether it is whole.

JSON lines. The first is the header (lab, cluster, versions, what was run), the
last says how many there are; between them the wires' records as they were
written and the API server's audit events. Each line ends in ``"chain"``: a
digest of the line and of the chain before it, so that a line that was cut,
changed or moved is noticed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.wire import redaction
from grader.wire.records import WRITE_VERBS, Exchange, Record, RecordError, parse_line
from grader.witness.timeline import Timeline

FORMAT = 1
#: What nobody looks at in a recording, and what there is most of.
_NOT_KEPT = frozenset({"leases", "events"})
_CHAIN = b',"chain":"'
_MOST_BYTES = 256 * 1024 * 1024


class RecordingError(ValueError):
    """A file that is no whole recording; ``str()`` is a sentence, ``diagnosis`` its stable name."""

    def __init__(self, sentence: str, diagnosis: str) -> None:
        self.diagnosis = diagnosis
        super().__init__(sentence)


@dataclass(frozen=True)
class Recording:
    """What a recording holds.

    ``header`` has ``lab``, ``cluster`` (``id``, ``name``, ``backend``, ``versions``),
    ``client`` (the controller), ``hand`` (the client that the learner's kubectl was,
    where it went through the recording), ``argv``, ``started``, ``audit`` (whether
    the cluster has an audit log).
    """

    header: dict[str, Any]
    timeline: Timeline

    @property
    def lab(self) -> str:
        return self.header["lab"]

    @property
    def cluster_id(self) -> str:
        """Differs for any two clusters, also for two that were made one after the other."""
        return self.header["cluster"]["id"]

    @property
    def unconfirmed(self) -> list[Exchange]:
        """Writes that a wire saw applied and the audit log does not know.

        Not empty where the two parts of the file are not of one cluster. Always
        empty where there is no audit log.
        """
        if not self.header.get("audit"):
            return []
        confirmed = self.header["confirmed"]
        return [
            e
            for e in self.timeline.writes(applied=True)
            if e.source == "wire" and e.audit_id not in confirmed
        ]


def write(
    path: Path, header: dict[str, Any], records: Iterable[bytes], audit_events: Iterable[dict]
) -> int:
    """Write a recording (atomically, for its user alone); returns the number of its lines.

    ``records`` are lines of ``wire.jsonl``. Of the audit events the writes are
    kept, without bodies where a wire has them.
    """
    from grader.cluster import dirs

    lines = [json.dumps({"kind": "header", "format": FORMAT, **header}).encode()]
    wired: set[str] = set()
    for line in records:
        try:
            record = parse_line(line)
        except RecordError:
            continue  # torn by a kill: the rest is whole
        if isinstance(record, Exchange):
            wired.add(record.audit_id)
        lines.append(line.strip())
    for event in audit_events:
        mine = event.get("auditID") in wired
        if not mine and (event.get("objectRef") or {}).get("resource") in _NOT_KEPT:
            continue  # what a wire saw is kept whatever it is: it is what confirms it
        if event.get("verb") not in WRITE_VERBS or event.get("stage") == "RequestReceived":
            continue
        if mine:
            event = {k: v for k, v in event.items() if k not in ("requestObject", "responseObject")}
        lines.append(json.dumps({"kind": "audit", "event": redaction.audit_event(event)}).encode())
    lines.append(json.dumps({"kind": "end", "lines": len(lines) + 1}).encode())
    dirs.write_atomically(path, b"".join(chained(lines)), mode=0o600)
    return len(lines)


def chained(lines: list[bytes]) -> Iterable[bytes]:
    """The lines, each with the chain up to it: what makes a recording whole."""
    chain = b""
    for line in lines:
        chain = _next(chain, line)
        yield line[:-1] + _CHAIN + chain + b'"}\n'


def _next(chain: bytes, line: bytes) -> bytes:
    return hashlib.sha256(chain + line).hexdigest()[:16].encode()


def load(path: Path) -> Recording:
    """Read a recording; raises :class:`RecordingError` where it is not one, or not whole."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise RecordingError(
                f"{path.name} is larger than 256 MiB: make a shorter recording.",
                "recording-too-large",
            )
        data = path.read_bytes()
    except OSError as e:
        raise RecordingError(
            f"{path.name} cannot be read ({e.strerror}).", "recording-unreadable"
        ) from None
    raw = [line for line in data.split(b"\n") if line.strip()]
    header = _header(path, raw)
    records: list[Record] = []
    audit_events: list[dict] = []
    chain, count = b"", 0
    last: dict[str, Any] = {}
    for number, line in enumerate(raw, 1):
        body, mark, rest = line.rpartition(_CHAIN)
        chain = _next(chain, body + b"}")
        if not mark or rest.strip() != chain + b'"}':
            torn = number == len(raw) and not line.endswith(b"}")
            raise RecordingError(
                f"Line {number} of {path.name} is not as it was recorded"
                + (": the file ends in the middle of it." if torn else "."),
                "recording-cut" if torn else "recording-edited",
            )
        count = number
        last = json.loads(body + b"}")
        if last["kind"] == "audit":
            audit_events.append(last["event"])
        elif last["kind"] not in ("header", "end"):
            records.append(parse_line(body + b"}"))
    if last.get("kind") != "end" or last.get("lines") != count:
        raise RecordingError(
            f"{path.name} has no end: it was cut, or the recording was not finished.",
            "recording-cut",
        )
    header["confirmed"] = frozenset(event.get("auditID") for event in audit_events)
    return Recording(header, Timeline.of_records(records, audit_events))


def _header(path: Path, lines: list[bytes]) -> dict[str, Any]:
    try:
        header = json.loads(lines[0])
        if header["kind"] != "header":
            raise KeyError("kind")
        header["lab"], header["cluster"]["id"]
    except (IndexError, ValueError, KeyError, TypeError):
        raise RecordingError(
            f"{path.name} is not a recording of `phase4 record`.", "not-a-recording"
        ) from None
    if header.get("format") != FORMAT:
        raise RecordingError(
            f"{path.name} was made by another version of the course: record again.",
            "recording-of-another-version",
        )
    return header
