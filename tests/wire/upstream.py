"""An API server that is none: for tests of the wire that need no control plane."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

from grader.cluster import credentials

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Upstream:
    """``with Upstream() as upstream``: answers on 127.0.0.1, and keeps what it was asked.

    ``upstream.answer`` may be replaced by any handler of aiohttp's; it runs on the
    server's own loop, ``upstream.loop``.
    """

    def __init__(self) -> None:
        self.asked: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.answer: Answer = echo
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> Upstream:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self.loop).result()
        return self

    async def _open(self) -> None:
        application = web.Application(client_max_size=1 << 30)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            application, shutdown_timeout=0.1, auto_decompress=False, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    def __exit__(self, *exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.read())
        self.asked.append(request)
        return await self.answer(request)

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig with an administrator's token, as the wire is given one."""
        path = folder / "upstream.kubeconfig"
        path.write_text(credentials.kubeconfig(self.url, "", "admins-token"))
        return path


async def echo(request: web.Request) -> web.StreamResponse:
    """Say what was asked for."""
    return web.json_response({"kind": "Echo", "path": request.raw_path})


class Stream:
    """An answer that a test writes piece by piece: ``upstream.answer = stream.answer``."""

    def __init__(self, upstream: Upstream, kind: str = "application/json") -> None:
        self._upstream = upstream
        self._kind = kind
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        #: Set once the wire has closed its end.
        self.gone = threading.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": self._kind})
        await response.prepare(request)
        try:
            while (piece := await self._pieces.get()) is not None:
                if piece == b"":
                    request.transport.abort()
                    return response
                await response.write(piece)
            await response.write_eof()
        finally:
            self.gone.set()
        return response

    def write(self, *pieces: bytes) -> None:
        for piece in pieces:
            self._upstream.loop.call_soon_threadsafe(self._pieces.put_nowait, piece)

    def event(self, type: str, name: str, **metadata: str) -> None:
        """An event of a watch, of a ConfigMap in the namespace a."""
        about = {"name": name, "namespace": "a", **metadata}
        data = {"type": type, "object": {"kind": "ConfigMap", "metadata": about}}
        self.write(json.dumps(data, separators=(",", ":")).encode() + b"\n")

    def end(self) -> None:
        """End it as a server does whose time is up."""
        self._upstream.loop.call_soon_threadsafe(self._pieces.put_nowait, None)

    def break_off(self) -> None:
        """Cut the connection."""
        self.write(b"")
