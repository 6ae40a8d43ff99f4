"""Small questions about Kubernetes objects as plain dicts. None of them raises for a missing field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Key(NamedTuple):
    """Where an object lives. ``resource`` is the plural, ``namespace`` "" for cluster-wide kinds."""

    group: str
    resource: str
    namespace: str
    name: str


def metadata(obj: Any) -> dict:
    """``metadata``, or an empty dict."""
    found = obj.get("metadata") if isinstance(obj, dict) else None
    return found if isinstance(found, dict) else {}


def uid(obj: Any) -> str:
    return metadata(obj).get("uid") or ""


def name(obj: Any) -> str:
    return metadata(obj).get("name") or ""


def namespace(obj: Any) -> str:
    return metadata(obj).get("namespace") or ""


def generation(obj: Any) -> int:
    """``metadata.generation``; 0 for kinds that have none."""
    return metadata(obj).get("generation") or 0


def resource_version(obj: Any) -> int:
    """``metadata.resourceVersion`` as a number, 0 where there is none.

    All of one etcd's objects count with the same revision, so on the embedded
    cluster these numbers order writes across kinds as well.
    """
    value = metadata(obj).get("resourceVersion") or "0"
    return int(value) if str(value).isdigit() else 0


def being_deleted(obj: Any) -> bool:
    return bool(metadata(obj).get("deletionTimestamp"))


def owner_uids(obj: Any) -> frozenset[str]:
    """The UIDs of all its owner references."""
    return frozenset(
        ref.get("uid", "") for ref in metadata(obj).get("ownerReferences") or () if ref.get("uid")
    )


def controller_uid(obj: Any) -> str:
    """The UID of the owner that is its controller, "" where it has none."""
    for ref in metadata(obj).get("ownerReferences") or ():
        if ref.get("controller"):
            return ref.get("uid") or ""
    return ""


def is_object(body: Any) -> bool:
    """Whether a body is one object, rather than a list, a table or a Status."""
    return (
        isinstance(body, dict)
        and body.get("kind") not in ("Status", "Table")
        and isinstance(body.get("metadata"), dict)
        and "items" not in body
    )


def items(body: Any) -> Iterable[dict]:
    """The objects of a list; nothing for anything else."""
    found = body.get("items") if isinstance(body, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
