"""Writes ``wire.jsonl``: every line is with the kernel before anybody acts on it.

A line is one ``write`` to a file opened for appending, so that ``kill -9`` at any
moment costs at most the line being written, and a reader never sees half of one
that is followed by another. Bodies are put into the line as the bytes they came
in: a list of a thousand objects is never parsed on its way through.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from grader.wire.records import parse_line

#: Text bodies that are not JSON (logs, errors of proxies) are cut to this many bytes.
TEXT_LIMIT = 64 * 1024

#: Parts of a line that are written without being put together first; IOV_MAX is 1024.
_MOST_PARTS = 512

#: Notified at each record of any wire of this process; for timelines that wait.
grown = threading.Condition()


#: A value of a line that is JSON already, in one piece or several.
Raw = bytes | list[bytes]


def embed(body: bytes, content_type: str) -> bytes:
    """``body`` as one line of JSON: as it is where it is JSON, else as a string; protobuf as null."""
    if not body:
        return b"null"
    if "json" in content_type or "yaml" in content_type:
        try:
            # Written again: what a process sends can have line breaks or NaN in it.
            return json.dumps(json.loads(body), separators=(",", ":"), allow_nan=False).encode()
        except ValueError:
            if "yaml" in content_type and (parsed := _yaml(body)) is not None:
                return parsed
    elif "protobuf" in content_type or "cbor" in content_type:
        return b"null"
    elif body.lstrip()[:1] == b"{":
        # Some clients name no type, or a wrong one, for what is JSON after all.
        try:
            return json.dumps(json.loads(body), separators=(",", ":"), allow_nan=False).encode()
        except ValueError:
            pass
    return json.dumps(body[:TEXT_LIMIT].decode("utf-8", "replace")).encode()


def embed_answer(pieces: list[bytes], content_type: str) -> Raw:
    """The same for a complete answer of the API server's, which is not parsed where it is JSON.

    It is one line then, with a line break at its end; ``pretty`` ones are written again.
    """
    if not pieces:
        return b"null"
    if "json" in content_type and pieces[0][:1] in (b"{", b"["):
        last = pieces[-1]
        if last.endswith(b"\n"):
            last = last[:-1]
        if not any(b"\n" in piece for piece in pieces[:-1]) and b"\n" not in last:
            return [*pieces[:-1], last]
    return embed(b"".join(pieces), content_type)


def _yaml(body: bytes) -> bytes | None:
    import yaml

    try:
        return json.dumps(yaml.safe_load(body), separators=(",", ":")).encode()
    except (yaml.YAMLError, TypeError, ValueError):
        return None


class Recorder:
    """One wire's record. Safe to call from any thread.

    ``failure`` is set once a line could not be written (a full disk): from then
    on lines are missing from the record, so nothing may be concluded from it.
    """

    def __init__(self, path: Path, client: str) -> None:
        self.path = path
        self.client = client
        self.failure: OSError | None = None
        self._lock = threading.Lock()
        self._seq = _last_seq(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.fchmod(self._fd, 0o600)  # one that is continued may be of an older version
        self._broken_line = _torn(path)

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def line(self, fields: dict[str, Any], **raw: Raw) -> int:
        """Write one record; ``raw`` fields are JSON already. Returns its ``seq``."""
        return self.lines([(fields, raw)])[0]

    def lines(self, records: list[tuple[dict[str, Any], dict[str, Raw]]]) -> list[int]:
        """Write several records at once, in order."""
        with self._lock:
            numbers, parts = [], []
            for fields, raw in records:
                self._seq += 1
                numbers.append(self._seq)
                head = {"kind": fields.pop("kind"), "seq": self._seq, "client": self.client}
                parts.append(json.dumps({**head, **fields}, separators=(",", ":")).encode()[:-1])
                for key, value in raw.items():
                    parts += (b',"', key.encode(), b'":')
                    parts += [value] if isinstance(value, bytes) else value
                parts.append(b"}\n")
            self._write(parts)
        with grown:
            grown.notify_all()
        return numbers

    def mark(self, what: str, **data: Any) -> int:
        """Write a mark with the present time."""
        return self.line({"kind": "mark", "what": what, "t": time.time(), "data": data})

    def _write(self, parts: list[bytes]) -> None:
        if self._fd < 0:
            return
        if self._broken_line:
            parts, self._broken_line = [b"\n", *parts], False
        if len(parts) > _MOST_PARTS:
            parts = [b"".join(parts)]
        length = sum(map(len, parts))
        try:
            written = os.writev(self._fd, parts)
            if written < length:
                # A signal or a disk that is nearly full: the rest, or the error.
                rest = memoryview(b"".join(parts))[written:]
                while rest:
                    rest = rest[os.write(self._fd, rest) :]
        except OSError as e:
            self._broken_line = True
            self.failure = self.failure or e


def _last_seq(path: Path) -> int:
    """The highest ``seq`` in a record that is continued, 0 for a new one."""
    try:
        with path.open("rb") as file:
            last = 0
            for line in file:
                try:
                    last = max(last, parse_line(line).seq)
                except ValueError:
                    continue
            return last
    except FileNotFoundError:
        return 0


def _torn(path: Path) -> bool:
    """Whether the file ends in the middle of a line: its writer was killed."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
