"""Traces on the store and its indices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..objects import DeletedFinalStateUnknown, key_of, key_of_deleted, resource_version
from ..store import NAMESPACE_INDEX, Store, index_by_namespace
from .loop import Trace, calls


def by_label(label: str) -> Callable[[dict], list[str]]:
    """An index by a label's comma-separated values: none, one or several."""

    def index(obj: dict) -> list[str]:
        value = (obj["metadata"].get("labels") or {}).get(label)
        return [] if value is None else value.split(",")

    return index


def briefs(objects: Iterable[dict]) -> list[str]:
    return sorted(f"{key_of(obj)}@{resource_version(obj)}" for obj in objects)


def or_error(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (LookupError, ValueError):
        return "error"


def replay_store(trace: Trace) -> Iterator[Any]:
    store = Store({NAMESPACE_INDEX: index_by_namespace, "app": by_label("app")}, key_of_deleted)
    return calls(
        {
            "add": store.add,
            "update": store.update,
            "delete": store.delete,
            "delete_tombstone": lambda key, obj: store.delete(DeletedFinalStateUnknown(key, obj)),
            "replace": store.replace,
            "bookmark": store.bookmark,
            "get": store.get,
            "list": lambda: briefs(store.list()),
            "keys": lambda: sorted(store.keys()),
            "by_index": lambda *a: or_error(lambda: briefs(store.by_index(*a))),
            "keys_by_index": lambda *a: or_error(lambda: store.keys_by_index(*a)),
            "like": lambda *a: or_error(lambda: briefs(store.like(*a))),
            "index_values": lambda *a: sorted(store.index_values(*a)),
            "add_indexer": lambda label: or_error(
                lambda: store.add_indexers({label: by_label(label)})
            ),
            "version": lambda: store.last_resource_version,
        },
        trace,
    )
