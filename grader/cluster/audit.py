"""Reading an audit log: one audit.k8s.io/v1 event a line, in the order in which requests ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

#: Lines are written by several goroutines: two of them may swap places by this much (s).
_DISORDER = 1.0


def seconds(timestamp: str) -> float:
    """An RFC 3339 timestamp as seconds since the epoch."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def events(log: Path, since: float = 0.0) -> Iterator[dict]:
    """The events whose request was received at or after ``since`` (seconds since the epoch).

    Reads the rotated file before the present one. A last line that is still being
    written is left out.
    """
    rotated = sorted(log.parent.glob(f"{log.stem}-*{log.suffix}"))
    for path in [*rotated, log]:
        try:
            file = path.open("rb")
        except FileNotFoundError:
            continue
        with file:
            _seek(file, since - _DISORDER)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                event = json.loads(line)
                if seconds(event["requestReceivedTimestamp"]) >= since:
                    yield event


def _seek(file: BinaryIO, since: float) -> None:
    """Go to the start of a line before which every event had ended before ``since``."""
    low, high = 0, file.seek(0, 2)
    while high - low > 65536:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()
        line = file.readline()
        if line.endswith(b"\n") and seconds(json.loads(line)["stageTimestamp"]) < since:
            low = middle
        else:
            high = middle
    file.seek(low)
    if low:
        file.readline()
