"""The second source of binaries: the pinned release, downloaded and verified.

What is verified against: the digest in :data:`grader.cluster.pins.DIGESTS` where there
is one; otherwise the checksum that the project publishes next to the file. The second
protects against a broken or truncated file, not against whoever controls the place
that both come from; a pin does.

A file without any checksum is not used. An interrupted download resumes where it
stopped. ``PHASE4_MIRROR`` names a server that holds the same files below
``<mirror>/<host>/<path>``, for a classroom without internet access, and for tests. It has to
be reached by https, or be on this machine, for whatever is not pinned: over plain http
anybody on the way could change file and checksum together.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import tarfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import urllib3

from grader.cluster import dirs, pins
from grader.cluster.errors import EnvironmentProblem

Progress = Callable[[str], None]

#: How long to wait for a name, for a connection, and between two pieces of a file (s).
_NAME_TIMEOUT, _CONNECT_TIMEOUT, _READ_TIMEOUT = 3.0, 4.0, 30.0
_PIECE = 1 << 18


class DownloadFailed(EnvironmentProblem):
    """The download is unavailable; the sentence says why. ``offline``: no server answered."""

    def __init__(self, sentence: str, *, offline: bool = False) -> None:
        super().__init__(sentence)
        self.offline = offline


@dataclass(frozen=True)
class Release:
    """Where a binary's release is: ``member`` is its name within an archive, if it is one."""

    url: str
    checksum_url: str
    member: str = ""


def release(name: str, goos: str = "", goarch: str = "") -> Release | None:
    """The release of a pinned binary for a platform (this one's); None where none is published."""
    goos, goarch = goos or pins.goos(), goarch or pins.goarch()
    version = pins.VERSIONS[name]
    if name == "etcd":
        if goos != "linux":
            return None  # published as a zip without a mode; the build serves as well
        folder = f"https://github.com/etcd-io/etcd/releases/download/{version}"
        stem = f"etcd-{version}-{goos}-{goarch}"
        return Release(f"{folder}/{stem}.tar.gz", f"{folder}/SHA256SUMS", f"{stem}/etcd")
    if name == "kwok":
        project = "kubernetes-sigs/kwok"
        # No checksum file is published; GitHub computes a digest of every asset.
        return Release(
            f"https://github.com/{project}/releases/download/{version}/kwok-{goos}-{goarch}",
            f"https://api.github.com/repos/{project}/releases/tags/{version}",
        )
    if name != "kubectl" and goos != "linux":
        return None  # Kubernetes publishes its servers for Linux alone
    url = f"https://dl.k8s.io/release/{version}/bin/{goos}/{goarch}/{name}"
    return Release(url, f"{url}.sha256")


def fetch(name: str, target: Path, progress: Progress) -> None:
    """Download a binary, verify it and put it at ``target``, complete or not at all.

    Raises :class:`DownloadFailed`, or :class:`EnvironmentProblem` for a cache that
    cannot be written to.
    """
    found = release(name)
    if found is None:
        raise DownloadFailed(f"{name} is not published for {pins.goos()}-{pins.goarch()}")
    pinned = pins.digest(name)
    if not pinned:
        _private(_mirrored(found.url))
    _reachable(found.url)
    wanted = pinned or _published(found)
    parts = dirs.made(dirs.cache() / "parts")
    part = parts / f"{wanted[:16]}-{found.url.rpartition('/')[2]}"
    resumed = part.exists()
    _download(name, found.url, part, progress)
    if (seen := _sha256(part)) != wanted and resumed:
        # The partial file was of another download: start from the beginning.
        part.unlink()
        _download(name, found.url, part, progress)
        seen = _sha256(part)
    if seen != wanted:
        part.unlink()
        raise DownloadFailed(
            f"{found.url} arrived damaged: its sha256 is {seen[:12]}…, "
            f"{'pinned' if pinned else 'published'} is {wanted[:12]}…"
        )
    dirs.made(target.parent)
    with dirs.writing(target.parent):
        if found.member:
            _extract(part, found.member, target)
        else:
            os.chmod(part, 0o755)
            os.replace(part, target)
        part.unlink(missing_ok=True)


