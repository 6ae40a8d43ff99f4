"""The site's server: one small process, loopback only: the pages, and the learner's reports.

It listens on 127.0.0.1 alone, and answers only to a Host that is this machine by name:
a page on the web whose name was pointed at 127.0.0.1 gets nothing, nor does a request
that a page of another origin makes. The learner's reports it gives to processes of the
same user alone (:mod:`grader.site.peers`). It answers GET and HEAD; the one POST, by
which a learner judges a sentence of theirs, has to say that it comes from a page of this
very server, and be of the same user. It starts nothing, and writes nothing but that
judgement and the file that says its port.

A page that it sends says in its head that it is served live; the page's script then
asks :mod:`grader.site.live` for the learner's verdicts. From any other server, or
from a file, the same page explains how to get them.
"""

from __future__ import annotations

import errno
import gzip
import http.server
import json
import os
import socket
import sys
import threading
import time
import urllib.parse
from http import HTTPStatus
from pathlib import Path
from typing import Any

from grader.cluster import dirs
from grader.cluster.process import MARKER, Recorded, records
from grader.course import ROOT
from grader.site.build import SITE

KIND = "site"
FIRST_PORT = 8440
PORTS = 60

#: What is sent as text, squeezed on the way.
TEXTS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".xml": "application/xml",
}
#: Tells the page's script that it can ask for the learner's verdicts.
LIVE = b'<meta name="phase4-live" content="1">'
#: Nothing from another host, whatever a page contains. The theme has small scripts
#: and styles in its pages; a learner's words only ever become text there.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'self'; "
    "form-action 'self'; object-src 'none'"
)


#: Bytes of what a page may send: the name of a check, a digest, and a few points.
LONGEST_POST = 4096


class ServeError(Exception):
    """The site cannot be served; the text says why."""


# -- the side of the command line -------------------------------------------


def _owner() -> str:
    return f"site/{ROOT}"


def _note() -> Path:
    """Where this clone's server says its port."""
    import hashlib

    return dirs.state() / f"site-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]}.json"


