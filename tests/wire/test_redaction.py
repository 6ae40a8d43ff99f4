"""No record holds what somebody could use: Secrets' values, tokens."""

from __future__ import annotations

import base64
import json
import stat

import pytest
from aiohttp import web

from grader.cli.runs import new as new_run
from grader.wire import redaction
from grader.witness import Timeline, recording
from grader.witness.sources import AuditFeed
from tests.wire.conftest import PATIENCE
from tests.wire.upstream import echo

PLAIN = "hunter2-hunter2"
CODED = base64.b64encode(PLAIN.encode()).decode()
SECRETS = "/api/v1/namespaces/a/secrets"
LAST = "kubectl.kubernetes.io/last-applied-configuration"


def secret(name: str = "s", **fields) -> dict:
    applied = json.dumps({"stringData": {"k": PLAIN}})
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "a", "uid": "u-1", "annotations": {LAST: applied}},
        "data": {"k": CODED},
        **fields,
    }


def _holds_nothing(wire) -> None:
    text = wire.record.read_text()
    assert PLAIN not in text and CODED not in text


@pytest.mark.parametrize(
    ("method", "kind", "body"),
    [
        ("POST", "application/json", secret(stringData={"k": PLAIN})),
        ("PUT", "application/json", secret()),
        ("PATCH", "application/merge-patch+json", {"stringData": {"k": PLAIN, "gone": None}}),
        ("PATCH", "application/apply-patch+yaml", {"data": {"k": CODED}}),
        ("PATCH", "application/json-patch+json", [
            {"op": "replace", "path": "/data/k", "value": CODED},
            {"op": "add", "path": "/stringData", "value": {"k": PLAIN}},
            {"op": "add", "path": f"/metadata/annotations/{LAST.replace('/', '~1')}", "value": PLAIN},
            {"op": "replace", "path": "", "value": {"data": {"k": CODED}}},
            {"op": "remove", "path": "/data/gone"},
        ]),
    ],
)  # fmt: skip
def test_what_is_said_of_a_secret(alone, upstream, http, method, kind, body):
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(secret())

    upstream.answer = answer
    wire = alone()
    target = wire.url + (SECRETS if method == "POST" else f"{SECRETS}/s")
    sent = json.dumps(body).encode()
    told = http.request(method, target, body=sent, headers={"Content-Type": kind})
    # The two that speak get what was said; only the record does not.
    assert told.json() == secret() and upstream.bodies == [sent]
    _holds_nothing(wire)
    (write,) = Timeline.of(wire).exchanges()
    assert write.answer["metadata"]["uid"] == "u-1" and set(write.answer["data"]) == {"k"}
    if kind.startswith("application/merge"):
        assert write.request_body == {"stringData": {"k": "redacted", "gone": None}}
    if kind.startswith("application/json-patch"):
        assert write.request_body[-1] == {"op": "remove", "path": "/data/gone"}


@pytest.mark.parametrize("kind", ["application/json", "application/yaml", "text/plain", ""])
@pytest.mark.parametrize("wrapped", ["list", "table", "pretty", "broken"])
def test_however_it_is_sent(alone, upstream, http, kind, wrapped):
    shapes = {
        "list": json.dumps({"kind": "SecretList", "items": [secret(), secret("t")]}),
        "table": json.dumps({"kind": "Table", "rows": [{"cells": ["s", 1], "object": secret()}]}),
        "pretty": json.dumps(secret(), indent=2),
        "broken": json.dumps(secret())[:-5],
    }

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=shapes[wrapped].encode(), headers={"Content-Type": kind})

    upstream.answer = answer
    wire = alone()
    assert http.request("GET", wire.url + SECRETS).data.decode() == shapes[wrapped]
    _holds_nothing(wire)


def test_a_long_list_in_pieces(alone, upstream, http):
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        items = ",".join([json.dumps(secret(f"s{n}")) for n in range(2000)])
        await response.write(f'{{"kind":"SecretList","items":[{items}]}}\n'.encode())
        return response

    upstream.answer = answer
    wire = alone()
    assert CODED.encode() in http.request("GET", wire.url + SECRETS).data
    _holds_nothing(wire)
    assert len(Timeline.of(wire).lists().first.answer["items"]) == 2000


