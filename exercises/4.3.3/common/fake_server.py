"""A fake API server, as obliging as a fake client: it stores what it is given.

    python fake_server.py KUBECONFIG

serves WebApps, Pods, ConfigMaps and Leases from memory on a port of its own, and
writes a kubeconfig that points there. It has lists, watches, generateName,
finalizers and generations, deletes children with their owner, and every Pod is
Ready at once. What it has not is what lab 4.3.3 is about: no resourceVersion is
ever too old, a status may come by any door, no schema is asked, and everybody
knows of everything the moment it happens.
"""

from __future__ import annotations

import copy
import json
import sys
import threading
import time
import uuid
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: Seconds before a write is answered: everybody else has heard of it by then.
HEARD = 0.1
_SERVED = {
    "/api/v1": ("pods", "configmaps"),
    "/apis/phase4.example.com/v1alpha1": ("webapps",),
    "/apis/coordination.k8s.io/v1": ("leases",),
}
_KINDS = {"pods": "Pod", "configmaps": "ConfigMap", "webapps": "WebApp", "leases": "Lease"}


class World:
    """All objects, and every event there ever was. One lock for both."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 1
        #: (resource, namespace, name) → object.
        self.objects: dict[tuple[str, str, str], dict] = {}
        #: (version, type, resource, object), in order.
        self.events: list[tuple[int, str, str, dict]] = []

    def happened(self, type: str, resource: str, obj: dict) -> dict:
        """Note an event of the object as it is now; returns a copy to answer with."""
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        meta = obj["metadata"]
        key = resource, meta.get("namespace", ""), meta["name"]
        if type == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = obj
        told = copy.deepcopy(obj)
        self.events.append((self.version, type, resource, told))
        self.changed.notify_all()
        return told

    def create(self, resource: str, namespace: str, obj: dict) -> dict | None:
        """None where the name is taken."""
        meta = obj.setdefault("metadata", {})
        if not meta.get("name"):
            meta["name"] = meta.get("generateName", "") + uuid.uuid4().hex[:5]
        if (resource, namespace, meta["name"]) in self.objects:
            return None
        meta |= {
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "generation": 1,
            "creationTimestamp": _now(),
        }
        obj["kind"] = _KINDS[resource]
        if resource == "pods":
            obj["status"] = {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
            }
        return self.happened("ADDED", resource, obj)

    def replace(self, resource: str, before: dict, obj: dict, subresource: str) -> dict:
        if subresource == "status":
            obj = {**copy.deepcopy(before), "status": obj.get("status")}
        meta = obj["metadata"]
        for kept in ("uid", "creationTimestamp", "deletionTimestamp", "generation"):
            if kept in before["metadata"]:
                meta[kept] = before["metadata"][kept]
        if obj.get("spec") != before.get("spec"):
            meta["generation"] += 1
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            return self.remove(resource, obj)
        return self.happened("MODIFIED", resource, obj)

    def delete(self, resource: str, obj: dict) -> dict:
        if obj["metadata"].get("finalizers"):
            if "deletionTimestamp" in obj["metadata"]:
                return copy.deepcopy(obj)
            obj["metadata"]["deletionTimestamp"] = _now()
            return self.happened("MODIFIED", resource, obj)
        return self.remove(resource, obj)

    def remove(self, resource: str, obj: dict) -> dict:
        told = self.happened("DELETED", resource, obj)
        for (kind, _, _), child in list(self.objects.items()):
            owners = child["metadata"].get("ownerReferences") or ()
            if any(owner.get("uid") == obj["metadata"]["uid"] for owner in owners):
                self.delete(kind, child)
        return told


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world: World

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""

    def _serve(self) -> None:
        url = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(url.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        body = json.loads(raw) if raw else {}
        for base, resources in _SERVED.items():
            if url.path == base:
                served = [{"name": r, "kind": _KINDS[r], "namespaced": True} for r in resources]
                self._answer(200, {"kind": "APIResourceList", "resources": served})
                return
            if url.path.startswith(base + "/"):
                parts = url.path[len(base) + 1 :].split("/")
                namespace = ""
                if parts[0] == "namespaces" and len(parts) > 2:
                    namespace, parts = parts[1], parts[2:]
                if parts[0] in resources:
                    name, subresource = (*parts[1:], "", "")[:2]
                    self._resource(parts[0], namespace, name, subresource, body)
                    return
        self._fail(404, "NotFound", f"the fake has no {url.path}")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def _resource(self, resource: str, namespace: str, name: str, sub: str, body: dict) -> None:
        if self.command == "GET" and self.query.get("watch") in ("1", "true"):
            if self.query.get("sendInitialEvents") == "true":
                self._fail(422, "Invalid", "sendInitialEvents: forbidden for watch by the fake")
            else:
                self._watch(resource, namespace)
            return
        world = self.world
        with world.changed:
            there = world.objects.get((resource, namespace, name))
            if self.command == "POST":
                made = world.create(resource, namespace, body)
                answer = (201, made) if made else (409, None)
            elif self.command == "GET" and not name:
                items = [
                    copy.deepcopy(obj)
                    for (kind, where, _), obj in world.objects.items()
                    if kind == resource and namespace in ("", where)
                ]
                meta = {"resourceVersion": str(world.version)}
                kind = f"{_KINDS[resource]}List"
                answer = (200, {"kind": kind, "metadata": meta, "items": items})
            elif there is None:
                answer = (404, None)
            elif self.command == "GET":
                answer = (200, copy.deepcopy(there))
            elif self.command == "DELETE":
                answer = (200, world.delete(resource, there))
            else:
                changed = _merge(there, body) if self.command == "PATCH" else body
                answer = (200, world.replace(resource, there, copy.deepcopy(changed), sub))
        if self.command != "GET":
            time.sleep(HEARD)
        status, found = answer
        if found is None:
            self._fail(
                status, "AlreadyExists" if status == 409 else "NotFound", f"{name} {resource}"
            )
        else:
            self._answer(status, found)

    def _watch(self, resource: str, namespace: str) -> None:
        seen = int(self.query.get("resourceVersion") or 0)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        deadline = time.monotonic() + float(self.query.get("timeoutSeconds") or 300)
        world, done = self.world, 0
        try:
            while time.monotonic() < deadline:
                with world.changed:
                    world.changed.wait_for(lambda done=done: len(world.events) > done, 1.0)
                    news, done = world.events[done:], len(world.events)
                for version, type, kind, obj in news:
                    where = obj["metadata"].get("namespace", "")
                    if version > seen and kind == resource and namespace in ("", where):
                        line = json.dumps({"type": type, "object": obj}).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def _fail(self, code: int, reason: str, message: str) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
        self._answer(code, {**status, "code": code, "reason": reason, "message": message})

    def _answer(self, status: int, body: dict) -> None:
        group = next((b for b in _SERVED if self.path.startswith(b)), "/api/v1")
        version = group.removeprefix("/apis/").removeprefix("/api/")
        data = json.dumps({"apiVersion": version, **body}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def kubeconfig(url: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": url}}],
            "users": [{"name": "fake", "user": {}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            "current-context": "fake",
        }
    )


def start(file: Path) -> ThreadingHTTPServer:
    """Serve from threads of this process, and write the kubeconfig; ``shutdown()`` ends it."""
    handler = type("Handler", (Handler,), {"world": World()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="fake", daemon=True).start()
    file.write_text(kubeconfig(f"http://127.0.0.1:{server.server_address[1]}"), encoding="utf-8")
    return server


if __name__ == "__main__":
    start(Path(sys.argv[1]))
    print(f"serving; KUBECONFIG={sys.argv[1]}", flush=True)
    threading.Event().wait()
