"""One open watch: events arrive, wait where a rule says so, and are delivered in order.

Two tasks share a queue. The reader takes events from the API server as fast as
it sends them; the deliverer hands them on, so that a frozen watch goes on
receiving, as it would with a cache that is behind.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any

import aiohttp
from aiohttp import web

from grader.wire import redaction
from grader.wire.engine import Armed, Engine, event_matches, now
from grader.wire.recorder import Recorder, embed
from grader.wire.requests import RequestInfo
from grader.wire.rules import REASONS, status_object

_PREFIX = b'{"type":"'
_BETWEEN = b'","object":'


def split_event(line: bytes) -> tuple[str, bytes]:
    """Type and object (JSON, one line) of a watch event's line, without parsing the object.

    The API server's encoder writes ``{"type":"ADDED","object":{...}}``; what an
    aggregated one writes otherwise is parsed.
    """
    if line.startswith(_PREFIX) and line.endswith(b"}"):
        end = line.find(b'"', len(_PREFIX))
        start = end + len(_BETWEEN)
        if line[end:start] == _BETWEEN:
            return line[len(_PREFIX) : end].decode(), line[start:-1].rstrip()
    try:
        event = json.loads(line)
        return str(event["type"]), json.dumps(event["object"]).encode()
    except (ValueError, KeyError, TypeError):
        return "", embed(line, "text/plain")


def _metadata(raw: bytes) -> dict[str, Any]:
    try:
        return json.loads(raw).get("metadata") or {}
    except (ValueError, AttributeError):
        return {}


class Watch:
    """A watch between one process and the API server; :meth:`run` ends when it does."""

    def __init__(
        self,
        seq: int,
        info: RequestInfo,
        request: web.BaseRequest,
        response: web.StreamResponse,
        upstream: aiohttp.ClientResponse,
        engine: Engine,
        recorder: Recorder,
    ) -> None:
        self.seq = seq
        self.info = info
        self._secret = redaction.is_secret(info.resource, info.subresource)
        self._transport = request.transport
        self._response = response
        self._upstream = upstream
        self._engine = engine
        self._recorder = recorder
        self._queue: deque[tuple[float, bytes]] = deque()
        self._wake = asyncio.Event()
        #: Set once the API server has ended the watch; whether it ended it cleanly.
        self._server_ended: bool | None = None
        self._closing = asyncio.Event()
        self._closed_by = ""
        self._faults: list[str] = []
        self._last_words: bytes | None = None

    @property
    def queued(self) -> int:
        """How many events have been received and not been handed on."""
        return len(self._queue)

    def client_gone(self) -> None:
        self._close("client")

    def close_by_wire(self) -> None:
        self._close("wire", abort=True)

    def cut(self, armed: Armed) -> None:
        """End it for a rule: as a broken connection, or as a server does at the watch's timeout."""
        self._faults.append(armed.id)
        self._close("rule", abort=not armed.rule.cleanly)

    def fail(self, armed: Armed) -> None:
        """Send an ERROR event in the stream, then end it, as the API server does."""
        code = armed.rule.code
        reason = armed.rule.reason or REASONS.get(code, "InternalError")
        message = armed.rule.message or (
            "too old resource version: 1 (2)" if code == 410 else "the watch failed"
        )
        self._last_words = json.dumps(
            status_object(code, reason, message), separators=(",", ":")
        ).encode()
        self._faults.append(armed.id)
        self._close("rule")

    def _close(self, by: str, *, abort: bool = False) -> None:
        if self._closed_by:
            return
        self._closed_by = by
        self._closing.set()
        self._wake.set()
        if abort and self._transport is not None:
            self._transport.abort()

    async def run(self) -> None:
        reader = asyncio.ensure_future(self._read())
        try:
            await self._deliver()
        except (ConnectionError, RuntimeError):
            # aiohttp says RuntimeError for a write after the connection went.
            self._close("client")
        finally:
            reader.cancel()
            self._upstream.close()
        end = {"kind": "watch_end", "watch": self.seq, "by": self._closed_by, "t": now()}
        self._recorder.lines([*self._lost(), (end, {})])

    async def _read(self) -> None:
        rest = b""
        try:
            async for chunk in self._upstream.content.iter_any():
                received = now()
                *lines, rest = (rest + chunk).split(b"\n")
                self._queue.extend((received, line) for line in lines if line)
                if lines:
                    self._wake.set()
            self._server_ended = True
        except (aiohttp.ClientError, ConnectionError):
            self._server_ended = False
        self._wake.set()

    async def _deliver(self) -> None:
        while not self._closed_by:
            if self._queue:
                rules = self._engine.for_events(self.info)
                if rules:
                    await self._deliver_one(rules)
                else:
                    await self._deliver_all()
            elif self._server_ended is None:
                self._wake.clear()
                await self._wake.wait()
            else:
                # A broken connection is passed on as one.
                self._close("server", abort=not self._server_ended)
        if self._last_words is not None:
            await self._say_last_words()
        if self._closed_by in ("server", "rule") and not self._transport_closed():
            await self._response.write_eof()

    def _transport_closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    async def _deliver_all(self) -> None:
        """What happens to nearly every event: no rule matches it."""
        batch = list(self._queue)
        self._queue.clear()
        t = now()
        self._recorder.lines([self._event(line, received, t) for received, line in batch])
        await self._response.write(b"".join(line + b"\n" for _, line in batch))

    async def _deliver_one(self, rules: list[Armed]) -> None:
        received, line = self._queue[0]
        type, raw = split_event(line)
        metadata = _metadata(raw)
        faults: list[str] = []
        for armed in rules:
            rule = armed.rule
            if not event_matches(
                rule, type, metadata.get("namespace", ""), metadata.get("name", "")
            ):
                continue
            if not armed.take():
                continue
            faults.append(armed.id)
            self._engine.fired(
                armed,
                watch=self.seq,
                type=type,
                namespace=metadata.get("namespace", ""),
                name=metadata.get("name", ""),
                resource_version=metadata.get("resourceVersion", ""),
            )
            if rule.action == "freeze":
                await self._wait(armed.removed)
            elif rule.action == "delay":
                await self._wait(armed.removed, max(0.0, received + rule.seconds - now()))
            elif rule.action == "hide":
                self._queue.popleft()
                self._recorder.lines([self._event(line, received, None, "hidden", faults)])
                return
            elif rule.action == "cut":
                self.cut(armed)
            elif rule.action == "error":
                self.fail(armed)
            if self._closed_by:
                # It stays in the queue, which is recorded as lost.
                return
        self._queue.popleft()
        self._recorder.lines([self._event(line, received, now(), "delivered", faults)])
        await self._response.write(line + b"\n")

    async def _wait(self, removed: asyncio.Event, seconds: float | None = None) -> None:
        """Until the rule is removed, the watch is closed, or the time has passed."""
        waits = [asyncio.ensure_future(e.wait()) for e in (removed, self._closing)]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _say_last_words(self) -> None:
        raw, t = self._last_words or b"null", now()
        line = b'{"type":"ERROR","object":' + raw + b"}"
        last = self._event(line, t, t, "delivered", self._faults)
        self._recorder.lines([*self._lost(), last])
        await self._response.write(line + b"\n")

    def _lost(self) -> list[tuple[dict, dict[str, bytes]]]:
        """The records of what was never handed on; the queue is empty afterwards."""
        lost = [self._event(line, at, None, "lost", self._faults) for at, line in self._queue]
        self._queue.clear()
        return lost

    def _event(
        self,
        line: bytes,
        received: float,
        delivered: float | None,
        fate: str = "delivered",
        faults: list[str] | None = None,
    ) -> tuple[dict, dict[str, bytes]]:
        type, raw = split_event(line)
        if self._secret:
            raw = redaction.body(raw)
        return {
            "kind": "event",
            "watch": self.seq,
            "type": type,
            "t_received": received,
            "t_delivered": delivered,
            "fate": fate,
            "faults": list(faults or ()),
        }, {"object": raw}
