"""How long the suite waits for an operator: for a busy one longer, for one that has ended not at all."""

from __future__ import annotations

import itertools
import threading
import time
from types import SimpleNamespace

from grader.conformance import pace
from grader.conformance.bench import Bench


class History:
    """``changes`` are the numbers of states seen, one for each time somebody asks."""

    def __init__(self, changes):
        self._changes = iter(changes)

    def changes(self):
        return next(self._changes)

    def until(self, namespace, predicate, timeout):
        threading.Event().wait(timeout)
        return bool(predicate())


def wait(changes, programs=(), *, predicate=lambda: False, timeout=0.3, asked=list):
    bench = SimpleNamespace(
        history=History(changes),
        patience=1.0,
        measured={},
        programs=lambda: programs,
        _requests_since=lambda since: asked(),
    )
    began = time.monotonic()
    return Bench.until(bench, "ns", predicate, timeout), time.monotonic() - began


def test_where_nothing_moves_the_time_is_up_when_it_is():
    came, seconds = wait(itertools.repeat(1))
    assert not came and seconds >= 0.3


def test_while_something_moves_there_is_more_time_but_not_for_ever(monkeypatch):
    monkeypatch.setattr(pace, "LIMIT", 1.2)
    came, seconds = wait(itertools.count())
    assert not came and seconds >= 1.2


def test_what_comes_late_while_something_moves_has_come():
    turns = itertools.count()
    came, seconds = wait(itertools.count(), predicate=lambda: next(turns) >= 6)
    assert came and seconds >= 0.6


def test_who_asks_about_one_thing_after_the_other_is_at_work():
    """No state changes, as a slow operator comes to one WebApp at a time."""
    turns = itertools.count()
    came, seconds = wait(
        itertools.repeat(1),
        predicate=lambda: next(turns) >= 6,
        asked=lambda: [request(f"app-{next(turns)}")],
    )
    assert came and seconds >= 0.3


def test_who_asks_about_the_same_over_and_over_is_not():
    came, seconds = wait(itertools.repeat(1), asked=lambda: [request("app")])
    assert not came and seconds < 5.0


def request(name):
    return SimpleNamespace(
        namespace="a", target="webapps", resource="webapps", verb="get", name=name
    )


def test_nobody_waits_for_an_operator_that_has_ended():
    came, seconds = wait(itertools.count(), [SimpleNamespace(exited="exit 1")], timeout=60.0)
    assert not came and seconds < 30.0


def test_one_of_two_that_has_ended_leaves_the_other_to_do_it():
    programs = [SimpleNamespace(exited="exit 1"), SimpleNamespace(exited=None)]
    came, seconds = wait(itertools.repeat(1), programs)
    assert not came and seconds >= 0.3
