"""What a record must not hold: the values of Secrets, and tokens that somebody could use.

Records are read by graders, put into recordings and shown on pages, for which names
and keys do. So a value is replaced before its line is written; the process and the
API server get what the other one sent. What is not about a credential is passed on
as it is, unparsed.
"""

from __future__ import annotations

import json
from typing import Any

from grader.wire.recorder import Raw

REDACTED = "redacted"

#: Resources, ``resource/subresource``, whose bodies hold a credential.
_RESOURCES = frozenset({"secrets", "serviceaccounts/token", "tokenreviews"})
#: A Secret's own fields, in whatever it is wrapped.
_MAPS = frozenset({"data", "stringData"})
_TOKENS = frozenset({"token", "kubectl.kubernetes.io/last-applied-configuration"})


def is_secret(resource: str, subresource: str = "") -> bool:
    """Whether what is said about a resource may hold a credential."""
    return (f"{resource}/{subresource}" if subresource else resource) in _RESOURCES


def body(raw: Raw) -> bytes:
    """A body about such a resource, as JSON on one line, without its values.

    Keys stay, and nulls: in a patch they say what is removed.
    """
    text = raw if isinstance(raw, bytes) else b"".join(raw)
    try:
        value = json.loads(text)
    except ValueError:
        value = ""
    # Text is what broke off, or was no JSON: there is no telling what it holds.
    value = REDACTED if isinstance(value, str) and value else redacted(value)
    return json.dumps(value, separators=(",", ":")).encode()


def redacted(value: Any) -> Any:
    """A copy of ``value`` (JSON) without the values of Secrets and without tokens."""
    if isinstance(value, list):
        return [redacted(item) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("op"), str) and isinstance(value.get("path"), str):
        return _operation(value)
    return {key: _field(key, item) for key, item in value.items()}


def _field(key: str, value: Any) -> Any:
    if key in _TOKENS and isinstance(value, str):
        return REDACTED
    return _emptied(value) if key in _MAPS else redacted(value)


def _operation(operation: dict[str, Any]) -> dict[str, Any]:
    """An operation of a JSON patch: its path says what its value is."""
    parts = [p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")]
    if "value" not in operation:
        return operation
    value = operation["value"]
    if not _MAPS.isdisjoint(parts):
        value = _emptied(value)
    else:
        value = _field(parts[-1], value)
    return {**operation, "value": value}


def _emptied(value: Any) -> Any:
    """The same keys, and nothing in them."""
    if isinstance(value, dict):
        return {key: _emptied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_emptied(item) for item in value]
    return None if value is None else REDACTED


def audit_event(event: dict[str, Any]) -> dict[str, Any]:
    """An audit event without credentials, whatever the cluster's policy has let into its log."""
    about = event.get("objectRef") or {}
    if not is_secret(about.get("resource") or "", about.get("subresource") or ""):
        return event
    bodies = ("requestObject", "responseObject")
    return {key: redacted(value) if key in bodies else value for key, value in event.items()}
