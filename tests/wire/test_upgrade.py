"""Upgrades and other talk between neighbours on a connection, which is no business of the API server's."""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import subprocess
from urllib.parse import urlsplit

import pytest

from tests.wire.conftest import PATIENCE


def _status(connection: socket.socket) -> int:
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(65536)
        assert piece, f"the connection was closed after {answer!r}"
        answer += piece
    return int(answer.split()[1])


def test_an_offer_of_http_2_is_left_alone(alone, upstream, http):
    """Java's HttpClient makes it with the first request, and goes on in HTTP/1.1."""
    wire = alone()
    offer = {
        "Connection": "Upgrade, HTTP2-Settings",
        "Upgrade": "h2c",
        "HTTP2-Settings": "AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA",
    }
    body = b'{"kind":"ConfigMap"}'
    url = f"{wire.url}/api/v1/namespaces/a/configmaps"
    assert http.request("GET", url, headers=offer).status == 200
    assert http.request("POST", url, headers=offer, body=body).status == 200
    assert http.request("GET", url).status == 200
    assert upstream.bodies == [b"", body, b""]
    for request in upstream.asked:
        assert not {"Upgrade", "HTTP2-Settings"} & set(request.headers)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_with_http_2(alone):
    wire = alone()
    said = subprocess.run(
        ["curl", "-sS", "--http2", "--noproxy", "*", f"{wire.url}/version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(said.stdout)["kind"] == "Echo"


@pytest.mark.parametrize("protocol", ["SPDY/3.1", "websocket"])
def test_a_stream_is_refused_with_a_sentence(alone, upstream, http, protocol):
    wire = alone()
    answer = http.request(
        "POST",
        f"{wire.url}/api/v1/namespaces/a/pods/p/exec",
        headers={"Connection": "Upgrade", "Upgrade": protocol},
    )
    assert answer.status == 501 and "phase4 kubectl" in answer.json()["message"]
    assert not upstream.asked


@pytest.mark.parametrize("expect", ["100-continue", "100-Continue"])
def test_a_body_is_asked_for_where_the_process_waits_to_be_asked(alone, upstream, expect):
    wire = alone()
    with socket.create_connection(("127.0.0.1", wire.port), timeout=PATIENCE) as connection:
        connection.sendall(
            f"POST {urlsplit(wire.url).path}/api/v1/pods HTTP/1.1\r\nHost: 127.0.0.1:{wire.port}\r\n"
            f"Content-Length: 2\r\nExpect: {expect}\r\n\r\n".encode()
        )
        assert _status(connection) == 100
        connection.sendall(b"{}")
        assert _status(connection) == 200
    assert upstream.bodies == [b"{}"] and "Expect" not in upstream.asked[0].headers


def test_a_compressed_body_is_forwarded_as_it_came(alone, upstream, http):
    wire = alone()
    body = gzip.compress(b"{}")
    http.request("POST", f"{wire.url}/api/v1/pods", body=body, headers={"Content-Encoding": "gzip"})
    assert upstream.bodies == [body]
    assert upstream.asked[0].headers["Content-Encoding"] == "gzip"


def test_a_chunked_body_arrives_whole(alone, upstream, http):
    wire = alone()
    http.request("POST", f"{wire.url}/api/v1/pods", body=iter([b"{", b"}"]), chunked=True)
    assert upstream.bodies == [b"{}"]
    assert upstream.asked[0].headers["Content-Length"] == "2"
