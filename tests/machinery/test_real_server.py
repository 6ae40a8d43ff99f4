"""What a real API server does, through the wire, to client-go's informer and to ours.

Each test is one story in a namespace of its own, heard by both at once, each on
a wire of its own, with a watch-list and with lists: all four must have been told
the same, have the same cache in the end, and the two of a way of listing must
have sent the same requests. Times are the real ones; backoffs are waited for.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from machinery.api import Resource

from grader.cluster.api import Api
from grader.wire import Wire
from grader.wire.records import Exchange
from grader.witness import Timeline

from .clients import ClientGo, Follower, Ours
from .script import brief

pytestmark = pytest.mark.live

BOTH = (True, False)
PATIENCE = 40.0


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    from grader import cluster

    with Api(cluster.ensure()) as api:
        yield api


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    name = f"machinery-{uuid.uuid4().hex[:8]}"
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    api.delete("namespaces", name)


class Place:
    """Secrets of one namespace (nobody else makes any there), and all who follow them."""

    def __init__(self, api: Api, namespace: str, oracle: Path, folder: Path) -> None:
        self.api, self.namespace = api, namespace
        self._oracle, self._folder = oracle, folder
        self.followers: dict[str, tuple[Follower, Wire, Timeline]] = {}
        self._wires: list[Wire] = []

    # What happens at the server.

    def put(self, name: str, **data: str) -> str:
        """Create or change a Secret; how it is noted."""
        metadata = {"name": name, "namespace": self.namespace}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}
        if self.api.find("secrets", name, namespace=self.namespace) is None:
            return brief(self.api.create(secret))
        return brief(
            self.api.patch("secrets", name, {"stringData": data}, namespace=self.namespace)
        )

    def delete(self, name: str) -> None:
        self.api.delete("secrets", name, namespace=self.namespace)

    def truth(self) -> list[str]:
        items = self.api.list("secrets", namespace=self.namespace)["items"]
        return sorted(brief(item) for item in items)

    # Who hears of it.

    def follow(self, *rules: str, watch_list: tuple[bool, ...] = BOTH, **options: Any) -> None:
        from grader import cluster

        resource = Resource("", "v1", "secrets", self.namespace)
        for name, listing in itertools.product(("client-go", "ours"), watch_list):
            who = f"{name}-{'watch-list' if listing else 'list'}"
            wire = Wire(cluster.ensure(), who, self._folder, rules=rules).open()
            self._wires.append(wire)
            options = {**options, "watch_list": listing, "resource": resource}
            follower: Follower = (
                ClientGo(self._oracle, wire.url, **options)
                if name == "client-go"
                else Ours(wire.url, **options)
            )
            self.followers[who] = (follower, wire, Timeline.of(wire))

    def follow_for_a_while(self, *rules: str, **options: Any) -> None:
        """Follow, until the watch is open and has had an event (one without is «very short»)."""
        self.follow(*rules, **options)
        self.wait(("synced",))
        self.wait(("add", self.put("seen"), False))

    def watched(self, condition: Callable[[Timeline], Any], what: str) -> dict[str, Any]:
        """Wait until a condition holds of each timeline; what it gave, by follower."""
        return {
            who: timeline.until(condition, PATIENCE, f"{what} ({who})")
            for who, (_, _, timeline) in self.followers.items()
        }

    def rule(self, *texts: str) -> None:
        for _, wire, _ in self.followers.values():
            for text in texts:
                wire.rules.add(text)

    def clear(self) -> None:
        for _, wire, _ in self.followers.values():
            wire.rules.clear()

    def wait(self, *notes: Any) -> None:
        for who, (follower, _, _) in self.followers.items():
            try:
                follower.wait(*notes, timeout=PATIENCE)
            except TimeoutError as error:
                raise AssertionError(f"{who}: {error}") from None

    def agreed(self, count: int) -> list[list[Any]]:
        """What every handler was told, sorted, once each was told ``count``; the caches are the truth.

        What was waited for may be the first of what a list brings: the rest follows it.
        """
        told = {}
        for who, (follower, _, _) in self.followers.items():
            follower.wait_count(count, timeout=PATIENCE)
            assert follower.store() == self.truth(), who
            assert follower.synced(), who
            told[who] = sorted(follower.notes(), key=str)
        first = next(iter(told.values()))
        assert told == dict.fromkeys(told, first) and len(first) == count
        return first

    def sent(self, ways: dict[str, list[str]]) -> None:
        """Of each way of listing both clients sent these requests and no others.

        They are waited for: who was told what a list brings has yet to open the watch after it.
        """
        way_of = {
            who: who.removeprefix("client-go-").removeprefix("ours-") for who in self.followers
        }
        assert {*way_of.values()} == {*ways}
        for who, (_, _, timeline) in self.followers.items():
            wanted = ways[way_of[who]]

            def all_of_them(timeline: Timeline, count: int = len(wanted)) -> bool:
                return len(timeline.reads(resource="secrets")) >= count

            timeline.until(all_of_them, PATIENCE, f"{wanted} by {who}")
            assert [_shown(e) for e in timeline.reads(resource="secrets")] == wanted, who

    def close(self) -> None:
        for follower, _, _ in self.followers.values():
            follower.close()
        for wire in self._wires:
            wire.close()


def _shown(e: Exchange) -> str:
    """``list 0``, ``watch n 410``: what was asked for, from which version, and a refusal."""
    kind = "watch-list" if e.query.get("sendInitialEvents") == "true" else e.verb
    version = e.query.get("resourceVersion", "")
    asked = version if version in ("", "0") else "n"
    more = " continued" if e.query.get("continue") else ""
    refused = "" if e.status == 200 else f" {e.status}"
    return f"{kind} {asked or 'newest'}{more}{refused}"


@pytest.fixture
def place(api, namespace, oracle_binary, tmp_path) -> Iterator[Place]:
    place = Place(api, namespace, oracle_binary, tmp_path)
    yield place
    place.close()


def test_a_slow_list_that_is_empty_in_the_end(place):
    """Nothing has synced before the list is there; an empty one is a list, too."""
    place.follow("hold list secrets")
    place.watched(lambda timeline: timeline.marks("rule_fired"), "the list is asked for")
    for follower, _, _ in place.followers.values():
        assert not follower.synced()
        assert follower.store() == []
    place.clear()
    place.wait(("synced",))
    place.wait(("add", place.put("a"), False))
    place.agreed(1)
    place.sent(
        {
            "watch-list": ["watch-list newest"],
            "list": ["list 0", "watch n"],
        }
    )


def test_a_410_in_the_stream_after_a_hidden_delete_change_and_new_uid(place):
    """What nobody was told of is told after the next state: a tombstone, and two updates."""
    gone, old, first = place.put("gone"), place.put("changed"), place.put("again")
    place.follow_for_a_while()
    for name in ("gone", "changed", "again"):
        place.rule(f"hide ADDED,MODIFIED,DELETED watch secrets name={name} times=always")
    place.delete("gone")
    new = place.put("changed", k="v")
    place.delete("again")
    second = place.put("again")
    place.wait(("add", place.put("later"), False))
    place.clear()
    place.rule("error 410 watch secrets")
    place.wait(
        ("delete", f"tombstone of {place.namespace}/gone: {gone}"),
        ("update", old, new),
        ("update", first, second),
    )
    # After a list, what is as it was is told as an update, too.
    place.agreed(3 + 2 + 3 + 2)
    place.sent(
        {
            "watch-list": ["watch-list newest", "watch-list n"],
            "list": ["list 0", "watch n", "list n", "watch n"],
        }
    )


def test_a_dropped_connection_is_taken_up_where_it_ended(place):
    place.follow_for_a_while()
    place.rule("cut watch secrets")
    place.watched(lambda timeline: timeline.watch_ends(), "the watch was cut")
    place.wait(("add", place.put("b"), False))
    place.agreed(2)
    place.sent(
        {
            "watch-list": ["watch-list newest", "watch n"],
            "list": ["list 0", "watch n", "watch n"],
        }
    )


@pytest.mark.parametrize(
    "refusal", ["410", "504 reason=ResourceVersionTooLarge"], ids=["410", "too-large"]
)
def test_a_version_that_the_server_does_not_have(place, refusal):
    """The watch is refused, and the next state of at least that version; the newest is not."""
    place.follow_for_a_while()
    code = refusal.split()[0]
    place.rule("answer 410 watch secrets", f"answer {refusal} list secrets", "cut watch secrets")
    place.watched(lambda timeline: len(timeline.reads(status=410)) > 0, "the watch was refused")
    place.wait(("add", place.put("b"), False))
    # What was seen is told again by the list.
    place.agreed(3)
    place.sent(
        {
            "watch-list": [
                "watch-list newest",
                "watch n 410",
                f"watch-list n {code}",
                "watch-list newest",
            ],
            "list": [
                "list 0",
                "watch n",
                "watch n 410",
                f"list n {code}",
                "list newest",
                "watch n",
            ],
        }
    )


def test_a_server_without_watch_list(place):
    add = place.put("a")
    place.follow("refuse-watchlist", watch_list=(True,))
    place.wait(("add", add, True), ("synced",))
    place.wait(("add", place.put("b"), False))
    place.agreed(2)
    place.sent({"watch-list": ["watch-list newest 422", "list 0", "watch n"]})


def test_a_bookmark_moves_the_place_to_go_on_from(place, api):
    """A watch of a few seconds: the server marks its end, after what others have written."""
    place.follow_for_a_while(watch_seconds=4)
    version = int(api.list("secrets", namespace=place.namespace)["metadata"]["resourceVersion"])
    for elsewhere in ("default", "phase4-system"):
        name = f"bookmark-{uuid.uuid4().hex[:8]}"
        metadata = {"name": name, "namespace": elsewhere}
        api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        api.delete("secrets", name, namespace=elsewhere)

    def after_a_mark(timeline: Timeline) -> tuple[str, Exchange] | None:
        """The last mark of the first watch that was marked after what others wrote, and the next watch.

        Not always of the very first watch: two seconds before its end may be too early.
        """
        for ended, following in itertools.pairwise(timeline.reads(verb="watch")):
            for last in list(timeline.events(type="BOOKMARK", watch=ended))[-1:]:
                mark = last.object["metadata"]["resourceVersion"]
                if int(mark) > version:
                    return mark, following
        return None

    for who, (mark, following) in place.watched(after_a_mark, "a watch after a mark").items():
        assert following.query["resourceVersion"] == mark, who
    place.wait(("add", place.put("b"), False))
    place.agreed(2)


@pytest.mark.slow
def test_ten_thousand_objects_in_pages(place, api):
    """The first list comes from the server's cache in one piece, whatever limit it has.

    Pages come where a round begins with the newest state: after a version that
    is not there, and an error.
    """

    def create(i: int) -> None:
        metadata = {"name": f"object-{i:05}", "namespace": place.namespace}
        api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(10_000)))
    place.follow(watch_list=(False,))
    place.wait(("synced",))
    place.wait(("add", place.put("seen"), False))
    place.rule("answer 410 watch secrets", "answer 410 list secrets", "answer 500 list secrets")
    place.rule("cut watch secrets")
    place.wait(("add", place.put("b"), False))
    # All of them once as new, and once as they were.
    place.agreed(10_000 + 1 + 10_001 + 1)
    pages = ["list newest", *["list newest continued"] * 20]
    refused = ["watch n 410", "list n 410", "list newest 500"]
    sent = ["list 0", "watch n", *refused, *pages, "watch n"]
    place.sent({"list": sent})
