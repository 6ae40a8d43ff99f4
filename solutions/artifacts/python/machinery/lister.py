"""Reading the cache by namespace and labels.

Upstream: client-go v0.37.2, tools/cache/listers.go — ``ListAll`` (34),
``ListAllByNamespace`` (61), ``genericLister`` (135).

Concurrency: any thread. Objects are shared: read only.
"""

from __future__ import annotations

from collections.abc import Mapping

from .objects import Object
from .store import NAMESPACE_INDEX, Store


class Lister:
    """What a controller reads instead of asking the API server."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, name: str, namespace: str = "") -> Object | None:
        """The object as the cache has it, or None: not there, or not heard of yet."""
        return self._store.get(f"{namespace}/{name}" if namespace else name)

    def list(self, namespace: str = "", labels: Mapping[str, str] | None = None) -> list[Object]:
        """Objects of one namespace (empty: of all) that carry all of ``labels``."""
        if namespace:
            objects = self._store.by_index(NAMESPACE_INDEX, namespace)
        else:
            objects = self._store.list()
        return [obj for obj in objects if has_labels(obj, labels or {})]


def has_labels(obj: Object, labels: Mapping[str, str]) -> bool:
    """Whether the object carries each of these labels with this value."""
    carried = obj["metadata"].get("labels") or {}
    return all(carried.get(name) == value for name, value in labels.items())
