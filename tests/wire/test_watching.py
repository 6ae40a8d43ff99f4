"""A watch through the wire, event by event, with an API server that says what the test wants."""

from __future__ import annotations

import json

import pytest
import urllib3

from grader.wire.watching import split_event
from grader.witness import Timeline
from tests.wire.conftest import PATIENCE
from tests.wire.upstream import Stream

MAPS = "/api/v1/namespaces/a/configmaps"


class Watch:
    """What a process sees of a watch."""

    def __init__(self, wire, upstream, path: str = f"{MAPS}?watch=true") -> None:
        self.wire = wire
        self.stream = Stream(upstream)
        upstream.answer = self.stream.answer
        pool = urllib3.PoolManager(retries=False, timeout=PATIENCE)
        self.answer = pool.request("GET", wire.url + path, preload_content=False)
        self.timeline = Timeline.of(wire)

    def next(self) -> tuple[str, str]:
        """Type and name of the next event; of an ERROR, its code."""
        event = json.loads(self.answer.readline())
        about = event["object"]
        return event["type"], about.get("metadata", {}).get("name") or str(about.get("code"))

    def ends(self) -> str:
        """How it ends: in order, or as a broken connection; the rest must be nothing."""
        try:
            assert self.answer.read() == b""
        except (urllib3.exceptions.ProtocolError, OSError):
            return "broken"
        return "in order"

    def ended_by(self) -> str:
        return self.timeline.until(
            lambda t: t.watch_ends().first, PATIENCE, "the end of the watch"
        ).by

    def fates(self, count: int) -> list[tuple[str, str]]:
        events = self.timeline.until(
            lambda t: len(t.events()) >= count and t.events(), PATIENCE, f"{count} events"
        )
        in_order = sorted(events, key=lambda one: one.seq)
        return [(one.object["metadata"]["name"], one.fate) for one in in_order]


@pytest.fixture
def watch(alone, upstream):
    opened = []

    def open_one(*rules: str, path: str = f"{MAPS}?watch=true") -> Watch:
        opened.append(Watch(alone(*rules), upstream, path))
        return opened[-1]

    yield open_one
    for one in opened:
        one.stream.end()
        one.answer.close()


@pytest.mark.parametrize(
    ("line", "type", "object"),
    [
        (b'{"type":"ADDED","object":{"a":1}}', "ADDED", {"a": 1}),
        (b'{"type":"ADDED","object":{"a":"}"}} ', "ADDED", {"a": "}"}),
        (b'{"object":{"a":1},"type":"ADDED"}', "ADDED", {"a": 1}),
        (b'{"type": "ADDED", "object": {"a":1}}', "ADDED", {"a": 1}),
        (b"not JSON", "", "not JSON"),
        (b"[]", "", "[]"),
        (b'{"type":"ADDED"}', "", {"type": "ADDED"}),
    ],
)
def test_an_event_is_split_without_being_parsed(line, type, object):
    found, raw = split_event(line)
    assert (found, json.loads(raw)) == (type, object)


def test_an_event_is_on_record_before_it_is_handed_on(watch):
    open_watch = watch()
    for n in range(20):
        open_watch.stream.event("ADDED", f"c{n}")
        assert open_watch.next() == ("ADDED", f"c{n}")
        assert f'"name":"c{n}"'.encode() in open_watch.wire.record.read_bytes()


def test_events_that_come_in_pieces_or_together(watch):
    open_watch = watch()
    lines = [b'{"type":"ADDED","object":{"metadata":{"name":"c%d"}}}\n' % n for n in range(3)]
    joined = b"".join(lines)
    open_watch.stream.write(joined[:70], joined[70:71], joined[71:])
    assert [open_watch.next()[1] for _ in lines] == ["c0", "c1", "c2"]
    assert len(open_watch.fates(3)) == 3


def test_a_watch_that_the_api_server_ends(watch):
    open_watch = watch()
    open_watch.stream.end()
    assert open_watch.ends() == "in order" and open_watch.ended_by() == "server"


def test_a_watch_that_breaks_upstream_breaks_here(watch):
    open_watch = watch()
    open_watch.stream.event("ADDED", "c")
    assert open_watch.next() == ("ADDED", "c")
    open_watch.stream.break_off()
    assert open_watch.ends() == "broken" and open_watch.ended_by() == "server"


def test_a_process_that_goes_away_ends_the_watch_upstream(watch):
    open_watch = watch()
    open_watch.stream.event("ADDED", "c")
    open_watch.next()
    open_watch.answer.close()
    assert open_watch.ended_by() == "client"
    assert open_watch.stream.gone.wait(PATIENCE)


def test_a_wire_that_closes_breaks_its_watches(watch):
    open_watch = watch()
    open_watch.wire.close()
    assert open_watch.ends() == "broken" and open_watch.ended_by() == "wire"


def test_a_refused_watch_is_an_answer_like_any_other(watch, alone, upstream, http):
    from aiohttp import web

    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "code": 410}, status=410)

    upstream.answer = refuse
    wire = alone()
    assert http.request("GET", f"{wire.url}{MAPS}?watch=true").status == 410
    timeline = Timeline.of(wire)
    assert timeline.exchanges().first.answer["code"] == 410 and not timeline.watch_ends()


