"""A wire serves the program that was given its kubeconfig: nobody else on the machine, no page."""

from __future__ import annotations

import json
import os
import socket
import stat

import pytest

from grader.cluster.api import Api
from grader.witness import Timeline
from grader.witness.wording import describe
from tests.wire.conftest import PATIENCE, python_client

PODS = "/api/v1/namespaces/a/pods"


def _secret(wire) -> str:
    return wire.url.rpartition("/")[2]


def test_the_kubeconfig_is_the_way_in(alone, upstream):
    wire = alone()
    with Api(wire.kubeconfig) as api:
        assert api.raw("GET", f"{PODS}?limit=1") == {"kind": "Echo", "path": f"{PODS}?limit=1"}
    (asked,) = upstream.asked
    assert asked.headers["Authorization"] == "Bearer admins-token"


def test_two_wires_have_two_secrets(alone):
    first, second = alone(client="a"), alone(client="b")
    assert len(_secret(first)) == 32 and _secret(first) != _secret(second)


def test_the_secret_is_neither_recorded_nor_forwarded(alone, upstream, http):
    wire = alone()
    for target in (f"{PODS}?watch=true&limit=1", "/version", "", "/"):
        assert http.request("GET", wire.url + target).status == 200
    assert _secret(wire) not in wire.record.read_text()
    assert [request.raw_path for request in upstream.asked] == [
        f"{PODS}?watch=true&limit=1",
        "/version",
        "/",
        "/",
    ]
    for request in upstream.asked:
        assert _secret(wire) not in str(request.headers)


@pytest.mark.parametrize("prefix", ["", "/", "/{wrong}", "/{half}", "/%E2%82%AC", "/{secret}x"])
def test_without_the_secret_nothing_is_served(alone, upstream, http, prefix):
    wire = alone()
    secret = _secret(wire)
    prefix = prefix.format(wrong="0" * 32, half=secret[:16], secret=secret)
    answer = http.request("GET", f"http://127.0.0.1:{wire.port}{prefix}{PODS}")
    status = answer.json()
    assert (answer.status, status["kind"], status["code"]) == (401, "Status", 401)
    assert "KUBECONFIG" in status["message"] and secret not in answer.data.decode()
    assert not upstream.asked


def test_a_bearer_token_is_no_way_in(alone, upstream, http):
    wire = alone()
    answer = http.request(
        "GET",
        f"http://127.0.0.1:{wire.port}{PODS}",
        headers={"Authorization": f"Bearer {_secret(wire)}"},
    )
    assert answer.status == 401 and not upstream.asked


