"""What no single-threaded trace can show: many workers, and shutting down under them."""

from __future__ import annotations

import threading

import pytest
from machinery.clock import FakeClock
from machinery.delaying import DelayingQueue
from machinery.workqueue import ShutDown, WorkQueue


def work(queue: WorkQueue[str], process) -> threading.Thread:
    def loop() -> None:
        while True:
            try:
                key = queue.get()
            except ShutDown:
                return
            try:
                process(key)
            finally:
                queue.done(key)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    return thread


def test_no_key_is_with_two_workers_and_no_add_is_lost():
    queue: WorkQueue[str] = WorkQueue()
    lock = threading.Lock()
    busy: set[str] = set()
    #: What a worker last saw of each key; the last write must be seen by a later get.
    latest = dict.fromkeys("abcde", 0)
    seen = dict.fromkeys("abcde", 0)
    twice = []

    def process(key: str) -> None:
        with lock:
            if key in busy:
                twice.append(key)
            busy.add(key)
            seen[key] = latest[key]
        with lock:
            busy.remove(key)

    workers = [work(queue, process) for _ in range(4)]

    def produce() -> None:
        for i in range(2000):
            key = "abcde"[i % 5]
            with lock:
                latest[key] += 1
            queue.add(key)

    producers = [threading.Thread(target=produce) for _ in range(3)]
    for thread in producers:
        thread.start()
    for thread in producers:
        thread.join()
    queue.shut_down()
    for thread in workers:
        thread.join(60)
        assert not thread.is_alive()
    assert twice == []
    assert seen == latest


def test_a_waiting_get_ends_at_shut_down():
    queue: WorkQueue[str] = WorkQueue()
    workers = [work(queue, lambda key: None) for _ in range(3)]
    queue.shut_down()
    for thread in workers:
        thread.join(60)
        assert not thread.is_alive()


def test_what_was_queued_is_still_handed_out_after_shut_down():
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.shut_down()
    queue.add("b")
    assert queue.get() == "a"
    with pytest.raises(ShutDown):
        queue.get()


def test_drain_waits_for_the_worker_and_for_what_it_was_added_meanwhile():
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert queue.get() == "a"
    drained = threading.Event()

    def drain() -> None:
        queue.shut_down_with_drain()
        drained.set()

    threading.Thread(target=drain, daemon=True).start()
    assert not drained.wait(0.05)
    queue.done("a")
    assert drained.wait(60)


def test_shut_down_ends_a_drain():
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.get()
    thread = threading.Thread(target=queue.shut_down_with_drain, daemon=True)
    thread.start()
    while not queue.shutting_down:
        pass
    queue.shut_down()
    thread.join(60)
    assert not thread.is_alive()


def test_the_delaying_queue_leaves_no_thread_behind():
    before = set(threading.enumerate())
    queue: DelayingQueue[str] = DelayingQueue(FakeClock())
    queue.add_after("a", 100)
    (thread,) = set(threading.enumerate()) - before
    queue.shut_down()
    thread.join(60)
    assert not thread.is_alive()
    queue.add_after("b", 100)
    assert queue.waiting() == 0
