"""The timeline's page: what is drawn, whom it follows, and that nothing in a run can break out."""

from __future__ import annotations

import json
import re

import pytest

from grader.report import timeline_page
from grader.report.beliefs import Beliefs
from grader.wire.records import Exchange, Mark, Record, WatchEvent
from grader.witness import Timeline

T0 = 1_790_000_000.0


def pod(version: int, name: str = "shop-1", **spec: object) -> dict:
    meta = {
        "name": name,
        "namespace": "default",
        "uid": f"u-{name}",
        "resourceVersion": str(version),
    }
    return {"kind": "Pod", "metadata": {**meta, "managedFields": [{"noise": 1}]}, "spec": spec}


def request(seq: int, t: float, verb: str, body: object = None, **more: object) -> Exchange:
    method = {"create": "POST", "update": "PUT", "list": "GET", "watch": "GET", "delete": "DELETE"}
    given = {
        "seq": seq, "client": "operator", "verb": verb, "method": method[verb],
        "path": "/api/v1/namespaces/default/pods", "query": {}, "group": "", "version": "v1",
        "resource": "pods", "subresource": "", "namespace": "default", "name": "",
        "user_agent": "", "content_type": "", "request_body": None, "status": 200,
        "response_body": body, "t_request": T0 + t, "t_response": T0 + t + 0.01,
        "server_status": 200, "audit_id": f"a{seq}-{more.get('client', 'operator')}",
    }  # fmt: skip
    return Exchange(**{**given, **more})  # type: ignore[arg-type]


def event(seq: int, t: float, kind: str, obj: dict, *, late: float | None = 0.0) -> WatchEvent:
    return WatchEvent(
        seq, 2, "operator", kind, obj, T0 + t, None if late is None else T0 + t + late,
        "hidden" if late is None else "delivered",
    )  # fmt: skip


def made() -> list[Record]:
    """The operator's watch shows it a Pod's second version two seconds late; then it is killed."""
    return [
        Mark(0, "operator", "process_started", T0, {}),
        request(1, 0.1, "list", {"kind": "PodList", "metadata": {}, "items": [pod(5)]}),
        request(2, 0.2, "watch"),
        request(
            1, 1.0, "update", pod(9, note="</script><b>"), client="kubectl", name="shop-1",
            request_body=pod(5),
        ),
        event(3, 1.01, "MODIFIED", pod(9), late=2.0),
        request(4, 3.5, "create", None, status=None, t_response=None, server_status=None),
        Mark(5, "operator", "process_killed", T0 + 3.6, {"when": "after", "verb": "create"}),
        request(9, 5.0, "update", pod(12), client="kubectl", name="shop-1"),
    ]  # fmt: skip


@pytest.fixture
def records() -> list[Record]:
    return made()


#: A request that went through no wire, as the API server's audit log has it.
AUDITED = {
    "auditID": "kwok-1",
    "stage": "ResponseComplete",
    "verb": "update",
    "requestURI": "/api/v1/namespaces/default/pods/other",
    "user": {"username": "system:kwok"},
    "requestReceivedTimestamp": "2026-09-21T14:13:26.000000Z",
    "stageTimestamp": "2026-09-21T14:13:26.010000Z",
    "responseStatus": {"code": 200},
    "responseObject": pod(14, "other"),
}


@pytest.fixture
def timeline(records: list[Record]) -> Timeline:
    return Timeline.of_records(records, [AUDITED])


def test_each_client_has_a_lane_and_wires_come_first(timeline: Timeline) -> None:
    drawn = timeline_page.drawing(timeline)
    assert [lane["name"] for lane in drawn["lanes"]] == ["operator", "kubectl", "system:kwok"]
    assert drawn["lanes"][0]["rows"] == ["requests", "pods"]
    assert [item["k"] for item in drawn["items"]] == list("mxwxexmxx")
    assert len(drawn["lines"]) == len(drawn["items"])
    silent = next(item for item in drawn["items"] if item["c"] == "silent")
    assert silent["t"] == pytest.approx(3.5)


def test_it_follows_the_object_that_somebody_was_wrong_about(timeline: Timeline) -> None:
    drawn = timeline_page.drawing(timeline)
    assert drawn["objects"][drawn["follow"]] == "pods default/shop-1"
    ((begin, end, had, truth),) = drawn["beliefs"][drawn["follow"]]["operator"]
    assert (had, truth) == (5, 9)
    assert begin == pytest.approx(1.01, abs=0.01) and end == pytest.approx(3.01, abs=0.01)


def test_a_dead_process_is_not_behind(records: list[Record]) -> None:
    beliefs = Beliefs(Timeline.of_records(records))
    key = beliefs.key_of(records[3])
    assert key is not None
    spans = beliefs.behind("operator", key, T0 + 60)
    assert all(end <= T0 + 3.6 for _, end in spans), "killed at 3.6 s, the Pod changed at 5 s"


def test_nobody_wrong_means_nothing_followed(records: list[Record]) -> None:
    drawn = timeline_page.drawing(Timeline.of_records(records[:3]))
    assert drawn["follow"] == -1


def test_what_is_in_a_run_cannot_leave_its_place(timeline: Timeline) -> None:
    page = timeline_page.page(timeline, title="Run <1>")
    assert page.count("</script>") == 2, "the data and the program, nothing from an object"
    assert "<title>Run &lt;1&gt;</title>" in page
    data = re.search(r"<script type=application/json id=data>(.*?)</script>", page, re.S)
    assert data is not None
    assert "</script><b>" in json.dumps(json.loads(data[1]))
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", page), "nothing is loaded"
    assert "managedFields" not in page


def test_many_records_are_thinned_and_the_page_says_so(
    timeline: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_page, "MANY", 8)
    drawn = timeline_page.drawing(timeline)
    assert "system:kwok" not in [lane["name"] for lane in drawn["lanes"]]
    assert drawn["left_out"].startswith("1 requests that went through no wire")


def test_an_empty_run_has_a_page() -> None:
    assert "0 lines" in timeline_page.page(Timeline.of_records([]), title="Run")
