"""An API server that is none: for tests of the wire that need no control plane."""

from __future__ import annotations

import asyncio
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
        self._runner = web.AppRunner(application, shutdown_timeout=0.1, auto_decompress=False)
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
