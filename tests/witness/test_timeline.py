"""The timeline's queries, on small worlds."""

from __future__ import annotations

import json
import threading
import time

import pytest

from grader.wire.recorder import Recorder
from grader.witness import NotObserved, Timeline
from tests.witness.builders import (
    audit_event,
    event,
    exchange,
    listing,
    mark,
    obj,
    watch_end,
)

POD = "/api/v1/namespaces/a/pods"


@pytest.fixture
def world() -> Timeline:
    """A controller that lists, watches, is killed after a create, and comes back."""
    foos = exchange("watch", "/apis/x.io/v1/foos?watch=true&resourceVersion=10", t=1.1, client="op")
    return Timeline.of_records(
        [
            mark("process_started", 0.5),
            exchange("list", "/apis/x.io/v1/foos", t=1.0, answer=listing(10)),
            foos,
            event(foos, "ADDED", obj("f", 11, uid="foo-1"), t=2.0),
            exchange(
                "create",
                POD,
                t=2.1,
                status=None,
                server_status=201,
                request=obj("f-1", 0, uid="none", owner="foo-1"),
                answer=None,
                name="f-1",
                withheld_body=obj("f-1", 12, owner="foo-1"),
                faults=["r1"],
                error="a rule killed the process before it heard the answer",
            ),
            mark("process_killed", 2.2, rule="r1", when="after"),
            watch_end(foos, "client", 2.25),
            mark("process_started", 3.0),
            exchange("create", POD, t=3.1, status=409, request=obj("f-1", 0, owner="foo-1"),
                     answer={"kind": "Status", "reason": "AlreadyExists", "code": 409}),
            exchange("update", "/apis/x.io/v1/namespaces/a/foos/f/status", t=3.2,
                     answer=obj("f", 13, uid="foo-1")),
            exchange("delete", f"{POD}/f-1", t=4.0, client="hand",
                     answer={"kind": "Status", "status": "Success",
                             "details": {"uid": "uid-f-1"}}),
            exchange("create", f"{POD}?dryRun=All", t=4.5, status=201, answer=obj("dry", 0)),
        ],
        [
            audit_event(
                "delete",
                f"{POD}/f-2",
                at="1970-01-01T00:00:05.000000Z",
                user="system:serviceaccount:kube-system:generic-garbage-collector",
                id="gc",
                objectRef={"resource": "pods", "namespace": "a", "name": "f-2"},
            )
        ],
    )  # fmt: skip


def test_queries_read_like_sentences(world):
    kill = world.marks("process_killed", when="after").first
    assert world.writes(by="op", resource="pods", verb="create").names == ["f-1"]
    assert world.after(kill).writes(by="op", verb="create").first.status == 409
    assert world.before(kill).writes(by="op").last.applied is True
    assert world.writes(by="op", applied=False, status=409)
    assert world.writes(status=None).first.error
    assert world.writes(owner="foo-1").names == ["f-1"]
    assert world.writes(resource="foos/status") and not world.writes(resource="foos")
    assert world.writes(resource="foos/*") and world.writes(resource="foos.x.io/status")
    assert not world.writes(resource="foos.y.io/status")
    assert world.exchanges(rule="r1").first.name == "f-1"
    assert world.exchanges(status=range(400, 500)).first.status == 409
    assert not world.writes(resource="pods", name="dry")  # a dry run writes nothing
    assert world.between(kill, 4.0).writes().first.status == 409
    assert world.writes(not_by=("op", "hand")).first.client.endswith("garbage-collector")


def test_a_delete_answered_with_a_status_is_about_the_object_it_deleted(world):
    delete = world.writes(verb="delete", by="hand").first
    assert world.object_of(delete)["metadata"]["name"] == "f-1"
    assert world.writes(verb="delete", owner="foo-1").first is delete
    assert world.writes(verb="delete", uid="uid-f-1").first is delete


def test_events_and_what_caused_them(world):
    added = world.events(by="op", resource="foos", type="ADDED").first
    assert world.opened(added).verb == "watch"
    assert world.events(uid="foo-1", resource="foos.x.io").first is added
    assert world.cause(added) is None
    assert world.watch_ends(by="op").first.by == "client"
    assert world.write_of(obj("f-1", 12)).status is None


def test_parts_count_their_times_from_the_start_of_the_whole(world):
    killed, deleted = world.marks("process_killed").first, world.writes(by="hand").first
    one, two = world.after(killed), world.between(killed, deleted)
    assert one.start == two.start == world.start
    again = two.writes(resource="pods").first
    assert two.line(again) == one.line(again) == world.line(again)


def test_a_part_does_not_grow(tmp_path):
    (tmp_path / "op").mkdir()
    recorder = Recorder(tmp_path / "op" / "wire.jsonl", "op")
    recorder.mark("note", n=1)
    timeline = Timeline(tmp_path)
    part = timeline.after(0.0)
    recorder.mark("note", n=2)
    recorder.close()
    assert len(timeline.marks("note")) == 2
    assert len(part.marks("note")) == len(part.after(0.0)) == 1


