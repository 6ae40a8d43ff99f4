"""JSON objects over HTTP: the only module here that talks to an API server.

The ``kubernetes`` package loads the kubeconfig and keeps the connections and
the credentials; its generated classes are not used. Its ``watch`` and its
informer are not either: they do not recover from a 410 as a controller must.

Upstream: client-go v0.37.2, rest/request.go — ``Watch`` (760);
apimachinery v0.37.2, pkg/watch/streamwatcher.go — ``receive`` (109): a stream
that ends, even in the middle of an event, is an ordinary end of a watch.

Unlike rest.Request nothing is tried again here, and there is no client-side
rate limit: the reflector's backoff and the work queue's limiter decide when.

Time limits, in seconds: 10 to connect, ``timeout`` (30) between two pieces of
an answer; a watch may be silent for as long as the server was asked to keep it
open, and a little longer. TCP keep-alive finds a peer that vanished within
about three minutes even then.

Concurrency: a client may be shared by any number of threads.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import urllib3

from .api import ApiError, ListOptions, Page, Resource, Selectors, Unreachable, WatchEvent
from .objects import Object

CONNECT_TIMEOUT = 10.0
#: A watch's own time limit is the server's task; this much later it is ours.
WATCH_GRACE = 10.0

EVERYTHING = Selectors()

PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


def client_for(
    kubeconfig: str | None = None, user_agent: str = "machinery", timeout: float = 30.0
) -> Client:
    """A client by a kubeconfig file; None: ``KUBECONFIG``, ~/.kube/config or in-cluster."""
    # Imported here: it takes half a second, and nothing else needs it.
    from kubernetes import client, config
    from kubernetes.utils.keepalive import tcp_keepalive_socket_options

    configuration = client.Configuration()
    if kubeconfig is None:
        config.load_config(client_configuration=configuration)
    else:
        config.load_kube_config(kubeconfig, client_configuration=configuration)
    configuration.socket_options = tcp_keepalive_socket_options()
    # Each watch holds a connection for itself; the default is five for each CPU.
    configuration.connection_pool_maxsize = 64
    return Client(client.ApiClient(configuration), user_agent, timeout)


class Client:
    """Requests with a ``kubernetes.client.ApiClient``'s connections and credentials.

    Every method raises :class:`~.api.ApiError` for an answer that is not
    success, and :class:`~.api.Unreachable` for none.
    """

    def __init__(self, api_client: Any, user_agent: str = "machinery", timeout: float = 30.0):
        self._api_client = api_client
        self._pool = api_client.rest_client.pool_manager
        self._host = api_client.configuration.host.rstrip("/")
        self._user_agent = user_agent
        self._timeout = timeout

    def list(
        self, resource: Resource, options: ListOptions, selectors: Selectors = EVERYTHING
    ) -> Page:
        """One page: what the options ask for. Each item gets apiVersion and kind."""
        query = options.query() + selectors.query()
        body = self.request("GET", resource.path(), query)
        kind = body.get("kind", "").removesuffix("List")
        items = body.get("items") or []
        for item in items:
            # In a typed list the items leave them out; in a watch event they are there.
            item.setdefault("apiVersion", body.get("apiVersion", ""))
            item.setdefault("kind", kind)
        metadata = body.get("metadata") or {}
        return Page(items, metadata.get("resourceVersion", ""), metadata.get("continue") or "")

    def watch(
        self, resource: Resource, options: ListOptions, selectors: Selectors = EVERYTHING
    ) -> HttpWatch:
        query = [("watch", "true"), *options.query(), *selectors.query()]
        read = None if options.timeout_seconds is None else options.timeout_seconds + WATCH_GRACE
        return HttpWatch(self._open("GET", resource.path(), query, read_timeout=read))

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return self.request("GET", resource.path(name, namespace=namespace))

    def create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        return self.request("POST", resource.path(namespace=namespace), body=obj)

    def update(self, resource: Resource, obj: Object, subresource: str = "") -> Object:
        """PUT the whole object; its resourceVersion guards against a stale one (409)."""
        metadata = obj["metadata"]
        path = resource.path(metadata["name"], subresource, metadata.get("namespace", ""))
        return self.request("PUT", path, body=obj)

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        subresource: str = "",
        type: str = "merge",
        query: list[tuple[str, str]] | None = None,
    ) -> Object:
        """``type`` is a key of :data:`PATCH_TYPES`; apply needs ``fieldManager`` in ``query``."""
        path = resource.path(name, subresource, namespace)
        return self.request("PATCH", path, query, body=patch, content_type=PATCH_TYPES[type])

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
    ) -> Object:
        """Delete; with ``uid`` only that very object (409 if it is another by now)."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {name_: value for name_, value in preconditions.items() if value}
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            body["preconditions"] = preconditions
        return self.request("DELETE", resource.path(name, namespace=namespace), body=body)

    def request(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]] | None = None,
        *,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Any:
        """Any request that answers with JSON; the decoded answer."""
        response = self._open(method, path, query, body=body, content_type=content_type)
        try:
            data = response.data
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(f"{method} {path}: the answer broke off: {error}") from error
        try:
            return json.loads(data)
        except ValueError as error:
            raise ApiError(response.status, "", f"{method} {path}: not JSON: {error}") from error

    def _open(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]] | None = None,
        *,
        body: Any = None,
        content_type: str = "application/json",
        read_timeout: float | None = None,
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json", "User-Agent": self._user_agent}
        if body is not None:
            headers["Content-Type"] = content_type
            body = json.dumps(body).encode()
        # Adds the Authorization header, and refreshes a token that ran out.
        self._api_client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = self._host + path
        if query:
            url += "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in query)
        timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT, read=read_timeout or self._timeout)
        try:
            response = self._pool.request(
                method,
                url,
                body=body,
                headers=headers,
                timeout=timeout,
                retries=False,
                preload_content=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(f"{method} {path}: {error}", refused=_is_refused(error)) from error
        if response.status >= 300:
            raise _api_error(response, method, path)
        return response


class ResourceClient:
    """The list and watch of one resource: what a reflector is given."""

    def __init__(
        self, client: Client, resource: Resource, selectors: Selectors = EVERYTHING
    ) -> None:
        self._client = client
        self._resource = resource
        self._selectors = selectors

    def list(self, options: ListOptions) -> Page:
        return self._client.list(self._resource, options, self._selectors)

    def watch(self, options: ListOptions) -> HttpWatch:
        return self._client.watch(self._resource, options, self._selectors)


class HttpWatch:
    """An open watch: one JSON object a line. Read by one thread, closed by any."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._closed = threading.Event()
        # One reader for the whole life of the stream: the initial events are read
        # in one loop and what follows in another, and a generator that a loop
        # leaves behind would close the connection.
        self._events = self._read()

    def __iter__(self) -> Iterator[WatchEvent]:
        return self._events

    def _read(self) -> Iterator[WatchEvent]:
        buffer = b""
        try:
            for chunk in self._response.stream(65536):
                if self._closed.is_set():
                    return
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield _decode(line)
            # What is left in the buffer is half an event: the connection was cut.
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError):
            # A broken connection ends a watch as well as the server does. Closing a
            # response under its reader makes http.client stumble in several ways.
            return
        finally:
            self._release()

    def close(self) -> None:
        self._closed.set()
        try:
            # Wakes up a thread that waits for the next event; close() alone does not.
            self._response.shutdown()
        except (ValueError, RuntimeError, OSError, AttributeError):
            pass  # it is over already

    def _release(self) -> None:
        self._closed.set()
        self._response.close()


def _decode(line: bytes) -> WatchEvent:
    try:
        event = json.loads(line)
        return WatchEvent(event["type"], event["object"])
    except (ValueError, KeyError, TypeError) as error:
        # As upstream: told as an ERROR, which ends the watch and lists again.
        message = f"unable to decode an event from the watch stream: {error}"
        status = {"kind": "Status", "code": 500, "reason": "InternalError", "message": message}
        return WatchEvent("ERROR", status)


def _api_error(response: urllib3.BaseHTTPResponse, method: str, path: str) -> ApiError:
    try:
        data = response.data
    except urllib3.exceptions.HTTPError:
        data = b""
    try:
        error = ApiError.from_status(json.loads(data), response.status)
    except ValueError:
        text = data[:200].decode(errors="replace")
        error = ApiError(response.status, "", f"{method} {path}: {text}")
    seconds = response.headers.get("Retry-After", "")
    if error.retry_after is None and seconds.isdigit():
        error.retry_after = float(seconds)
    return error


def _is_refused(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return True
        error = error.__cause__ or error.__context__
    return False
