"""Headers, on their way through the wire.

The process's own credential headers never reach the API server, and what it
would send in protobuf or CBOR is asked for in JSON, so that the record can be
read. A request's body cannot be changed like that: a client that posts protobuf
is recorded with the answer's object, which is JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
    {
        "connection",
        "keep-alive",
        "proxy-connection",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "date",
        "server",
    }
)
_BINARY = ("protobuf", "cbor")
#: What exec, attach, cp and port-forward speak: kubectl's two protocols.
_STREAMS = frozenset({"websocket", "spdy"})


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
    of_connection = frozenset(_tokens(headers, "Connection"))
    for key, value in headers.items():
        low = key.lower()
        if low in _NOT_FORWARDED or low in of_connection:
            continue
        if low.startswith(("impersonate-", "x-remote-")):
            continue
        if json_only and low == "accept":
            value = json_accept(value)
        result.add(key, value)
    # A compressed answer would have to be undone to be recorded, and costs more
    # on a loopback than it saves.
    result["Accept-Encoding"] = "identity"
    return result


def returned(headers: Mapping[str, str], prefix: str = "") -> CIMultiDict[str]:
    """The answer's headers as the process is to see them.

    ``prefix`` is the path under which it reaches the API server: where it is sent
    to another path of the same server, that is under it as well.
    """
    result: CIMultiDict[str] = CIMultiDict()
    left_out = _NOT_RETURNED.union(_tokens(headers, "Connection"))
    for key, value in headers.items():
        if key.lower() in left_out:
            continue
        if key.lower() == "location" and value.startswith("/") and not value.startswith("//"):
            value = prefix + value
        result.add(key, value)
    return result


def wants_stream(headers: Mapping[str, str]) -> bool:
    """Whether it asks for SPDY or a WebSocket: exec, attach, port-forward.

    Any other upgrade is an offer that a server may leave alone (RFC 9110, 7.8):
    Java's HttpClient and ``curl --http2`` offer h2c with each first request.
    """
    offered = {protocol.partition("/")[0] for protocol in _tokens(headers, "Upgrade")}
    return "upgrade" in _tokens(headers, "Connection") and not offered.isdisjoint(_STREAMS)


def wants_continue(headers: Mapping[str, str]) -> bool:
    """Whether the process waits to be told that it may send the body."""
    return "100-continue" in _tokens(headers, "Expect")


def _tokens(headers: Mapping[str, str], name: str) -> Iterator[str]:
    """The members of a comma list, of all the lines of that name, in small letters."""
    lines = headers.getall(name, ()) if hasattr(headers, "getall") else (headers.get(name, ""),)
    for line in lines:
        for member in line.split(","):
            if token := member.strip().lower():
                yield token
