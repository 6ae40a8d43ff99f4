"""Serving certificates: whether a client accepts one, by OpenSSL and not by its age; the kept one."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable
from pathlib import Path

from grader.cluster import dirs

#: The API server's serving certificate and its key, as it calls them.
PAIR = ("apiserver.crt", "apiserver.key")

#: How long (s) a certificate has to be valid yet: longer than a cluster runs.
_LASTING = 30 * 86400.0


def trouble(certificate: Path, key: Path, host: str) -> str:
    """Why a client that trusts this certificate would refuse its server at ``host``; "" if it would not.

    Also where the key is another's, either file is damaged, or less than thirty days are
    left. Raises FileNotFoundError where one is not there.
    """
    for path in (certificate, key):
        path.stat()
    try:
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(certificate, key)
        shown = _shake_hands(serving, trusting(certificate.read_text()), host)
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except (ssl.SSLError, ValueError) as error:
        return f"damaged, or of another key ({error})"
    if ssl.cert_time_to_seconds(shown["notAfter"]) < time.time() + _LASTING:
        return f"it ends on {shown['notAfter']}"
    return ""


def reuse(pki: Path) -> None:
    """Put the serving certificate of an earlier cluster into ``pki``: making a key takes time.

    Where there is none, or a client would refuse it, ``pki`` has none afterwards and the
    API server makes its own.
    """
    kept = dirs.state() / "pki"
    try:
        for name in PAIR:
            dirs.write_atomically(pki / name, (kept / name).read_bytes(), mode=0o600)
        # Checked where it is used: another command may be writing the kept one.
        wrong = trouble(*(pki / name for name in PAIR), "127.0.0.1")
    except FileNotFoundError:
        wrong = "not there"
    if wrong:
        for name in PAIR:
            (pki / name).unlink(missing_ok=True)


def keep(pki: Path) -> None:
    """Keep the serving certificate in ``pki`` for the next cluster."""
    kept = dirs.made(dirs.state() / "pki", private=True)
    for name in PAIR:
        data = (pki / name).read_bytes()
        if not (kept / name).exists() or (kept / name).read_bytes() != data:
            dirs.write_atomically(kept / name, data, mode=0o600)


class SharedContext(ssl.SSLContext):
    """A client's context for the connections of several threads.

    urllib3 sets the ALPN protocols for each connection that it opens. OpenSSL then frees
    the old list, while another thread may be making its connection out of the same
    context (Python holds no lock there): some bytes of something else go to the server,
    which answers «decode error». Here the same protocols are set once.
    """

    _protocols: list[str] | None = None

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Set them where they are not what they were."""
        wanted = list(alpn_protocols)
        if wanted != self._protocols:
            super().set_alpn_protocols(wanted)
            self._protocols = wanted


def shared(ca: str = "") -> SharedContext:
    """A context that trusts the certificates of ``ca`` (PEM) alone, or else the system's."""
    context = SharedContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca:
        context.load_verify_locations(cadata=ca)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    return context


def trusting(ca: str) -> SharedContext:
    """A client's context that trusts the certificates of ``ca`` (PEM) alone."""
    context = shared(ca)
    # Clusters with certificates of their own often leave out extensions that RFC 5280
    # asks for and Go does not miss.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    return context


def refusal(error: BaseException) -> str:
    """What was wrong with a server's certificate, where that is what ``error`` comes from; else ""."""
    reason = getattr(error, "reason", None) or error
    for one in (reason, *getattr(reason, "args", ())):
        if isinstance(one, ssl.SSLCertVerificationError):
            return one.verify_message
    return ""


def _shake_hands(serving: ssl.SSLContext, asking: ssl.SSLContext, host: str) -> dict:
    """The certificate that a client gets from a server, the two talking in memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(down, up, server_hostname=host)
    server = serving.wrap_bio(up, down, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue  # it is the other's turn
    return client.getpeercert() or {}
