"""A thin JSON client for an API server: the graders' hands.

Objects are plain dicts, as the API server sends them. Nothing is cached, nothing
is retried, and every answer that is not a success is an :class:`ApiError`.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote, urlencode

import urllib3

from grader.cluster import certificate, credentials
from grader.cluster.errors import ClusterLost, Untrusted
from grader.cluster.resources import BY_KIND, BY_NAME, Resource

PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    # A JSON document is a YAML document.
    "apply": "application/apply-patch+yaml",
}

#: A watch is ended by the server when its time is up. How much later (s) a server that
#: has not done so counts as one that no longer answers.
_OVERDUE = 10.0

Predicate = Callable[[dict | None], Any]


class _WhenAsked(urllib3.Retry):
    RETRY_AFTER_STATUS_CODES = frozenset({429})


#: A server that answers 429 with a Retry-After has done nothing, and says when to retry:
#: while it fills the watch cache of a new resource, for example. client-go retries ten
#: times (rest/with_retry.go). Nothing else is retried.
_WHEN_ASKED = _WhenAsked(
    total=10, connect=0, read=0, redirect=0, other=0, allowed_methods=None, raise_on_status=False
)


class ApiError(Exception):
    """The API server did not answer with success.

    ``status`` is the HTTP status, ``reason`` the Status object's reason
    (``Conflict``, ``AlreadyExists``, ...; empty where there is none), ``body``
    the Status object or the raw text.
    """

    def __init__(self, status: int, reason: str, body: Any, *, request: str = "") -> None:
        self.status, self.reason, self.body, self.request = status, reason, body, request
        message = body.get("message", "") if isinstance(body, dict) else str(body)[:300]
        super().__init__(f"{request}: {status} {reason}: {message}".strip())


class Api:
    """A client of an API server, as the user of a kubeconfig.

    ``cluster_or_kubeconfig`` is a cluster (anything with a ``kubeconfig``), a path,
    or :class:`grader.cluster.credentials.Credentials`. ``user_agent`` is how the
    audit log names it. Safe to use from several threads.

    A ``resource`` is a plural (``pods``) or ``plural.group``
    (``foos.samplecontroller.k8s.io``). ``namespace`` None means ``default`` for one
    object and all namespaces for a list or a watch. ``as_user`` and ``as_groups``
    impersonate for one call. ``timeout`` is seconds for one request (default 30).

    Every method raises :class:`ApiError` for an answer that is not a success, and
    :class:`grader.cluster.errors.ClusterLost` where there is no answer
    (:class:`~grader.cluster.errors.Untrusted` where its certificate is refused).
    """

    def __init__(self, cluster_or_kubeconfig: Any, *, user_agent: str = "phase4-grader") -> None:
        source = getattr(cluster_or_kubeconfig, "kubeconfig", cluster_or_kubeconfig)
        if not isinstance(source, credentials.Credentials):
            source = credentials.load(os.fspath(source))
        self.credentials = source
        self.server = source.server
        self._headers = {
            "Accept": "application/json",
            "User-Agent": user_agent,
            **source.headers(),
        }
        extra: dict[str, Any] = {}
        if (context := source.ssl_context()) is not None:
            extra["ssl_context"] = context
            if source.insecure:
                extra["assert_hostname"] = False
            if source.tls_server_name:
                extra["server_hostname"] = source.tls_server_name
        self._pool = urllib3.PoolManager(maxsize=8, retries=_WHEN_ASKED, **extra)
        self._discovered: dict[str, Resource] = {}

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- which path ---------------------------------------------------------------

    def resource(self, name: str) -> Resource:
        """The resource called ``name`` (``plural`` or ``plural.group``).

        From the table of known ones, or by asking the server. Raises ValueError
        where it has no such resource.
        """
        if (known := BY_NAME.get(name) or self._discovered.get(name)) is not None:
            return known
        plural, _, group = name.partition(".")
        for candidate in self._discover():
            if candidate.plural == plural and group in ("", candidate.group):
                self._discovered[name] = candidate
                return candidate
        raise ValueError(f"the API server has no resource {name}")

    def resource_of(self, obj: Mapping[str, Any]) -> Resource:
        """The resource that an object belongs to, by its apiVersion and kind."""
        key = (obj["apiVersion"], obj["kind"])
        if (known := BY_KIND.get(key)) is not None:
            return known
        group, _, version = key[0].rpartition("/")
        for candidate in self._group_version(group, version):
            if candidate.kind == key[1]:
                return candidate
        raise ValueError(f"the API server has no kind {key[1]} in {key[0]}")

    def _group_version(self, group: str, version: str) -> list[Resource]:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        return [
            Resource(group, version, item["name"], item["kind"], item["namespaced"])
            for item in self.raw("GET", path)["resources"]
            if "/" not in item["name"]
        ]

    def _discover(self) -> Iterator[Resource]:
        yield from self._group_version("", "v1")
        for group in self.raw("GET", "/apis")["groups"]:
            yield from self._group_version(group["name"], group["preferredVersion"]["version"])

    def _path(
        self, resource: str | Resource, namespace: str | None, name: str = "", subresource: str = ""
    ) -> str:
        found = resource if isinstance(resource, Resource) else self.resource(resource)
        if name and namespace is None and found.namespaced:
            namespace = "default"
        return found.path(namespace=namespace, name=quote(name), subresource=subresource)

    # -- requests -----------------------------------------------------------------

    def raw(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        as_user: str | None = None,
        as_groups: Sequence[str] = (),
        timeout: float = 30.0,
    ) -> Any:
        """One request; the answer as JSON, or as text where it is not JSON.

        ``body`` is sent as JSON unless it is bytes. ``timeout`` bounds the
        connecting and each wait for the server, in seconds.
        """
        response = self._open(
            method, path, body, query, headers, content_type, as_user, as_groups, timeout, True
        )
        data = response.data
        if "json" in response.headers.get("Content-Type", ""):
            return json.loads(data)
        return data.decode(errors="replace")

    def _open(
        self,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        content_type: str,
        as_user: str | None,
        as_groups: Sequence[str],
        timeout: float,
        preload: bool,
    ) -> urllib3.BaseHTTPResponse:
        sent = urllib3.HTTPHeaderDict(self._headers)
        if as_user is not None:
            sent["Impersonate-User"] = as_user
            for group in as_groups:
                sent.add("Impersonate-Group", group)
        sent.update(headers or {})
        if body is not None:
            sent["Content-Type"] = content_type
            if not isinstance(body, bytes):
                body = json.dumps(body).encode()
        pairs = {key: _text(value) for key, value in (query or {}).items() if value is not None}
        url = self.server + path + ("?" + urlencode(pairs) if pairs else "")
        try:
            response = self._pool.request(
                method,
                url,
                body=body,
                headers=sent,
                timeout=urllib3.Timeout(connect=min(timeout, 10.0), read=timeout),
                preload_content=preload,
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            if refused := certificate.refusal(error):
                clock = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
                raise Untrusted(
                    f"The certificate of the API server at {self.server} is refused ({refused}). "
                    f"This machine's clock says {clock}. If that is right, the cluster needs "
                    "another certificate: `phase4 up --fresh` makes one of the course's with it."
                ) from error
            raise ClusterLost(
                f"The API server at {self.server} did not answer {method} {path} ({_cause(error)})."
            ) from error
        if response.status >= 400:
            self._raise(response, f"{method} {path}")
        return response

    @staticmethod
    def _raise(response: urllib3.BaseHTTPResponse, request: str) -> None:
        text = response.data.decode(errors="replace")
        response.release_conn()
        try:
            body = json.loads(text)
        except ValueError:
            body = text
        reason = body.get("reason", "") if isinstance(body, dict) else ""
        raise ApiError(response.status, reason, body, request=request)

    # -- reading ------------------------------------------------------------------

    def get(
        self, resource: str | Resource, name: str, namespace: str | None = None, **call
    ) -> dict:
        """One object. Raises ApiError with status 404 where it is not there."""
        return self.raw("GET", self._path(resource, namespace, name), **call)

    def find(
        self, resource: str | Resource, name: str, namespace: str | None = None, **call
    ) -> dict | None:
        """One object, or None where it is not there."""
        try:
            return self.get(resource, name, namespace, **call)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(
        self,
        resource: str | Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        resource_version: str | None = None,
        resource_version_match: str | None = None,
        limit: int | None = None,
        continue_token: str | None = None,
        **call,
    ) -> dict:
        """The list object: ``["items"]`` and ``["metadata"]["resourceVersion"]``."""
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version_match,
            "limit": limit,
            "continue": continue_token,
        }
        return self.raw("GET", self._path(resource, namespace), query=query, **call)

    def watch(
        self,
        resource: str | Resource,
        namespace: str | None = None,
        resource_version: str | None = None,
        timeout: float = 30.0,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        bookmarks: bool = False,
        as_user: str | None = None,
        as_groups: Sequence[str] = (),
    ) -> Iterator[tuple[str, dict]]:
        """The events of a watch as (type, object), until the server ends it or ``timeout`` s passed.

        Without a ``resource_version`` it begins with what is there. An ERROR event is
        yielded like any other (its object is a Status). Close the iterator to end the
        watch early.
        """
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "allowWatchBookmarks": "true" if bookmarks else None,
            # Whole seconds, never 0, which would mean: as the server likes.
            "timeoutSeconds": max(1, math.ceil(timeout)),
        }
        path = self._path(resource, namespace)
        deadline = time.monotonic() + timeout
        response = self._open(
            "GET", path, None, query, None, "", as_user, as_groups, timeout + _OVERDUE, False
        )
        try:
            pending = b""
            for chunk in response.stream(None):
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        event = json.loads(line)
                        yield event["type"], event["object"]
                if time.monotonic() > deadline:
                    return
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ClusterLost(
                f"The API server at {self.server} broke off a watch of {path} ({_cause(error)})."
            ) from error
        finally:
            response.close()

    # -- writing ------------------------------------------------------------------

    def create(
        self,
        obj: Mapping[str, Any],
        namespace: str | None = None,
        *,
        subresource: str = "",
        name: str = "",
        field_manager: str | None = None,
        dry_run: bool = False,
        **call,
    ) -> dict:
        """Create an object (in its own namespace, unless one is given).

        For a subresource such as ``eviction`` give the parent through ``name``
        and call :meth:`raw` where its kind differs from the parent's.
        """
        resource = self.resource_of(obj)
        where = self._namespace_of(resource, obj, namespace)
        path = self._path(resource, where, name, subresource)
        query = {"fieldManager": field_manager, "dryRun": "All" if dry_run else None}
        return self.raw("POST", path, body=obj, query=query, **call)

    def replace(
        self,
        obj: Mapping[str, Any],
        subresource: str | None = None,
        *,
        field_manager: str | None = None,
        **call,
    ) -> dict:
        """PUT an object (or its ``subresource``, such as ``status``) by its own metadata."""
        resource = self.resource_of(obj)
        where = self._namespace_of(resource, obj, None)
        path = self._path(resource, where, obj["metadata"]["name"], subresource or "")
        return self.raw("PUT", path, body=obj, query={"fieldManager": field_manager}, **call)

    def patch(
        self,
        resource: str | Resource,
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        type: Literal["merge", "json", "apply", "strategic"] = "merge",
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
        **call,
    ) -> dict:
        """Patch an object; ``apply`` is server-side apply (``field_manager``, ``force``)."""
        if type == "apply" and field_manager is None:
            field_manager = "phase4-grader"
        query = {"fieldManager": field_manager, "force": "true" if force else None}
        path = self._path(resource, namespace, name, subresource or "")
        return self.raw(
            "PATCH", path, body=patch, query=query, content_type=PATCH_TYPES[type], **call
        )

    def delete(
        self,
        resource: str | Resource,
        name: str,
        namespace: str | None = None,
        *,
        propagation: Literal["Foreground", "Background", "Orphan"] | None = None,
        preconditions: Mapping[str, str] | None = None,
        grace_seconds: int | None = None,
        **call,
    ) -> dict:
        """Delete an object; ``preconditions`` may hold ``uid`` and ``resourceVersion``."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if preconditions is not None:
            options["preconditions"] = dict(preconditions)
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return self.raw("DELETE", self._path(resource, namespace, name), body=options, **call)

    @staticmethod
    def _namespace_of(
        resource: Resource, obj: Mapping[str, Any], namespace: str | None
    ) -> str | None:
        if not resource.namespaced:
            return None
        return namespace or obj.get("metadata", {}).get("namespace") or "default"

    # -- waiting ------------------------------------------------------------------

    def until(
        self,
        resource: str | Resource,
        name: str,
        namespace: str | None,
        predicate: Predicate,
        timeout: float,
        what: str = "",
    ) -> Any:
        """Wait, by watching, until ``predicate(object)`` is true; returns what it returned.

        The predicate is called with each state of the object, and with None while it
        is not there. A predicate that returns True makes this return the object (None
        when it is gone). Raises TimeoutError after ``timeout`` seconds, saying ``what``
        was waited for and what was last seen.
        """
        selector = f"metadata.name={name}"
        found = resource if isinstance(resource, Resource) else self.resource(resource)
        if found.namespaced and namespace is None:
            namespace = "default"
        deadline = time.monotonic() + timeout
        last: dict | None = None
        while True:
            listed = self.list(found, namespace, field_selector=selector)
            last = listed["items"][0] if listed["items"] else None
            if last is not None:
                # Items of a list carry neither.
                last = {"apiVersion": found.api_version, "kind": found.kind, **last}
            if result := predicate(last):
                return last if result is True else result
            version = listed["metadata"]["resourceVersion"]
            while (left := deadline - time.monotonic()) > 0:
                events = self.watch(found, namespace, version, left, field_selector=selector)
                expired = False
                for type, obj in events:
                    if type == "ERROR":
                        expired = True
                        break
                    last = None if type == "DELETED" else obj
                    version = obj["metadata"]["resourceVersion"]
                    if result := predicate(last):
                        events.close()
                        return last if result is True else result
                events.close()
                if expired:
                    break
            if time.monotonic() >= deadline:
                raise TimeoutError(
                    f"waited {timeout:g} s for {what or f'{found.full_name} {name}'}; "
                    f"last seen: {_summary(found, namespace, name, last)}"
                )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cause(error: BaseException) -> str:
    reason = getattr(error, "reason", None) or error
    text = str(reason)
    for known in ("Connection refused", "timed out", "Connection reset", "Connection broken"):
        if known.lower() in text.lower():
            return known.lower()
    return text.split(": ", 1)[-1][:200]


def _summary(resource: Resource, namespace: str | None, name: str, obj: dict | None) -> str:
    where = f"{resource.plural} {namespace + '/' if namespace else ''}{name}"
    if obj is None:
        return f"no {where}"
    seen = {key: obj[key] for key in ("spec", "status", "data") if obj.get(key)}
    meta = obj["metadata"]
    for key in ("deletionTimestamp", "finalizers", "generation"):
        if meta.get(key):
            seen[key] = meta[key]
    text = json.dumps(seen)
    return f"{where} at resourceVersion {meta['resourceVersion']}: " + (
        text if len(text) <= 600 else text[:600] + "…"
    )
