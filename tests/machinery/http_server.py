"""A small API server over HTTP, to be told what to do wrong.

It holds objects of one resource, with a history of events, and serves LIST
(paged), WATCH and watch-list as kube-apiserver does. A fault is a function
that looks at a request before it is answered; see :class:`Faults`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


def status(code: int, reason: str, cause: str = "") -> dict[str, Any]:
    details = {"causes": [{"reason": cause, "message": cause}]} if cause else {}
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": reason,
        "details": details,
    }


@dataclass
class Request:
    """What a client asked for; ``nth`` counts the requests of its kind, from 1."""

    kind: str
    query: dict[str, str]
    at: float
    nth: int


@dataclass
class Faults:
    """What goes wrong. Every list of numbers is of requests of that kind, from 1."""

    #: The answer to a request, in place of the real one: a Status, or None.
    refuse: Callable[[Request], dict[str, Any] | None] = lambda request: None
    #: Sent in a watch right after it opens: a Status, or None.
    error_in_stream: Callable[[Request], dict[str, Any] | None] = lambda request: None
    #: Held until set, before a LIST (or a watch-list's first event) is answered.
    hold_lists: threading.Event | None = None
    #: resourceVersions of events that no watch is told of.
    hidden: set[str] = field(default_factory=set)
    watch_list: bool = True


class ApiServer:
    """``with ApiServer() as server: ... server.url``"""

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.requests: list[Request] = []
        self.changed = threading.Condition()
        self.version = 10
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        #: Watches from versions below this are answered 410.
        self.compacted = 0
        self._cuts = 0
        self._uids = 0
        self._stopped = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_arguments: Any) -> None:
                pass

            def do_GET(self) -> None:
                outer.answer(self)

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # a client went away: an ordinary event

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ApiServer:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_exception: Any) -> None:
        with self.changed:
            self._stopped = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    # The cluster's life.

    def put(self, name: str, **fields: Any) -> dict[str, Any]:
        """Create or change an object."""
        with self.changed:
            old = self.objects.get(name)
            self.version += 1
            if old is None:
                self._uids += 1
            metadata = {
                "name": name,
                "namespace": "default",
                "uid": old["metadata"]["uid"] if old else f"uid-{self._uids}",
                "resourceVersion": str(self.version),
            }
            obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}
            self.objects[name] = obj
            self.record("MODIFIED" if old else "ADDED", obj)
            return obj

    def delete(self, name: str, hidden: bool = False) -> None:
        with self.changed:
            obj = self.objects.pop(name)
            self.version += 1
            last = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
            if hidden:
                self.faults.hidden.add(str(self.version))
            self.record("DELETED", last)

    def record(self, type_: str, obj: dict[str, Any]) -> None:
        """An event, told to every watch. The caller holds ``changed``."""
        self.history.append((self.version, type_, obj))
        self.changed.notify_all()

    def cut(self) -> None:
        """Break every open watch, without an orderly end."""
        with self.changed:
            self._cuts += 1
            self.changed.notify_all()

    def compact(self) -> None:
        """Forget the past: a watch from before now is answered with 410."""
        with self.changed:
            self.version += 1
            self.compacted = self.version
            self.history.clear()

    def kinds(self) -> list[str]:
        with self.changed:
            return [request.kind for request in self.requests]

    def wait_for_requests(self, kind: str, count: int, timeout: float = 60) -> None:
        """Wait until ``count`` requests of ``kind`` have come."""
        until = time.monotonic() + timeout
        with self.changed:
            while sum(request.kind == kind for request in self.requests) < count:
                if not self.changed.wait(max(0.0, until - time.monotonic())):
                    raise TimeoutError(f"{count} {kind} requests; came: {self.kinds_locked()}")

    def kinds_locked(self) -> list[str]:
        return [request.kind for request in self.requests]

    # Answers.

    def answer(self, http: BaseHTTPRequestHandler) -> None:
        query = {k: v[0] for k, v in parse_qs(urlsplit(http.path).query).items()}
        kind = "list"
        if query.get("watch") in ("true", "1"):
            kind = "watch_list" if query.get("sendInitialEvents") == "true" else "watch"
        with self.changed:
            nth = 1 + sum(request.kind == kind for request in self.requests)
            request = Request(kind, query, time.monotonic(), nth)
            self.requests.append(request)
            self.changed.notify_all()
        refusal = self.faults.refuse(request)
        if refusal is None and kind == "watch_list" and not self.faults.watch_list:
            refusal = status(422, "Invalid")
        if refusal is not None:
            self._send(http, refusal["code"], refusal)
        elif kind == "list":
            self._list(http, request)
        else:
            self._watch(http, request)

    def _send(self, http: BaseHTTPRequestHandler, code: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        http.send_response(code)
        http.send_header("Content-Type", "application/json")
        http.send_header("Content-Length", str(len(data)))
        http.end_headers()
        http.wfile.write(data)

    def _list(self, http: BaseHTTPRequestHandler, request: Request) -> None:
        if self.faults.hold_lists is not None:
            self.faults.hold_lists.wait()
        with self.changed:
            names = sorted(self.objects)
            start = int(request.query.get("continue", "0"))
            limit = int(request.query.get("limit", "0")) or len(names)
            items = [self.objects[name] for name in names[start : start + limit]]
            more = str(start + limit) if start + limit < len(names) else ""
            metadata = {"resourceVersion": str(self.version), "continue": more}
        body = {"apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items}
        self._send(http, 200, body)

    def _watch(self, http: BaseHTTPRequestHandler, request: Request) -> None:
        http.send_response(200)
        http.send_header("Content-Type", "application/json")
        http.send_header("Transfer-Encoding", "chunked")
        http.end_headers()
        http.wfile.flush()

        def send(type_: str, obj: dict[str, Any]) -> None:
            line = json.dumps({"type": type_, "object": obj}).encode() + b"\n"
            http.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            http.wfile.flush()

        if request.kind == "watch_list" and self.faults.hold_lists is not None:
            self.faults.hold_lists.wait()
        error = self.faults.error_in_stream(request)
        with self.changed:
            cuts = self._cuts
            at = int(request.query.get("resourceVersion") or self.version)
            initial = []
            if request.kind == "watch_list":
                initial = [self.objects[name] for name in sorted(self.objects)]
                at = self.version
            elif at < self.compacted:
                error = status(410, "Expired")
        if error is not None:
            send("ERROR", error)
            http.wfile.write(b"0\r\n\r\n")
            return
        for obj in initial:
            send("ADDED", obj)
        if request.kind == "watch_list":
            end = {
                "resourceVersion": str(at),
                "annotations": {"k8s.io/initial-events-end": "true"},
            }
            send("BOOKMARK", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": end})
        while True:
            with self.changed:
                while True:
                    if self._stopped or self._cuts != cuts:
                        http.close_connection = True
                        http.connection.close()
                        return
                    news = [event for event in self.history if event[0] > at]
                    if news:
                        break
                    self.changed.wait()
            for version, type_, obj in news:
                at = version
                if str(version) not in self.faults.hidden:
                    send(type_, obj)
