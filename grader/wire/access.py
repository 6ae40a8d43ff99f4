"""Who may speak through a wire: the program that was given its kubeconfig, and nobody else.

A port on 127.0.0.1 is open to every user of the machine, and to every page that a
browser on it shows; what comes through a wire has the rights that the wire gives.
So the server's address in the kubeconfig begins its path with a secret,
``http://127.0.0.1:PORT/SECRET``: every Kubernetes client keeps that prefix, while
client-go sends a bearer token over TLS only (clientcmd reads no user for plain
HTTP). The secret is compared in constant time and removed from the path before anything
is recorded or forwarded.

A page whose name resolves to 127.0.0.1 is recognised by its Host header, a page of
another origin by the headers that browsers add. The unix socket needs none of this: its
folder and its mode admit only the same user.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

from aiohttp import web

#: 128 bits, in letters that no client encodes.
_SECRET_BYTES = 16


class Refused(Exception):
    """A request that is refused, with the Status's code and reason; the text is its message."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


@dataclass(frozen=True)
class Admitted:
    """``target`` is path and query as the API server is to see them, ``prefix`` what stood before."""

    target: str
    prefix: str


class Access:
    """The lock of one wire's TCP port; ``port`` is set once it listens."""

    def __init__(self) -> None:
        self._secret = secrets.token_hex(_SECRET_BYTES)
        self.port = 0

    @property
    def prefix(self) -> str:
        """What the path of each request begins with."""
        return f"/{self._secret}"

    def admit(self, request: web.BaseRequest) -> Admitted:
        """What a request asks for; raises :class:`Refused` for a sender that is not admitted."""
        if not request.raw_path.startswith("/"):
            raise Refused(
                400, "BadRequest", "A wire serves paths: a request line like «GET /api/v1/pods»."
            )
        target = self._without_secret(request.raw_path)
        if not _is_tcp(request):
            return Admitted(request.raw_path, "") if target is None else target
        self._check_host(request)
        if target is None:
            raise Refused(
                401,
                "Unauthorized",
                "This wire serves the program that it was opened for. Take the server's address "
                "from the kubeconfig in KUBECONFIG as a whole: its path is part of it.",
            )
        return target

    def _check_host(self, request: web.BaseRequest) -> None:
        hosts = [host.lower() for host in request.headers.getall("Host", ())]
        names = [f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]")]
        if len(hosts) != 1 or hosts[0] not in names:
            raise Refused(
                421,
                "MisdirectedRequest",
                f"This wire answers to 127.0.0.1:{self.port} and localhost:{self.port} only, "
                "by these names.",
            )
        origin = request.headers.get("Origin", f"http://{hosts[0]}")
        site = request.headers.get("Sec-Fetch-Site", "none")
        if origin != f"http://{hosts[0]}" or site not in ("none", "same-origin"):
            raise Refused(
                403, "Forbidden", "A page in a browser may neither read nor write through a wire."
            )

    def _without_secret(self, raw_path: str) -> Admitted | None:
        path, question, query = raw_path.partition("?")
        first, _, rest = path[1:].partition("/")
        given = first.encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._secret.encode()):
            return None
        return Admitted(f"/{rest}{question}{query}", self.prefix)


def _is_tcp(request: web.BaseRequest) -> bool:
    # A process that has gone has no transport; what it asked for is not forwarded anyway.
    name = request.transport.get_extra_info("sockname") if request.transport else ("", 0)
    return isinstance(name, tuple)
