"""Headers, on their way through the wire.

The process's own credential headers never reach the API server, and what it
would send in protobuf or CBOR is asked for in JSON, so that the record can be
read. A request's body cannot be changed like that: a client that posts protobuf
is recorded with the answer's object, which is JSON.
"""

from __future__ import annotations

from collections.abc import Mapping

from multidict import CIMultiDict

#: Belong to one connection (RFC 9110, 7.6.1), or are decided by the wire.
_NOT_FORWARDED = frozenset(
    {
        "host",
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
        "content-length",
        "accept-encoding",
        "authorization",
        "audit-id",
    }
)
_NOT_RETURNED = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}
)
_BINARY = ("protobuf", "cbor")


def json_accept(accept: str) -> str:
    """``accept`` with JSON in place of protobuf and CBOR, parameters kept.

    >>> json_accept("application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1")
    'application/json;as=Table;g=meta.k8s.io;v=v1'
    """
    if not any(word in accept for word in _BINARY):
        return accept
    kept: list[str] = []
    for entry in accept.split(","):
        media, _, parameters = entry.strip().partition(";")
        if any(word in media for word in _BINARY):
            media = "application/json"
            # A watch names the encoding of what it streams beside that of the frames.
            wanted = [p for p in parameters.split(";") if p and "stream" not in p]
            parameters = ";".join(wanted)
        entry = f"{media};{parameters}" if parameters else media
        if entry not in kept:
            kept.append(entry)
    return ",".join(kept)


def forwarded(headers: Mapping[str, str], *, json_only: bool) -> CIMultiDict[str]:
    """The request's headers as the API server is to see them, without any credential."""
    result: CIMultiDict[str] = CIMultiDict()
    for key, value in headers.items():
        low = key.lower()
        if low in _NOT_FORWARDED or low.startswith(("impersonate-", "x-remote-")):
            continue
        if json_only and low == "accept":
            value = json_accept(value)
        result.add(key, value)
    # A compressed answer would have to be undone to be recorded, and costs more
    # on a loopback than it saves.
    result["Accept-Encoding"] = "identity"
    return result


def returned(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """The answer's headers as the process is to see them."""
    result: CIMultiDict[str] = CIMultiDict()
    for key, value in headers.items():
        if key.lower() not in _NOT_RETURNED:
            result.add(key, value)
    return result


def wants_upgrade(headers: Mapping[str, str]) -> bool:
    """Whether it asks for SPDY or a WebSocket: exec, attach, port-forward."""
    return "upgrade" in headers.get("Connection", "").lower() and bool(headers.get("Upgrade"))
