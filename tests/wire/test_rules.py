"""The grammar of rules: what is understood, and what a wrong one is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.wire.engine import Armed, event_matches
from grader.wire.faults import FAULTS, OPTIONS, reference
from grader.wire.requests import RequestInfo, parse
from grader.wire.rules import (
    ALWAYS,
    ResourceSelector,
    Rule,
    RuleError,
    parse_rule,
    status_object,
)

POD = RequestInfo("create", "", "v1", "pods", "", "a", "")
STATUS = RequestInfo("update", "x.io", "v1", "webapps", "status", "a", "w")
WATCH_LIST = RequestInfo("watch", "x.io", "v1", "foos", "", "", "", watch_list=True)


@pytest.mark.parametrize(
    ("text", "info", "fits"),
    [
        ("kill-before create pods", POD, True),
        ("kill-before create pods ns=a", POD, True),
        ("kill-before create pods ns=b", POD, False),
        ("kill-before create pods/status", POD, False),
        ("kill-before update webapps", STATUS, False),
        ("kill-before update webapps/status", STATUS, True),
        ("kill-before update webapps/*", STATUS, True),
        ("kill-before update webapps.x.io/status", STATUS, True),
        ("kill-before update webapps.y.io/status", STATUS, False),
        ("kill-before write", STATUS, True),
        ("kill-before write any", STATUS, True),
        ("kill-before create,patch pods,services", POD, True),
        ("kill-before patch pods", POD, False),
        ("kill-before write except=pods", POD, False),
        ("kill-before write except=leases,events", POD, True),
        ("kill-before write except=webapps", STATUS, False),
        ("answer 500", POD, True),
        ("answer 500 any pods client=op", POD, True),
        ("answer 500 any pods client=other", POD, False),
        ("hold list foos", WATCH_LIST, True),
        ("hold watch foos", WATCH_LIST, True),
        ("hold get foos", WATCH_LIST, False),
    ],
)
def test_what_a_rule_selects(text, info, fits):
    assert parse_rule(text).selects(info, "op") is fits


def test_the_parts_of_a_rule():
    rule = parse_rule("answer 429 retry-after=2 create pods nth=2 times=3 message=too_many")
    assert (rule.action, rule.code, rule.retry_after) == ("answer", 429, 2)
    assert (rule.nth, rule.times, rule.message) == (2, 3, "too many")
    assert rule.verbs == {"create"} and rule.resources == (ResourceSelector("pods"),)
    assert parse_rule("delay 1.5s create").seconds == 1.5
    assert parse_rule("delay 200ms create").seconds == 0.2
    hide = parse_rule("hide DELETED watch configmaps name=x nth=1")
    assert hide.events == {"DELETED"} and hide.name == "x"
    assert parse_rule("hide DELETED configmaps").verbs == {"watch"}


def test_how_often_a_rule_acts():
    assert parse_rule("kill-before create pods").times == 1
    assert parse_rule("freeze watch pods").times == ALWAYS
    assert parse_rule("answer 500 create pods times=always").times == ALWAYS
    armed = Armed("r1", parse_rule("answer 500 create pods nth=2 times=2"), seed=0)
    assert [armed.take() for _ in range(5)] == [False, True, True, False, False]


def test_chance_is_decided_by_the_seed():
    rule = parse_rule("answer 500 create pods chance=0.5 times=always")

    def run(seed: int) -> list[bool]:
        armed = Armed("r1", rule, seed)
        return [armed.take() for _ in range(64)]

    assert run(1) == run(1) != run(2)
    assert 10 < sum(run(1)) < 54


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "answer 409"),
        ("kil-before create pods", "did you mean kill-before?"),
        ("explode", "Rules begin with one of"),
        ("answer create pods", "needs an error's code"),
        ("answer 200 create pods", "400 to 599"),
        ("delay create pods", "needs a time"),
        ("delay 2h create pods", "is not a time"),
        ("hide create pods", "acts on watches only"),
        ("kill-after get pods", "must be one that writes"),
        ("answer 409 CREATE pods", "did you mean create?"),
        ("answer 409 upate pods", "did you mean update?"),
        ("answer 409 update Pod", "plural in small letters"),
        ("freeze watch foo", "write the plural, foos"),
        ("answer 409 create deploy.apps", "write the plural, deployments"),
        ("answer 409 update pods foo", "the order is ACTION VERBS RESOURCES"),
        ("answer 409 update pods colour=red", "is not an option"),
        ("answer 409 update pods colour=red", "name, client, except, path"),
        ("answer 409 update pods applied=yes", "it is an option of timeout"),
        ("kill-before create pods part=answer", "it is an option of delay"),
        ("hold create pods reason=Conflict", "it is an option of answer, timeout, error"),
        ("delay 1s create pods part=both", "takes request or answer"),
        ("answer 409 update pods nth=0", "from 1 up"),
        ("answer 409 update pods nth=x", "takes a number"),
        ("answer 409 update pods chance=2", "at most 1"),
        ("timeout create pods applied=maybe", "yes or no"),
        ("answer 409 ADDED watch pods", "takes no event types"),
        ("hide DELETED,GONE watch pods", "GONE"),
        ("thaw watch pods", "not something a rule can do"),
    ],
)
def test_a_wrong_rule_is_told_how_to_be_right(text, says):
    with pytest.raises(RuleError, match=".") as caught:
        parse_rule(text)
    assert says in str(caught.value)


SELECTORS = st.builds(
    ResourceSelector,
    st.sampled_from(["pods", "foos"]),
    st.sampled_from([None, "x.io"]),
    st.sampled_from(["", "status", "*"]),
)
COMMON = {
    "verbs": st.frozensets(
        st.sampled_from(["get", "create", "update", "patch", "delete"]), max_size=3
    ),
    "resources": st.lists(SELECTORS, max_size=2, unique=True).map(tuple),
    "namespace": st.sampled_from(["", "a"]),
    "name": st.sampled_from(["", "x-1"]),
    "excepted": st.sampled_from([frozenset(), frozenset({"leases", "events"})]),
    "nth": st.integers(1, 3),
    "times": st.sampled_from([None, 1, 2, ALWAYS]),
    "chance": st.sampled_from([1.0, 0.25]),
}
RULES = st.one_of(
    st.builds(Rule, action=st.sampled_from(["kill-before", "hold", "cut"]), **COMMON),
    st.builds(Rule, action=st.just("timeout"), applied=st.booleans(), **COMMON),
    st.builds(
        Rule,
        action=st.just("answer"),
        code=st.integers(400, 599),
        retry_after=st.sampled_from([None, 0, 7]),
        message=st.sampled_from(["", "go away"]),
        **COMMON,
    ),
    st.builds(
        Rule,
        action=st.just("delay"),
        seconds=st.sampled_from([0.25, 2.0]),
        part=st.sampled_from(["request", "answer"]),
        **COMMON,
    ),
)


@given(RULES)
def test_a_rule_survives_being_written_down(rule):
    assert parse_rule(str(rule)) == rule


def test_the_reference_is_made_of_what_is_checked():
    """Each fault and each option is explained, as the page needs it and as a terminal does."""
    for text, mark in ((reference(), "``"), (reference(plain=True), "")):
        lines = text.splitlines()
        for fault in FAULTS.values():
            assert any(line.startswith(f"{mark}{fault.word}") for line in lines)
        for option in OPTIONS:
            assert any(line.startswith(f"{mark}{option.word}=") for line in lines)
        assert max(map(len, lines)) <= 81
    columns = {line.index("  ") for line in lines if line.startswith("=====")}
    assert columns == {27} and "``" not in text


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.word)
def test_every_fault_acts_on_something(fault):
    operand = {"CODE": "409", "TIME": "1s", "": ""}[fault.operand]
    rule = parse_rule(f"{fault.word} {operand}")
    assert (rule.on_requests, rule.on_answers, rule.on_events) == (
        bool(fault.request),
        bool(fault.answer),
        bool(fault.event),
    )
    assert rule.times == (ALWAYS if fault.lasts else 1)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.word)
def test_every_option_says_what_it_says(option):
    word = option.of[0] if option.of else "answer"
    operand = {"CODE": "409", "TIME": "1s", "": ""}[FAULTS[word].operand]
    value = {"N": "3", "SECONDS": "3", "RESOURCES": "leases"}.get(option.value, option.value)
    rule = parse_rule(f"{word} {operand} {option.word}={value}")
    written = str(replace(rule, text=""))
    assert f"{option.word}={value}" in written.split() and parse_rule(written) == rule


def test_which_versions_have_expired():
    expired = parse_rule("answer 410 list pods before=100 times=always")
    asked = ["99", "1", "100", "1000", "0", "", "x"]
    assert [expired.asks_for(version) for version in asked] == [True, True, *[False] * 5]


def test_which_events_a_rule_acts_on():
    hide = parse_rule("hide DELETED watch configmaps name=x ns=a")
    assert event_matches(hide, "DELETED", "a", "x")
    assert not event_matches(hide, "MODIFIED", "a", "x")
    assert not event_matches(hide, "DELETED", "a", "y")
    assert not event_matches(hide, "DELETED", "b", "x")
    assert not event_matches(parse_rule("hide watch configmaps"), "BOOKMARK", "", "")
    assert event_matches(parse_rule("freeze watch configmaps"), "BOOKMARK", "", "")


def test_discovery_is_reached_by_its_path_alone():
    discovery = parse("GET", "/apis/phase4.example.com/v1alpha1", {})
    listing = parse("GET", "/apis/phase4.example.com/v1alpha1/webapps", {})
    rule = parse_rule("answer 404 any path=/apis/phase4.example.com times=always")
    assert rule.selects(discovery, "op") and rule.selects(listing, "op")
    assert not rule.selects(POD, "op")
    assert not parse_rule("delay 1s any").selects(discovery, "op")
    assert parse_rule(str(rule)) == rule


def test_a_version_that_is_too_large_is_the_cause_of_a_timeout():
    status = status_object(
        504, "ResourceVersionTooLarge", "Too large resource version: 9, current: 1"
    )
    assert status["reason"] == "Timeout"
    assert [cause["reason"] for cause in status["details"]["causes"]] == ["ResourceVersionTooLarge"]
    assert "details" not in status_object(504, "Timeout", "too_large"), "any other has no cause"
