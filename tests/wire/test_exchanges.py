"""The wire's handling of a request, in front of an API server that is none."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import urllib3
from aiohttp import web

from grader.wire import negotiation
from grader.wire.proxy import WHOLE
from grader.witness import Timeline
from tests.wire.conftest import PATIENCE
from tests.wire.upstream import Stream

MAPS = "/api/v1/namespaces/a/configmaps"
MADE = {"kind": "ConfigMap", "metadata": {"name": "c"}}


def post(wire, http, name: str = "c"):
    return http.request("POST", wire.url + MAPS, json={"metadata": {"name": name}})


def lost(wire, http, method: str = "POST") -> None:
    """A request that is not answered."""
    with pytest.raises((urllib3.exceptions.ProtocolError, urllib3.exceptions.ReadTimeoutError)):
        http.request(method, wire.url + MAPS, json=MADE)


def last(wire):
    timeline = Timeline.of(wire)
    return timeline.until(lambda t: t.exchanges().last, PATIENCE, "the exchange")


async def made(request: web.Request) -> web.Response:
    return web.json_response(MADE, status=201)


async def refused(request: web.Request) -> web.Response:
    return web.json_response({"kind": "Status", "code": 409, "reason": "Conflict"}, status=409)


def test_a_request_arrives_with_the_wires_credential_and_identity(alone, upstream, http):
    wire = alone()
    answer = http.request(
        "PATCH",
        f"{wire.url}{MAPS}/c%2Fd?fieldManager=me&fieldManager=you",
        body=b'{"a":1}',
        headers={
            "Authorization": "Bearer mine",
            "Content-Type": "application/merge-patch+json",
            "User-Agent": "me/1",
            "X-Remote-User": "root",
        },
    )
    assert answer.status == 200
    (asked,) = upstream.asked
    # As it was written: a client's encoding is the client's.
    assert asked.raw_path == f"{MAPS}/c%2Fd?fieldManager=me&fieldManager=you"
    assert upstream.bodies == [b'{"a":1}']
    assert asked.headers["Authorization"] == "Bearer admins-token"
    assert asked.headers["Impersonate-User"] == "phase4:op"
    assert asked.headers["User-Agent"] == "me/1" and "X-Remote-User" not in asked.headers
    exchange = last(wire)
    assert exchange.audit_id == asked.headers["Audit-ID"]
    assert (exchange.verb, exchange.name, exchange.user_agent) == ("patch", "c/d", "me/1")
    assert exchange.query == {"fieldManager": "me"} and exchange.request_body == {"a": 1}


def test_nobody_acts_as_another(alone, upstream, http):
    wire = alone()
    answer = http.request("GET", wire.url + MAPS, headers={"impersonate-uid": "1"})
    assert answer.status == 403 and "--as" in answer.json()["message"]
    assert not upstream.asked and last(wire).forwarded is False


def test_what_the_api_server_says_is_handed_on_whole(alone, upstream, http):
    async def answer(request: web.Request) -> web.Response:
        headers = {"Warning": '299 - "old"', "X-Kubernetes-Pf-Flowschema-Uid": "u"}
        return web.Response(status=422, headers=headers, text="no", content_type="text/plain")

    upstream.answer = answer
    answered = post(alone(), http)
    assert (answered.status, answered.data) == (422, b"no")
    assert answered.headers["Warning"] == '299 - "old"'
    assert answered.headers["Content-Type"].startswith("text/plain")


def test_a_head_request_has_no_body(alone, upstream, http):
    wire = alone()
    answer = http.request("HEAD", wire.url + MAPS + "?watch=true")
    assert (answer.status, answer.data) == (200, b"")


@pytest.mark.parametrize("size", [10, WHOLE - 1, WHOLE + 1, 5 * WHOLE])
@pytest.mark.parametrize("chunked", [True, False])
def test_answers_of_every_size(alone, upstream, http, size, chunked):
    body = json.dumps({"items": ["x" * size]}).encode()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        if not chunked:
            response.content_length = len(body)
        await response.prepare(request)
        await response.write(body[: size // 2])
        await response.write(body[size // 2 :])
        return response

    upstream.answer = answer
    wire = alone()
    assert http.request("GET", wire.url + MAPS).data == body
    assert last(wire).response_body == json.loads(body)


def test_a_log_that_is_followed_comes_line_by_line(alone, upstream, http):
    stream = Stream(upstream, "text/plain")
    upstream.answer = stream.answer
    wire = alone()
    target = f"{wire.url}/api/v1/namespaces/a/pods/p/log?follow=true"
    answer = http.request("GET", target, preload_content=False)
    for line in (b"one\n", b"two\n"):
        stream.write(line)
        assert answer.readline() == line
    stream.end()
    assert answer.read() == b""
    assert last(wire).response_body == "one\ntwo\n"


def test_a_body_of_more_than_the_api_server_takes_is_refused(alone, upstream, http, monkeypatch):
    monkeypatch.setattr("grader.wire.proxy.MAX_BODY", 1000)
    answer = http.request("POST", alone().url + MAPS, body=b"x" * 2000)
    assert answer.status == 413 and not upstream.asked


def test_an_answer_that_breaks_off_is_not_handed_on(alone, upstream, http):
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        request.transport.abort()
        return response

    upstream.answer = answer
    wire = alone()
    lost(wire, http)
    exchange = last(wire)
    assert (exchange.status, exchange.forwarded, exchange.applied) == (None, True, True)
    assert "broke off" in exchange.error


def test_an_api_server_that_hangs_up(alone, upstream, http):
    async def answer(request: web.Request) -> web.Response:
        request.transport.abort()
        return web.Response()

    upstream.answer = answer
    wire = alone()
    lost(wire, http)
    exchange = last(wire)
    assert exchange.forwarded and exchange.applied is None and "did not answer" in exchange.error
    # A write that is sent twice would be on record once.
    assert len(upstream.asked) == 1


def test_a_fault_of_the_wires_is_nobodys_evidence(alone, upstream, http, monkeypatch):
    wire = alone()

    def broken(*arguments, **options):
        raise ValueError("a bug")

    monkeypatch.setattr(negotiation, "returned", broken)
    lost(wire, http)
    assert "the wire itself failed (ValueError: a bug)" in wire.failure.strerror
    assert last(wire).status is None


# Rules ---------------------------------------------------------------------------------


def test_an_answer_that_a_rule_makes_up(alone, upstream, http):
    wire = alone("answer 429 retry-after=3 reason=Busy message=not_now create configmaps name=c")
    answer = post(wire, http)
    assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
    status = answer.json()
    assert (status["reason"], status["message"]) == ("Busy", "not now")
    assert status["details"]["retryAfterSeconds"] == 3
    assert not upstream.asked and last(wire).applied is False
    assert post(wire, http).status == 200  # once


def test_a_rule_for_another_name_or_version_is_not_used_up(alone, upstream, http):
    wire = alone("answer 409 create configmaps name=d", "answer 410 list configmaps version=7")
    assert post(wire, http, "c").status == 200 and post(wire, http, "d").status == 409
    assert http.request("GET", wire.url + MAPS).status == 200
    assert http.request("GET", f"{wire.url}{MAPS}?resourceVersion=7").status == 410


@pytest.mark.parametrize(("applied", "asked"), [("", 0), (" applied=yes", 1)])
def test_a_timeout(alone, upstream, http, applied, asked):
    upstream.answer = made
    wire = alone(f"timeout create configmaps{applied}")
    assert post(wire, http).json()["reason"] == "Timeout"
    assert len(upstream.asked) == asked
    exchange = last(wire)
    assert (exchange.status, exchange.applied) == (504, bool(asked))


def test_a_cut_is_before_and_a_dropped_answer_after(alone, upstream, http):
    upstream.answer = made
    wire = alone("cut create configmaps", "drop-answer create configmaps")
    lost(wire, http)
    assert not upstream.asked and last(wire).applied is False
    lost(wire, http)
    assert len(upstream.asked) == 1 and last(wire).applied is True
    assert last(wire).answer == MADE and last(wire).response_body is None


def test_an_answer_is_not_dropped_where_nothing_was_applied(alone, upstream, http):
    upstream.answer = refused
    wire = alone("drop-answer create configmaps")
    assert post(wire, http).status == 409
    upstream.answer = made
    lost(wire, http)


def test_what_is_held_goes_on_when_its_rule_is_removed(alone, upstream, http):
    wire = alone("hold create configmaps")
    (rule,) = wire.rules
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(post, wire, http)
        rule.wait_fired(timeout=PATIENCE)
        assert not upstream.asked and not waiting.done()
        rule.remove()
        assert waiting.result(PATIENCE).status == 200


def test_a_process_that_goes_while_it_is_held(alone, upstream):
    wire = alone("hold create configmaps")
    (rule,) = wire.rules
    with socket.create_connection(("127.0.0.1", wire.port)) as connection:
        path = wire.url.partition(str(wire.port))[2]
        connection.sendall(
            f"POST {path}{MAPS} HTTP/1.1\r\nHost: 127.0.0.1:{wire.port}\r\n"
            "Content-Length: 2\r\n\r\n{}".encode()
        )
        rule.wait_fired(timeout=PATIENCE)
    assert "went away" in last(wire).error and not upstream.asked


@pytest.mark.parametrize("part", ["request", "answer"])
def test_a_delay_ends_with_its_rule(alone, upstream, http, part):
    wire = alone(f"delay 10m create configmaps part={part}")
    (rule,) = wire.rules
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(post, wire, http)
        rule.wait_fired(timeout=PATIENCE)
        rule.remove()
        assert waiting.result(PATIENCE).status == 200
    assert last(wire).faults == [rule.id]


def test_delays_let_the_next_rule_have_its_say(alone, http):
    wire = alone("delay 1ms create configmaps", "answer 409 create configmaps")
    assert post(wire, http).status == 409
    assert last(wire).faults == ["r1", "r2"]


# Kills ---------------------------------------------------------------------------------


class Process:
    """Connections that end when it is killed, as a process' do."""

    def __init__(self, wire) -> None:
        self.wire = wire
        self.killed = threading.Event()
        self.connections: list[socket.socket] = []
        wire.on_kill(self.kill)

    def send(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.wire.port), timeout=PATIENCE)
        self.connections.append(connection)
        path = self.wire.url.partition(str(self.wire.port))[2]
        connection.sendall(
            f"POST {path}{MAPS} HTTP/1.1\r\nHost: 127.0.0.1:{self.wire.port}\r\n"
            "Content-Length: 2\r\n\r\n{}".encode()
        )
        return connection

    def kill(self) -> None:
        for connection in self.connections:
            connection.shutdown(socket.SHUT_RDWR)
        self.killed.set()

    def close(self) -> None:
        for connection in self.connections:
            connection.close()


