"""The Python operator without a control plane: keys, one reconcile at a time, and how it stops."""

from __future__ import annotations

import copy
import threading

import pytest
from machinery.delaying import RateLimitingQueue
from machinery.objects import DeletedFinalStateUnknown
from machinery.rate_limiters import ItemExponentialFailureRateLimiter
from machinery.stop import Stop
from machinery.store import Store
from webapp_operator import controller as controllers
from webapp_operator.controller import Controller, Enqueue
from webapp_operator.pods import BY_CONTROLLER, index_by_controller, new_pod, pod_name, webapp_of
from webapp_operator.reconcile import Reconciler
from webapp_operator.types import FINALIZER, LABEL, is_ready

from .upstream import upstream

WEBAPPS = "/apis/phase4.example.com/v1alpha1/namespaces/shops/webapps"
PODS = "/api/v1/namespaces/shops/pods"
RECORDS = "/api/v1/namespaces/dns/configmaps"
RECORD = f"{RECORDS}/record-0123456789"
SOON = 20.0


def webapp(**changes):
    return {
        "apiVersion": "phase4.example.com/v1alpha1",
        "kind": "WebApp",
        "metadata": {
            "name": "shop",
            "namespace": "shops",
            "uid": "0123456789",
            "generation": 2,
            "resourceVersion": "1",
            "finalizers": [FINALIZER],
            **changes,
        },
        "spec": {"image": "shop:1", "host": "shop.example.com", "replicas": 1},
    }


