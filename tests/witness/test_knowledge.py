"""What a client could know at a moment, and what was true at it."""

from __future__ import annotations

from grader.witness import Timeline
from tests.witness.builders import event, exchange, listing, obj

PODS = "/api/v1/namespaces/a/pods"


def names(knowledge) -> list[str]:
    return sorted(o["metadata"]["name"] for o in knowledge.all("pods"))


def test_from_lists_events_and_answers():
    listed = exchange("list", PODS, t=1.0, answer=listing(10, obj("x", 5), obj("y", 6)))
    watch = exchange("watch", f"{PODS}?watch=true&resourceVersion=10", t=1.1)
    added = event(watch, "ADDED", obj("z", 11), t=2.0)
    gone = event(watch, "DELETED", obj("x", 12), t=3.0)
    made = exchange("create", PODS, t=4.0, status=201, answer=obj("w", 13))
    timeline = Timeline.of_records([listed, watch, added, gone, made])
    assert names(timeline.known(by="op", at=1.5)) == ["x", "y"]
    assert names(timeline.known(by="op", at=2.5)) == ["x", "y", "z"]
    assert names(timeline.known(by="op", at=gone)) == ["x", "y", "z"]
    assert names(timeline.known(by="op", at=3.5)) == ["y", "z"]
    assert names(timeline.known(by="op")) == ["w", "y", "z"]
    assert names(timeline.known(by="somebody-else")) == []
    known = timeline.known(by="op").known("pods", "z", "a")
    assert known.told_by is added and known.version == 11


def test_an_event_counts_from_when_it_was_delivered():
    watch = exchange("watch", f"{PODS}?watch=true", t=1.0)
    held = event(watch, "ADDED", obj("x", 11), t=2.0, late=5.0)
    hidden = event(watch, "ADDED", obj("y", 12), t=2.1, fate="hidden")
    timeline = Timeline.of_records([watch, held, hidden])
    assert names(timeline.known(by="op", at=6.9)) == []
    assert names(timeline.known(by="op", at=7.1)) == ["x"]
    assert names(timeline.truth(at=2.5)) == ["x", "y"]


def test_an_older_state_does_not_replace_a_newer_one():
    watch = exchange("watch", f"{PODS}?watch=true", t=1.0)
    answer = exchange("update", f"{PODS}/x", t=1.5, answer=obj("x", 20))
    late = event(watch, "MODIFIED", obj("x", 15), t=2.0)
    timeline = Timeline.of_records([watch, answer, late])
    assert timeline.known(by="op").known("pods", "x", "a").version == 20


def test_what_is_gone_stays_gone_until_it_is_made_again():
    watch = exchange("watch", f"{PODS}?watch=true", t=1.0)
    records = [
        watch,
        event(watch, "ADDED", obj("x", 5, uid="one"), t=2.0),
        event(watch, "DELETED", obj("x", 9, uid="one"), t=3.0),
        exchange("get", f"{PODS}/x", t=3.1, answer=obj("x", 5, uid="one")),
    ]
    assert names(Timeline.of_records(records).known(by="op")) == []
    records.append(event(watch, "ADDED", obj("x", 10, uid="two"), t=4.0))
    again = Timeline.of_records(records).known(by="op").get("pods", "x", "a")
    assert again["metadata"]["uid"] == "two"


def test_a_relist_drops_what_it_no_longer_names():
    timeline = Timeline.of_records(
        [
            exchange("list", PODS, t=1.0, answer=listing(10, obj("x", 5), obj("y", 6))),
            exchange("list", PODS, t=2.0, answer=listing(20, obj("y", 6))),
            exchange("list", f"{PODS}?labelSelector=a%3Db", t=3.0, answer=listing(21)),
        ]
    )
    assert names(timeline.known(by="op")) == ["y"]


def test_a_delete_that_waits_for_finalizers_deletes_nothing_yet():
    waiting = obj("x", 6, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["f"])
    timeline = Timeline.of_records(
        [
            exchange("create", PODS, t=1.0, status=201, answer=obj("x", 5, finalizers=["f"])),
            exchange("delete", f"{PODS}/x", t=2.0, answer=waiting),
        ]
    )
    assert names(timeline.known(by="op")) == ["x"]


def test_a_withheld_answer_is_true_and_not_known():
    made = exchange(
        "create", PODS, t=1.0, status=None, server_status=201, withheld_body=obj("x", 5), name="x"
    )
    timeline = Timeline.of_records([made])
    assert names(timeline.known(by="op")) == [] and names(timeline.truth()) == ["x"]


def test_a_scale_is_not_the_object_itself():
    scale = exchange(
        "patch",
        "/apis/apps/v1/namespaces/a/deployments/d/scale",
        t=1.0,
        answer={"kind": "Scale", "metadata": {"name": "d", "namespace": "a", "uid": "u"}},
    )
    timeline = Timeline.of_records([scale])
    assert len(timeline.known(by="op")) == 0 and timeline.object_of(scale) is None
