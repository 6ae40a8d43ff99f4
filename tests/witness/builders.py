"""Records made by hand: small worlds for the queries to be tried on."""

from __future__ import annotations

import itertools
from typing import Any

from grader.wire.records import Exchange, Mark, WatchEnd, WatchEvent
from grader.wire.requests import parse, parse_query

_seq = itertools.count(1)
METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}


def obj(name: str, rv: int, *, uid: str = "", owner: str = "", **metadata: Any) -> dict:
    """A pod in the namespace ``a``."""
    meta = {
        "name": name,
        "namespace": "a",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(rv),
        **metadata,
    }
    if owner:
        meta["ownerReferences"] = [{"uid": owner, "controller": True}]
    return {"kind": "Pod", "metadata": meta}


def exchange(
    verb: str,
    target: str = "/api/v1/namespaces/a/pods",
    *,
    t: float,
    took: float = 0.01,
    client: str = "op",
    status: int | None = 200,
    request: Any = None,
    answer: Any = None,
    **more: Any,
) -> Exchange:
    """An exchange whose meaning is read from its path."""
    path, _, raw = target.partition("?")
    query = parse_query(raw)
    info = parse(METHODS[verb], path, query)
    fields: dict[str, Any] = {
        "seq": next(_seq),
        "client": client,
        "verb": verb,
        "method": METHODS[verb],
        "path": path,
        "query": query,
        "group": info.group,
        "version": info.version,
        "resource": info.resource,
        "subresource": info.subresource,
        "namespace": info.namespace,
        "name": info.name or _name(answer) or _name(request),
        "user_agent": "",
        "content_type": "application/json",
        "request_body": request,
        "status": status,
        "response_body": answer,
        "t_request": t,
        "t_response": None if status is None else t + took,
        "server_status": status,
        "user": f"phase4:{client}",
    }
    fields["audit_id"] = more.pop("audit_id", f"audit-{fields['seq']}")
    return Exchange(**{**fields, **more})


def _name(body: Any) -> str:
    return ((body or {}).get("metadata") or {}).get("name", "")


def event(
    watch: Exchange, type: str, body: dict, *, t: float, late: float = 0.0, fate: str = "delivered"
) -> WatchEvent:
    return WatchEvent(
        seq=next(_seq),
        watch=watch.seq,
        client=watch.client,
        type=type,
        object=body,
        t_received=t,
        t_delivered=t + late if fate == "delivered" else None,
        fate=fate,  # type: ignore[arg-type]
    )


def listing(rv: int, *items: dict) -> dict:
    return {"kind": "PodList", "metadata": {"resourceVersion": str(rv)}, "items": list(items)}


def mark(what: str, t: float, client: str = "op", **data: Any) -> Mark:
    return Mark(next(_seq), client, what, t, data)


def watch_end(watch: Exchange, by: str, t: float) -> WatchEnd:
    return WatchEnd(next(_seq), watch.seq, watch.client, by, t)  # type: ignore[arg-type]


def audit_event(
    verb: str, uri: str, *, at: str, user: str, code: int = 200, id: str = "x", **more: Any
) -> dict:
    return {
        "kind": "Event",
        "auditID": id,
        "stage": "ResponseComplete",
        "requestURI": uri,
        "verb": verb,
        "user": {"username": user},
        "requestReceivedTimestamp": at,
        "stageTimestamp": at,
        "responseStatus": {"code": code},
        **more,
    }
