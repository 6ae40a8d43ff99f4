"""Finding the audit events of a moment in a log that grows and rotates."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from grader.cluster import audit


def line(at: float, took: float = 0.0, pad: int = 0) -> str:
    def stamp(seconds: float) -> str:
        text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
        return text.replace("+00:00", "Z")

    event = {
        "auditID": f"{at:g}",
        "requestReceivedTimestamp": stamp(at),
        "stageTimestamp": stamp(at + took),
        "pad": "x" * pad,
    }
    return json.dumps(event) + "\n"


def ids(log, since: float) -> list[str]:
    return [event["auditID"] for event in audit.events(log, since)]


def test_since(tmp_path):
    log = tmp_path / "audit.log"
    log.write_text("".join(line(1000 + n, pad=500) for n in range(5000)))
    assert ids(log, 0)[:2] == ["1000", "1001"] and len(ids(log, 0)) == 5000
    for since in (1000, 1001, 3333, 5999):
        assert ids(log, since)[0] == f"{since:g}"
        assert len(ids(log, since)) == 6000 - since
    assert ids(log, 6000) == []


def test_a_long_request_ends_late(tmp_path):
    log = tmp_path / "audit.log"
    early = [line(1000 + n, pad=900) for n in range(500)]
    watch = line(1200, took=600)
    log.write_text("".join([*early, watch, *(line(1801 + n) for n in range(3))]))
    assert ids(log, 1490)[-4:] == ["1499", "1801", "1802", "1803"]
    assert "1200" in ids(log, 1200)


def test_a_line_being_written_waits(tmp_path):
    log = tmp_path / "audit.log"
    log.write_text(line(1) + line(2)[:40])
    assert ids(log, 0) == ["1"]


def test_the_rotated_file_comes_first(tmp_path):
    (tmp_path / "audit-2026-01-01T00-00-00.000.log").write_text(line(1) + line(2))
    (tmp_path / "audit.log").write_text(line(3))
    assert ids(tmp_path / "audit.log", 2) == ["2", "3"]


def test_no_log_yet(tmp_path):
    assert ids(tmp_path / "audit.log", 0) == []
