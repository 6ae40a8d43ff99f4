"""Keys, the cache with its indices and its lister, and a handler's place in line."""

from __future__ import annotations

import threading

import pytest
from machinery.clock import FakeClock
from machinery.listener import Added, Deleted, Handler, Listener, Updated, log_handler_error
from machinery.lister import Lister, has_labels
from machinery.objects import (
    DeletedFinalStateUnknown,
    KeyError_,
    key_of,
    key_of_deleted,
    last_known_state,
    resource_version,
    split_key,
    uid,
)
from machinery.store import NAMESPACE_INDEX, Store, index_by_namespace

PATIENCE = 60


def thing(name: str, namespace: str = "", version: str = "1", **labels: str) -> dict:
    metadata = {"name": name, "resourceVersion": version, "uid": f"uid-{name}"}
    if namespace:
        metadata["namespace"] = namespace
    return {"metadata": {**metadata, "labels": labels} if labels else metadata}


def test_keys_are_made_and_taken_apart():
    assert key_of(thing("a", "x")) == "x/a" and split_key("x/a") == ("x", "a")
    assert key_of(thing("a")) == "a" and split_key("a") == ("", "a")
    with pytest.raises(ValueError, match="namespace/name or name"):
        split_key("x/y/a")


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"metadata": "a"}, None, 7])
def test_without_metadata_there_is_no_key(obj):
    with pytest.raises(KeyError_, match="no metadata"):
        key_of(obj)


def test_a_tombstone_has_its_key_and_perhaps_a_last_state():
    last = thing("a", "x")
    for obj in (last, None):
        tombstone = DeletedFinalStateUnknown("x/a", obj)
        assert key_of_deleted(tombstone) == "x/a" and last_known_state(tombstone) is obj
    assert key_of_deleted(last) == "x/a" and last_known_state(last) is last


def test_what_an_object_does_not_say_is_empty():
    assert (resource_version(thing("a", version="7")), uid(thing("a"))) == ("7", "uid-a")
    for obj in ({}, {"metadata": None}, {"metadata": {}}):
        assert (resource_version(obj), uid(obj)) == ("", "")


@pytest.fixture
def store() -> Store:
    return Store({NAMESPACE_INDEX: index_by_namespace})


def test_the_store_has_the_newest_under_each_key(store):
    store.add(thing("a", "x", "1"))
    store.update(thing("a", "x", "2"))
    store.add(thing("a", "y", "3"))
    assert len(store) == 2 and sorted(store.keys()) == ["x/a", "y/a"]
    assert resource_version(store.get("x/a")) == "2" and store.get("a") is None
    assert store.last_resource_version == "3"
    store.bookmark("9")
    assert store.last_resource_version == "9"
    store.delete(DeletedFinalStateUnknown("x/a", None))
    assert store.keys() == ["y/a"] and store.last_resource_version == "9"
    store.delete(thing("a", "y", "12"))
    store.delete(thing("never", "y", "13"))
    store.resync()
    assert store.list() == [] and store.last_resource_version == "13"


def test_an_index_follows_every_change(store):
    store.add_indexers({"colour": lambda obj: [*obj["metadata"].get("labels", {}).values()]})
    store.add(thing("a", "x", colour="red"))
    store.add(thing("b", "x", colour="red", other="blue"))
    assert store.keys_by_index("colour", "red") == ["x/a", "x/b"]
    assert store.keys_by_index(NAMESPACE_INDEX, "x") == ["x/a", "x/b"]
    store.update(thing("a", "x", colour="blue"))
    assert store.keys_by_index("colour", "blue") == ["x/a", "x/b"]
    assert [key_of(obj) for obj in store.by_index("colour", "red")] == ["x/b"]
    assert sorted(map(key_of, store.like("colour", thing("z", colour="blue")))) == ["x/a", "x/b"]
    store.delete(thing("b", "x"))
    assert store.index_values("colour") == ["blue"], "a value without a key is forgotten"
    store.replace([thing("c", "y", colour="green")], "20")
    assert store.index_values("colour") == ["green"] and store.last_resource_version == "20"
    assert store.keys_by_index(NAMESPACE_INDEX, "x") == []


def test_a_new_index_knows_what_is_there_and_needs_a_name_of_its_own(store):
    store.add(thing("a", "x"))
    store.add_indexers({"name": lambda obj: [obj["metadata"]["name"]]})
    assert store.keys_by_index("name", "a") == ["x/a"]
    with pytest.raises(ValueError, match="of this name already: name"):
        store.add_indexers({"name": index_by_namespace})
    for ask in (store.by_index, store.keys_by_index):
        with pytest.raises(LookupError, match="no index 'size'"):
            ask("size", "1")


def test_an_index_that_is_added_during_a_replace_is_whole():
    """Objects are indexed before the lock is taken: what is added meanwhile counts too."""
    store = Store()

    def adds_another(obj: dict) -> list[str]:
        if "late" not in names:
            names.append("late")
            store.add_indexers({"late": index_by_namespace})
        return []

    names: list[str] = []
    store.add_indexers({"first": adds_another})
    store.replace([thing("a", "x")], "5")
    assert store.keys_by_index("late", "x") == ["x/a"]


