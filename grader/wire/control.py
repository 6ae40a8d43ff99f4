"""The control socket of a wire in use: how ``phase4 fault`` adds and removes rules from outside.

A request is one line of JSON, ``{"op": "add", "rule": "freeze watch pods"}``;
the answer is one line, ``{"ok": true, ...}`` or ``{"ok": false, "error": "..."}``.
The ops are ``add``, ``remove`` (``rule``: an id, a rule's text, or ``all``), ``list`` and
``mark`` (``what``, ``data``).
"""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader.wire.rules import RuleError, parse_rule

if TYPE_CHECKING:
    from grader.wire.engine import Engine
    from grader.wire.proxy import Proxy
    from grader.wire.recorder import Recorder


class NoWire(Exception):
    """No wire listens at a control socket; the message says so."""


def answer(
    engine: Engine, recorder: Recorder, proxy: Proxy, request: dict[str, Any]
) -> dict[str, Any]:
    """What one request does; runs on the wire's loop. Raises RuleError for a wrong rule."""
    op = request.get("op")
    if op == "add":
        armed = engine.add(parse_rule(str(request.get("rule", ""))))
        return {"added": armed.to_json()}
    if op == "remove":
        named = str(request.get("rule", ""))
        ids = engine.find(named)
        if not ids and named != "all":
            known = ", ".join(f"{armed.id} ({armed.rule})" for armed in engine.armed) or "none"
            raise RuleError(f"There is no rule «{named}» on this wire. Its rules: {known}.")
        for id in ids:
            engine.remove(id)
        return {"removed": ids}
    if op == "list":
        watches = [
            {
                "watch": watch.seq,
                "resource": watch.info.resource,
                "namespace": watch.info.namespace,
                "queued": watch.queued,
            }
            for watch in proxy.watches.values()
        ]
        return {"rules": [armed.to_json() for armed in engine.armed], "watches": watches}
    if op == "mark":
        return {"seq": recorder.mark(str(request["what"]), **request.get("data", {}))}
    raise RuleError(f"A wire does not know the request «{op}».")


async def serve(
    engine: Engine,
    recorder: Recorder,
    proxy: Proxy,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Answer the requests of one connection to the control socket."""
    try:
        while line := await reader.readline():
            try:
                reply = {"ok": True, **answer(engine, recorder, proxy, json.loads(line))}
            except RuleError as e:
                reply = {"ok": False, "error": str(e)}
            except (ValueError, KeyError, TypeError, AttributeError):
                reply = {"ok": False, "error": "A wire does not understand that request."}
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
    except ConnectionError:
        pass  # the client went away
    finally:
        writer.close()


def ask(control: Path, request: dict[str, Any], *, timeout: float = 10.0) -> dict[str, Any]:
    """Send one request to the wire whose control socket is ``control``, and return its answer.

    Raises :class:`NoWire` where no wire listens, and RuleError with the wire's
    own sentence where it refuses.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(str(control))
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as file:
                line = file.readline()
        except OSError:
            line = b""
    if not line:
        raise NoWire(
            "That wire is not in use any more: its run has ended. "
            "`phase4 fault list` shows the wires that are."
        )
    reply = json.loads(line)
    if not reply.pop("ok"):
        raise RuleError(reply["error"])
    return reply