def test_the_events_of_a_watch(alone, upstream, http):
    event = json.dumps({"type": "ADDED", "object": secret()}, separators=(",", ":")) + "\n"

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(event.encode() * 2)
        return response

    upstream.answer = answer
    wire = alone("hide ADDED watch secrets times=1")
    assert http.request("GET", f"{wire.url}{SECRETS}?watch=true").data.decode() == event
    _holds_nothing(wire)
    timeline = Timeline.of(wire)
    seen = timeline.until(lambda t: len(t.events()) == 2 and t.events(), PATIENCE, "both events")
    assert {one.fate for one in seen} == {"hidden", "delivered"}
    assert {one.object["data"]["k"] for one in seen} == {"redacted"}


def test_a_token_that_was_asked_for(alone, upstream, http):
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"kind": "TokenRequest", "status": {"token": PLAIN}})

    upstream.answer = answer
    wire = alone()
    http.request("POST", f"{wire.url}/api/v1/namespaces/a/serviceaccounts/x/token", json={})
    review = {"kind": "TokenReview", "spec": {"token": PLAIN}}
    http.request("POST", f"{wire.url}/apis/authentication.k8s.io/v1/tokenreviews", json=review)
    upstream.answer = echo
    http.request("GET", f"{wire.url}/version", headers={"Authorization": f"Bearer {PLAIN}"})
    _holds_nothing(wire)


def test_a_withheld_answer(alone, upstream, http):
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(secret())

    upstream.answer = answer
    wire = alone("timeout create secrets applied=yes")
    assert http.request("POST", wire.url + SECRETS, json=secret()).status == 504
    _holds_nothing(wire)


def test_anything_else_is_recorded_as_it_is(alone, upstream, http):
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"kind": "ConfigMap", "data": {"k": CODED, "token": PLAIN}})

    upstream.answer = answer
    wire = alone()
    http.request("GET", f"{wire.url}/api/v1/namespaces/a/configmaps/c")
    assert Timeline.of(wire).exchanges().first.answer["data"] == {"k": CODED, "token": PLAIN}


def _audit(resource: str, subresource: str, **bodies) -> dict:
    return {
        "auditID": "a-1",
        "verb": "create",
        "stage": "ResponseComplete",
        "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
        "stageTimestamp": "2026-01-01T00:00:00.000000Z",
        "requestURI": "/api/v1/x",
        "objectRef": {"resource": resource, "subresource": subresource},
        **bodies,
    }


class _Cluster:
    """One whose audit policy keeps everything."""

    def audit(self, since: float) -> list[dict]:
        return [
            _audit("secrets", "", requestObject=secret(stringData={"k": PLAIN})),
            {**_audit("serviceaccounts", "token", responseObject={"status": {"token": PLAIN}}), "auditID": "b"},
        ]  # fmt: skip


def test_the_audit_log_of_a_cluster_that_keeps_everything():
    events = AuditFeed(_Cluster(), 0).new()
    assert len(events) == 2 and events[0]["requestObject"]["metadata"]["name"] == "s"
    assert PLAIN not in json.dumps(events) and CODED not in json.dumps(events)


def test_a_recording(tmp_path):
    target = tmp_path / "recording.jsonl"
    header = {"lab": "4.1.3", "cluster": {"id": "c"}}
    recording.write(target, header, [], _Cluster().audit(0))
    assert PLAIN not in target.read_text() and CODED not in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert len(recording.load(target).timeline) == 2


def test_a_run_is_for_its_user_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path))
    monkeypatch.setenv("PHASE4_WORKSPACE", str(tmp_path / "none"))
    assert stat.S_IMODE(new_run("x").stat().st_mode) == 0o700


def test_a_page_of_a_run_is_for_its_user_alone(alone, http, monkeypatch, tmp_path):
    from grader.cli import drive

    monkeypatch.setenv("PHASE4_HOME", str(tmp_path))  # no cluster is there
    wire = alone()
    http.request("POST", wire.url + SECRETS, json=secret())
    page = tmp_path / "page.html"
    drive.draw(wire.folder, page)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert PLAIN not in page.read_text() and CODED not in page.read_text()


@pytest.mark.parametrize("value", [None, 3, "text", [1], {"data": None}, {"data": 3}, {"op": 1}])
def test_odd_json_is_no_trouble(value):
    assert json.loads(redaction.body(json.dumps(value).encode())) is not Ellipsis
