"""What a request asks of the API server, read from its path as the API server reads it.

The rules are those of k8s.io/apiserver pkg/endpoints/request/requestinfo.go, so
that a verb here is the verb in the audit log and in RBAC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

#: In these, what follows a namespace's name is a subresource of the namespace.
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_FALSE = frozenset({"false", "0"})


@dataclass(frozen=True)
class RequestInfo:
    """A request's meaning. All but ``verb`` are empty for a path that is no resource."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    #: A watch that asks for what exists first (``sendInitialEvents``): client-go's
    #: way of listing since 1.35.
    watch_list: bool = False
    #: The path itself, for what is no resource: discovery, health.
    path: str = field(default="", compare=False, repr=False)

    @property
    def is_resource(self) -> bool:
        return bool(self.resource)


def parse_query(raw: str) -> dict[str, str]:
    """The query's parameters; of one that is repeated, the first, as the API server takes it."""
    query: dict[str, str] = {}
    for key, value in parse_qsl(raw, keep_blank_values=True):
        query.setdefault(key, value)
    return query


def _selected_name(field_selector: str) -> str:
    """``x`` for a field selector ``metadata.name=x``, as the API server does for RBAC."""
    for part in field_selector.split(","):
        key, equals, value = part.partition("=")
        if equals and key.strip() == "metadata.name":
            return value.lstrip("=").strip()
    return ""


def parse(method: str, path: str, query: dict[str, str]) -> RequestInfo:
    """What ``method path`` asks for.

    >>> parse("GET", "/apis/apps/v1/namespaces/a/deployments", {"watch": "true"})
    RequestInfo(verb='watch', group='apps', version='v1', resource='deployments', ...)
    """
    parts = [unquote(p) for p in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo("other", path=path)

    old_style_watch = rest[0] == "watch" and len(rest) > 1
    if old_style_watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name = rest[0], rest[1] if len(rest) > 1 else ""
    subresource = "/".join(rest[2:3])

    verb = _VERBS.get(method, "get" if method in ("GET", "HEAD") else "other")
    watch_list = False
    if verb == "get" and not subresource:
        watching = old_style_watch or ("watch" in query and query["watch"].lower() not in _FALSE)
        if watching or not name:
            verb = "watch" if watching else "list"
            name = name or _selected_name(query.get("fieldSelector", ""))
            sends = query.get("sendInitialEvents", "false").lower()
            watch_list = watching and sends not in _FALSE
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return RequestInfo(
        verb, group, version, resource, subresource, namespace, name, watch_list, path
    )
