"""What real servers do, over HTTP, to client-go's informer and to ours: the same in the end.

Each test tells one server one story, and each client must have heard the same:
what its handler was told, what its cache has, and which kinds of requests it sent.
"""

from __future__ import annotations

import threading

import pytest

from .clients import ClientGo, Ours
from .http_server import ApiServer, Faults, status


@pytest.fixture(params=["client-go", "ours"])
def follow(request, oracle_binary):
    """Start an informer of the one kind or the other on a server."""
    followers = []

    def start(server: ApiServer, **options):
        make = (
            (lambda *a, **k: ClientGo(oracle_binary, *a, **k))
            if request.param == "client-go"
            else Ours
        )
        follower = make(server.url, **options)
        followers.append(follower)
        return follower

    yield start
    for follower in followers:
        follower.close()


WATCH_LIST = pytest.mark.parametrize("watch_list", [True, False], ids=["watch-list", "list"])


def connected(server: ApiServer, client, watch_list: bool) -> None:
    """Wait until a watch is open and has had an event (a watch without one is «very short»)."""
    client.wait(("synced",))
    server.wait_for_requests("watch_list" if watch_list else "watch", 1)
    server.put("seen")
    version = server.objects["seen"]["metadata"]["resourceVersion"]
    uid = server.objects["seen"]["metadata"]["uid"]
    client.wait(("add", f"default/seen@{version}/{uid}", False))


@WATCH_LIST
def test_a_410_in_the_stream(follow, watch_list):
    """Events were lost with the past: the next state tells of them."""
    with ApiServer() as server:
        server.put("a")
        server.put("b")
        client = follow(server, watch_list=watch_list)
        connected(server, client, watch_list)
        server.delete("a", hidden=True)
        server.faults.hidden.add(str(server.version + 1))
        server.put("b")
        server.compact()
        server.cut()
        client.wait(
            ("delete", "tombstone of default/a: default/a@11/uid-1"),
            ("update", "default/b@12/uid-2", "default/b@15/uid-2"),
        )
        assert client.store() == ["default/b@15/uid-2", "default/seen@13/uid-3"]


@WATCH_LIST
def test_a_410_to_the_request(follow, watch_list):
    """The watch is refused, and the first attempt at a new state; the newest state is not."""
    armed = threading.Event()

    def refuse(request):
        somewhere = request.query.get("resourceVersion", "") not in ("", "0")
        return status(410, "Expired") if armed.is_set() and somewhere else None

    with ApiServer(Faults(refuse=refuse)) as server:
        server.put("a")
        client = follow(server, watch_list=watch_list)
        connected(server, client, watch_list)
        armed.set()
        server.cut()
        server.wait_for_requests("watch_list" if watch_list else "list", 3)
        armed.clear()
        server.put("a", data={"k": "v"})
        client.wait(("update", "default/a@11/uid-1", "default/a@13/uid-1"))
        states = [r.query.get("resourceVersion", "") for r in server.requests if r.kind != "watch"]
        assert states == ["" if watch_list else "0", "12", ""]


@WATCH_LIST
def test_a_dropped_connection_is_taken_up_where_it_ended(follow, watch_list):
    with ApiServer() as server:
        server.put("a")
        client = follow(server, watch_list=watch_list)
        connected(server, client, watch_list)
        server.cut()
        server.put("c")
        client.wait(("add", "default/c@13/uid-3", False))
        watches = [r for r in server.requests if r.kind == "watch"]
        assert watches[-1].query["resourceVersion"] == "12"
        assert server.kinds().count("list") + server.kinds().count("watch_list") == 1


@WATCH_LIST
def test_a_hidden_delete_is_a_tombstone(follow, watch_list):
    with ApiServer() as server:
        server.put("a")
        server.put("b")
        client = follow(server, watch_list=watch_list)
        connected(server, client, watch_list)
        server.delete("a", hidden=True)
        server.compact()
        server.cut()
        client.wait(("delete", "tombstone of default/a: default/a@11/uid-1"))
        assert client.store() == ["default/b@12/uid-2", "default/seen@13/uid-3"]


@WATCH_LIST
def test_the_same_name_with_a_new_uid_is_an_update(follow, watch_list):
    with ApiServer() as server:
        server.put("a")
        client = follow(server, watch_list=watch_list)
        connected(server, client, watch_list)
        server.delete("a", hidden=True)
        server.faults.hidden.add(str(server.version + 1))
        server.put("a")
        server.compact()
        server.cut()
        client.wait(("update", "default/a@11/uid-1", "default/a@14/uid-3"))


@WATCH_LIST
def test_a_slow_list(follow, watch_list):
    """Nothing is synced before the list is there, and everything after."""
    release = threading.Event()
    with ApiServer(Faults(hold_lists=release)) as server:
        server.put("a")
        client = follow(server, watch_list=watch_list)
        server.wait_for_requests("watch_list" if watch_list else "list", 1)
        assert not client.synced()
        assert client.store() == []
        release.set()
        client.wait(("add", "default/a@11/uid-1", True), ("synced",))
        assert client.synced()


@WATCH_LIST
def test_an_empty_list(follow, watch_list):
    with ApiServer() as server:
        client = follow(server, watch_list=watch_list)
        client.wait(("synced",))
        server.put("a")
        client.wait(("add", "default/a@11/uid-1", False))


def test_a_version_that_is_too_large(follow):
    """A server that lags, or was restored from a backup."""
    armed = threading.Event()

    def refuse(request):
        if armed.is_set() and request.query.get("resourceVersion") == "12":
            if request.kind == "watch":
                return status(410, "Expired")
            return status(504, "Timeout", "ResourceVersionTooLarge")
        return None

    with ApiServer(Faults(refuse=refuse)) as server:
        server.put("a")
        client = follow(server, watch_list=False)
        connected(server, client, watch_list=False)
        armed.set()
        server.cut()
        server.wait_for_requests("list", 3)
        assert [
            r.query.get("resourceVersion", "") for r in server.requests if r.kind == "list"
        ] == [
            "0",
            "12",
            "",
        ]


def test_a_server_without_watch_list(follow):
    with ApiServer(Faults(watch_list=False)) as server:
        server.put("a")
        client = follow(server, watch_list=True)
        client.wait(("add", "default/a@11/uid-1", True), ("synced",))
        server.wait_for_requests("watch", 1)
        assert server.kinds()[:3] == ["watch_list", "list", "watch"]


def test_bookmarks_move_the_place_to_go_on_from(follow):
    with ApiServer() as server:
        server.put("a")
        client = follow(server, watch_list=False)
        connected(server, client, watch_list=False)
        with server.changed:
            server.version = 50
            mark = {"metadata": {"resourceVersion": "50"}, "apiVersion": "v1", "kind": "ConfigMap"}
            server.record("BOOKMARK", mark)
        server.put("b")
        client.wait(("add", "default/b@51/uid-3", False))
        server.cut()
        server.wait_for_requests("watch", 2)
        assert server.requests[-1].query["resourceVersion"] == "51"


def test_ten_thousand_objects_in_pages(follow):
    with ApiServer() as server:
        for i in range(10_000):
            server.put(f"object-{i:05}")
        client = follow(server, watch_list=False)
        client.wait(("synced",), timeout=60)
        assert len(client.store()) == 10_000
        lists = [r for r in server.requests if r.kind == "list"]
        assert len(lists) == 20
        assert {r.query.get("limit") for r in lists} == {"500"}