def _noted() -> dict[str, Any]:
    """What the server noted; empty where there is no note."""
    try:
        note = json.loads(_note().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _wanted() -> str:
    """Tells a server of this workspace and this version of the course from any other."""
    import hashlib

    from grader import workspace

    try:
        folder = str(workspace.find().root)
    except workspace.WorkspaceError:
        folder = ""
    code = [*sorted(Path(__file__).parent.glob("*.py")), ROOT / "grader" / "course.toml"]
    times = [path.stat().st_mtime_ns for path in code]
    return hashlib.sha256(f"{folder} {times}".encode()).hexdigest()[:16]


def running() -> tuple[Recorded, str] | None:
    """The server of this clone and its address, if it runs."""
    note = _noted()
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

    ``port`` is the first one tried; if it is taken, the next free one is used.
    :class:`ServeError` where the server does not come up within ``timeout`` seconds.
    """
    found, wanted = running(), _wanted()
    if found and _noted().get("wanted") == wanted:
        return found[1]
    if found and port is None:
        # Another workspace, or the course was updated: open pages find it where it was.
        port = _noted().get("port")
    stop()  # also one whose note is gone, or was never written
    folder = dirs.made(dirs.state())
    with (folder / "site.log").open("wb") as log:
        record = records.start(
            [
                *(sys.executable, "-E", "-X", "utf8", "-m", "grader.site.server"),
                *(str(port or FIRST_PORT), str(_note()), wanted),
            ],
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
    """Files below ``site/``; no listings, no other host, one POST and no other method."""

    server_version = "phase4"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    #: A reader that stops reading does not keep a thread for ever.
    timeout = 60
    #: The ETag of the answer in the making.
    _tag = ""
    #: Whether the other end is this user's; None until somebody asks.
    _ours: bool | None = None

    def __init__(self, *arguments, **keywords) -> None:
        super().__init__(*arguments, directory=str(SITE), **keywords)

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        host = self.headers.get("Host", "")
        port = self.server.server_address[1]
        if host not in (f"127.0.0.1:{port}", f"localhost:{port}"):
            self.send_error(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"This server answers to 127.0.0.1:{port} and localhost:{port} only",
                f"Open http://127.0.0.1:{port}. Through SSH, use the same port at your end: "
                f"ssh -L {port}:127.0.0.1:{port} HOST",
            )
            return False
        origin = self.headers.get("Origin")
        if (origin and origin != f"http://{host}") or (
            self.headers.get("Sec-Fetch-Site", "none") in ("cross-site", "same-site")
            # Following a link from elsewhere to a page is fine; reading one from a script is not.
            and self.headers.get("Sec-Fetch-Mode") != "navigate"
        ):
            self.send_error(HTTPStatus.FORBIDDEN, "Other sites may not read this one")
            return False
        return True

    def do_GET(self) -> None:
        from grader.site import live

        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        if path.startswith(live.PREFIX) and not self._is_ours():
            problem = {"problem": "What a learner has done is shown to their own user alone."}
            self._send(HTTPStatus.FORBIDDEN, json.dumps(problem).encode(), "application/json")
        elif path == live.PREFIX + "events":
            self._follow()
        elif path.startswith(live.PREFIX):
            try:
                status, data = HTTPStatus.OK, live.answer(path)
            except live.Refused as refusal:
                status, data = refusal.status, {"problem": str(refusal)}
            self._send(status, json.dumps(data).encode(), "application/json")
        else:
            super().do_GET()

    def do_POST(self) -> None:
        """The one thing that a page may send: see :func:`grader.site.live.assess`."""
        from grader.site import live

        # The unread rest of a body would be parsed as the next request.
        self.close_connection = True
        if self.path != live.PREFIX + "assess":
            self.send_error(HTTPStatus.NOT_IMPLEMENTED, "Unsupported method ('POST')")
            return
        try:
            body = self._posted()
            status, data = HTTPStatus.OK, live.assess(body)
        except live.Refused as refusal:
            status, data = refusal.status, {"problem": str(refusal)}
        self._send(status, json.dumps(data).encode(), "application/json")

    def _posted(self) -> bytes:
        """The body of a POST that a page of this server sent, for this user; else Refused.

        A browser names the page's origin with every POST. JSON is what no form of another
        page can send without asking first, and nobody answers who asks.
        """
        from grader.site.live import Refused

        if self.headers.get("Origin") != f"http://{self.headers.get('Host')}" or (
            self.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin"
        ):
            raise Refused(HTTPStatus.FORBIDDEN, "Only a page of this site may send this.")
        if not self._is_ours():
            raise Refused(HTTPStatus.FORBIDDEN, "Only the learner's own user may send this.")
        if self.headers.get_content_type() != "application/json":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "This is no JSON.")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            raise Refused(HTTPStatus.LENGTH_REQUIRED, "Content-Length is required.")
        if int(length) > LONGEST_POST:
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large.")
        return self.rfile.read(int(length))

    def _is_ours(self) -> bool:
        """Whether whoever asks is this user; looked up once on a connection."""
        if self._ours is None:
            from grader.site import peers

            self._ours = peers.is_ours(self.client_address, self.connection.getsockname())
        return self._ours

    def _follow(self) -> None:
        """Stream the learner's state as server-sent events until the page goes."""
        from grader.site import live

        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for text in live.changes(self.server.stopped):
                line = ": still here\n\n" if text is None else f"event: state\ndata: {text}\n\n"
                self.wfile.write(line.encode())
                self.wfile.flush()
        except OSError:
            pass  # the page was closed, which is how every stream ends

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        squeezed = "gzip" in self.headers.get("Accept-Encoding", "") and len(body) > 512
        if squeezed:
            body = gzip.compress(body, 6, mtime=0)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Vary", "Accept-Encoding")
        if squeezed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_head(self):
        # The page of a folder is its index.html; what starts with a dot is ours.
        parts = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).split("/")
        if any(part.startswith(".") for part in parts):
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        path = Path(self.translate_path(self.path))
        if not path.is_file() and path.suffix != ".html":
            # Pages are files (so that they work from a disk), links to them may be shorter.
            page = path.with_name(path.name + ".html")
            if page.is_file() and page != path:
                return self._elsewhere(page)
        if path.is_dir():
            path = path / "index.html"
        if path.suffix in TEXTS and path.is_file():
            self._text(path)
            return None
        return super().send_head()

    def _elsewhere(self, page: Path) -> None:
        self.send_response(HTTPStatus.MOVED_PERMANENTLY)
        self.send_header("Location", "/" + page.relative_to(SITE).as_posix())
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _text(self, path: Path) -> None:
        """Send a text file: not again where the reader has it, and smaller on the way."""
        stat = path.stat()
        tag = f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"'
        if self.headers.get("If-None-Match") == tag:
            self.send_response(HTTPStatus.NOT_MODIFIED)
            self.send_header("ETag", tag)
            self.end_headers()
            return
        body = path.read_bytes()
        if path.suffix == ".html":
            body = body.replace(b"</head>", LIVE + b"</head>", 1)
        self._tag = tag
        self._send(HTTPStatus.OK, body, TEXTS[path.suffix])

    def list_directory(self, path):
        self.send_error(HTTPStatus.NOT_FOUND)
        return None

    def send_error(self, code, message=None, explain=None) -> None:
        page = SITE / "404.html"
        if code == HTTPStatus.NOT_FOUND and page.is_file():
            body = page.read_bytes().replace(b"</head>", LIVE + b"</head>", 1)
            self._send(HTTPStatus.NOT_FOUND, body, TEXTS[".html"])
            return
        super().send_error(code, message, explain)

    def end_headers(self) -> None:
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", POLICY)
        # A page that was rebuilt is seen at the next load.
        self.send_header("Cache-Control", "no-cache")
        if self._tag:
            self.send_header("ETag", self._tag)
            self._tag = ""
        super().end_headers()

    def log_message(self, *arguments) -> None:
        """Silent: no access log is needed."""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *arguments, **keywords) -> None:
        #: Set when the server ends, so that streams stop.
        self.stopped = threading.Event()
        super().__init__(*arguments, **keywords)

    def server_close(self) -> None:
        self.stopped.set()
        super().server_close()

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


def main(first: int, note: Path, wanted: str) -> None:
    """Serve until ended; says its port in ``note`` once it listens."""
    with bind(first) as server:
        port = server.server_address[1]
        dirs.write_atomically(
            note,
            json.dumps({"port": port, "record": os.environ.get(MARKER, ""), "wanted": wanted}),
        )
        server.serve_forever()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    except (ServeError, OSError) as problem:
        sys.exit(str(problem))
