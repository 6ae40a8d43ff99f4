"""A server that answers from a script, for a reflector: the twin of oracle/informer.go.

What an answer is, is described there. Time is one that jumps: whoever waits on
it has waited, so that no backoff takes any time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from machinery.api import ApiError, ListOptions, Page, Unreachable, WatchEvent
from machinery.informer import SharedInformer
from machinery.listener import Deleted, Handler, Listener
from machinery.objects import DeletedFinalStateUnknown, Object, key_of, resource_version, uid
from machinery.real_fifo import RealFIFO
from machinery.store import Store


class JumpingClock:
    """Every wait is over at once, and has taken as long as it should."""

    def __init__(self) -> None:
        self._now = 0.0
        self.waits: list[float] = []

    def now(self) -> float:
        return self._now

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        if timeout is None:
            condition.wait()
        else:
            self.waits.append(timeout)
            self._now += timeout

    def jump(self, seconds: float) -> None:
        self._now += seconds


class Script:
    """A :class:`machinery.api.ListerWatcher` with the answers of a trace."""

    def __init__(self, answers: dict[str, list[dict]], clock: JumpingClock) -> None:
        self._answers = {kind: list(them) for kind, them in answers.items()}
        self._clock = clock
        self.requests: list[dict[str, Any]] = []
        self.over = threading.Event()
        self.stopped = threading.Event()

    def _next(self, kind: str, options: ListOptions) -> dict[str, Any]:
        self.requests.append(
            {
                "kind": kind,
                "rv": options.resource_version,
                "match": options.resource_version_match,
                "limit": options.limit,
                "continue": options.continue_token,
                "bookmarks": options.allow_watch_bookmarks,
            }
        )
        answers = self._answers.get(kind) or []
        if not answers:
            self.hang()
            raise Unreachable("the script is over")
        answer = answers.pop(0)
        if answer.get("refused"):
            raise Unreachable("nobody listens", refused=True)
        if answer.get("reset"):
            raise Unreachable("the connection broke")
        if answer.get("error"):
            raise ApiError.from_status(answer["error"])
        return answer

    def hang(self) -> None:
        self.over.set()
        self.stopped.wait()

    def list(self, options: ListOptions) -> Page:
        answer = self._next("list", options)
        return Page(answer.get("items", []), answer.get("rv", ""), answer.get("continue", ""))

    def watch(self, options: ListOptions) -> ScriptedWatch:
        kind = "watch_list" if options.send_initial_events else "watch"
        return ScriptedWatch(self, self._next(kind, options), self._clock)


class ScriptedWatch:
    def __init__(self, script: Script, answer: dict[str, Any], clock: JumpingClock) -> None:
        self._script = script
        self._answer = answer
        self._clock = clock
        self._events = iter(answer.get("events", []))
        self._closed = False

    def __iter__(self) -> Iterator[WatchEvent]:
        for event in self._events:
            if self._closed:
                return
            yield WatchEvent(event["type"], event["object"])
        if self._answer.get("then") == "hang":
            self._script.hang()
        else:
            self._clock.jump(self._answer.get("lasts", 0.0))

    def close(self) -> None:
        self._closed = True
        if self._script.over.is_set():
            self._script.stopped.set()


def brief(obj: Object | DeletedFinalStateUnknown | None) -> str:
    if isinstance(obj, DeletedFinalStateUnknown):
        return f"tombstone of {obj.key}: {brief(obj.obj)}"
    if obj is None:
        return "unknown"
    return f"{key_of(obj)}@{resource_version(obj)}/{uid(obj)}"


MARK = DeletedFinalStateUnknown("mark", None)


class Notes(Handler):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.notes: list[list[Any]] = []
        self.marked = threading.Event()

    def on_add(self, obj, in_initial_list):
        self.notes.append(["add", brief(obj), in_initial_list])

    def on_update(self, old, new):
        self.notes.append(["update", brief(old), brief(new)])

    def on_delete(self, obj):
        if obj == MARK:
            self.marked.set()
            return
        self.notes.append(["delete", brief(obj)])


class MarkedStore(Store):
    """A cache that says when the mark, and with it all that came before, was processed."""

    def __init__(self) -> None:
        super().__init__()
        self.marked = threading.Event()

    def bookmark(self, resource_version: str) -> None:
        if resource_version == MARK.key:
            self.marked.set()
        else:
            super().bookmark(resource_version)


def replay_informer(trace: dict[str, Any]) -> dict[str, Any]:
    """An informer on the script, until the script is over; see ``runInformer`` in the oracle."""
    clock = JumpingClock()
    script = Script(trace["answers"], clock)
    queue, store = RealFIFO(), MarkedStore()
    informer = SharedInformer(
        script,
        queue=queue,
        store=store,
        use_watch_list=trace["watch_list"],
        clock=clock,
        on_error=lambda error: None,
    )

    def settle(*listeners: Listener) -> None:
        """Wait until everything queued so far was processed and every handler was told of it.

        A mark goes the way that every change goes, and comes out last. A bookmark, not a
        deletion: that would count as the first thing ever heard of the server.
        """
        queue.bookmark(MARK.key)
        assert store.marked.wait(60), "the informer is stuck"
        store.marked.clear()
        for listener in listeners:
            listener.add(Deleted(MARK))
        for notes in (handler, late)[: len(listeners)]:
            assert notes.marked.wait(60), "a handler is stuck"
            notes.marked.clear()

    handler, late = Notes(), Notes()
    registration = informer.add_handler(handler)
    informer.start()
    try:
        assert script.over.wait(60), f"the script did not end: {script.requests}"
        settle(registration)
        outcome = {
            "requests": list(script.requests),
            "store": sorted(brief(obj) for obj in informer.store.list()),
            "version": informer.last_sync_resource_version,
            "synced": informer.has_synced(),
            "handler_synced": registration.has_synced(),
        }
        late_registration = informer.add_handler(late)
        settle(registration, late_registration)
        outcome["late_synced"] = late_registration.has_synced()
    finally:
        stopped = informer.stop(60)
        script.stopped.set()
    assert stopped, "a thread did not end"
    return {**outcome, "notes": handler.notes, "late": late.notes}