@pytest.mark.parametrize("host", ["{ip}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_its_own_names_are_answered(alone, http, host):
    wire = alone()
    host = host.format(ip=f"127.0.0.1:{wire.port}", port=wire.port)
    assert http.request("GET", f"{wire.url}{PODS}", headers={"Host": host}).status == 200


@pytest.mark.parametrize("host", ["evil.example:{port}", "127.0.0.1", "localhost:1", "127.0.0.1."])
def test_another_name_is_refused(alone, upstream, http, host):
    """A page whose name was pointed at 127.0.0.1 says its own name."""
    wire = alone()
    host = host.format(port=wire.port)
    answer = http.request("GET", f"{wire.url}{PODS}", headers={"Host": host})
    assert answer.status == 421 and answer.json()["kind"] == "Status"
    assert f"localhost:{wire.port}" in answer.json()["message"]
    assert not upstream.asked


@pytest.mark.parametrize("lines", [[], ["127.0.0.1:{port}", "evil.example"]])
def test_no_host_and_two_hosts_are_refused(alone, upstream, lines):
    wire = alone()
    hosts = "".join(f"Host: {line.format(port=wire.port)}\r\n" for line in lines)
    with socket.create_connection(("127.0.0.1", wire.port), timeout=PATIENCE) as connection:
        connection.sendall(f"GET /{_secret(wire)}/version HTTP/1.1\r\n{hosts}\r\n".encode())
        assert connection.recv(65536).split()[1] in (b"421", b"400")
    assert not upstream.asked


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:8440"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_page_is_refused(alone, upstream, http, method, headers):
    """Also one that knows the secret, and one that may not read the answer but could write."""
    wire = alone()
    answer = http.request(method, f"{wire.url}{PODS}", headers=headers)
    assert answer.status == 403 and "browser" in answer.json()["message"]
    assert not upstream.asked


def test_a_stranger_is_noted_and_is_no_exchange(alone, http):
    """Nothing that a stranger asks is taken for the program's, nor fills the record."""
    wire = alone()
    for _ in range(50):
        http.request("POST", f"http://127.0.0.1:{wire.port}{PODS}", body=b"{}")
    timeline = Timeline.of(wire)
    assert not timeline.exchanges()
    marks = timeline.marks("request_refused", code=401)
    assert len(marks) == 20
    assert "POST refused (401): not from the wire's own program" in describe(marks.first)


def test_a_stranger_does_not_use_up_a_rule(alone, http):
    wire = alone("answer 503 list pods times=1")
    http.request("GET", f"http://127.0.0.1:{wire.port}{PODS}")
    assert http.request("GET", f"{wire.url}{PODS}").status == 503


def test_a_proxied_form_of_request_is_refused(alone, upstream):
    wire = alone()
    with socket.create_connection(("127.0.0.1", wire.port), timeout=PATIENCE) as connection:
        connection.sendall(
            f"GET http://127.0.0.1:{wire.port}/{_secret(wire)}/version HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{wire.port}\r\n\r\n".encode()
        )
        assert connection.recv(65536).split()[1] == b"400"
    assert not upstream.asked


@pytest.mark.parametrize("with_secret", [False, True])
def test_the_unix_socket_asks_for_no_secret(alone, upstream, with_secret):
    """It lets in nobody but this user; the sandbox's relay speaks through it."""
    wire = alone()
    prefix = f"/{_secret(wire)}" if with_secret else ""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(wire.unix_socket))
        connection.sendall(
            f"GET {prefix}/version HTTP/1.1\r\nHost: 127.0.0.1:8001\r\n\r\n".encode()
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    assert [request.raw_path for request in upstream.asked] == ["/version"]


def test_a_redirect_stays_behind_the_wire(alone, upstream, http):
    from aiohttp import web

    async def answer(request: web.Request) -> web.Response:
        to = {"/a": "/b?c", "/out": "https://elsewhere.example/x"}.get(request.path)
        return web.Response(status=301, headers={"Location": to}) if to else web.Response()

    upstream.answer = answer
    wire = alone()
    prefix = f"/{_secret(wire)}"
    moved = http.request("GET", f"{wire.url}/a", redirect=False)
    assert moved.headers["Location"] == f"{prefix}/b?c"
    out = http.request("GET", f"{wire.url}/out", redirect=False)
    assert out.headers["Location"] == "https://elsewhere.example/x"


def test_no_other_user_may_read_what_a_wire_keeps(alone, tmp_path):
    tmp_path.joinpath("op").mkdir(mode=0o755)  # as an older version left it
    mask = os.umask(0)
    try:
        wire = alone()
    finally:
        os.umask(mask)
    assert stat.S_IMODE(wire.folder.stat().st_mode) == 0o700
    for path in (*wire.folder.iterdir(), wire.unix_socket, wire.control_socket):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_the_python_client_keeps_the_prefix(alone, upstream):
    async def answer(request):
        from aiohttp import web

        return web.json_response({"kind": "ConfigMapList", "apiVersion": "v1", "items": []})

    upstream.answer = answer
    python_client(alone()).list_namespaced_config_map("a")
    assert upstream.asked[0].path == "/api/v1/namespaces/a/configmaps"


def test_wire_json_says_where_it_is_to_its_own_user(alone):
    wire = alone()
    about = json.loads((wire.folder / "wire.json").read_text())
    assert about["url"] == wire.url
