"""Wrong recordings: lines of a right one changed or left out, and the chain made to fit again.

What a learner can really hand in is signed line by line (see
:mod:`grader.witness.recording`), so a plain change of text is always noticed as
such. These are recordings as they would be had the thing really happened so::

    [[record]]
    file = "recording.jsonl"
    line = '"seq":57,"client":"learner"'   # in exactly one line of it
    drop = true                            # or find and replace, within that line
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class NoSuchLine(Exception):
    """A line or text that is not there exactly once; ``str()`` says which."""


@dataclass(frozen=True)
class LineChange:
    """One line of a recording: left out where ``replace`` is None, else ``find`` becomes ``replace``."""

    file: str
    line: str
    find: str = ""
    replace: str | None = None


def apply(changes: Iterable[LineChange], folder: Path) -> None:
    """Change the recordings in ``folder``. Raises :class:`NoSuchLine`."""
    by_file: dict[str, list[LineChange]] = {}
    for change in changes:
        by_file.setdefault(change.file, []).append(change)
    for name, of_file in by_file.items():
        path = folder / name
        path.write_bytes(_changed(path.read_bytes(), of_file))


def _changed(data: bytes, changes: list[LineChange]) -> bytes:
    from grader.witness import recording

    mark = b',"chain":"'
    lines = [line.rpartition(mark)[0].decode() + "}" for line in data.splitlines()]
    for change in changes:
        found = [number for number, line in enumerate(lines) if change.line in line]
        if len(found) != 1:
            raise NoSuchLine(
                f"{change.line!r} is in {len(found)} lines of {change.file}, not in one"
            )
        (number,) = found
        if change.replace is None:
            del lines[number]
            continue
        if lines[number].count(change.find) != 1:
            raise NoSuchLine(f"{change.find!r} is not once in the line with {change.line!r}")
        lines[number] = lines[number].replace(change.find, change.replace)
    lines[-1] = json.dumps({"kind": "end", "lines": len(lines)})
    return b"".join(recording.chained([line.encode() for line in lines]))
