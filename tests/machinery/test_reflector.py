"""The reflector on a script: what it asks for next, what it stores, and how long it pauses."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from machinery.backoff import Backoff
from machinery.reflector import Reflector
from machinery.stop import Stop
from machinery.store import Store

from .script import JumpingClock, Script

PATIENCE = 60


def thing(name: str, version: str) -> dict:
    return {"metadata": {"name": name, "resourceVersion": version}}


def event(type_: str, name: str, version: str) -> dict:
    return {"type": type_, "object": thing(name, version)}


def bookmark(version: str, ends: bool = False) -> dict:
    metadata: dict[str, Any] = {"resourceVersion": version}
    if ends:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"type": "BOOKMARK", "object": {"metadata": metadata}}


def stream(*events: dict, lasts: float = 5.0) -> dict:
    return {"events": list(events), "lasts": lasts}


def page(*objects: dict, rv: str, more: str = "") -> dict:
    return {"items": list(objects), "rv": rv, "continue": more}


def refused(code: int, reason: str, **details: Any) -> dict:
    return {"error": {"kind": "Status", "code": code, "reason": reason, "details": details}}


EXPIRED = refused(410, "Expired")
TOO_LARGE = refused(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}])


class Run:
    """A reflector that ran until its script was over."""

    def __init__(self, answers: dict[str, list[dict]], **options: Any) -> None:
        clock = JumpingClock()
        self.script = Script(answers, clock)
        self.store = Store()
        told: list[Exception] = []
        options.setdefault("use_watch_list", False)
        self.reflector = Reflector(
            self.script,
            self.store,
            on_error=told.append,
            backoff=Backoff(jitter=0, clock=clock),
            clock=clock,
            **options,
        )
        stop = Stop()
        thread = threading.Thread(target=self.reflector.run, args=(stop,), daemon=True)
        thread.start()
        assert self.script.over.wait(PATIENCE), self.script.requests
        #: What had gone wrong, and how long it had paused (s), before it was stopped.
        self.errors, self.waits = list(told), [round(wait, 6) for wait in clock.waits]
        stop.set()
        self.script.stopped.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()

    def asked(self, *fields: str) -> list[tuple]:
        """These fields of each request, in order."""
        return [tuple(request[field] for field in fields) for request in self.script.requests]

    def stored(self) -> dict[str, str]:
        return {
            obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in self.store.list()
        }


def test_a_list_then_watches_each_from_where_the_last_ended():
    run = Run(
        {
            "list": [page(thing("a", "3"), thing("b", "4"), rv="5")],
            "watch": [
                stream(event("MODIFIED", "a", "6"), event("DELETED", "b", "7")),
                stream(bookmark("9")),
                stream(event("ADDED", "c", "10")),
            ],
        }
    )
    assert run.asked("kind", "rv") == [
        ("list", "0"),
        ("watch", "5"),
        ("watch", "7"),
        ("watch", "9"),
        ("watch", "10"),
    ]
    assert run.stored() == {"a": "6", "c": "10"}
    assert run.reflector.last_sync_resource_version == "10" and run.errors == []
    assert all(bookmarks for kind, bookmarks in run.asked("kind", "bookmarks") if kind == "watch")
    assert run.waits == [], "a watch that ended in order is opened again at once"


def test_a_watch_list_goes_on_as_a_watch():
    run = Run(
        {
            "watch_list": [
                stream(
                    event("ADDED", "a", "3"),
                    bookmark("5", ends=True),
                    event("ADDED", "b", "6"),
                )
            ]
        },
        use_watch_list=True,
    )
    assert run.asked("kind", "rv", "match") == [
        ("watch_list", "", "NotOlderThan"),
        ("watch", "6", ""),
    ]
    assert run.stored() == {"a": "3", "b": "6"}


def test_where_there_is_no_watch_list_it_lists():
    run = Run(
        {"watch_list": [refused(422, "Invalid")], "list": [page(thing("a", "3"), rv="5")]},
        use_watch_list=True,
    )
    assert run.asked("kind") == [("watch_list",), ("list",), ("watch",)]
    assert run.stored() == {"a": "3"} and run.waits == []


def test_after_a_410_it_lists_what_is_not_older_than_the_last_seen():
    run = Run(
        {
            "list": [page(thing("a", "3"), thing("b", "4"), rv="5"), page(thing("b", "8"), rv="8")],
            "watch": [
                stream(event("MODIFIED", "a", "6"), {"type": "ERROR", "object": EXPIRED["error"]})
            ],
        }
    )
    assert run.asked("kind", "rv") == [("list", "0"), ("watch", "5"), ("list", "6"), ("watch", "8")]
    assert run.stored() == {"b": "8"}
    assert [error.is_expired for error in run.errors] == [True] and run.waits == [0.8]


@pytest.mark.parametrize("refusal", [EXPIRED, TOO_LARGE], ids=["expired", "too large"])
def test_a_list_that_is_refused_is_asked_for_once_more_as_it_is_now(refusal):
    run = Run(
        {
            "list": [page(rv="5"), refusal, page(thing("a", "3"), rv="4"), page(rv="4")],
            "watch": [EXPIRED, EXPIRED],
        }
    )
    assert run.asked("kind", "rv")[:5] == [
        ("list", "0"),
        ("watch", "5"),
        ("list", "5"),
        ("list", ""),
        ("watch", "4"),
    ]
    assert ("list", "4") in run.asked("kind", "rv"), "from then on by the version again"


def test_a_watch_list_that_is_refused_asks_for_the_newest():
    run = Run(
        {
            "watch_list": [
                stream(event("ADDED", "a", "3"), bookmark("5", ends=True)),
                EXPIRED,
                stream(bookmark("9", ends=True)),
            ],
            "watch": [EXPIRED],
        },
        use_watch_list=True,
    )
    assert run.asked("kind", "rv") == [
        ("watch_list", ""),
        ("watch", "5"),
        ("watch_list", "5"),
        ("watch_list", ""),
        ("watch", "9"),
    ]
    assert run.stored() == {}


def test_pages_are_one_state():
    run = Run(
        {
            "list": [
                page(thing("a", "1"), rv="5", more="t1"),
                page(thing("b", "2"), rv="5", more="t2"),
                page(thing("c", "3"), rv="5"),
            ]
        },
        page_size=1,
    )
    assert run.asked("kind", "rv", "limit", "continue")[:3] == [
        ("list", "0", 1, ""),
        ("list", "", 1, "t1"),
        ("list", "", 1, "t2"),
    ]
    assert run.stored() == {"a": "1", "b": "2", "c": "3"}


def test_pages_whose_snapshot_expired_are_asked_for_in_one():
    run = Run(
        {
            "list": [
                page(thing("a", "1"), rv="5", more="t1"),
                EXPIRED,
                page(thing("a", "1"), thing("b", "6"), rv="7"),
            ]
        }
    )
    assert run.asked("rv", "limit", "continue")[:3] == [
        ("0", 500, ""),
        ("", 500, "t1"),
        ("0", 0, ""),
    ]
    assert run.stored() == {"a": "1", "b": "6"}


@pytest.mark.parametrize(
    ("failure", "paused"),
    [
        (refused(500, "InternalError"), [0.8, 1.6, 3.2]),
        (refused(403, "Forbidden"), [0.8, 1.6, 3.2]),
        ({"refused": True}, [0.8, 1.6, 3.2]),
        ({"reset": True}, [0.8, 1.6, 3.2]),
        (refused(503, "", retryAfterSeconds=9), [9.0, 9.0, 9.0]),
    ],
)
def test_a_round_that_fails_is_followed_by_a_pause(failure, paused):
    run = Run({"list": [failure] * 3 + [page(rv="5")]})
    assert run.waits == paused and len(run.errors) == 3
    assert run.asked("kind")[3:] == [("list",), ("watch",)]


@pytest.mark.parametrize("failure", [refused(429, "TooManyRequests"), {"refused": True}])
def test_a_watch_that_only_could_not_be_opened_is_asked_for_again(failure):
    run = Run({"list": [page(rv="5")], "watch": [failure, failure]})
    assert run.asked("kind", "rv") == [("list", "0"), *[("watch", "5")] * 3]
    assert run.waits == [0.8, 1.6] and run.errors == []


def test_a_watch_that_ends_at_once_without_an_event_ends_the_round():
    run = Run({"list": [page(rv="5"), page(rv="6")], "watch": [stream(lasts=0.5)]})
    assert run.asked("kind", "rv") == [("list", "0"), ("watch", "5"), ("list", "5"), ("watch", "6")]
    assert "within a second" in str(run.errors[0]) and run.waits == [0.8]


def test_what_it_does_not_understand_is_passed_over(caplog):
    run = Run(
        {
            "list": [page(rv="5")],
            "watch": [
                stream(
                    {"type": "ADDED", "object": {"metadata": None}},
                    {"type": "SURPRISE", "object": thing("x", "6")},
                    event("ADDED", "a", "7"),
                )
            ],
        }
    )
    assert run.stored() == {"a": "7"} and run.errors == []
    assert "cannot understand ADDED" in caplog.text
    assert "unknown type of watch event: SURPRISE" in caplog.text


def test_errors_are_logged_where_nobody_takes_them(caplog):
    caplog.set_level("INFO", "machinery.reflector")
    clock = JumpingClock()
    script = Script({"list": [EXPIRED, EXPIRED, refused(500, "InternalError")]}, clock)
    stop = Stop()
    reflector = Reflector(script, Store(), name="pods", use_watch_list=False, clock=clock)
    thread = threading.Thread(target=reflector.run, args=(stop,), daemon=True)
    thread.start()
    assert script.over.wait(PATIENCE)
    levels = [record.levelname for record in caplog.records]
    stop.set()
    script.stopped.set()
    thread.join(PATIENCE)
    assert levels == ["INFO", "WARNING"], caplog.text
    assert "pods: 410 Expired" in caplog.text and "listing again after a pause" in caplog.text


@pytest.mark.parametrize("due", [True, False])
def test_a_resync_is_asked_for_while_a_watch_lasts(due):
    """On the real clock: the timer is a thread of its own."""

    class Resynced(Store):
        def resync(self) -> None:
            resynced.set()

    resynced, asked = threading.Event(), threading.Event()

    def should() -> bool:
        asked.set()
        return due

    script = Script(
        {"list": [page(rv="5")], "watch": [{"events": [], "then": "hang"}]}, JumpingClock()
    )
    stop = Stop()
    reflector = Reflector(
        script, Resynced(), use_watch_list=False, resync_period=0.01, should_resync=should
    )
    thread = threading.Thread(target=reflector.run, args=(stop,), daemon=True)
    thread.start()
    assert script.over.wait(PATIENCE) and asked.wait(PATIENCE)
    if due:
        assert resynced.wait(PATIENCE)
    stop.set()
    thread.join(PATIENCE)
    assert not thread.is_alive() and resynced.is_set() is due
