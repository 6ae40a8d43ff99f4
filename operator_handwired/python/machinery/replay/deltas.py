"""Traces on the queues between the reflector and the cache.

A ``pop`` says which deltas came out; its consumer keeps a store, which is what
the queue is given as ``known_objects`` (not in RealFIFO's atomic way, which
has none).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..deltas import Bookmark, Closed, Delta, DeltaType, ReplacedAll, SyncAll
from ..objects import DeletedFinalStateUnknown
from ..store import Store
from .loop import Trace, calls


def plain(value: Any) -> Any:
    """What a queue hands out, as JSON."""
    match value:
        case DeletedFinalStateUnknown(key, obj):
            return {"tombstone": key, "obj": obj}
        case ReplacedAll(objects, version):
            return {"objects": list(objects), "resource_version": version}
        case Bookmark(version):
            return {"resource_version": version}
        case SyncAll():
            return {}
    return value


def replay_deltas(trace: Trace, queue: Any, known: Store) -> Iterator[Any]:
    atomic = trace.get("atomic", False)
    closed = False

    def close() -> None:
        nonlocal closed
        closed = True
        queue.close()

    def pop() -> Any:
        outcome: Any = "closed"

        def process(deltas: list[Delta], in_initial_list: bool) -> None:
            nonlocal outcome
            outcome = {
                "deltas": [[delta.type.value, plain(delta.object)] for delta in deltas],
                "initial": in_initial_list,
                "synced_inside": queue.has_synced() if atomic else None,
            }
            for delta in deltas if not atomic else ():
                if delta.type is DeltaType.DELETED:
                    known.delete(delta.object)
                else:
                    known.add(delta.object)

        if len(queue) == 0 and not closed:
            return "blocked"
        try:
            queue.pop(process)
        except Closed:
            pass
        return outcome

    return calls(
        {
            "add": queue.add,
            "update": queue.update,
            "delete": queue.delete,
            "delete_tombstone": lambda key, obj: queue.delete(DeletedFinalStateUnknown(key, obj)),
            "replace": queue.replace,
            "resync": queue.resync,
            "bookmark": queue.bookmark,
            "has_synced": queue.has_synced,
            "close": close,
            "pop": pop,
        },
        trace,
    )