def test_the_lister_reads_by_name_namespace_and_labels(store):
    for obj in (thing("a", "x", app="w"), thing("b", "x"), thing("a", "y", app="w"), thing("n")):
        store.add(obj)
    lister = Lister(store)
    assert lister.get("a", "x") is store.get("x/a") and lister.get("n") is store.get("n")
    assert lister.get("a") is None
    assert sorted(map(key_of, lister.list())) == ["n", "x/a", "x/b", "y/a"]
    assert sorted(map(key_of, lister.list("x"))) == ["x/a", "x/b"]
    assert sorted(map(key_of, lister.list(labels={"app": "w"}))) == ["x/a", "y/a"]
    assert list(map(key_of, lister.list("x", {"app": "w"}))) == ["x/a"]
    assert lister.list("nowhere") == []


def test_labels_must_all_be_there():
    obj = thing("a", app="w", tier="1")
    assert has_labels(obj, {}) and has_labels(obj, {"app": "w", "tier": "1"})
    assert not has_labels(obj, {"app": "v"}) and not has_labels(obj, {"app": "w", "zone": "1"})
    assert not has_labels({"metadata": {"labels": None}}, {"app": "w"})


class Noting(Handler):
    """Writes down what it is told; waits in ``on_add`` while ``go_on`` is not set."""

    def __init__(self) -> None:
        self.told: list = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.begun = threading.Event()

    def on_add(self, obj, in_initial_list):
        self.begun.set()
        assert self.go_on.wait(PATIENCE)
        self.told.append(("add", key_of(obj), in_initial_list))

    def on_update(self, old, new):
        self.told.append(("update", resource_version(old), resource_version(new)))
        raise ValueError("a bug")

    def on_delete(self, obj):
        self.told.append(("delete", key_of_deleted(obj)))


@pytest.fixture
def errors() -> list:
    return []


@pytest.fixture
def listener(errors):
    made = Listener(Noting(), lambda *them: errors.append(them), 0, FakeClock())
    yield made
    made.close()


def test_a_listener_is_synced_once_it_has_seen_the_whole_initial_list(errors):
    handler = Noting()
    handler.go_on.clear()
    listener = Listener(handler, lambda *them: errors.append(them), 0, FakeClock())
    listener.add(Added(thing("a"), True))
    listener.add(Added(thing("b"), False))
    listener.start()
    listener.informer_has_synced()
    assert handler.begun.wait(PATIENCE)
    assert not listener.has_synced() and not listener.wait_for_sync(0)
    handler.go_on.set()
    assert listener.wait_for_sync(PATIENCE) and listener.has_synced()
    listener.close()
    assert listener.join(PATIENCE)
    assert handler.told[0] == ("add", "a", True)


def test_a_listener_of_an_empty_list_is_synced_with_the_informer(listener):
    assert not listener.has_synced()
    listener.informer_has_synced()
    assert listener.has_synced()


def test_an_error_of_a_handler_is_told_and_it_goes_on(caplog):
    handler, errors = Noting(), []
    listener = Listener(handler, lambda *them: errors.append(them), 0, FakeClock())
    update = Updated(thing("a", version="1"), thing("a", version="2"))
    listener.add(update)
    listener.add(Deleted(DeletedFinalStateUnknown("x/a", None)))
    listener.add(Added(thing("z"), True))
    listener.informer_has_synced()
    listener.start()
    assert listener.wait_for_sync(PATIENCE)
    assert handler.told == [("update", "1", "2"), ("delete", "x/a"), ("add", "z", True)]
    ((told, notification, error),) = errors
    assert (told, notification, str(error)) == (handler, update, "a bug")
    listener.close()
    assert listener.join(PATIENCE)
    log_handler_error(handler, update, error)
    assert "Noting failed on Updated; it goes on with the next" in caplog.text


def test_a_closed_listener_drops_what_waits_and_never_syncs(errors):
    handler = Noting()
    handler.go_on.clear()
    listener = Listener(handler, lambda *them: errors.append(them), 0, FakeClock())
    assert listener.join(0), "it was not started: there is nothing to wait for"
    listener.add(Added(thing("a"), True))
    listener.add(Added(thing("b"), True))
    listener.start()
    assert handler.begun.wait(PATIENCE)
    assert not listener.join(0)
    listener.close()
    assert listener.wait_for_sync(PATIENCE) is False
    handler.go_on.set()
    assert listener.join(PATIENCE)
    assert handler.told == [("add", "a", True)], "what was in hand is finished"


def test_a_resync_is_due_once_in_its_period():
    clock = FakeClock()
    listener = Listener(Noting(), log_handler_error, 10, clock)
    due = []
    for now in (9.9, 10, 10.1, 19.9, 20.1, 20.2):
        due.append(listener.should_resync(now))
    assert due == [False, True, False, False, True, False]
    assert not Listener(Noting(), log_handler_error, 0, clock).should_resync(1e9), "0 is never"
