"""What a diagnosis may look like, and the sentence for each that is none."""

from __future__ import annotations

import json

import pytest

from grader.labs import lab_4_4_6_said as reading
from grader.labs.lab_4_4_6_finalizers import OperatorGone
from grader.labs.lab_4_4_6_kinds import KINDS, DeadApiService, GracePeriod, NotWedged
from grader.labs.lab_4_4_6_wedges import CONTENT, DISCOVERY, FINALIZERS, REMAINING, Hold
from grader.verdict import Fail

HELD = {
    "why": "finalizer",
    "resource": "buckets.store.example.com",
    "namespace": "wedge-1",
    "object": "main",
    "finalizer": "store.example.com/cleanup",
    "condition": FINALIZERS,
}


def wedge(kind, *holds: Hold):
    made = kind(None, None)
    made.namespace, made.holds = "wedge-1", list(holds)
    return made


@pytest.fixture
def operator_gone():
    says = frozenset({FINALIZERS, REMAINING})
    fields = {key: HELD[key] for key in ("why", "resource", "namespace", "object", "finalizer")}
    return wedge(OperatorGone, Hold(**fields, conditions=says))


def said(*lines: dict) -> list[reading.Said]:
    return reading.read([json.dumps(line) for line in lines])


def diagnosis(function, *arguments) -> str:
    with pytest.raises(Fail) as failed:
        function(*arguments)
    message = failed.value.message
    assert message.expected and message.seen and message.next
    return message.diagnosis


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ([], "says-nothing"),
        (["", "  "], "says-nothing"),
        (["Looking at shop"], "rubbish"),
        (["[]"], "rubbish"),
        (["null"], "rubbish"),
        (['{"why": "nothing"'], "rubbish"),
        (['{"why": "finalizer", "finalizer": ["a", "b"]}'], "rubbish"),
        (['{"why": 3}'], "rubbish"),
        (["{}"], "unknown-word"),
        (['{"why": "stuck"}'], "unknown-word"),
        (['{"why": "nothing"}'] * 21, "rubbish"),
        (["\x00\ufffd"], "rubbish"),
    ],
)
def test_what_is_no_diagnosis(lines, name):
    assert diagnosis(reading.read, lines) == name


def test_null_and_left_out_are_the_same():
    assert said({"why": "nothing"}) == said({"why": "nothing", "resource": None, "object": ""})


@pytest.mark.parametrize(
    "resource",
    [
        "buckets.store.example.com",
        "bucket.store.example.com",
        "buckets",
        "Bucket",
        "buckets.v1.store.example.com",
    ],
)
def test_ways_to_name_a_resource(operator_gone, resource):
    reading.judge(operator_gone, said({**HELD, "resource": resource}))


@pytest.mark.parametrize("condition", [FINALIZERS, REMAINING])
def test_each_condition_that_is_true_will_do(operator_gone, condition):
    reading.judge(operator_gone, said({**HELD, "condition": condition}))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"object": "other"}, "misses-the-object"),
        ({"object": None}, "misses-the-object"),
        ({"resource": "vaults.store.example.com"}, "misses-the-object"),
        ({"resource": "buckets.other.example.com"}, "misses-the-object"),
        ({"namespace": "default"}, "misses-the-object"),
        ({"why": "version"}, "misses-the-object"),
        ({"finalizer": "kubernetes"}, "wrong-finalizer"),
        ({"finalizer": None}, "wrong-finalizer"),
        ({"condition": CONTENT}, "wrong-condition"),
        ({"condition": None}, "wrong-condition"),
    ],
)
def test_what_is_wrong_is_named(operator_gone, change, name):
    assert diagnosis(reading.judge, operator_gone, said({**HELD, **change})) == name


def test_one_line_too_many(operator_gone):
    lines = said(HELD, {**HELD, "object": "free"})
    assert diagnosis(reading.judge, operator_gone, lines) == "says-too-much"


def test_the_same_line_twice_is_one_too_many(operator_gone):
    assert diagnosis(reading.judge, operator_gone, said(HELD, HELD)) == "says-too-much"


def test_a_singular_that_ends_in_s():
    service = wedge(
        DeadApiService,
        Hold(
            "discovery",
            "apiservices.apiregistration.k8s.io",
            "",
            "v1.m.example.com",
            "",
            frozenset({DISCOVERY}),
        ),
    )
    line = {
        "why": "discovery",
        "resource": "APIService",
        "object": "v1.m.example.com",
        "condition": DISCOVERY,
    }
    reading.judge(service, said(line))


def test_no_condition_speaks_of_a_grace_period():
    pod = wedge(GracePeriod, Hold("grace", "pods", "wedge-1", "slow"))
    line = {"why": "grace", "resource": "pod", "namespace": "wedge-1", "object": "slow"}
    reading.judge(pod, said(line))
    wrong = {**line, "condition": REMAINING}
    assert diagnosis(reading.judge, pod, said(wrong)) == "wrong-condition"


def test_a_wedge_where_there_is_none():
    calm = wedge(NotWedged, Hold("nothing"))
    reading.judge(calm, said({"why": "nothing"}))
    assert diagnosis(reading.judge, calm, said(HELD)) == "sees-a-wedge"
    assert diagnosis(reading.judge, calm, said({"why": "nothing"}, HELD)) == "sees-a-wedge"


def test_every_kind_has_its_sentences():
    kinds = {kind.kind for kind in KINDS}
    assert kinds == set(reading._MISSED) == set(reading._LOOK)
    assert all(kind.title for kind in KINDS)
