"""The site's server: one small process, loopback only, nothing but files.

It listens on 127.0.0.1 alone, answers GET and HEAD alone, and only to a Host that
is this machine by name: a page on the web whose name was pointed at 127.0.0.1 gets
nothing. It starts nothing and writes nothing but the file that says its port.
"""

from __future__ import annotations

import errno
import http.server
import json
import os
import socket
import sys
import time
import urllib.parse
from http import HTTPStatus
from pathlib import Path

from grader.cluster import dirs
from grader.cluster.process import MARKER, Recorded, records
from grader.course import ROOT
from grader.site.build import SITE

KIND = "site"
FIRST_PORT = 8440
PORTS = 60


class ServeError(Exception):
    """The site cannot be served; the text says why."""


# -- the side of the command line -------------------------------------------


def _owner() -> str:
    return f"site/{ROOT}"


def _note() -> Path:
    """Where this clone's server says its port."""
    import hashlib

    return dirs.state() / f"site-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]}.json"


def running() -> tuple[Recorded, str] | None:
    """The server of this clone and its address, if it runs."""
    try:
        note = json.loads(_note().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    for record in records.live(kind=KIND, owner=_owner()):
        if record.id == note.get("record"):
            return record, f"http://127.0.0.1:{note['port']}"
    return None


def address() -> str | None:
    """Where the site is served now, or None."""
    found = running()
    return found[1] if found else None


def start(port: int | None = None, timeout: float = 10.0) -> str:
    """Serve the site (again running it is fine) and return its address.

    ``port`` is the first one tried; a taken one gives way to the next free one.
    :class:`ServeError` where the server does not come up within ``timeout`` seconds.
    """
    found = running()
    if found:
        return found[1]
    stop()  # a server whose note is gone, or that never came so far
    folder = dirs.made(dirs.state())
    with (folder / "site.log").open("wb") as log:
        record = records.start(
            [sys.executable, "-m", "grader.site.server", str(port or FIRST_PORT), str(_note())],
            name="site",
            kind=KIND,
            owner=_owner(),
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
    deadline = time.monotonic() + timeout
    # Nothing tells when a file appears on every platform that we run on: look often.
    while time.monotonic() < deadline and record.alive():
        found = running()
        if found:
            return found[1]
        time.sleep(0.02)
    stop()
    said = (folder / "site.log").read_text(encoding="utf-8", errors="replace").strip()
    raise ServeError(f"the site's server did not start: {said.splitlines()[-1] if said else '?'}")


def stop() -> bool:
    """End this clone's server; says whether one ran."""
    ended = records.reap(kind=KIND, owner=_owner())
    _note().unlink(missing_ok=True)
    return bool(ended)


# -- the server itself --------------------------------------------------------


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files below ``site/``; no listings, no other method, no other host."""

    server_version = "phase4"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    #: A reader that stops reading does not keep a thread for ever.
    timeout = 60

    def __init__(self, *arguments, **keywords) -> None:
        super().__init__(*arguments, directory=str(SITE), **keywords)

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        host = self.headers.get("Host", "")
        port = self.server.server_address[1]
        if host not in (f"127.0.0.1:{port}", f"localhost:{port}"):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "This server answers to localhost only")
            return False
        return True

    def send_head(self):
        # The page of a folder is its index.html; what starts with a dot is ours.
        parts = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).split("/")
        if any(part.startswith(".") for part in parts):
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def list_directory(self, path):
        self.send_error(HTTPStatus.NOT_FOUND)
        return None

    def send_error(self, code, message=None, explain=None) -> None:
        page = SITE / "404.html"
        if code == HTTPStatus.NOT_FOUND and page.is_file():
            body = page.read_bytes()
            self.send_response(code)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
            return
        super().send_error(code, message, explain)

    def end_headers(self) -> None:
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Frame-Options", "DENY")
        # A page that was rebuilt is seen at the next load.
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, *arguments) -> None:
        """Silent: nobody reads an access log of their own reading."""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    # On Linux this only allows a port whose last connections still linger; it
    # never shares one with a server that listens.
    allow_reuse_address = True


def bind(first: int) -> Server:
    """The first free port at or after ``first``."""
    for port in range(first, first + PORTS):
        if _answers(port):
            continue
        try:
            return Server(("127.0.0.1", port), Handler)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    raise ServeError(f"no free port between {first} and {first + PORTS - 1}")


def _answers(port: int) -> bool:
    """Whether something listens there already, on an address that would shadow ours or not."""
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main(first: int, note: Path) -> None:
    """Serve until ended; says its port in ``note`` once it listens."""
    with bind(first) as server:
        port = server.server_address[1]
        dirs.write_atomically(
            note, json.dumps({"port": port, "record": os.environ.get(MARKER, "")})
        )
        server.serve_forever()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), Path(sys.argv[2]))
    except (ServeError, OSError) as problem:
        sys.exit(str(problem))