def pod(name="shop-01234567-0", *, ready=True, **metadata):
    made = new_pod(webapp(), name)
    made["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "7", **metadata}
    made["status"] = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    return made


class World:
    """A reconciler, the server that it asks and writes to, and caches that say the same."""

    def __init__(self, server):
        self.server = server
        self.webapps, self.records = Store(), Store()
        self.pods = Store({BY_CONTROLLER: index_by_controller})
        self.reconciler = Reconciler(server.client(), self.webapps, self.pods, self.records)

    def has(self, app, *pods, record=...):
        self.webapps.add(self.server.put(f"{WEBAPPS}/shop", app))
        for one in pods:
            self.pods.add(self.server.put(f"{PODS}/{one['metadata']['name']}", one))
        if record is ...:
            record = {"host": "shop.example.com", "owner": "shops/shop"}
        if record != "none":
            made = {"metadata": {"name": "record-0123456789", "namespace": "dns"}, "data": record}
            self.records.add(self.server.put(RECORD, made))

    def reconcile(self):
        self.reconciler.reconcile("shops/shop")

    def status(self):
        return self.server.objects[f"{WEBAPPS}/shop"]["status"]


@pytest.fixture
def world():
    with upstream() as server:
        yield World(server)


def ready_of(status):
    (condition,) = status["conditions"]
    return condition["status"]


# -- keys -----------------------------------------------------------------------


def test_a_pod_belongs_to_its_controller_and_else_to_its_label():
    owned = pod()
    assert webapp_of(owned) == "shops/shop"
    orphan = pod(ownerReferences=[])
    assert webapp_of(orphan) == "shops/shop" and index_by_controller(orphan) == ["shops/shop"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "u"}
    assert webapp_of(pod(ownerReferences=[{**owner, "controller": True}])) is None
    assert webapp_of(pod(ownerReferences=[owner])) == "shops/shop"
    assert webapp_of(pod(ownerReferences=[], labels={})) is None


def test_both_states_of_an_update_and_a_tombstone_put_keys_into_the_queue():
    queue = RateLimitingQueue(ItemExponentialFailureRateLimiter(0.005, 30.0))
    handler = Enqueue(queue, lambda one: [webapp_of(one)] if webapp_of(one) else [])
    handler.on_update(pod(ownerReferences=[]), pod(ownerReferences=[], labels={LABEL: "beta"}))
    assert [queue.get(), queue.get()] == ["shops/shop", "shops/beta"]
    for key in ("shops/shop", "shops/beta"):
        queue.done(key)
    handler.on_delete(DeletedFinalStateUnknown("shops/x", pod()))
    assert queue.get() == "shops/shop"
    queue.shut_down()


# -- reconcile --------------------------------------------------------------------


def test_a_new_webapp_gets_its_finalizer_first_then_record_pods_and_status(world):
    world.has(webapp(finalizers=[]), record="none")
    world.reconcile()
    assert [(method, path) for method, path, _ in world.server.writes()] == [
        ("PUT", f"{WEBAPPS}/shop"),
        ("POST", RECORDS),
        ("POST", PODS),
        ("PUT", f"{WEBAPPS}/shop/status"),
    ]
    assert ready_of(world.status()) == "False"


def test_a_webapp_that_is_right_takes_not_one_write(world):
    world.has(webapp(), pod())
    world.reconcile()
    world.webapps.add(world.server.objects[f"{WEBAPPS}/shop"])
    before = len(world.server.writes())
    world.reconcile()
    assert len(world.server.writes()) == before and ready_of(world.status()) == "True"


@pytest.mark.parametrize("data", [None, {}, {"host": "elsewhere"}])
def test_a_record_with_other_data_or_none_is_put_right(world, data):
    world.has(webapp(), pod(), record=data)
    world.reconcile()
    assert world.server.objects[RECORD]["data"] == {
        "host": "shop.example.com",
        "owner": "shops/shop",
    }


def test_a_pod_is_deleted_by_its_uid(world):
    app = webapp()
    app["spec"]["replicas"] = 0
    world.has(app, pod())
    world.reconcile()
    ((_, path, body),) = [one for one in world.server.writes() if one[0] == "DELETE"]
    assert path == f"{PODS}/shop-01234567-0"
    assert body["preconditions"] == {"uid": "uid-shop-01234567-0"}


def test_a_pod_on_its_way_out_neither_stands_nor_is_ready_and_keeps_its_slot(world):
    world.has(webapp(), pod(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"]))
    world.reconcile()
    status = world.status()
    assert (status["replicas"], status["readyReplicas"], ready_of(status)) == (0, 0, "False")
    assert not [one for one in world.server.writes() if one[1] == PODS]


def test_a_pod_that_has_ended_is_not_ready_whatever_its_condition_says():
    ended = pod()
    ended["status"]["phase"] = "Failed"
    assert is_ready(pod()) and not is_ready(ended)


def test_adoption_adds_an_owner_and_keeps_the_others(world):
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "u"}
    world.has(webapp(), pod("orphan", ownerReferences=[other]))
    world.reconcile()
    ((_, _, body),) = [one for one in world.server.writes() if one[0] == "PATCH"]
    assert [owner["uid"] for owner in body["metadata"]["ownerReferences"]] == ["u", "0123456789"]
    assert body["metadata"]["uid"] == "uid-orphan"
    assert (
        body["metadata"]["resourceVersion"]
        == world.pods.get("shops/orphan")["metadata"]["resourceVersion"]
    )


def test_nothing_is_deleted_or_adopted_by_a_spec_that_is_older_than_the_live_one(world):
    app = webapp()
    app["spec"]["replicas"] = 0
    world.has(app, pod())
    newer = copy.deepcopy(app)
    newer["metadata"]["generation"] = 3
    world.server.put(f"{WEBAPPS}/shop", newer)
    with pytest.raises(Exception, match="older than the live one|Conflict"):
        world.reconcile()
    assert not [one for one in world.server.writes() if one[0] in ("DELETE", "PATCH")]


def test_the_finalizer_goes_when_the_record_has_gone_and_others_stay(world):
    app = webapp(finalizers=["a/b", FINALIZER], deletionTimestamp="2026-01-01T00:00:00Z")
    world.has(app, pod())
    world.reconcile()
    assert [(method, path) for method, path, _ in world.server.writes()] == [
        ("DELETE", RECORD),
        ("PUT", f"{WEBAPPS}/shop"),
    ]
    assert world.server.objects[f"{WEBAPPS}/shop"]["metadata"]["finalizers"] == ["a/b"]


def test_two_long_names_that_differ_at_the_end_have_pods_of_different_names():
    one, two = webapp(), webapp()
    one["metadata"]["name"], two["metadata"]["name"] = "n" * 62 + "a", "n" * 62 + "b"
    names = {pod_name(app, slot) for app in (one, two) for slot in range(50)}
    assert len(names) == 100 and max(map(len, names)) <= 253


# -- stopping -----------------------------------------------------------------------


class Synced:
    """An informer, and the registration of its handlers, with an empty cache that is in sync."""

    def __init__(self, source, **options):
        self.store = Store()

    def add_handler(self, handler):
        return self

    def start(self):
        pass

    def wait_for_sync(self, timeout):
        return True


class Reconciles:
    """Takes a key and holds on to it until told to go on."""

    def __init__(self):
        self.keys, self.go_on = [], threading.Event()
        self.busy = threading.Semaphore(0)

    def reconcile(self, key):
        self.keys.append(key)
        self.busy.release()
        self.go_on.wait(SOON)


def test_a_stop_finishes_what_is_in_hand_and_leaves_the_rest(monkeypatch):
    reconciler = Reconciles()
    monkeypatch.setattr(controllers, "SharedInformer", Synced)
    monkeypatch.setattr(controllers, "Reconciler", lambda *_: reconciler)
    with upstream() as server:
        controller = Controller(server.client(), resync=0.0)
        for number in range(100):
            controller.queue.add(f"shops/{number}")
        stopping = Stop()
        running = threading.Thread(target=controller.run, args=(2, stopping), daemon=True)
        running.start()
        for _ in range(2):
            assert reconciler.busy.acquire(timeout=SOON)
        stopping.set()
        assert running.is_alive()
        reconciler.go_on.set()
        running.join(SOON)
        assert not running.is_alive()
        assert sorted(reconciler.keys) == ["shops/0", "shops/1"]


def test_a_stop_wakes_workers_that_wait_for_a_key(monkeypatch):
    monkeypatch.setattr(controllers, "SharedInformer", Synced)
    with upstream() as server:
        controller = Controller(server.client(), resync=0.0)
        stopping = Stop()
        running = threading.Thread(target=controller.run, args=(2, stopping), daemon=True)
        running.start()
        stopping.set()
        running.join(SOON)
        assert not running.is_alive()
