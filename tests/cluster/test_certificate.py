"""A certificate is judged by what a client makes of it, never by the age of its file."""

from __future__ import annotations

import shutil
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from grader.cluster import bootstrap, certificate, waiting
from grader.cluster.api import Api
from grader.cluster.components import Layout
from grader.cluster.credentials import Credentials
from grader.cluster.errors import Untrusted

FILES = Path(__file__).parent / "certificates"
KEY = FILES / "server.key"


def test_a_good_one():
    assert certificate.trouble(FILES / "good.crt", KEY, "127.0.0.1") == ""


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ahead", "not yet valid"),
        ("expired", "expired"),
        ("elsewhere", "IP address mismatch"),
    ],
)
def test_one_that_a_client_refuses(name, says):
    assert says in certificate.trouble(FILES / f"{name}.crt", KEY, "127.0.0.1")


def test_one_that_is_not_the_keys(tmp_path):
    assert "another key" in certificate.trouble(
        FILES / "good.crt", FILES / "other.key", "127.0.0.1"
    )
    (tmp_path / "x.crt").write_text("half a certif")
    assert "damaged" in certificate.trouble(tmp_path / "x.crt", KEY, "127.0.0.1")


def test_one_that_ends_soon(monkeypatch):
    end = ssl.cert_time_to_seconds("Dec 31 23:59:59 9998 GMT")
    monkeypatch.setattr(certificate.time, "time", lambda: end - 20 * 86400)
    assert certificate.trouble(FILES / "good.crt", KEY, "127.0.0.1").startswith("it ends on ")


def kept(home: Path, name: str) -> None:
    folder = home / "state" / "pki"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(FILES / f"{name}.crt", folder / "apiserver.crt")
    shutil.copy(KEY, folder / "apiserver.key")


@pytest.mark.parametrize("name", ["ahead", "expired", "elsewhere"])
def test_a_kept_one_that_will_not_do_is_replaced(home, tmp_path, name):
    pki = tmp_path / "pki"
    pki.mkdir()
    kept(home, "good")
    certificate.reuse(pki)
    assert (pki / "apiserver.crt").exists()
    kept(home, name)
    certificate.reuse(pki)
    assert list(pki.iterdir()) == [], "the API server makes one where there is none"
    for end, source in (("crt", FILES / "good.crt"), ("key", KEY)):
        shutil.copy(source, pki / f"apiserver.{end}")
    certificate.keep(pki)
    good = (FILES / "good.crt").read_text()
    assert (home / "state" / "pki" / "apiserver.crt").read_text() == good


@pytest.fixture
def ahead():
    """A server whose certificate was made while the clock was ahead, as a kubeconfig has it."""
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / "ahead.crt", KEY)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # a client that turns away is what is wanted here
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield Credentials(
        f"https://127.0.0.1:{server.server_port}", ca=(FILES / "ahead.crt").read_text()
    )
    server.shutdown()
    server.server_close()


def test_a_refused_certificate_is_not_waited_for(ahead, tmp_path):
    begun = time.monotonic()
    with Api(ahead) as api:
        with pytest.raises(Untrusted, match="is refused .certificate is not yet valid.*clock says"):
            api.raw("GET", "/readyz")
        with pytest.raises(Untrusted):
            waiting.until(lambda: waiting.ready(api), {}, Layout(tmp_path), "the API server", 60.0)
        with pytest.raises(Untrusted):
            bootstrap.install_early(api, lambda: True)
    assert time.monotonic() - begun < 10


def test_a_context_that_threads_share_is_not_changed_by_each_connection(monkeypatch):
    """urllib3 sets the ALPN protocols for every connection; see SharedContext."""
    told = []
    monkeypatch.setattr(
        ssl.SSLContext, "set_alpn_protocols", lambda self, protocols: told.append(protocols)
    )
    context = certificate.shared()
    for _ in range(3):
        context.set_alpn_protocols(["http/1.1"])
    assert told == [["http/1.1"]]
    context.set_alpn_protocols(["h2"])
    assert told[1:] == [["h2"]]
    assert context.check_hostname and context.verify_mode is ssl.CERT_REQUIRED
