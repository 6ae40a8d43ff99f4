"""The shared informer beyond the traces: several handlers, resync, leaving, stopping."""

from __future__ import annotations

import threading

import pytest
from machinery.informer import SharedInformer
from machinery.listener import Handler
from machinery.real_fifo import RealFIFO
from machinery.store import Store

from .clients import Ours
from .http_server import ApiServer, Faults
from .script import JumpingClock, Script, brief


class Recorder(Handler):
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.told: list[tuple] = []

    def _tell(self, *note) -> None:
        with self.changed:
            self.told.append(note)
            self.changed.notify_all()

    def on_add(self, obj, in_initial_list):
        self._tell("add", brief(obj), in_initial_list)

    def on_update(self, old, new):
        self._tell("update", brief(old), brief(new))

    def on_delete(self, obj):
        self._tell("delete", brief(obj))

    def wait(self, count: int) -> list[tuple]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.told) >= count, 60), self.told
            return list(self.told)


def test_a_slow_handler_holds_up_nobody_and_is_synced_last():
    with ApiServer() as server:
        for name in "abc":
            server.put(name)
        go_on = threading.Event()
        ours = Ours(server.url)

        class Slow(Recorder):
            def on_add(self, obj, in_initial_list):
                go_on.wait(60)
                super().on_add(obj, in_initial_list)

        slow = Slow()
        registration = ours.informer.add_handler(slow)
        ours.wait(("synced",))
        assert ours.informer.has_synced()
        assert not registration.has_synced()
        server.put("d")
        ours.wait(("add", "default/d@14/uid-4", False))
        assert not registration.has_synced()
        go_on.set()
        assert registration.wait_for_sync(60)
        assert len(slow.wait(4)) == 4
        ours.close()


def test_the_cache_has_what_a_handler_is_told():
    with ApiServer() as server:
        ours = Ours(server.url)
        behind = []

        class Looks(Handler):
            def on_add(self, obj, in_initial_list):
                cached = ours.informer.lister.get(obj["metadata"]["name"], "default")
                if cached is None:
                    behind.append(obj)

        ours.informer.add_handler(Looks())
        for i in range(50):
            server.put(f"object-{i}")
        ours.wait(("add", "default/object-49@60/uid-50"))
        assert behind == []
        ours.close()


def test_a_removed_handler_is_told_no_more():
    with ApiServer() as server:
        server.put("a")
        ours = Ours(server.url)
        ours.wait(("synced",))
        recorder = Recorder()
        registration = ours.informer.add_handler(recorder)
        recorder.wait(1)
        ours.informer.remove_handler(registration)
        server.put("b")
        ours.wait(("add", "default/b@12/uid-2", False))
        assert [note[1] for note in recorder.told] == ["default/a@11/uid-1"]
        ours.close()


def test_resync_tells_again_those_who_asked_for_it():
    with ApiServer() as server:
        server.put("a")
        ours = Ours(server.url, resync_period=0.1)
        often, never = Recorder(), Recorder()
        ours.informer.add_handler(often)
        ours.informer.add_handler(never, resync_period=0)
        told = often.wait(4)
        assert told[0][0] == "add"
        assert set(told[1:]) == {("update", "default/a@11/uid-1", "default/a@11/uid-1")}
        assert len(never.wait(1)) == 1
        ours.close()


def test_stop_ends_a_request_that_hangs():
    """A server that accepts and never answers must not keep the process alive."""
    with ApiServer(Faults(hold_lists=threading.Event())) as server:
        for watch_list in (True, False):
            ours = Ours(server.url, watch_list=watch_list)
            server.wait_for_requests("watch_list" if watch_list else "list", 1)
            ours.close()


def test_no_thread_is_left():
    before = set(threading.enumerate())
    with ApiServer() as server:
        server.put("a")
        ours = Ours(server.url)
        ours.wait(("synced",))
        ours.close()
        names = {t.name for t in set(threading.enumerate()) - before if "Thread-" not in t.name}
        assert not names & {"reflector", "informer", "handler", "resync"}


def test_a_queue_and_a_store_of_the_callers_take_the_place_of_its_own():
    passed = []

    class Queue(RealFIFO):
        def replace(self, objs, resource_version=""):
            passed.append(("queue", len(objs)))
            super().replace(objs, resource_version)

    class Cache(Store):
        def replace(self, objs, resource_version=""):
            super().replace(objs, resource_version)
            passed.append(("store", len(self)))

    cache = Cache()
    with ApiServer() as server:
        server.put("a")
        ours = Ours(server.url, queue=Queue(), store=cache)
        ours.wait(("synced",))
        assert ours.informer.store is cache and cache.get("default/a")
        assert passed == [("queue", 1), ("store", 1)]
        assert ours.informer.lister.list("default") == cache.list()
        ours.close()


def test_twice_started_and_used_after_stop():
    informer = SharedInformer(Script({}, JumpingClock()), clock=JumpingClock())
    informer.start()
    with pytest.raises(RuntimeError):
        informer.start()
    informer.stop(60)
    with pytest.raises(RuntimeError):
        informer.add_handler(Recorder())


def test_wait_for_sync_ends_when_stopped():
    informer = SharedInformer(Script({}, JumpingClock()), clock=JumpingClock())
    registration = informer.add_handler(Recorder())
    informer.start()
    threading.Timer(0.05, informer.stop).start()
    assert registration.wait_for_sync(60) is False
