"""The API server's audit log (audit.k8s.io/v1) in the terms of the wire's records."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import unquote

from grader.wire.records import Exchange
from grader.wire.requests import parse, parse_query

USER_PREFIX = "phase4:"
_METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}


def timestamp(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time as the API server writes it (microseconds)."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def user_of(event: dict) -> str:
    """Whom the API server took the request for: the impersonated user where there is one."""
    for field in ("impersonatedUser", "user"):
        if found := (event.get(field) or {}).get("username"):
            return found
    return ""


def client_of(event: dict) -> str:
    """The name a query knows it by: a wire's client, else the user's name."""
    return user_of(event).removeprefix(USER_PREFIX)


def is_final(event: dict) -> bool:
    """Whether the event tells a request's answer (of a watch: that it has begun)."""
    stage = event.get("stage")
    return stage in ("ResponseComplete", "Panic") or (
        stage == "ResponseStarted" and event.get("verb") == "watch"
    )


def exchange(event: dict) -> Exchange:
    """The exchange that an audit event tells of, with ``source`` «audit».

    Bodies are there where the audit policy keeps them.
    """
    path, _, raw_query = event.get("requestURI", "").partition("?")
    query = parse_query(raw_query)
    verb = event.get("verb", "")
    method = _METHODS.get(verb, verb.upper())
    info = parse(method, path, query)
    ref: dict[str, Any] = event.get("objectRef") or {}
    status = (event.get("responseStatus") or {}).get("code")
    response = event.get("responseObject")
    requested = event.get("requestObject")
    name = info.name or ref.get("name") or ""
    for body in (response, requested):
        if not name and isinstance(body, dict) and body.get("kind") != "Status":
            name = (body.get("metadata") or {}).get("name") or ""
    return Exchange(
        seq=0,
        client=client_of(event),
        verb=verb if verb in _METHODS else "other",  # type: ignore[arg-type]
        method=method,
        path=unquote(path),
        query=query,
        group=info.group or ref.get("apiGroup") or "",
        version=info.version or ref.get("apiVersion") or "",
        resource=info.resource or ref.get("resource") or "",
        subresource=info.subresource or ref.get("subresource") or "",
        namespace=info.namespace or ref.get("namespace") or "",
        name=name,
        user_agent=event.get("userAgent") or "",
        content_type="",
        request_body=requested,
        status=status,
        response_body=response,
        t_request=timestamp(event["requestReceivedTimestamp"]),
        t_response=timestamp(event["stageTimestamp"]),
        audit_id=event.get("auditID") or "",
        server_status=status,
        source="audit",
        user=user_of(event),
    )
