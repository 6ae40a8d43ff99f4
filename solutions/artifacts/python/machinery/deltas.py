"""The vocabulary of the queues between the reflector and the cache.

Upstream: client-go v0.37.2, tools/cache/delta_fifo.go — ``DeltaType`` (179),
``Delta`` (216), ``Deltas`` (223); tools/cache/the_real_fifo.go —
``ReplacedAllInfo`` (163), ``BookmarkInfo`` (172), ``SyncAllInfo`` (179).

Concurrency: immutable values.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .objects import DeletedFinalStateUnknown, Object


class DeltaType(enum.StrEnum):
    """What happened to an object, or to all of them."""

    ADDED = "Added"
    UPDATED = "Updated"
    DELETED = "Deleted"
    #: It was in a list: nobody knows whether, or how, it changed.
    REPLACED = "Replaced"
    #: A whole list as one delta (:class:`ReplacedAll`).
    REPLACED_ALL = "ReplacedAll"
    #: Nothing happened: a periodic resync tells the handlers again.
    SYNC = "Sync"
    #: A resync of everything, as one delta.
    SYNC_ALL = "SyncAll"
    #: Nothing happened up to this resourceVersion (:class:`Bookmark`).
    BOOKMARK = "Bookmark"


@dataclass(frozen=True)
class ReplacedAll:
    """A list as it came: its objects and its resourceVersion."""

    objects: tuple[Object, ...]
    resource_version: str


@dataclass(frozen=True)
class Bookmark:
    resource_version: str


@dataclass(frozen=True)
class SyncAll:
    pass


@dataclass(frozen=True)
class Delta:
    """One thing that happened.

    ``object`` is the state after it; for DELETED the last state, or a
    tombstone; for the deltas about everything, their own value above.
    """

    type: DeltaType
    object: Object | DeletedFinalStateUnknown | ReplacedAll | Bookmark | SyncAll


#: Processes what was popped. The flag says whether it belongs to the first list.
PopProcess = Callable[[list[Delta], bool], None]


class Closed(Exception):
    """Raised by ``pop``: the queue is empty and closed (upstream: ErrFIFOClosed)."""


class KnownObjects(Protocol):
    """What the consumer of a queue has in its cache: keys, and objects by key."""

    def keys(self) -> list[str]: ...

    def get(self, key: str) -> Any | None: ...


class DeltaQueue(Protocol):
    """What a reflector fills and an informer empties."""

    def add(self, obj: Object) -> None: ...

    def update(self, obj: Object) -> None: ...

    def delete(self, obj: Object) -> None: ...

    def replace(self, objs: list[Object], resource_version: str) -> None: ...

    def resync(self) -> None: ...

    def bookmark(self, resource_version: str) -> None: ...

    def pop(self, process: PopProcess) -> list[Delta]: ...

    def has_synced(self) -> bool: ...

    def close(self) -> None: ...
