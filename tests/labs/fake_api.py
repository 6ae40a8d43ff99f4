"""An API server in memory, as far as the Foo controller asks: in the place of a ``machinery`` client."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

from machinery.api import ApiError, ListOptions, Page, Resource, WatchEvent

#: Seconds that a test waits for what takes a few hundredths.
PATIENCE = 30.0


class FakeApi:
    """Foos and Deployments with a history. ``writes`` is what its client asked to be written."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.writes: list[dict[str, Any]] = []
        self._version = 10
        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._history: list[tuple[int, str, str, dict[str, Any]]] = []
        self._streams: list[_Stream] = []

    # The cluster's life.

    def put(self, plural: str, obj: dict[str, Any]) -> dict[str, Any]:
        """Create or replace an object as somebody else does; it gets a UID and a version."""
        with self.changed:
            key = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
            old = self._objects.get((plural, key))
            self._version += 1
            obj = copy.deepcopy(obj)
            kept = old["metadata"]["uid"] if old else f"uid-{self._version}"
            obj["metadata"] |= {"uid": kept, "resourceVersion": str(self._version)}
            self._objects[plural, key] = obj
            self._tell(plural, "MODIFIED" if old else "ADDED", obj)
            return obj

    def delete(self, plural: str, key: str, *, seen: bool = True) -> None:
        """Delete an object; ``seen=False``: no watch is told, and all of them end with a 410."""
        with self.changed:
            gone = copy.deepcopy(self._objects.pop((plural, key)))
            self._version += 1
            gone["metadata"]["resourceVersion"] = str(self._version)
            if seen:
                self._tell(plural, "DELETED", gone)
            else:
                for stream in self._streams:
                    stream.expired = True
                self.changed.notify_all()

    def find(self, plural: str, key: str) -> dict[str, Any] | None:
        with self.changed:
            return copy.deepcopy(self._objects.get((plural, key)))

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until ``condition()``, which is asked again after each change."""
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE), self.writes

    def _tell(self, plural: str, type_: str, obj: dict[str, Any]) -> None:
        self._history.append((self._version, plural, type_, copy.deepcopy(obj)))
        self.changed.notify_all()

    # What a client asks.

    def list(self, resource: Resource, options: ListOptions, *_: Any) -> Page:
        with self.changed:
            found = [o for (plural, _), o in self._objects.items() if plural == resource.plural]
            return Page(copy.deepcopy(found), str(self._version))

    def watch(self, resource: Resource, options: ListOptions, *_: Any) -> _Stream:
        with self.changed:
            stream = _Stream(self, resource.plural, int(options.resource_version))
            self._streams.append(stream)
            return stream

    def request(self, method: str, path: str, query: Any = None, *, body: Any) -> dict[str, Any]:
        """A create: POST to a collection."""
        assert method == "POST"
        plural = path.rpartition("/")[2]
        key = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
        with self.changed:
            self._wrote("create", plural, key, body, query)
            if (plural, key) in self._objects:
                raise ApiError(409, "AlreadyExists", key)
            return self.put(plural, body)

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: dict[str, Any],
        *,
        namespace: str,
        subresource: str = "",
        type: str = "merge",
        query: Any = None,
    ) -> dict[str, Any]:
        key = f"{namespace}/{name}"
        with self.changed:
            verb = f"{type} {subresource}".strip()
            self._wrote(verb, resource.plural, key, patch, query)
            live = self._objects.get((resource.plural, key))
            if live is None:
                raise ApiError(404, "NotFound", key)
            if (
                patch.get("metadata", {}).get("uid", live["metadata"]["uid"])
                != (live["metadata"]["uid"])
            ):
                raise ApiError(409, "Conflict", key)
            return self.put(resource.plural, _merged(live, patch))

    def _wrote(self, verb: str, plural: str, key: str, body: Any, query: Any) -> None:
        self.writes.append(
            {
                "verb": verb,
                "resource": plural,
                "key": key,
                "body": copy.deepcopy(body),
                "query": dict(query or ()),
            }
        )


class _Stream:
    def __init__(self, api: FakeApi, plural: str, version: int) -> None:
        self._api, self._plural, self._at = api, plural, version
        self._closed = False
        self.expired = False

    def __iter__(self) -> Iterator[WatchEvent]:
        while True:
            with self._api.changed:
                self._api.changed.wait_for(self._has_news)
                if self._closed:
                    return
                if self.expired:
                    break
                news, self._at = self._news(), self._api._version
            for _, _, type_, obj in news:
                yield WatchEvent(type_, copy.deepcopy(obj))
        yield WatchEvent("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})

    def _news(self) -> list[tuple[int, str, str, dict[str, Any]]]:
        return [e for e in self._api._history if e[0] > self._at and e[1] == self._plural]

    def _has_news(self) -> bool:
        return bool(self._closed or self.expired or self._news())

    def close(self) -> None:
        with self._api.changed:
            self._closed = True
            self._api.changed.notify_all()


def _merged(live: Any, patch: Any) -> Any:
    if not isinstance(live, dict) or not isinstance(patch, dict):
        return patch
    return {**live, **{name: _merged(live.get(name), value) for name, value in patch.items()}}
