"""Traces on the queues between the reflector and the cache.

A ``pop`` says which deltas came out; its consumer keeps a store, which is what
the queue is given as ``known_objects`` (not in RealFIFO's atomic way, which
has none). ``["waiter"]`` has a thread of its own wait in ``pop``, and ``["told"]`` says
what came out since, ``"nothing"`` where nobody woke it. ``["know", OBJECT]`` puts an
object into that store, as if it had been there before the queue.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from ..deltas import Bookmark, Closed, Delta, DeltaType, ReplacedAll, SyncAll
from ..objects import DeletedFinalStateUnknown
from ..store import Store
from .loop import Trace, calls
from .waiting import Waiter, until_all_wait


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

    def take() -> Any:
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

        try:
            queue.pop(process)
        except Closed:
            pass
        return outcome

    def pop() -> Any:
        return "blocked" if len(queue) == 0 and not closed else take()

    waiter: Waiter | None = None

    def wait() -> None:
        nonlocal waiter
        waiter = Waiter(take)
        until_all_wait([waiter.thread])

    def add(obj: dict) -> None:
        """Not for ever, where another thread waits in pop and has the lock."""
        if waiter is None:
            queue.add(obj)
        elif Waiter(lambda: queue.add(obj)).told(2) == "nothing":
            raise TimeoutError("add waits for a lock that a waiting pop has")

    def told() -> Any:
        return waiter.told() if waiter is not None else None

    return calls(
        {
            "add": add,
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
            "waiter": wait,
            "told": told,
            "know": known.add,
            "len": lambda: len(queue),
        },
        trace,
    )
