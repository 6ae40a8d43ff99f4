"""The single fields of an object, each with the path to it.

Entries of a list are known by their uid, name or type, finalizers by themselves:
so two states of an object can be compared whatever the order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from grader.conformance.contract import KIND

#: The keys on the way to a field.
Leaf = tuple[str, ...]
#: What the API server itself keeps.
_SERVERS = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generateName",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_KEYS = ("uid", "name", "type")


def explains(body: Any, method: str, apply: bool, before: dict, after: dict) -> bool:
    """Whether a request with that body can have made any of the difference between two states.

    A patch that changes nothing is answered with the state that is there, which may
    be somebody else's of a moment before. What cannot be read explains everything.
    """
    if not isinstance(body, Mapping):
        return True
    old, new, sent = dict(leaves(before)), dict(leaves(after)), dict(leaves(body))
    changed = [path for path in new if path not in old or old[path] != new[path]]
    if any(path in sent for path in changed):
        return True
    removed = [path for path in old if path not in new]
    if method == "PUT" or not apply:
        # A list is replaced whole, and null takes a key away.
        return any(method == "PUT" or _mentions(body, path) for path in removed)
    entries = before["metadata"].get("managedFields") or ()
    applied = json.dumps([one for one in entries if one.get("operation") == "Apply"])
    return any(path[-1] in applied for path in removed)


def _mentions(body: Mapping, path: Leaf) -> bool:
    """Whether a merge patch names the path, or the list or map that it ends in."""
    there: Any = body
    for key in path:
        if not isinstance(there, Mapping):
            return True
        if key not in there:
            return False
        there = there[key]
    return True


def leaves(obj: Mapping[str, Any]) -> Iterator[tuple[Leaf, Any]]:
    for key, value in obj.get("metadata", {}).items():
        if key == "finalizers":
            yield from ((("metadata", key, one), one) for one in value or ())
        elif key == "ownerReferences":
            for one in value or ():
                kind = (KIND,) if one.get("kind") == KIND else ()
                yield ("metadata", key, one["uid"], *kind), one
        elif key not in _SERVERS:
            yield from _walk(("metadata", key), value)
    for part in ("spec", "status", "data", "binaryData"):
        if part in obj:
            yield from _walk((part,), obj[part])


def _walk(path: Leaf, value: Any) -> Iterator[tuple[Leaf, Any]]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _walk((*path, key), one)
    elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        key = next((k for k in _KEYS if all(k in one for one in value)), None)
        if key is None:
            yield path, value
        for one in value if key else ():
            yield from _walk((*path, str(one[key])), one)
    elif value not in (None, [], {}):
        yield path, value
