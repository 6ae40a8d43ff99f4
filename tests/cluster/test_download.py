"""The second rung, against a local server that breaks off, damages and refuses."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import urllib3

from grader.cluster import binaries, pins
from grader.cluster.download import DownloadFailed, fetch, release
from grader.cluster.errors import EnvironmentProblem

CONTENT = bytes(range(256)) * 8192  # 2 MiB


class Server:
    """Files by path; what is asked for is written down."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.break_after: int | None = None
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.asked.append((request.path, wanted))
        if request.path in self.redirects:
            request.send_response(302)
            request.send_header("Location", self.redirects[request.path])
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        body = self.files.get(request.path)
        if body is None:
            request.send_error(404)
            return
        status = 200
        if wanted and self.ranges:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            status = 206 if start < len(body) else 416
            body = body[start:]
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if self.break_after is not None and len(body) > self.break_after:
            request.wfile.write(body[: self.break_after])
            request.wfile.flush()
            request.close_connection = True
            return
        request.wfile.write(body)

    def publish(self, name: str, content: bytes = CONTENT, checksum: str | None = None) -> str:
        """Publish a release; returns its path on this server."""
        found = release(name)
        path = "/" + found.url.removeprefix("https://")
        checksum_path = "/" + found.checksum_url.removeprefix("https://")
        digest = hashlib.sha256(content).hexdigest() if checksum is None else checksum
        file = path.rpartition("/")[2]
        if name == "etcd":
            text = f"{'0' * 64}  other.tar.gz\n{digest}  {file}\n"
        elif name == "kwok":
            text = json.dumps({"assets": [{"name": file, "digest": f"sha256:{digest}"}]})
        else:
            text = digest
        self.files[path] = content
        self.files[checksum_path] = text.encode()
        return path


@pytest.fixture
def server(home, monkeypatch):
    one = Server()
    monkeypatch.setenv("PHASE4_MIRROR", one.url)
    monkeypatch.setattr(pins, "goos", lambda: "linux")
    monkeypatch.setattr(pins, "goarch", lambda: "amd64")
    monkeypatch.setattr(pins, "DIGESTS", {})
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    yield one
    one.http.shutdown()
    one.http.server_close()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "bin" / "it"


def quiet(sentence: str) -> None:
    pass


def parts(home):
    return list((home / "cache" / "parts").iterdir())


@pytest.mark.parametrize("name", ["kube-apiserver", "kubectl", "kwok"])
def test_a_whole_file(server, home, target, name):
    server.publish(name)
    fetch(name, target, quiet)
    assert target.read_bytes() == CONTENT
    assert target.stat().st_mode & 0o777 == 0o755
    assert parts(home) == []