def test_lines_show_what_happened(world):
    lines = world.writes(resource="pods").lines()
    assert "POST /api/v1/namespaces/a/pods (f-1)  no answer (applied: yes; by rule r1" in lines[0]
    assert "409 AlreadyExists (applied: no)" in lines[1]
    assert world.line(world.marks("process_killed").first).strip().startswith("1.700s  op  --")
    assert "<- ADDED foos a/f rv=11" in world.line(world.events().first)
    assert repr(world.writes(name="nobody")) == "(nothing)"
    assert world.exchanges().lines(limit=2)[-1].startswith("... and ")


def test_a_trace_is_a_condition_and_a_sequence(world):
    writes = world.writes(resource="pods")
    assert writes[0] is writes.first and len(writes[1:]) == len(writes) - 1
    assert not writes.where(lambda e: e.name == "nobody") and writes.where(lambda e: e.name).last
    assert world.writes(name="nobody").first is None
    assert [round(gap, 1) for gap in world.marks("process_started").gaps()] == [2.5]


def test_one_request_told_by_wire_and_audit_log_is_one(world):
    known = exchange("create", POD, t=1.0, status=None, server_status=None, audit_id="one")
    event_ = audit_event(
        "create", POD, at="1970-01-01T00:00:01.000000Z", user="admin", code=201, id="one",
        impersonatedUser={"username": "phase4:op"}, responseObject=obj("p", 5),
    )  # fmt: skip
    timeline = Timeline.of_records([known], [event_])
    (write,) = timeline.writes()
    # The wire never heard the answer; the audit log knows that it was carried out.
    assert write.source == "wire" and write.applied is True and write.status is None
    assert write.answer["metadata"]["name"] == "p"


def test_the_audit_log_names_the_impersonated_user():
    event_ = audit_event(
        "create", POD, at="1970-01-01T00:00:01.000000Z", user="admin",
        impersonatedUser={"username": "phase4:op"},
    )  # fmt: skip
    timeline = Timeline.of_records([], [event_, {**event_, "stage": "RequestReceived"}])
    assert [e.client for e in timeline.writes(by="op")] == ["op"]
    assert timeline.writes(by="phase4:op")


# Growing ---------------------------------------------------------------------------------


def test_a_timeline_grows_with_its_record(tmp_path):
    folder = tmp_path / "op"
    folder.mkdir()
    timeline = Timeline(tmp_path)
    assert len(timeline) == 0
    recorder = Recorder(folder / "wire.jsonl", "op")
    recorder.mark("note", n=1)
    assert len(timeline.marks("note")) == 1
    part = timeline.after(0.0)
    recorder.mark("note", n=2)
    assert len(timeline.marks("note")) == 2 and len(part.marks("note")) == 1
    recorder.close()


def test_until_wakes_at_once(tmp_path):
    (tmp_path / "op").mkdir()
    recorder = Recorder(tmp_path / "op" / "wire.jsonl", "op")
    threading.Timer(0.1, lambda: recorder.mark("note", n=7)).start()
    found = Timeline(tmp_path).until(lambda t: t.marks("note", n=7).first, 60, "the note")
    assert time.time() - found.t < 30, "it looked when the time was up, not when something came"
    recorder.close()


def test_until_says_what_it_waited_for(world):
    with pytest.raises(NotObserved, match="waited 0.05 s for a miracle; the last record is"):
        world.until(lambda t: t.writes(name="miracle"), 0.05, "a miracle")


def _write(recorder: Recorder, resource: str) -> None:
    record = exchange("update", f"/api/v1/namespaces/a/{resource}/x", t=time.time())
    fields = {k: v for k, v in record.__dict__.items() if k not in ("seq", "client")}
    body = json.dumps(fields.pop("request_body")).encode()
    recorder.line({"kind": "exchange", **fields}, request_body=body)


def test_quiet_for_waits_for_the_writes_to_end(tmp_path):
    (tmp_path / "op").mkdir()
    recorder = Recorder(tmp_path / "op" / "wire.jsonl", "op")
    # The quiet is so much longer than the pauses that a busy machine makes no quiet of one.
    busy = threading.Thread(
        target=lambda: [(time.sleep(0.02), _write(recorder, "pods")) for _ in range(6)]
    )
    busy.start()
    last = Timeline(tmp_path).quiet_for(1.5, by="op", timeout=60)
    busy.join()
    assert time.time() - last >= 1.5
    assert last == Timeline(tmp_path).writes().last.t
    recorder.close()


def test_quiet_for_does_not_count_leases(tmp_path):
    (tmp_path / "op").mkdir()
    recorder = Recorder(tmp_path / "op" / "wire.jsonl", "op")
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(0.05):
            _write(recorder, "leases")

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        Timeline(tmp_path).quiet_for(0.3, by="op", timeout=60)
    finally:
        stop.set()
        renewing.join()
        recorder.close()


def test_never_quiet_is_said_with_the_last_write(tmp_path):
    (tmp_path / "op").mkdir()
    recorder = Recorder(tmp_path / "op" / "wire.jsonl", "op")
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.02):
            _write(recorder, "pods")

    working = threading.Thread(target=work)
    working.start()
    Timeline(tmp_path).until(lambda t: t.writes().first, 60, "a write")
    try:
        with pytest.raises(NotObserved, match="without a write by op; the last was: .*PUT"):
            Timeline(tmp_path).quiet_for(0.6, by="op", timeout=0.5)
    finally:
        stop.set()
        working.join()
        recorder.close()
