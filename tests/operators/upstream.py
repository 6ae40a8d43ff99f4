"""An API server in a few lines, for an operator's requests: objects, versions, and what to do wrong."""

from __future__ import annotations

import copy
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kubernetes import client as kubernetes
from machinery.client import Client

Object = dict[str, Any]
#: What is answered in place of the real answer (status code), or None. May block.
Fault = Callable[[str, str], int | None]


@dataclass
class Upstream:
    """Objects by path; ``requests`` are (method, path, body) in the order in which they came."""

    objects: dict[str, Object] = field(default_factory=dict)
    requests: list[tuple[str, str, Object]] = field(default_factory=list)
    fault: Fault = lambda method, path: None
    url: str = ""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._versions = itertools.count(1)

    def client(self, timeout: float = 30.0) -> Client:
        configuration = kubernetes.Configuration(host=self.url)
        return Client(kubernetes.ApiClient(configuration), "test", timeout)

    def writes(self) -> list[tuple[str, str, Object]]:
        with self._lock:
            return [one for one in self.requests if one[0] != "GET"]

    def put(self, path: str, obj: Object) -> Object:
        """Store an object as if somebody else had written it."""
        with self._lock:
            return self._store(path, obj)

    def _store(self, path: str, obj: Object) -> Object:
        obj = copy.deepcopy(obj)
        obj["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[path] = obj
        return copy.deepcopy(obj)

    def answer(self, method: str, path: str, body: Object) -> tuple[int, Object]:
        with self._lock:
            self.requests.append((method, path, body))
        if code := self.fault(method, path):
            return code, _status(code)
        with self._lock:
            return self._answer(method, path, body)

    def _answer(self, method: str, path: str, body: Object) -> tuple[int, Object]:
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            return (
                (409, _status(409, "AlreadyExists"))
                if path in self.objects
                else (201, self._store(path, body))
            )
        path = path.removesuffix("/status")
        known = self.objects.get(path)
        if known is None:
            return 404, _status(404)
        if method == "PUT":
            if body["metadata"].get("resourceVersion") != known["metadata"]["resourceVersion"]:
                return 409, _status(409)
            return 200, self._store(path, body)
        if method == "PATCH":
            merged = {**known, "metadata": {**known["metadata"], **body.get("metadata", {})}}
            return 200, self._store(path, merged)
        if method == "DELETE":
            del self.objects[path]
        return 200, copy.deepcopy(known)


def _status(code: int, reason: str = "") -> Object:
    reason = reason or {404: "NotFound", 409: "Conflict"}.get(code, "InternalError")
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
    }


@contextmanager
def upstream() -> Iterator[Upstream]:
    served = Upstream()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            code, obj = served.answer(self.command, self.path.partition("?")[0], body)
            data = json.dumps(obj).encode()
            try:
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # It was not waited for.

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
