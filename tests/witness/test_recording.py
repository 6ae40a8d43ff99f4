"""A recording is whole, or it says that it is not."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader.witness import recording
from tests.witness.builders import audit_event, exchange, obj

PODS = "/api/v1/namespaces/a/pods"
HEADER = {
    "lab": "4.1.3",
    "cluster": {"id": "c-1", "name": "default", "backend": "embedded", "versions": {}},
    "client": "controller",
    "hand": "learner",
    "argv": ["x"],
    "started": 0.0,
    "audit": True,
}


def line(record) -> bytes:
    return json.dumps({"kind": record.kind, **record.__dict__}).encode()


@pytest.fixture
def whole(tmp_path):
    path = tmp_path / "recording.jsonl"
    records = [
        line(exchange("create", PODS, t=1.0, status=201, answer=obj("x", 5), audit_id="one")),
        line(exchange("delete", f"{PODS}/x", t=2.0, client="learner", audit_id="two")),
        b'{"kind":"mark","se',  # torn by a kill
    ]
    at = "1970-01-01T00:00:01.000000Z"
    events = [
        audit_event("create", PODS, at=at, user="a", id="one", responseObject=obj("x", 5)),
        audit_event("delete", f"{PODS}/x", at=at, user="a", id="two"),
        audit_event("update", f"{PODS}/x", at=at, user="kcm", id="three",
                    responseObject=obj("x", 6)),
        audit_event("get", f"{PODS}/x", at=at, user="a", id="four"),
        audit_event("update", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", at=at,
                    user="a", id="five", objectRef={"resource": "leases"}),
    ]  # fmt: skip
    recording.write(path, HEADER, records, events)
    return path


def test_a_recording_is_one_timeline(whole):
    read = recording.load(whole)
    assert (read.lab, read.cluster_id) == ("4.1.3", "c-1")
    assert [e.client for e in read.timeline.writes()] == ["kcm", "op", "learner"]
    assert not read.timeline.reads() and not read.timeline.writes(resource="leases")
    assert read.unconfirmed == []


def test_an_event_that_the_controller_recorded_is_confirmed_as_well(tmp_path):
    path = tmp_path / "recording.jsonl"
    events = PODS.replace("pods", "events")
    made = exchange("create", events, t=1.0, status=201, answer=obj("x", 5), audit_id="one")
    more = {"at": "1970-01-01T00:00:01.000000Z", "objectRef": {"resource": "events"}}
    logged = [
        audit_event("create", events, user="a", id="one", **more),
        audit_event("create", events, user="kcm", id="two", **more),
    ]
    recording.write(path, HEADER, [line(made)], logged)
    read = recording.load(path)
    assert read.unconfirmed == []
    assert len(read.timeline.writes()) == 1


def test_parts_of_two_clusters_are_noticed(tmp_path):
    path = tmp_path / "recording.jsonl"
    made = exchange("create", PODS, t=1.0, status=201, answer=obj("x", 5), audit_id="elsewhere")
    recording.write(path, HEADER, [line(made)], [])
    assert [e.audit_id for e in recording.load(path).unconfirmed] == ["elsewhere"]


def test_without_an_audit_log_nothing_can_be_confirmed(tmp_path):
    path = tmp_path / "recording.jsonl"
    made = exchange("create", PODS, t=1.0, status=201, answer=obj("x", 5))
    recording.write(path, {**HEADER, "audit": False}, [line(made)], [])
    assert recording.load(path).unconfirmed == []


@pytest.mark.parametrize(
    ("change", "diagnosis"),
    [
        (lambda d: d[:-40], "recording-cut"),
        (lambda d: b"".join(d.splitlines(True)[:-1]), "recording-cut"),
        (lambda d: b"".join(d.splitlines(True)[:-2]), "recording-cut"),
        (lambda d: d.replace(b"controller", b"contrXller", 1), "recording-edited"),
        (lambda d: b"".join(d.splitlines(True)[:2] + d.splitlines(True)[3:]), "recording-edited"),
        (lambda d: d + d.splitlines(True)[-1], "recording-edited"),
        (lambda d: b"", "not-a-recording"),
        (lambda d: b"\x00\xff" * 50, "not-a-recording"),
        (lambda d: b'{"kind":"exchange"}\n', "not-a-recording"),
        (lambda d: b"[]\n", "not-a-recording"),
        (lambda d: d.replace(b'"format": 1', b'"format": 9'), "recording-of-another-version"),
    ],
)
def test_what_was_done_to_it_is_noticed(whole, change, diagnosis):
    whole.write_bytes(change(whole.read_bytes()))
    with pytest.raises(recording.RecordingError) as caught:
        recording.load(whole)
    assert caught.value.diagnosis == diagnosis
    assert "recording.jsonl" in str(caught.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.data())
def test_any_byte_that_is_changed_is_noticed(whole, data):
    original = whole.read_bytes()
    place = data.draw(st.integers(0, len(original) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda b: b != original[place]))
    changed = whole.with_suffix(".changed")
    changed.write_bytes(original[:place] + bytes([byte]) + original[place + 1 :])
    with pytest.raises(recording.RecordingError):
        recording.load(changed)


def test_line_ends_of_another_system_do_no_harm(whole):
    whole.write_bytes(whole.read_bytes().replace(b"\n", b"\r\n"))
    assert recording.load(whole).lab == "4.1.3"
