"""The cache: objects by key, and by whatever else is looked up often.

Upstream: client-go v0.37.2, tools/cache/thread_safe_store.go — ``storeIndex``
(94), ``updateSingleIndex`` (174), ``threadSafeMap`` (256); tools/cache/store.go
— ``cache`` (204); tools/cache/index.go — ``Indexers``, ``MetaNamespaceIndexFunc``.

An index is a function from an object to the values it is found under, and a
map from each value to the keys that have it. It is updated in the same step as
the object, under the same lock, so that nobody ever sees one without the other.

Concurrency: one lock around everything; each method is one step to every
other thread. What comes out is the object itself, not a copy: read only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from .objects import KeyFunc, Object, key_of_deleted, resource_version

IndexFunc = Callable[[Object], list[str]]

#: The name of the index that :func:`index_by_namespace` is usually kept under.
NAMESPACE_INDEX = "namespace"


def index_by_namespace(obj: Object) -> list[str]:
    """The value of :data:`NAMESPACE_INDEX`: one namespace, empty if cluster-scoped."""
    return [(obj["metadata"]).get("namespace") or ""]


class Store:
    """Objects by key, with indices. Also what client-go calls an Indexer."""

    def __init__(
        self,
        indexers: Mapping[str, IndexFunc] | None = None,
        key_func: KeyFunc = key_of_deleted,
    ) -> None:
        self._lock = threading.Lock()
        self._key_of = key_func
        self._items: dict[str, Object] = {}
        self._indexers: dict[str, IndexFunc] = dict(indexers or {})
        #: Index name → indexed value → keys. A value without keys is not kept.
        self._indices: dict[str, dict[str, set[str]]] = {name: {} for name in self._indexers}
        self._resource_version = ""

    # Writing: by the informer alone.

    def add(self, obj: Object) -> None:
        """Store ``obj`` under its key, in place of what was there."""
        key = self._key_of(obj)
        with self._lock:
            self._update_indices(key, self._items.get(key), obj)
            self._items[key] = obj
            self._resource_version = resource_version(obj)

    update = add

    def delete(self, obj) -> None:
        """Remove what is stored under the key of ``obj`` (an object or a tombstone)."""
        key = self._key_of(obj)
        with self._lock:
            old = self._items.pop(key, None)
            if old is not None:
                self._update_indices(key, old, None)
            if isinstance(obj, dict):
                self._resource_version = resource_version(obj)

    def replace(self, objs: Iterable[Object], resource_version: str = "") -> None:
        """Make ``objs`` the whole content: readers see all of the old or all of the new.

        The new maps are built before the lock is taken, so that readers do not
        wait for ten thousand objects to be indexed.
        """
        items = {self._key_of(obj): obj for obj in objs}
        with self._lock:
            indexers = dict(self._indexers)
        indices = _build_indices(indexers, items)
        with self._lock:
            if self._indexers.keys() != indexers.keys():
                # Somebody added an index meanwhile: build again, this time under the lock.
                indices = _build_indices(self._indexers, items)
            self._items = items
            self._indices = indices
            self._resource_version = resource_version

    def bookmark(self, resource_version: str) -> None:
        """Nothing changed up to this version (a BOOKMARK event)."""
        with self._lock:
            self._resource_version = resource_version

    def resync(self) -> None:
        """Nothing: a store has no consumer to tell (``cache.Resync`` (tools/cache/store.go:390))."""

    def add_indexers(self, indexers: Mapping[str, IndexFunc]) -> None:
        """Add indices, over what is stored already too. ValueError for a name in use."""
        with self._lock:
            taken = sorted(self._indexers.keys() & indexers.keys())
            if taken:
                raise ValueError(f"there is an index of this name already: {', '.join(taken)}")
            self._indexers.update(indexers)
            self._indices.update(_build_indices(indexers, self._items))

    # Reading.

    def get(self, key: str) -> Object | None:
        """The object under ``key``, or None."""
        with self._lock:
            return self._items.get(key)

    def list(self) -> list[Object]:
        with self._lock:
            return list(self._items.values())

    def keys(self) -> list[str]:
        with self._lock:
            return list(self._items)

    def __len__(self) -> int:
        with self._lock:
            return len(self._items)

    def by_index(self, name: str, value: str) -> list[Object]:
        """The objects that the index has under ``value``. LookupError: no such index."""
        with self._lock:
            return [self._items[key] for key in self._index(name).get(value, ())]

    def keys_by_index(self, name: str, value: str) -> list[str]:
        """The keys of :meth:`by_index`, sorted."""
        with self._lock:
            return sorted(self._index(name).get(value, ()))

    def like(self, name: str, obj: Object) -> list[Object]:
        """The objects that share an indexed value with ``obj`` (upstream: ``Index``)."""
        with self._lock:
            index = self._index(name)
            keys = {key for value in self._indexers[name](obj) for key in index.get(value, ())}
            return [self._items[key] for key in keys]

    def index_values(self, name: str) -> list[str]:
        """Every value that the index has a key under."""
        with self._lock:
            return list(self._index(name))

    @property
    def last_resource_version(self) -> str:
        """The version up to which the content is complete, as far as was seen."""
        with self._lock:
            return self._resource_version

    # The indices; the lock is held.

    def _index(self, name: str) -> dict[str, set[str]]:
        try:
            return self._indices[name]
        except KeyError:
            raise LookupError(f"there is no index {name!r}") from None

    def _update_indices(self, key: str, old: Object | None, new: Object | None) -> None:
        for name, index_func in self._indexers.items():
            old_values = index_func(old) if old is not None else []
            new_values = index_func(new) if new is not None else []
            if old_values == new_values:
                continue
            index = self._indices[name]
            for value in old_values:
                keys = index.get(value)
                if keys is not None:
                    keys.discard(key)
                    if not keys:
                        # Kept, empty sets would grow with every value ever seen.
                        del index[value]
            for value in new_values:
                index.setdefault(value, set()).add(key)


def _build_indices(
    indexers: Mapping[str, IndexFunc], items: Mapping[str, Object]
) -> dict[str, dict[str, set[str]]]:
    indices: dict[str, dict[str, set[str]]] = {}
    for name, index_func in indexers.items():
        index: dict[str, set[str]] = {}
        for key, obj in items.items():
            for value in index_func(obj):
                index.setdefault(value, set()).add(key)
        indices[name] = index
    return indices
