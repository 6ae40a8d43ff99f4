"""The queues without client-go beside them: work, delays, and the deltas of an informer."""

from __future__ import annotations

import threading

import pytest
from machinery.clock import FakeClock
from machinery.delaying import DelayingQueue, RateLimitingQueue
from machinery.delta_fifo import DeltaFIFO, dedup_deltas
from machinery.deltas import Bookmark, Closed, Delta, DeltaType, ReplacedAll, SyncAll
from machinery.objects import DeletedFinalStateUnknown, KeyError_
from machinery.rate_limiters import ItemExponentialFailureRateLimiter
from machinery.real_fifo import RealFIFO
from machinery.store import Store
from machinery.workqueue import ShutDown, WorkQueue

PATIENCE = 60


def thing(name: str, version: str = "1") -> dict:
    return {"metadata": {"name": name, "resourceVersion": version}}


def test_many_adds_are_one_get():
    queue: WorkQueue[str] = WorkQueue()
    for key in "aabab":
        queue.add(key)
    assert len(queue) == 2 and [queue.get(), queue.get()] == ["a", "b"] and len(queue) == 0


def test_an_add_during_the_work_is_queued_by_done():
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0, "a second worker would get it"
    queue.done("a")
    assert queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


def test_done_of_what_no_worker_has_is_ignored():
    queue: WorkQueue[str] = WorkQueue()
    queue.done("a")
    queue.add("a")
    queue.done("a")
    assert len(queue) == 1


def test_nothing_is_added_after_shut_down_and_what_is_there_is_handed_out():
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.shut_down()
    queue.add("b")
    assert queue.shutting_down and queue.get() == "a"
    queue.add("a")
    queue.done("a")
    for _ in range(2):
        with pytest.raises(ShutDown):
            queue.get()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def delaying(clock: FakeClock):
    queue: DelayingQueue[str] = DelayingQueue(clock)
    # Its thread is among those that a step of the clock waits for.
    assert clock.wait_for_waiter(PATIENCE)
    yield queue
    queue.shut_down()


def test_a_delay_ends_when_it_is_over(delaying, clock):
    delaying.add_after("b", 2)
    delaying.add_after("a", 1)
    delaying.add_after("now", 0)
    delaying.add_after("past", -1)
    assert [delaying.get(), delaying.get()] == ["now", "past"] and delaying.waiting() == 2
    clock.step(0.5)
    assert len(delaying) == 0
    clock.step(0.5)
    assert delaying.get() == "a" and delaying.waiting() == 1
    clock.step(5)
    assert delaying.get() == "b" and delaying.waiting() == 0


def test_of_two_delays_of_a_key_the_sooner_counts(delaying, clock):
    for delay in (3, 1, 2):
        delaying.add_after("a", delay)
    assert delaying.waiting() == 1
    clock.step(1)
    assert delaying.get() == "a"
    delaying.done("a")
    clock.step(5)
    assert len(delaying) == 0 and delaying.waiting() == 0


def test_a_key_that_waits_can_be_added_meanwhile_and_comes_again(delaying, clock):
    delaying.add_after("a", 1)
    delaying.add("a")
    assert delaying.get() == "a"
    delaying.done("a")
    clock.step(1)
    assert delaying.get() == "a"


@pytest.mark.parametrize("end", ["shut_down", "shut_down_with_drain"])
def test_what_waits_is_dropped_at_the_end(delaying, clock, end):
    delaying.add_after("a", 1)
    getattr(delaying, end)()
    delaying.add_after("b", 1)
    clock.step(2)
    assert delaying.waiting() == 0
    with pytest.raises(ShutDown):
        delaying.get()


def test_failures_wait_longer_until_they_are_forgotten(clock):
    limiter = ItemExponentialFailureRateLimiter(1.0, 60.0)
    queue: RateLimitingQueue[str] = RateLimitingQueue(limiter, clock)
    assert clock.wait_for_waiter(PATIENCE)
    for delay in (1, 2, 4):
        queue.add_rate_limited("a")
        clock.step(delay - 0.5)
        assert len(queue) == 0
        clock.step(0.5)
        assert queue.get() == "a"
        queue.done("a")
    assert queue.num_requeues("a") == 3
    queue.forget("a")
    queue.add_rate_limited("a")
    clock.step(1)
    assert queue.get() == "a" and queue.num_requeues("a") == 1
    queue.shut_down()


def popped(queue) -> list[tuple[list[tuple], bool]]:
    """All that can be popped, as types and objects, and whether it is of the first list."""
    queue.close()
    found: list = []

    def process(deltas: list[Delta], initial: bool) -> None:
        found.append(([(delta.type, delta.object) for delta in deltas], initial))

    while True:
        try:
            queue.pop(process)
        except Closed:
            return found


A, U, D = DeltaType.ADDED, DeltaType.UPDATED, DeltaType.DELETED


def test_a_pop_of_a_delta_fifo_is_all_of_one_key():
    queue = DeltaFIFO()
    queue.add(thing("a", "1"))
    queue.add(thing("b", "2"))
    queue.update(thing("a", "3"))
    assert len(queue) == 2
    assert popped(queue) == [
        ([(A, thing("a", "1")), (U, thing("a", "3"))], False),
        ([(A, thing("b", "2"))], False),
    ]