def test_an_archive(server, home, target):
    stem = f"etcd-{pins.ETCD}-linux-amd64"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in ((f"{stem}/README", b"x"), (f"{stem}/etcd", CONTENT)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    server.publish("etcd", packed.getvalue())
    fetch("etcd", target, quiet)
    assert target.read_bytes() == CONTENT and parts(home) == []


def test_an_archive_without_the_binary(server, target):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz"):
        pass
    server.publish("etcd", packed.getvalue())
    with pytest.raises(DownloadFailed, match="holds no etcd-"):
        fetch("etcd", target, quiet)
    assert not target.exists()


def test_an_interrupted_download_goes_on_where_it_stopped(server, home, target):
    path = server.publish("kubectl")
    server.break_after = 700_000
    with pytest.raises(DownloadFailed, match="after 0.*MB of kubectl.*resumes there"):
        fetch("kubectl", target, quiet)
    assert not target.exists()
    (part,) = parts(home)
    have = part.stat().st_size
    assert 0 < have <= 700_000
    server.break_after = None
    fetch("kubectl", target, quiet)
    assert target.read_bytes() == CONTENT
    assert server.asked[-1] == (path, f"bytes={have}-")


def test_a_server_that_does_not_resume(server, target):
    server.publish("kubectl")
    server.break_after = 700_000
    with pytest.raises(DownloadFailed):
        fetch("kubectl", target, quiet)
    server.break_after, server.ranges = None, False
    fetch("kubectl", target, quiet)
    assert target.read_bytes() == CONTENT


def test_killed_after_the_last_byte(server, home, target):
    server.publish("kubectl")
    digest = hashlib.sha256(CONTENT).hexdigest()
    (home / "cache" / "parts").mkdir(parents=True)
    (home / "cache" / "parts" / f"{digest[:16]}-kubectl").write_bytes(CONTENT)
    fetch("kubectl", target, quiet)
    assert target.read_bytes() == CONTENT


def test_a_damaged_file_is_not_used(server, home, target):
    path = server.publish("kubectl")
    server.files[path] = CONTENT[:-1] + b"?"
    with pytest.raises(DownloadFailed, match="arrived damaged"):
        fetch("kubectl", target, quiet)
    assert not target.exists() and parts(home) == []


def test_a_damaged_beginning_is_fetched_again(server, home, target):
    server.publish("kubectl")
    digest = hashlib.sha256(CONTENT).hexdigest()
    (home / "cache" / "parts").mkdir(parents=True)
    (home / "cache" / "parts" / f"{digest[:16]}-kubectl").write_bytes(b"x" * 1000)
    fetch("kubectl", target, quiet)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("checksum", ["", "not a checksum", "<html>"])
def test_no_checksum_no_file(server, target, checksum):
    server.publish("kubectl", checksum=checksum)
    with pytest.raises(DownloadFailed, match="has no sha256 of kubectl"):
        fetch("kubectl", target, quiet)


def test_no_checksum_file_no_file(server, target):
    path = server.publish("kubectl")
    del server.files[f"{path}.sha256"]
    with pytest.raises(DownloadFailed, match="HTTP 404.*without a checksum is not used"):
        fetch("kubectl", target, quiet)
    assert path not in [asked for asked, _ in server.asked]


def test_a_pin_wins(server, target, monkeypatch):
    server.publish("kubectl")
    key = ("kubectl", pins.KUBERNETES, "linux-amd64")
    monkeypatch.setattr(pins, "DIGESTS", {key: "0" * 64})
    with pytest.raises(DownloadFailed, match=r"arrived damaged: .*, pinned is 000000000000"):
        fetch("kubectl", target, quiet)
    assert not target.exists()
    # It is enough: nobody is asked for a checksum.
    monkeypatch.setattr(pins, "DIGESTS", {key: hashlib.sha256(CONTENT).hexdigest()})
    server.asked.clear()
    fetch("kubectl", target, quiet)
    assert target.read_bytes() == CONTENT
    assert not any(path.endswith(".sha256") for path, _ in server.asked)


def test_a_pin_of_another_version_or_machine_does_not_count(server, target, monkeypatch):
    server.publish("kubectl")
    others = [("kubectl", "v1.0.0", "linux-amd64"), ("kubectl", pins.KUBERNETES, "linux-arm64")]
    monkeypatch.setattr(pins, "DIGESTS", dict.fromkeys(others, "0" * 64))
    fetch("kubectl", target, quiet)
    assert target.read_bytes() == CONTENT


def test_the_pins_are_of_the_versions_in_use():
    for (name, version, platform), digest in pins.DIGESTS.items():
        assert pins.VERSIONS[name] == version, "its digests go with the version"
        assert re.fullmatch("[0-9a-f]{64}", digest)
        assert release(name, *platform.split("-")) is not None


def test_a_mirror_over_plain_http_is_refused(home, target, monkeypatch):
    monkeypatch.setenv("PHASE4_MIRROR", "http://mirror.example")
    monkeypatch.setattr(pins, "DIGESTS", {})
    monkeypatch.setattr(urllib3, "PoolManager", lambda *_, **__: pytest.fail("it was asked"))
    with pytest.raises(DownloadFailed, match="^http://mirror.example is not https") as caught:
        fetch("kubectl", target, quiet)
    assert not caught.value.offline


def test_a_redirect_to_plain_http_is_not_followed(server, target):
    path = server.publish("kubectl")
    server.redirects[path] = "http://mirror.example/kubectl"
    with pytest.raises(DownloadFailed, match="^http://mirror.example is not https"):
        fetch("kubectl", target, quiet)


def test_redirects_are_followed(server, target):
    path = server.publish("kubectl")
    server.files["/elsewhere"] = server.files.pop(path)
    server.redirects[path] = "/elsewhere"
    fetch("kubectl", target, quiet)
    assert target.read_bytes() == CONTENT


def test_redirects_without_end(server, target):
    path = server.publish("kubectl")
    server.redirects[path] = path
    with pytest.raises(DownloadFailed, match="redirects without end"):
        fetch("kubectl", target, quiet)


def test_how_far_it_is(server, target):
    server.publish("kubectl")
    said: list[str] = []
    fetch("kubectl", target, said.append)
    assert said and said[0].startswith("downloading kubectl: ") and "of 2 MB" in said[0]


def test_a_full_disk_is_one_sentence(server, home, target):
    server.publish("kubectl")
    digest = hashlib.sha256(CONTENT).hexdigest()
    (home / "cache" / "parts").mkdir(parents=True)
    (home / "cache" / "parts" / f"{digest[:16]}-kubectl").symlink_to("/dev/full")
    with pytest.raises(EnvironmentProblem, match="^The disk that holds .* is full"):
        fetch("kubectl", target, quiet)


@pytest.mark.parametrize("mirror", ["https://no-such-host.invalid", "http://127.0.0.1:9"])
def test_no_network_is_known_in_seconds(home, target, monkeypatch, mirror):
    monkeypatch.setenv("PHASE4_MIRROR", mirror)
    begun = time.monotonic()
    with pytest.raises(DownloadFailed) as caught:
        fetch("etcd", target, quiet)
    assert caught.value.offline
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    ("name", "goos", "published"),
    [
        ("kube-apiserver", "linux", True),
        ("kube-apiserver", "darwin", False),
        ("kubectl", "darwin", True),
        ("etcd", "darwin", False),
        ("kwok", "darwin", True),
    ],
)
def test_what_is_published_where(name, goos, published):
    assert (release(name, goos, "arm64") is not None) == published


def test_the_ladder_downloads_everything(server, home, monkeypatch):
    monkeypatch.setenv("PHASE4_BINARIES", "download")
    for name in pins.VERSIONS:
        if name != "etcd":
            server.publish(name)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        info = tarfile.TarInfo(f"etcd-{pins.ETCD}-linux-amd64/etcd")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"e"))
    server.publish("etcd", packed.getvalue())
    found = binaries.ensure()
    assert found == {name: binaries.cached(name) for name in pins.VERSIONS}
    asked = len(server.asked)
    assert binaries.ensure() == found and len(server.asked) == asked
