"""What a reflector asks of an API server, and what it may hear.

Upstream: apimachinery v0.37.2, pkg/apis/meta/v1/types.go — ``ListOptions``,
``Status``; pkg/api/errors/errors.go — ``IsResourceExpired``, ``IsGone``,
``IsTooManyRequests``; client-go v0.37.2, tools/cache/listwatch.go —
``ListerWatcher``; tools/cache/reflector.go — ``isExpiredError`` (1154),
``isTooLargeResourceVersionError`` (1162).

The reflector knows these types and no HTTP: client.py has the real thing, and
a test may have a script.

Concurrency: immutable values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from .objects import Object

#: On the BOOKMARK that ends the initial events of a watch-list.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True)
class Resource:
    """A resource, in one namespace or in all of them.

    ``plural`` is the name in the URL (``pods``). The group is empty for core.
    """

    group: str
    version: str
    plural: str
    namespace: str = ""

    def path(self, name: str = "", subresource: str = "", namespace: str = "") -> str:
        """The URL's path of the collection, or of one object and its subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        namespace = namespace or self.namespace
        parts = [root, f"namespaces/{namespace}" if namespace else "", self.plural]
        return "/".join(part for part in [*parts, name, subresource] if part)


@dataclass(frozen=True)
class ListOptions:
    """The query of a LIST or a WATCH. What is None or empty is not sent."""

    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_token: str = ""
    timeout_seconds: int | None = None
    allow_watch_bookmarks: bool = False
    send_initial_events: bool = False

    def query(self) -> list[tuple[str, str]]:
        pairs = [
            ("resourceVersion", self.resource_version),
            ("resourceVersionMatch", self.resource_version_match),
            ("limit", str(self.limit) if self.limit else ""),
            ("continue", self.continue_token),
            ("timeoutSeconds", "" if self.timeout_seconds is None else str(self.timeout_seconds)),
            ("allowWatchBookmarks", "true" if self.allow_watch_bookmarks else ""),
            ("sendInitialEvents", "true" if self.send_initial_events else ""),
        ]
        return [(name, value) for name, value in pairs if value]


class ApiError(Exception):
    """An answer that is not success, or an ERROR event in a watch.

    ``status`` is the HTTP code, ``reason`` the machine-readable word of the
    Status (``Expired``, ``Conflict``, ``AlreadyExists``), ``retry_after`` the
    seconds that the server asked to wait for, if it did.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        *,
        causes: tuple[str, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after = retry_after

    @classmethod
    def from_status(cls, status: Any, code: int = 500) -> ApiError:
        """Of a Status object; ``code`` is used where it has none, or is no Status at all."""
        if not isinstance(status, dict) or status.get("kind") not in ("Status", None):
            return cls(code, "", f"this is not a Status: {status!r:.200}")
        details = status.get("details") or {}
        seconds = details.get("retryAfterSeconds")
        return cls(
            status.get("code") or code,
            status.get("reason") or "",
            status.get("message") or "",
            causes=tuple(cause.get("reason", "") for cause in details.get("causes") or ()),
            retry_after=float(seconds) if seconds else None,
        )

    @property
    def is_expired(self) -> bool:
        """The resourceVersion is too old: list again (a 410, as Expired or as Gone)."""
        return self.reason in ("Expired", "Gone") or self.status == 410

    @property
    def is_too_large(self) -> bool:
        """The resourceVersion is newer than all the server knows: it lags, or was restored."""
        return "ResourceVersionTooLarge" in self.causes

    @property
    def is_too_many_requests(self) -> bool:
        return self.reason == "TooManyRequests" or self.status == 429

    @property
    def is_not_found(self) -> bool:
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """The object changed meanwhile: read it again and decide again."""
        return self.reason == "Conflict" or (self.status == 409 and not self.is_already_exists)

    @property
    def is_already_exists(self) -> bool:
        return self.reason == "AlreadyExists"


class Unreachable(Exception):
    """No answer: nobody listens, the connection broke, or it took too long.

    Whether a write was applied is unknown, unless ``refused``: then nobody was there.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(frozen=True)
class WatchEvent:
    """One line of a watch. ``object`` of an ERROR is a Status."""

    type: str
    object: Object


@dataclass(frozen=True)
class Page:
    """An answer to a LIST: all objects, or some and the token for the next."""

    items: list[Object]
    resource_version: str
    continue_token: str = ""


class WatchStream(Protocol):
    """An open watch. Iterating ends when the server, the network or ``close`` ends it."""

    def __iter__(self) -> Iterator[WatchEvent]: ...

    def close(self) -> None:
        """End it, also while another thread waits for the next event."""


class ListerWatcher(Protocol):
    """Both raise :class:`ApiError` or :class:`Unreachable`."""

    def list(self, options: ListOptions) -> Page: ...

    def watch(self, options: ListOptions) -> WatchStream: ...


@dataclass(frozen=True)
class Selectors:
    """Label and field selectors, in the API's own syntax; empty for everything."""

    label: str = ""
    field: str = ""

    def query(self) -> list[tuple[str, str]]:
        pairs = [("labelSelector", self.label), ("fieldSelector", self.field)]
        return [(name, value) for name, value in pairs if value]
