"""How the wire handles a request: read it, let the rules act, forward, record, answer.

The order is what graders rely on: a request's record is on disk before the
process gets the first byte of its answer (of a long list, the last), and a kill
is carried out before anything is forwarded after it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from grader.cluster.credentials import Credentials
from grader.wire import negotiation, refusals
from grader.wire.access import Access, Admitted, Refused
from grader.wire.draft import Draft
from grader.wire.engine import Armed, Engine
from grader.wire.recorder import Recorder
from grader.wire.requests import RequestInfo, parse, parse_query
from grader.wire.rules import status_object
from grader.wire.watching import Watch

#: Bigger than what the API server accepts (3 MiB), so that its refusal is the one seen.
MAX_BODY = 32 * 1024 * 1024
#: Answers up to this size are handed on in one piece; longer ones as they come.
WHOLE = 256 * 1024
#: So that a client that is refused again and again does not fill the record.
MOST_REFUSALS_MARKED = 20


#: Malformed requests are the process's own fault; aiohttp would print them to our stderr.
_QUIET = logging.getLogger("phase4.wire")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


class Cut(Exception):
    """The connection to the process is to be cut, with no answer."""


@dataclass(eq=False)
class Serving:
    """A request being served, as far as it matters when its process goes away."""

    task: asyncio.Task
    gone: asyncio.Event
    admitted: Admitted
    watch: Watch | None = None


class Connections(web.Server):
    """aiohttp's server, which tells the proxy of each connection that was lost."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(
            proxy.handle,
            request_factory=proxy.make_request,
            access_log=None,
            logger=_QUIET,
            # As long as it takes: an idle client is not to be surprised by a close.
            keepalive_timeout=3600,
            max_line_size=1 << 16,
            max_field_size=1 << 16,
            # A body is forwarded as it came, with the headers that say how.
            auto_decompress=False,
        )
        self._proxy = proxy

    def connection_lost(self, handler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._proxy.connection_lost(handler)


class Proxy:
    """Everything that happens on one wire's loop. ``upstream_headers`` carry credential and identity."""

    def __init__(
        self,
        upstream: Credentials,
        session: aiohttp.ClientSession,
        upstream_headers: list[tuple[str, str]],
        user: str,
        access: Access,
        engine: Engine,
        recorder: Recorder,
    ) -> None:
        self._server = upstream.server
        self._server_name = upstream.tls_server_name or None
        self._session = session
        self._upstream_headers = upstream_headers
        self._user = user
        self._access = access
        self._refused = 0
        self._engine = engine
        self._recorder = recorder
        engine.on_added = self._act_at_once
        self.watches: dict[int, Watch] = {}
        #: The request that is being served on each connection.
        self._serving: dict[object, Serving] = {}
        #: Connections of a process that was killed: nothing more of theirs is forwarded.
        self._dead: set[object] = set()
        self._killing = asyncio.Event()
        self._killing.set()
        #: Set once the wire itself failed.
        self.broken: OSError | None = None
        self.kill: Callable[[], None] | None = None
        self.web_server: web.Server | None = None

    def make_request(self, message, payload, protocol, writer, task) -> web.BaseRequest:
        """aiohttp's request factory, with room for large bodies."""
        return web.BaseRequest(
            message, payload, protocol, writer, task, self._engine_loop(), client_max_size=MAX_BODY
        )

    def _engine_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def connection_lost(self, connection: object) -> None:
        """The process has closed a connection, or has gone.

        What was forwarded is still recorded with the API server's answer; waiting for
        rules ends, and so does a watch.
        """
        if serving := self._serving.get(connection):
            serving.gone.set()
            if serving.watch is not None:
                serving.watch.client_gone()

    async def shut(self) -> None:
        """End every watch, let requests in flight finish for a moment, and stop."""
        for watch in list(self.watches.values()):
            watch.close_by_wire()
        for serving in self._serving.values():
            serving.gone.set()
        tasks = [serving.task for serving in self._serving.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve a request; aiohttp serves one at a time on a connection."""
        try:
            admitted = self._access.admit(request)
        except Refused as refusal:
            return await self._turn_away(request, refusal)
        serving = Serving(asyncio.current_task(), asyncio.Event(), admitted)
        if request.transport is None:
            serving.gone.set()
        self._serving[request.protocol] = serving
        try:
            return await self._serve(request, serving)
        finally:
            del self._serving[request.protocol]

    async def _turn_away(self, request: web.BaseRequest, refusal: Refused) -> web.StreamResponse:
        """Refuse another client. It is no exchange of the process, so it is recorded as a mark."""
        self._refused += 1
        if self._refused <= MOST_REFUSALS_MARKED:
            self._recorder.mark(
                "request_refused", code=refusal.code, method=request.method, why=str(refusal)
            )
        status = status_object(refusal.code, refusal.reason, str(refusal))
        # What follows on this connection is from the same client.
        response = web.json_response(status, status=refusal.code, headers={"Connection": "close"})
        response.force_close()
        await response.prepare(request)
        await response.write_eof()
        return response

    async def _serve(self, request: web.BaseRequest, serving: Serving) -> web.StreamResponse:
        draft = Draft(
            request,
            serving.admitted.target,
            time.time(),
            str(uuid.uuid4()),
            self._user,
            self._recorder,
        )
        try:
            return await self._answer(request, draft, serving)
        except Cut:
            pass
        except (ConnectionError, web.RequestPayloadError, aiohttp.ClientPayloadError) as e:
            draft.error = draft.error or f"the process went away ({type(e).__name__})"
        except asyncio.CancelledError:
            draft.error = "the wire was closed"
            draft.write(status=None)
            raise
        except Exception as e:
            # A fault of ours is no evidence: graders look at it before they judge.
            draft.error = f"the wire itself failed ({type(e).__name__}: {e})"
            self.broken = self.broken or OSError(0, draft.error)
        draft.write(status=None)
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=503)

    async def _answer(
        self, request: web.BaseRequest, draft: Draft, serving: Serving
    ) -> web.StreamResponse:
        path, _, raw_query = serving.admitted.target.partition("?")
        query = parse_query(raw_query)
        info = parse(request.method, path, query)
        draft.read(info, path, query)
        if negotiation.wants_continue(request.headers) and request.transport:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            draft.body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return await self._made_up(
                request, draft, 413, "", "The request is larger than 32 MiB."
            )
        if negotiation.wants_stream(request.headers):
            return await self._made_up(
                request, draft, 501, "NotImplemented", refusals.UPGRADE_REFUSED
            )
        if any(key.lower().startswith("impersonate-") for key in request.headers):
            return await self._made_up(
                request, draft, 403, "Forbidden", refusals.IMPERSONATION_REFUSED
            )

        if self._engine.armed:
            answer = await self._act_on_request(request, draft, info, serving.gone)
            if answer is not None:
                return answer
        await self._killing.wait()
        self._refuse_the_dead(request, draft)
        return await self._forward(request, draft, info, serving)

    def _refuse_the_dead(self, request: web.BaseRequest, draft: Draft) -> None:
        if request.protocol in self._dead or request.transport is None:
            draft.error = "the process was killed or went away before this was forwarded"
            raise Cut

    # What rules do -------------------------------------------------------------

    async def _act_on_request(
        self, request: web.BaseRequest, draft: Draft, info: RequestInfo, gone: asyncio.Event
    ) -> web.StreamResponse | None:
        """Let the rules act; an answer that one of them made up, or None to go on."""
        for armed in self._engine.for_request(info):
            rule = armed.rule
            if rule.name and draft.name_asked() != rule.name:
                continue
            if not rule.asks_for(draft.query.get("resourceVersion", "")):
                continue
            if not armed.take():
                continue
            draft.faults.append(armed.id)
            self._engine.fired(armed, audit_id=draft.audit_id, **draft.summary())
            if rule.action in ("hold", "freeze"):
                await self._wait(gone, armed.removed)
            elif rule.action == "delay":
                if rule.part == "answer":
                    draft.delays.append(armed)
                else:
                    await self._wait(gone, armed.removed, rule.seconds)
            elif rule.action == "timeout" and rule.applied:
                draft.time_out_after = True
            elif rule.action == "kill-before":
                draft.error = "a rule killed the process before this was forwarded"
                await self._kill(armed, "before", draft)
                raise Cut
            elif rule.action == "cut":
                draft.error = "a rule cut the connection before this was forwarded"
                raise Cut
            else:
                return await self._made_up(request, draft, *refusals.of_rule(armed.rule))
            if gone.is_set():
                draft.error = "the process went away while a rule held this back"
                raise Cut
        return None

    async def _act_on_answer(self, draft: Draft, info: RequestInfo) -> None:
        """The rules that wait for a write to be applied; raises Cut where the answer is withheld."""
        for armed in self._engine.for_answer(info):
            if armed.rule.name and draft.name_known() != armed.rule.name:
                continue
            if not armed.take():
                continue
            draft.faults.append(armed.id)
            self._engine.fired(armed, audit_id=draft.audit_id, **draft.summary())
            if armed.rule.action == "kill-after":
                draft.error = "a rule killed the process before it heard the answer"
                await self._kill(armed, "after", draft)
            else:
                draft.error = "a rule dropped the answer"
            raise Cut

    async def _kill(self, armed: Armed, when: str, draft: Draft) -> None:
        """Have the process killed. When this returns, nothing of it can be forwarded any more."""
        if self.kill is None:
            self._recorder.mark("kill_impossible", rule=armed.id, audit_id=draft.audit_id)
            return
        self._killing.clear()
        try:
            await asyncio.get_running_loop().run_in_executor(None, self.kill)
            # Connections the process opened while it was dying are dead as well;
            # two turns of the loop take in those that wait to be accepted.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        finally:
            self._dead = set(self.web_server.connections) if self.web_server else set()
            self._killing.set()
        self._recorder.mark(
            "process_killed", rule=armed.id, when=when, audit_id=draft.audit_id, **draft.summary()
        )

    def _act_at_once(self, armed: Armed) -> None:
        """A cut or an error for watches acts on those that are open when it is added."""
        rule = armed.rule
        if rule.action not in ("cut", "error") or rule.events or not rule.on_events or rule.nth > 1:
            return
        open_now = [w for w in self.watches.values() if self._engine.watch_matches(rule, w.info)]
        if not open_now or not armed.take():
            return
        self._engine.fired(armed, watches=[w.seq for w in open_now])
        for watch in open_now:
            watch.fail(armed) if rule.action == "error" else watch.cut(armed)

    def _act_on_open(self, watch: Watch, version: str) -> None:
        """The same for a watch that has just opened, from that resourceVersion on."""
        for armed in self._engine.for_events(watch.info):
            rule = armed.rule
            if rule.action not in ("cut", "error") or rule.events:
                continue
            if rule.before and not rule.asks_for(version):
                continue
            if armed.take():
                self._engine.fired(armed, watches=[watch.seq])
                watch.fail(armed) if rule.action == "error" else watch.cut(armed)
                return

    async def _wait(
        self, gone: asyncio.Event, removed: asyncio.Event, seconds: float | None = None
    ) -> None:
        """Until the rule is removed, the process has gone, or the time has passed."""
        waits = [asyncio.ensure_future(e.wait()) for e in (gone, removed)]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    # Forwarding ------------------------------------------------------------------

    async def _forward(
        self, request: web.BaseRequest, draft: Draft, info: RequestInfo, serving: Serving
    ) -> web.StreamResponse:
        headers = negotiation.forwarded(request.headers, json_only=info.is_resource)
        headers.extend(self._upstream_headers)
        headers["Audit-ID"] = draft.audit_id
        draft.forwarded = True
        try:
            upstream = await self._session.request(
                request.method,
                URL(self._server + serving.admitted.target, encoded=True),
                headers=headers,
                data=draft.body or None,
                allow_redirects=False,
                server_hostname=self._server_name,
            )
        except aiohttp.ClientConnectorError as e:
            draft.forwarded = False
            draft.error = f"the API server cannot be reached ({e.os_error.strerror or e})"
            raise Cut from None
        except (TimeoutError, aiohttp.ClientError, ConnectionError) as e:
            draft.error = f"the API server did not answer ({type(e).__name__})"
            raise Cut from None
        async with upstream:
            draft.server_status = upstream.status
            draft.response_type = upstream.headers.get("Content-Type", "")
            if info.verb == "watch" and upstream.status == 200 and request.method != "HEAD":
                return await self._stream_watch(request, draft, info, upstream, serving)
            try:
                return await self._hand_on(request, draft, info, upstream, serving)
            except aiohttp.ClientError as e:
                draft.error = f"the API server's answer broke off ({type(e).__name__})"
                raise Cut from None

    async def _hand_on(
        self,
        request: web.BaseRequest,
        draft: Draft,
        info: RequestInfo,
        upstream: aiohttp.ClientResponse,
        serving: Serving,
    ) -> web.StreamResponse:
        gone = serving.gone
        headers = negotiation.returned(upstream.headers, serving.admitted.prefix)
        can_stream = not draft.delays and info.verb in ("get", "list", "other")
        if can_stream and upstream.content_length is None:
            # Chunked: the API server does not say how much comes (from 2 KiB on).
            follows = info.subresource == "log" and "follow" in draft.query
            pieces = [] if follows else await _first_pieces(upstream)
            if follows or not upstream.content.at_eof():
                return await self._stream(request, draft, upstream, headers, pieces, follows)
            draft.answer = pieces
        elif body := await upstream.read():
            draft.answer = [body]
        if draft.applied:
            await self._act_on_answer(draft, info)
        for armed in draft.delays:
            await self._wait(gone, armed.removed, armed.rule.seconds)
        if gone.is_set():
            draft.error = "the process went away before it heard the answer"
            raise Cut
        if draft.time_out_after:
            return await self._made_up(request, draft, 504, "Timeout", refusals.TIMED_OUT)
        draft.write(status=upstream.status)
        # Headers and body in one piece: one packet, one wake-up of the process.
        response = web.Response(
            status=upstream.status, headers=headers, body=b"".join(draft.answer)
        )
        await response.prepare(request)
        await response.write_eof()
        return response

    async def _stream(
        self,
        request: web.BaseRequest,
        draft: Draft,
        upstream: aiohttp.ClientResponse,
        headers: CIMultiDict[str],
        pieces: list[bytes],
        follows: bool,
    ) -> web.StreamResponse:
        """Pass a long answer on as it comes, and record it before its last piece.

        A log that is followed has no last piece until it ends: it is recorded then.
        """
        response = web.StreamResponse(status=upstream.status, headers=headers)
        await response.prepare(request)
        held = b"".join(pieces)
        async for chunk in upstream.content.iter_any():
            pieces.append(chunk)
            if follows:
                await response.write(chunk)
                continue
            if held:
                await response.write(held)
            held = chunk
        draft.answer = pieces
        draft.write(status=upstream.status)
        if held:
            await response.write(held)
        await response.write_eof()
        return response

    async def _stream_watch(
        self,
        request: web.BaseRequest,
        draft: Draft,
        info: RequestInfo,
        upstream: aiohttp.ClientResponse,
        serving: Serving,
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            status=upstream.status, headers=negotiation.returned(upstream.headers)
        )
        seq = draft.write(status=upstream.status)
        watch = Watch(seq, info, request, response, upstream, self._engine, self._recorder)
        self.watches[seq] = watch
        serving.watch = watch
        try:
            if serving.gone.is_set():
                watch.client_gone()
            else:
                try:
                    await response.prepare(request)
                except ConnectionError:
                    watch.client_gone()
            self._act_on_open(watch, draft.query.get("resourceVersion", ""))
            await watch.run()
        finally:
            del self.watches[seq]
        return response

    async def _made_up(
        self,
        request: web.BaseRequest,
        draft: Draft,
        code: int,
        reason: str,
        message: str,
        retry_after: int | None = None,
    ) -> web.StreamResponse:
        """Answer in the API server's place, in its own form."""
        status = status_object(code, reason, message, retry_after)
        body = json.dumps(status, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json", "Audit-Id": draft.audit_id}
        if retry_after is not None:
            headers["Retry-After"] = str(retry_after)
        draft.write(status=code, told=body)
        response = web.StreamResponse(status=code, headers=headers)
        response.content_length = len(body)
        await response.prepare(request)
        await response.write(body)
        await response.write_eof()
        return response


async def _first_pieces(upstream: aiohttp.ClientResponse) -> list[bytes]:
    """All of a short answer, or the beginning of a long one."""
    pieces: list[bytes] = []
    while sum(map(len, pieces)) < WHOLE and (piece := await upstream.content.readany()):
        pieces.append(piece)
    return pieces