def _download(name: str, url: str, part: Path, progress: Progress) -> None:
    """Complete ``part``, resuming where an earlier attempt stopped."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    with _opened(url, headers) as response:
        if response.status == 416:
            return  # nothing is left to get: the checksum decides
        if response.status == 200:
            have = 0  # the server does not resume
        elif response.status != 206:
            raise DownloadFailed(f"{url} was answered with HTTP {response.status}")
        total = have + int(response.headers.get("Content-Length") or 0)
        with dirs.writing(part.parent), open(part, "ab" if have else "wb") as file:
            told = 0.0
            try:
                for piece in response.stream(_PIECE):
                    file.write(piece)
                    have += len(piece)
                    if time.monotonic() - told > 0.2:
                        told = time.monotonic()
                        of = f" of {total >> 20} MB ({100 * have // total} %)" if total else ""
                        progress(f"downloading {name}: {have >> 20}{of}")
            except (urllib3.exceptions.HTTPError, TimeoutError, ConnectionError) as error:
                raise DownloadFailed(
                    f"the connection to {urlsplit(url).hostname} broke after {have >> 20} MB of "
                    f"{name} ({type(error).__name__}); the next attempt resumes there"
                ) from error
        if total and have < total:
            raise DownloadFailed(
                f"the connection to {urlsplit(url).hostname} ended after {have >> 20} of "
                f"{total >> 20} MB of {name}; the next attempt resumes there"
            )


def _published(found: Release) -> str:
    """The sha256 that the project publishes for the file."""
    with _opened(found.checksum_url, {}) as response:
        if response.status != 200:
            raise DownloadFailed(
                f"{found.checksum_url} was answered with HTTP {response.status}, and a file "
                "without a checksum is not used"
            )
        text = response.read().decode(errors="replace")
    name = found.url.rpartition("/")[2]
    if found.checksum_url.startswith("https://api.github.com/"):
        digests = {
            asset.get("name"): asset.get("digest") or ""
            for asset in json.loads(text).get("assets", ())
        }
        checksum = digests.get(name, "").removeprefix("sha256:")
    elif len(words := text.split()) == 1:
        checksum = words[0]
    else:
        lines = [line.split() for line in text.splitlines()]
        checksum = next((a for a, *b in lines if b and b[-1].lstrip("*") == name), "")
    if not re.fullmatch(r"[0-9a-f]{64}", checksum):
        raise DownloadFailed(f"{found.checksum_url} has no sha256 of {name}")
    return checksum


@contextmanager
def _opened(url: str, headers: dict[str, str]) -> Iterator[urllib3.BaseHTTPResponse]:
    """A GET, redirects followed but never to plain http; the body is not read yet."""
    url = _mirrored(url)
    for _ in range(6):
        proxies = urllib.request.getproxies()
        proxy = proxies.get(urlsplit(url).scheme)
        if proxy and not urllib.request.proxy_bypass(urlsplit(url).hostname or ""):
            pool: urllib3.PoolManager = urllib3.ProxyManager(proxy)
        else:
            pool = urllib3.PoolManager()
        try:
            response = pool.request(
                "GET",
                url,
                headers={"User-Agent": "phase4", **headers},
                timeout=urllib3.Timeout(connect=_CONNECT_TIMEOUT, read=_READ_TIMEOUT),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            host = urlsplit(url).hostname
            raise DownloadFailed(f"{host} does not answer", offline=True) from error
        if response.status in (301, 302, 303, 307, 308):
            url = urljoin(url, response.headers["Location"])
            response.close()
            _private(url)
            continue
        try:
            yield response
        finally:
            response.close()
        return
    raise DownloadFailed(f"{url} redirects without end")


def _private(url: str) -> None:
    """Refuse a URL whose answer somebody on the way could change. Raises :class:`DownloadFailed`."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname in ("localhost", "127.0.0.1", "::1"):
        return
    raise DownloadFailed(
        f"{parts.scheme}://{parts.netloc} is not https, and is not trusted (PHASE4_MIRROR may "
        "name an https server, or one on this machine)"
    )


def _mirrored(url: str) -> str:
    mirror = os.environ.get("PHASE4_MIRROR", "").rstrip("/")
    return f"{mirror}/{url.removeprefix('https://')}" if mirror else url


def _reachable(url: str) -> None:
    """Give up in seconds where the name is not known: a resolver may take its time to say so."""
    url = _mirrored(url)
    if urllib.request.getproxies().get(urlsplit(url).scheme):
        return  # the proxy looks the name up
    host = urlsplit(url).hostname or ""
    answer: list[object] = []

    def look_up() -> None:
        try:
            answer.append(socket.getaddrinfo(host, 443))
        except OSError:
            answer.append(None)

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(_NAME_TIMEOUT)
    if not answer or answer[0] is None:
        raise DownloadFailed(
            f"the name {host} cannot be resolved (no network, or no DNS)",
            offline=True,
        )


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _extract(archive: Path, member: str, target: Path) -> None:
    """Take one file out of a .tar.gz, whole or not at all."""
    staged = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with tarfile.open(archive) as tar:
            try:
                source = tar.extractfile(member)
            except KeyError:
                source = None
            if source is None:
                raise DownloadFailed(f"{archive.name} holds no {member}")
            with source, open(staged, "wb") as file:
                while piece := source.read(_PIECE):
                    file.write(piece)
        os.chmod(staged, 0o755)
        os.replace(staged, target)
    finally:
        staged.unlink(missing_ok=True)
