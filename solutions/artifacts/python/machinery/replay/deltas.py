"""Traces on the queues between the reflector and the cache.

A ``pop`` says which deltas came out; its consumer keeps a store, which is what
the queue is given as ``known_objects`` (not in RealFIFO's atomic way, which
has none).
"""

from __future__ import annotations

import threading
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

    def pop_while_adding(obj: dict) -> Any:
        """Pop; while that is processed, another thread adds: is it let in before the end?"""
        if len(queue) == 0:
            return "blocked"
        thread = threading.Thread(target=queue.add, args=(obj,), daemon=True)
        let_in = False

        def process(deltas: list[Delta], in_initial_list: bool) -> None:
            nonlocal let_in
            thread.start()
            thread.join(0.1)
            let_in = not thread.is_alive()

        queue.pop(process)
        thread.join(5)
        return {"let_in": let_in}

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
            "pop_while_adding": pop_while_adding,
            "len": lambda: len(queue),
        },
        trace,
    )
