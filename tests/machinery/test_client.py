"""The client: what it sends, and what it makes of every kind of answer, and of none."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes import client as kubernetes_client
from machinery.api import ApiError, ListOptions, Resource, Selectors, Unreachable, WatchEvent
from machinery.client import Client, ResourceClient, client_for

PODS = Resource("", "v1", "pods", "x")
WEBAPPS = Resource("apps.example", "v1alpha1", "webapps")
PATIENCE = 60


@dataclass
class Sent:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: Any
    body: Any


class Server:
    """Answers with what ``answer`` writes; ``sent`` has what came."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = lambda http: reply(http, {})
        outer = self

        class Handling(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_arguments: Any) -> None:
                pass

            def handle_any(self) -> None:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = urlsplit(self.path)
                body = json.loads(data) if data else None
                outer.sent.append(
                    Sent(self.command, parts.path, parse_qs(parts.query), self.headers, body)
                )
                outer.answer(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # an answer that is broken off on purpose

        self.http = Quiet(("127.0.0.1", 0), Handling)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"


def reply(http: BaseHTTPRequestHandler, body: Any, code: int = 200, **headers: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    http.send_response(code)
    http.send_header("Content-Length", str(len(data)))
    for name, value in headers.items():
        http.send_header(name.replace("_", "-"), value)
    http.end_headers()
    http.wfile.write(data)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.http.shutdown()
    made.http.server_close()
    thread.join()


@pytest.fixture
def client(server: Server) -> Client:
    return client_of(server.url + "/")


def client_of(url: str) -> Client:
    configuration = kubernetes_client.Configuration()
    configuration.host = url
    configuration.api_key = {"authorization": "Bearer a-token"}
    return Client(kubernetes_client.ApiClient(configuration), "my-operator", PATIENCE)


def test_a_list_is_asked_for_with_its_options_and_its_items_say_what_they_are(server, client):
    server.answer = lambda http: reply(
        http,
        {
            "apiVersion": "v1",
            "kind": "PodList",
            "metadata": {"resourceVersion": "7", "continue": "more"},
            "items": [{"metadata": {"name": "a"}}, {"kind": "Own", "metadata": {"name": "b"}}],
        },
    )
    options = ListOptions(resource_version="0", limit=2, continue_token="t&=", timeout_seconds=0)
    page = client.list(PODS, options, Selectors("app in (a,b)", "spec.nodeName="))
    assert (page.resource_version, page.continue_token) == ("7", "more")
    assert [(item["apiVersion"], item["kind"]) for item in page.items] == [
        ("v1", "Pod"),
        ("v1", "Own"),
    ]
    (sent,) = server.sent
    assert (sent.method, sent.path) == ("GET", "/api/v1/namespaces/x/pods")
    assert sent.query == {
        "resourceVersion": ["0"],
        "limit": ["2"],
        "continue": ["t&="],
        "timeoutSeconds": ["0"],
        "labelSelector": ["app in (a,b)"],
        "fieldSelector": ["spec.nodeName="],
    }
    assert sent.headers["User-Agent"] == "my-operator"
    assert sent.headers["Authorization"] == "Bearer a-token"
    assert sent.headers["Accept"] == "application/json"


def test_an_empty_list_is_a_page(server, client):
    server.answer = lambda http: reply(http, {"kind": "PodList", "items": None})
    page = ResourceClient(client, PODS).list(ListOptions())
    assert (page.items, page.resource_version, page.continue_token) == ([], "", "")


def test_each_verb_has_its_method_path_and_body(server, client):
    obj = {"metadata": {"name": "a", "namespace": "y"}}
    client.get(PODS, "a")
    client.get(WEBAPPS, "a", "y")
    client.create(PODS, obj, "y")
    client.update(WEBAPPS, obj, "status")
    client.delete(PODS, "a")
    client.delete(PODS, "a", "y", uid="u", resource_version="3")
    assert [(sent.method, sent.path) for sent in server.sent] == [
        ("GET", "/api/v1/namespaces/x/pods/a"),
        ("GET", "/apis/apps.example/v1alpha1/namespaces/y/webapps/a"),
        ("POST", "/api/v1/namespaces/y/pods"),
        ("PUT", "/apis/apps.example/v1alpha1/namespaces/y/webapps/a/status"),
        ("DELETE", "/api/v1/namespaces/x/pods/a"),
        ("DELETE", "/api/v1/namespaces/y/pods/a"),
    ]
    assert server.sent[2].body == obj
    assert server.sent[2].headers["Content-Type"] == "application/json"
    plain = {"apiVersion": "v1", "kind": "DeleteOptions"}
    assert server.sent[4].body == plain
    assert server.sent[5].body == {**plain, "preconditions": {"uid": "u", "resourceVersion": "3"}}


@pytest.mark.parametrize(
    ("type_", "content"),
    [
        ("merge", "application/merge-patch+json"),
        ("json", "application/json-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
        ("apply", "application/apply-patch+yaml"),
    ],
)
def test_a_patch_says_of_what_kind_it_is(server, client, type_, content):
    query = [("fieldManager", "me & you")]
    client.patch(PODS, "a", {"a": 1}, type=type_, subresource="status", query=query)
    (sent,) = server.sent
    assert (sent.method, sent.path) == ("PATCH", "/api/v1/namespaces/x/pods/a/status")
    assert sent.headers["Content-Type"] == content and sent.body == {"a": 1}
    assert sent.query == {"fieldManager": ["me & you"]}


STATUS = {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "it is there"}


def test_an_error_is_what_the_status_says(server, client):
    server.answer = lambda http: reply(http, STATUS, 409)
    with pytest.raises(ApiError, match="409 AlreadyExists: it is there") as caught:
        client.create(PODS, {})
    assert caught.value.is_already_exists and not caught.value.is_conflict


@pytest.mark.parametrize("body", [b"<html>no</html>", b"", b"[1]", b'"text"', b'{"kind": "Pod"}'])
def test_an_error_without_a_status_has_the_code(server, client, body):
    server.answer = lambda http: reply(http, body, 503, Retry_After="7")
    with pytest.raises(ApiError, match="503") as caught:
        client.get(PODS, "a")
    assert (caught.value.status, caught.value.retry_after) == (503, 7.0)


def test_the_status_own_retry_after_comes_first(server, client):
    status = {"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 2}}
    server.answer = lambda http: reply(http, status, 429, Retry_After="9")
    with pytest.raises(ApiError) as caught:
        client.get(PODS, "a")
    assert caught.value.retry_after == 2.0 and caught.value.is_too_many_requests


def test_success_that_is_no_json_is_an_error(server, client):
    server.answer = lambda http: reply(http, b"not json")
    with pytest.raises(ApiError, match="GET /api/v1/namespaces/x/pods/a: not JSON"):
        client.get(PODS, "a")


def test_an_answer_that_breaks_off_is_no_answer(server, client):
    def breaks(http: BaseHTTPRequestHandler) -> None:
        http.send_response(200)
        http.send_header("Content-Length", "1000")
        http.end_headers()
        http.wfile.write(b'{"half')
        http.close_connection = True

    server.answer = breaks
    with pytest.raises(Unreachable, match="broke off") as caught:
        client.get(PODS, "a")
    assert not caught.value.refused


def test_nothing_is_asked_twice(server, client):
    def hangs_up(http: BaseHTTPRequestHandler) -> None:
        http.close_connection = True

    server.answer = hangs_up
    with pytest.raises(Unreachable) as caught:
        client.create(PODS, {})
    assert not caught.value.refused and len(server.sent) == 1


def test_nobody_there_is_refused():
    with socket.socket() as taken:
        # Nobody else gets the port, and nobody listens on it.
        taken.bind(("127.0.0.1", 0))
        client = client_of(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(Unreachable) as caught:
            client.get(PODS, "a")
    assert caught.value.refused


class Stream:
    """A watch of the server's: pieces that a test hands to it, None for its end."""

    def __init__(self, server: Server) -> None:
        self.pieces: list[bytes | None] = []
        self.changed = threading.Condition()
        server.answer = self._answer

    def send(self, *pieces: bytes | None) -> None:
        with self.changed:
            self.pieces += pieces
            self.changed.notify_all()

    def _answer(self, http: BaseHTTPRequestHandler) -> None:
        http.send_response(200)
        http.send_header("Transfer-Encoding", "chunked")
        http.end_headers()
        http.wfile.flush()
        while True:
            with self.changed:
                assert self.changed.wait_for(lambda: self.pieces, PATIENCE)
                piece = self.pieces.pop(0)
            if piece is None:
                http.wfile.write(b"0\r\n\r\n")
                return
            http.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            http.wfile.flush()


def event(type_: str, **object_: Any) -> bytes:
    return json.dumps({"type": type_, "object": object_}).encode() + b"\n"


def test_a_watch_gives_each_event_however_it_is_cut(server, client):
    stream = Stream(server)
    first, second = event("ADDED", n=1), event("MODIFIED", n=2)
    stream.send(first[:5], first[5:] + b"\n" + second[:3], second[3:] + event("DELETED", n=3)[:9])
    stream.send(None)
    options = ListOptions(resource_version="7", allow_watch_bookmarks=True, timeout_seconds=300)
    watch = ResourceClient(client, PODS, Selectors(label="a=b")).watch(options)
    assert list(watch) == [WatchEvent("ADDED", {"n": 1}), WatchEvent("MODIFIED", {"n": 2})]
    assert list(watch) == [], "it is over"
    assert server.sent[0].query == {
        "watch": ["true"],
        "resourceVersion": ["7"],
        "timeoutSeconds": ["300"],
        "allowWatchBookmarks": ["true"],
        "labelSelector": ["a=b"],
    }


def test_a_second_loop_over_a_watch_goes_on_where_the_first_ended(server, client):
    stream = Stream(server)
    stream.send(event("ADDED", n=1) + event("ADDED", n=2), None)
    watch = client.watch(PODS, ListOptions())
    for one in watch:
        assert one.object == {"n": 1}
        break
    assert [one.object for one in watch] == [{"n": 2}]


@pytest.mark.parametrize("line", [b"nonsense\n", b"[]\n", b'{"type": "ADDED"}\n'])
def test_a_line_that_is_no_event_is_told_as_an_error(server, client, line):
    stream = Stream(server)
    stream.send(line, None)
    (told,) = client.watch(PODS, ListOptions())
    assert told.type == "ERROR" and told.object["code"] == 500
    assert "unable to decode an event from the watch stream" in told.object["message"]


def test_a_refused_watch_is_an_error_before_any_event(server, client):
    server.answer = lambda http: reply(http, {"kind": "Status", "code": 410, "reason": "Gone"}, 410)
    with pytest.raises(ApiError) as caught:
        client.watch(PODS, ListOptions(resource_version="1"))
    assert caught.value.is_expired


def test_closing_a_watch_wakes_its_reader(server, client):
    stream = Stream(server)
    watch = client.watch(PODS, ListOptions())
    told: list[WatchEvent] = []
    came = threading.Event()

    def read() -> None:
        for one in watch:
            told.append(one)
            came.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    stream.send(event("ADDED", n=1))
    assert came.wait(PATIENCE)
    watch.close()
    watch.close()
    reader.join(PATIENCE)
    assert not reader.is_alive() and len(told) == 1
    stream.send(None)


def test_a_client_is_made_by_a_kubeconfig(server, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": server.url}}],
                "users": [{"name": "u", "user": {"token": "of-the-file"}}],
            }
        )
    )
    client_for(str(path), "an-operator").get(PODS, "a")
    (sent,) = server.sent
    assert sent.headers["Authorization"] == "Bearer of-the-file"
    assert sent.headers["User-Agent"] == "an-operator"


@pytest.mark.parametrize(
    ("status", "code", "true"),
    [
        ({"reason": "Expired", "code": 410}, 0, {"is_expired"}),
        ({"reason": "Gone"}, 500, {"is_expired"}),
        ({"code": 410}, 0, {"is_expired"}),
        ({"code": 404, "reason": "NotFound"}, 0, {"is_not_found"}),
        ({"code": 409, "reason": "Conflict"}, 0, {"is_conflict"}),
        ({"code": 409}, 0, {"is_conflict"}),
        ({"code": 409, "reason": "AlreadyExists"}, 0, {"is_already_exists"}),
        ({"reason": "TooManyRequests"}, 500, {"is_too_many_requests"}),
        ({}, 429, {"is_too_many_requests"}),
        (
            {"code": 504, "details": {"causes": [{"reason": "ResourceVersionTooLarge"}, {}]}},
            0,
            {"is_too_large"},
        ),
        ({"code": 500, "reason": "InternalError", "details": None}, 0, set()),
    ],
)
def test_what_an_error_is(status, code, true):
    error = ApiError.from_status(status, code)
    names = {name for name in dir(ApiError) if name.startswith("is_")}
    assert {name for name in names if getattr(error, name)} == true
    assert error.status == status.get("code", code)


def test_a_resource_of_the_whole_cluster_has_no_namespace_in_its_path():
    assert WEBAPPS.path() == "/apis/apps.example/v1alpha1/webapps"
    assert Resource("", "v1", "nodes").path("n", "status") == "/api/v1/nodes/n/status"
    assert PODS.path("a", namespace="y") == "/api/v1/namespaces/y/pods/a"


def test_options_that_are_empty_are_not_sent():
    assert ListOptions().query() == [] and Selectors().query() == []
