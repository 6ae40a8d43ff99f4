"""What the machinery knows of an API object: its key, its version, and how it can be lost.

Upstream: client-go v0.37.2, tools/cache/store.go — ``MetaNamespaceKeyFunc``
(154), ``SplitMetaNamespaceKey`` (188), ``KeyError`` (125);
tools/cache/delta_fifo.go — ``DeletedFinalStateUnknown`` (797);
tools/cache/controller.go — ``DeletionHandlingMetaNamespaceKeyFunc``.

An object is what the API server's JSON says, as a dict. Nobody changes one
that came out of a store or a handler: every reader of the cache shares it.

Concurrency: pure functions and immutable values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: One API object, as decoded from JSON. Shared by all readers: never changed in place.
Object = dict[str, Any]


class KeyError_(Exception):
    """No key can be made of this object: it has no ``metadata``."""

    def __init__(self, obj: object) -> None:
        super().__init__(f"the object has no metadata, so it has no key: {obj!r:.200}")


@dataclass(frozen=True)
class DeletedFinalStateUnknown:
    """A tombstone: the object is gone, and nobody saw it go.

    A relist did not have it any more, so a DELETED event was missed. ``obj``
    is the last state that was seen, which may be older than the final one
    (None where even that is unknown). ``key`` is always right.
    """

    key: str
    obj: Object | None


KeyFunc = Callable[[Any], str]


def key_of(obj: Object) -> str:
    """``namespace/name``, or ``name`` for a cluster-scoped object."""
    try:
        metadata = obj["metadata"]
        name = metadata.get("name", "")
        namespace = metadata.get("namespace")
    except (TypeError, KeyError, AttributeError):
        raise KeyError_(obj) from None
    return f"{namespace}/{name}" if namespace else name


def key_of_deleted(obj: Object | DeletedFinalStateUnknown) -> str:
    """As :func:`key_of`, for what a delete handler is given: an object or a tombstone."""
    if isinstance(obj, DeletedFinalStateUnknown):
        return obj.key
    return key_of(obj)


def split_key(key: str) -> tuple[str, str]:
    """``(namespace, name)`` of a key; the namespace is empty for cluster-scoped ones.

    Raises ValueError for more than one slash.
    """
    namespace, slash, name = key.partition("/")
    if not slash:
        return "", key
    if "/" in name:
        raise ValueError(f"a key is namespace/name or name, and this is neither: {key!r}")
    return namespace, name


def resource_version(obj: Object) -> str:
    """The object's resourceVersion, or the empty string. Opaque: compare for equality only."""
    return (obj.get("metadata") or {}).get("resourceVersion") or ""


def uid(obj: Object) -> str:
    """The object's UID, or the empty string: what tells a re-created object from the old one."""
    return (obj.get("metadata") or {}).get("uid") or ""


def last_known_state(obj: Object | DeletedFinalStateUnknown) -> Object | None:
    """What a delete handler works on: the object itself, or a tombstone's last state."""
    return obj.obj if isinstance(obj, DeletedFinalStateUnknown) else obj