def test_two_deletions_in_a_row_are_one_and_the_better_one():
    tombstone = Delta(D, DeletedFinalStateUnknown("a", None))
    seen = Delta(D, thing("a", "2"))
    for deltas, left in (
        ([tombstone, seen], [seen]),
        ([seen, tombstone], [seen]),
        ([seen, Delta(A, thing("a"))], [seen, Delta(A, thing("a"))]),
        ([seen], [seen]),
        ([], []),
    ):
        dedup_deltas(deltas)
        assert deltas == left


def test_a_deletion_of_what_nobody_knows_is_not_queued():
    queue = DeltaFIFO(Store())
    queue.delete(thing("a"))
    assert len(queue) == 0
    queue.add(thing("a"))
    queue.delete(thing("a", "2"))
    assert popped(queue) == [([(A, thing("a")), (D, thing("a", "2"))], False)]


@pytest.mark.parametrize("kind", [DeltaFIFO, RealFIFO])
def test_a_list_has_tombstones_for_all_that_it_has_not(kind):
    known = Store()
    for name in ("cached", "listed", "both"):
        known.add(thing(name))
    queue = kind(known)
    queue.update(thing("queued", "4"))
    queue.update(thing("both", "5"))
    queue.replace([thing("listed", "7"), thing("new", "7")], "7")
    of = {}
    for deltas, _ in popped(queue):
        for type_, obj in deltas:
            name = obj.key if isinstance(obj, DeletedFinalStateUnknown) else obj["metadata"]["name"]
            of.setdefault(name, []).append((type_, obj))
    gone = DeletedFinalStateUnknown
    assert of == {
        "queued": [(U, thing("queued", "4")), (D, gone("queued", thing("queued", "4")))],
        "both": [(U, thing("both", "5")), (D, gone("both", thing("both", "5")))],
        "cached": [(D, gone("cached", thing("cached")))],
        "listed": [(DeltaType.REPLACED, thing("listed", "7"))],
        "new": [(DeltaType.REPLACED, thing("new", "7"))],
    }


@pytest.mark.parametrize("kind", [DeltaFIFO, RealFIFO])
def test_a_resync_tells_of_the_cache_but_for_keys_with_news(kind):
    known = Store()
    known.add(thing("a"))
    known.add(thing("b"))
    queue = kind(known)
    queue.update(thing("a", "2"))
    queue.resync()
    assert popped(queue) == [
        ([(U, thing("a", "2"))], False),
        ([(DeltaType.SYNC, thing("b"))], False),
    ]


@pytest.mark.parametrize("kind", [lambda: DeltaFIFO(Store()), lambda: RealFIFO(Store()), RealFIFO])
def test_a_queue_is_synced_when_the_first_list_was_popped(kind):
    queue = kind()
    assert not queue.has_synced()
    queue.replace([thing("a"), thing("b")], "2")
    seen = []
    while not queue.has_synced():
        queue.pop(lambda deltas, initial: seen.append(initial))
    assert seen and all(seen)
    queue.add(thing("c"))
    queue.pop(lambda deltas, initial: seen.append(initial))
    assert seen[-1] is False and queue.has_synced()


@pytest.mark.parametrize("kind", [DeltaFIFO, RealFIFO])
def test_an_empty_list_and_anything_else_that_comes_first_leave_nothing_to_wait_for(kind):
    for first in ("replace", "add"):
        queue = kind(Store())
        getattr(queue, first)([] if first == "replace" else thing("a"))
        assert queue.has_synced()


def test_in_the_atomic_way_a_list_is_one_delta_in_its_place():
    queue = RealFIFO()
    queue.add(thing("a"))
    queue.replace([thing("b")], "7")
    queue.bookmark("8")
    queue.resync()
    queue.delete(thing("a", "9"))
    assert len(queue) == 5
    assert [deltas for deltas, _ in popped(queue)] == [
        [(A, thing("a"))],
        [(DeltaType.REPLACED_ALL, ReplacedAll((thing("b"),), "7"))],
        [(DeltaType.BOOKMARK, Bookmark("8"))],
        [(DeltaType.SYNC_ALL, SyncAll())],
        [(D, thing("a", "9"))],
    ]


def test_a_bookmark_has_a_place_in_the_atomic_way_alone():
    for queue in (RealFIFO(Store()), DeltaFIFO(Store())):
        queue.bookmark("8")
        assert len(queue) == 0


@pytest.mark.parametrize("kind", [lambda: DeltaFIFO(Store()), lambda: RealFIFO(Store())])
def test_an_object_without_a_key_is_refused_and_changes_nothing(kind):
    queue = kind()
    for give in (queue.add, queue.update, lambda obj: queue.replace([thing("a"), obj], "2")):
        with pytest.raises(KeyError_):
            give({})
    assert len(queue) == 0


@pytest.mark.parametrize("kind", [DeltaFIFO, RealFIFO])
def test_closing_wakes_who_waits_for_a_delta(kind):
    queue = kind()
    ends: list[str] = []

    def pop() -> None:
        try:
            queue.pop(lambda deltas, initial: None)
        except Closed:
            ends.append("closed")

    threads = [threading.Thread(target=pop, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    queue.close()
    for thread in threads:
        thread.join(PATIENCE)
    assert ends == ["closed"] * 2


@pytest.mark.parametrize("kind", [DeltaFIFO, RealFIFO])
def test_an_error_of_the_processing_is_the_callers_and_the_delta_is_gone(kind):
    queue = kind()
    queue.replace([thing("a")], "2")

    def fails(deltas: list[Delta], initial: bool) -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        queue.pop(fails)
    assert len(queue) == 0 and queue.has_synced()