@pytest.mark.parametrize(("when", "asked"), [("before", 0), ("after", 1)])
def test_a_kill(alone, upstream, when, asked):
    upstream.answer = made
    wire = alone(f"kill-{when} create configmaps")
    process = Process(wire)
    connection = process.send()
    assert process.killed.wait(PATIENCE)
    assert connection.recv(100) == b""
    timeline = Timeline.of(wire)
    mark = timeline.until(lambda t: t.marks("process_killed").first, PATIENCE, "the kill's mark")
    assert mark.data["when"] == when and len(upstream.asked) == asked
    exchange = timeline.until(lambda t: t.exchanges().first, PATIENCE, "the exchange")
    assert (exchange.status, exchange.applied) == (None, bool(asked))
    process.close()


def test_nothing_of_a_killed_process_is_forwarded(alone, upstream, http):
    """Not what arrived while it was dying, on this connection or on another."""
    wire = alone("hold create configmaps", "kill-before update configmaps")
    hold, _ = wire.rules
    process = Process(wire)
    process.send()
    hold.wait_fired(timeout=PATIENCE)

    def slow_death() -> None:
        # What it had held back is let go in the middle of its death; that its
        # connections are closed, the wire hears later.
        hold.remove()
        process.send()

    wire.on_kill(slow_death)
    lost(wire, http, "PUT")
    timeline = Timeline.of(wire)
    ended = timeline.until(
        lambda t: len(t.exchanges()) >= 2 and t.exchanges(), PATIENCE, "both requests' ends"
    )
    assert not upstream.asked and not any(one.forwarded for one in ended)
    # A process that is started again has connections of its own.
    assert urllib3.PoolManager(retries=False).request("GET", wire.url + MAPS).status == 200
    process.close()


def test_a_kill_where_there_is_nothing_to_kill(alone, upstream, http):
    wire = alone("kill-before create configmaps")
    lost(wire, http)
    assert Timeline.of(wire).marks("kill_impossible") and not upstream.asked


def test_a_kill_that_fails_does_not_hold_up_the_rest(alone, upstream, http):
    def broken() -> None:
        raise ProcessLookupError("gone")

    wire = alone("kill-before create configmaps")
    wire.on_kill(broken)
    lost(wire, http)
    assert urllib3.PoolManager(retries=False).request("GET", wire.url + MAPS).status == 200


# The end -------------------------------------------------------------------------------


def test_a_wire_that_is_closed_ends_what_is_in_flight(alone, upstream, http):
    wire = alone("hold create configmaps")
    (rule,) = wire.rules
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(lost, wire, http)
        rule.wait_fired(timeout=PATIENCE)
        wire.close()
        waiting.result(PATIENCE)
    assert last(wire).status is None and not upstream.asked
    assert Timeline(wire.record).marks("wire_closed")