# Rules ---------------------------------------------------------------------------------


def test_a_freeze_and_its_end(watch):
    open_watch = watch()
    rule = open_watch.wire.rules.add("freeze watch configmaps")
    open_watch.stream.event("ADDED", "c")
    open_watch.stream.event("MODIFIED", "c")
    rule.wait_fired(timeout=PATIENCE)
    open_watch.timeline.until(
        lambda t: open_watch.wire.queued("configmaps") == 2, PATIENCE, "both events to queue up"
    )
    assert open_watch.wire.queued("pods") == 0 and not open_watch.timeline.events()
    rule.remove()
    assert [open_watch.next()[0] for _ in range(2)] == ["ADDED", "MODIFIED"]
    first = open_watch.timeline.events().first
    assert first.faults == [rule.id] and first.t_delivered > first.t_received


def test_what_was_frozen_when_the_watch_ended_is_lost(watch):
    open_watch = watch("freeze watch configmaps")
    (rule,) = open_watch.wire.rules
    open_watch.stream.event("ADDED", "c")
    rule.wait_fired(timeout=PATIENCE)
    open_watch.answer.close()
    assert open_watch.fates(1) == [("c", "lost")] and open_watch.ended_by() == "client"


def test_hide_takes_one_event_for_good(watch):
    open_watch = watch("hide DELETED watch configmaps name=c")
    for type, name in (("ADDED", "c"), ("DELETED", "d"), ("DELETED", "c"), ("DELETED", "c")):
        open_watch.stream.event(type, name)
    assert [open_watch.next() for _ in range(3)] == [
        ("ADDED", "c"),
        ("DELETED", "d"),
        ("DELETED", "c"),
    ]
    assert [fate for _, fate in open_watch.fates(4)] == [
        "delivered",
        "delivered",
        "hidden",
        "delivered",
    ]


def test_hide_leaves_a_bookmark_alone(watch):
    open_watch = watch("hide watch configmaps")
    open_watch.stream.event("BOOKMARK", "b")
    open_watch.stream.event("ADDED", "c")
    open_watch.stream.event("ADDED", "d")
    assert [open_watch.next()[1] for _ in range(2)] == ["b", "d"]


def test_a_delay_keeps_the_order(watch):
    open_watch = watch("delay 30ms watch configmaps name=c")
    open_watch.stream.event("ADDED", "c")
    open_watch.stream.event("ADDED", "d")
    assert [open_watch.next()[1] for _ in range(2)] == ["c", "d"]
    first = open_watch.timeline.events(name="c").first
    assert first.t_delivered - first.t_received >= 0.03


@pytest.mark.parametrize(("option", "how"), [("", "broken"), (" cleanly=yes", "in order")])
def test_a_cut_ends_the_open_watches_at_once(watch, option, how):
    open_watch = watch()
    open_watch.stream.event("ADDED", "c")
    open_watch.next()
    rule = open_watch.wire.rules.add(f"cut watch configmaps{option}")
    assert open_watch.ends() == how and open_watch.ended_by() == "rule"
    assert rule.fired == 1


def test_a_cut_that_names_a_type_is_in_place_of_the_event(watch):
    open_watch = watch("cut DELETED watch configmaps")
    open_watch.stream.event("ADDED", "c")
    open_watch.stream.event("DELETED", "c")
    assert open_watch.next() == ("ADDED", "c") and open_watch.ends() == "broken"
    assert open_watch.fates(2) == [("c", "delivered"), ("c", "lost")]


def test_a_cut_waits_for_the_next_watch_where_none_is_open(watch):
    open_watch = watch("cut watch configmaps")
    assert open_watch.ends() == "broken" and open_watch.ended_by() == "rule"


def test_an_error_is_the_last_that_is_said(watch):
    open_watch = watch()
    open_watch.wire.rules.add("freeze watch configmaps")
    open_watch.stream.event("ADDED", "c")
    next(iter(open_watch.wire.rules)).wait_fired(timeout=PATIENCE)
    open_watch.wire.rules.add("error 410 watch configmaps")
    assert open_watch.next() == ("ERROR", "410") and open_watch.ends() == "in order"
    events = open_watch.timeline.until(
        lambda t: len(t.events()) == 2 and t.events(), PATIENCE, "both events"
    )
    # What was held back before it is lost, and on record before it.
    assert [(one.type, one.fate) for one in events] == [("ADDED", "lost"), ("ERROR", "delivered")]
    assert events[1].object["reason"] == "Expired"


def test_a_rule_for_another_namespace_or_resource_lets_the_watch_be(watch):
    open_watch = watch("freeze watch pods", "freeze watch configmaps ns=b", "cut watch secrets")
    open_watch.stream.event("ADDED", "c")
    assert open_watch.next() == ("ADDED", "c")


def test_a_watch_of_all_namespaces_is_looked_into(watch):
    open_watch = watch("hide watch configmaps ns=a", path="/api/v1/configmaps?watch=true")
    open_watch.stream.event("ADDED", "c")
    open_watch.stream.event("ADDED", "d", namespace="b")
    assert open_watch.next() == ("ADDED", "d")
