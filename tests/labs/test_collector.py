"""What the labs on the garbage collector do with what was handed in, and with a collector that is not seen."""

from __future__ import annotations

import threading

import pytest

from grader import course
from grader.evidence import answers as written
from grader.labs import (
    collector,
    lab_4_4_3,
    lab_4_4_4,
    lab_4_4_7,
    lab_4_4_7_looks,
)
from grader.runner.submission import Submission
from grader.verdict import Fail, NotGraded, Unknown
from grader.wire.records import Exchange

OFFERED = {
    "4.4.3": [
        ("Predictions", lab_4_4_3.OFFERED),
        ("The event", {"type": lab_4_4_3.TYPES}),
        ("Remedies", lab_4_4_3.REMEDIES),
    ],
    "4.4.4": [
        ("Predictions", lab_4_4_4.OFFERED),
        ("Wishes", dict.fromkeys(lab_4_4_4.WISHES, lab_4_4_4.POLICIES)),
        ("Blocking", dict.fromkeys(("backup", "cache"), ("true", "false"))),
    ],
    "4.4.7": [("Predictions", lab_4_4_7.OFFERED)],
}
QUESTIONS = [
    (lab, section, question, words)
    for lab, sections in OFFERED.items()
    for section, offered in sections
    for question, words in offered.items()
]


@pytest.mark.parametrize(("lab", "section", "question", "words"), QUESTIONS)
def test_the_starter_asks_and_answers_nothing(lab, section, question, words):
    """The words that a starter offers must not be read as a prediction."""
    text = (course.ROOT / "exercises" / lab / "common" / "answers.md").read_text(encoding="utf-8")
    assert question in text
    for word in words:
        assert f"`{word}`" in " ".join(text.replace("\n>", "").split())
    with pytest.raises(NotGraded) as missing:
        written.parse(text).require_prediction(question, section=section, choices=words)
    assert missing.value.message.diagnosis == "prediction-missing"


@pytest.mark.parametrize(("lab", "section", "question", "words"), QUESTIONS)
def test_each_offered_word_is_read(lab, section, question, words):
    for word in words:
        for line in (f"- {question}: {word}", f"1. **{question}**: `{word.upper()}`"):
            answers = written.parse(f"## {section}\n\n{line}\n")
            assert collector.predictions(answers, {question: words}, section) == {question: word}


@pytest.mark.parametrize(
    ("said", "diagnosis"),
    [
        ("all of them", "prediction-unreadable"),
        ("owner first or owner last", "prediction-unreadable"),
        ("not owner first", "prediction-unreadable"),
        ("3", "prediction-unreadable"),
    ],
)
def test_a_word_that_is_not_offered_is_a_sentence(said, diagnosis):
    answers = written.parse(f"## Predictions\n\n- Foreground, order: {said}\n")
    with pytest.raises(Fail) as refused:
        collector.predictions(answers, {"Foreground, order": lab_4_4_4.ORDERS})
    assert refused.value.message.diagnosis == diagnosis
    assert "owner first" in refused.value.message.next


@pytest.mark.parametrize(
    ("data", "diagnosis"),
    [
        (b"", "not-json"),
        (b"TODO\n", "not-json"),
        (b"metadata: {ownerReferences: null}\n", "not-json"),
        (b'{"metadata": {"ownerReferences": [{"uid": $UID}]}}', "not-json"),
        (b"[]", "not-an-object"),
        (b'"null"', "not-an-object"),
        (b"null", "not-an-object"),
        (b"[" * 30000, "not-an-object"),
        (b"\x00\x01", "binary-file"),
        (b"\xff\xfe{\x00}\x00", "not-utf-8"),
        (b" " * 70000 + b"{}", "file-too-large"),
    ],
)
def test_a_patch_that_is_none_is_a_sentence(tmp_path, data, diagnosis):
    (tmp_path / "4.4.7").mkdir()
    (tmp_path / "4.4.7" / "rescue.json").write_bytes(data)
    with pytest.raises(Fail) as refused:
        lab_4_4_7.read_patch(Submission(tmp_path / "4.4.7", "4.4.7"))
    assert refused.value.message.diagnosis == diagnosis


def test_no_patch_is_not_graded(tmp_path):
    (tmp_path / "4.4.7").mkdir()
    with pytest.raises(NotGraded):
        lab_4_4_7.read_patch(Submission(tmp_path / "4.4.7", "4.4.7"))


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("OwnerRefInvalidNamespace", True),
        ("`ownerrefinvalidnamespace`.", True),
        ("Warning  OwnerRefInvalidNamespace", True),
        ("the reason is OwnerRefInvalidNamespace", True),
        ("OwnerRefInvalidNamespace or FailedDelete", False),
        ("not OwnerRefInvalidNamespace", False),
        ("Warning", False),
        ("InvalidNamespace", False),
    ],
)
def test_an_events_reason_is_read_as_it_is_printed(said, right):
    assert (lab_4_4_3._bare(said) == "ownerrefinvalidnamespace") is right


def _event(name: str, version: int, type: str = "ADDED", **metadata) -> tuple[str, dict]:
    meta = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return type, {"kind": "ConfigMap", "metadata": {**meta, **metadata}}


class _Api:
    """A watch of given events, which then waits."""

    def __init__(self, *events) -> None:
        self._events = list(events)
        self._told = threading.Event()

    def list(self, resource):
        return {"metadata": {"resourceVersion": "1"}, "items": []}

    def watch(self, resource, namespace, version, timeout):
        if not self._told.is_set():
            self._told.set()
            yield from self._events
        threading.Event().wait(0.05)


def test_what_went_is_told_in_the_servers_order():
    (_, a), (_, b) = _event("a", 2), _event("b", 3)
    api = _Api(
        ("ADDED", a), ("ADDED", b), _event("b", 5, "DELETED"), _event("a", 6, "DELETED")
    )  # fmt: skip
    history = collector.History(api)
    try:
        history.until(lambda: history.gone(a), "deletes a")
        assert history.left({"a": a, "b": b}) == ["b", "a"]
        assert [s.type for s in history.of(a)] == ["ADDED", "DELETED"]
    finally:
        history.close()


def test_a_collector_that_does_nothing_is_unknown(monkeypatch):
    monkeypatch.setattr(collector, "PATIENCE", 0.1)
    _, a = _event("a", 2)
    history = collector.History(_Api(("ADDED", a)))
    try:
        with pytest.raises(Unknown) as unseen:
            history.until(lambda: history.gone(a), "deletes a")
        assert "0.1 s" in unseen.value.message.seen
    finally:
        history.close()


def test_a_watch_that_breaks_is_unknown_at_once():
    history = collector.History(_Api(("ERROR", {"message": "too old resource version"})))
    with pytest.raises(Unknown) as broken:
        history.until(lambda: False, "deletes a")
    assert "too old resource version" in broken.value.message.seen


def _delete(preconditions: dict | None) -> Exchange:
    body = {"preconditions": preconditions} if preconditions is not None else None
    return Exchange(
        seq=0, client="", verb="delete", method="DELETE", path="", query={}, group="", version="v1",
        resource="configmaps", subresource="", namespace="n", name="a", user_agent="",
        content_type="", request_body=body, status=200, response_body=None, t_request=0.0,
        t_response=0.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("preconditions", "word"),
    [
        ({"uid": "1", "resourceVersion": "2"}, "both"),
        ({"uid": "1"}, "the UID"),
        ({"resourceVersion": "2"}, "the resourceVersion"),
        ({}, "neither"),
        (None, "neither"),
    ],
)
def test_what_a_delete_names(preconditions, word):
    assert lab_4_4_7_looks._named(_delete(preconditions)) == word


@pytest.mark.parametrize(
    "ref",
    [
        collector.reference("other", "uid-other", kind="Keeper"),
        collector.reference("other", "uid-else"),
        collector.reference("else", "uid-other"),
        collector.reference("other", "uid-other", api_version="v2"),
    ],
)
def test_an_owner_that_the_collector_cannot_find_is_no_rescue(ref):
    _, other = _event("other", 2)
    _, child = _event("child", 3, ownerReferences=[ref])
    state = collector.State(0.0, "MODIFIED", child)
    assert ref["uid"] in lab_4_4_7_looks._unknown(state, other)
    child["metadata"]["ownerReferences"] = [collector.owned_by(other, block=True)]
    assert lab_4_4_7_looks._unknown(state, other) == ""


def test_a_dependent_of_one_owner_alone_is_told_from_one_of_two():
    _, owner = _event("owner", 2)
    _, other = _event("other", 3)
    refs = [collector.owned_by(owner)]
    for others, alone in (([], True), ([collector.owned_by(other)], False)):
        _, child = _event("child", 4, ownerReferences=refs + others)
        state = collector.State(0.0, "MODIFIED", child)
        assert lab_4_4_7_looks._names_alone(state, owner) is alone


def test_the_audit_log_has_the_collectors_gets():
    """Of the control plane's reads it has no others; the first rule that matches decides."""
    import yaml

    policy = course.ROOT / "grader" / "cluster" / "manifests" / "audit-policy.yaml"
    rules = yaml.safe_load(policy.read_text(encoding="utf-8"))["rules"]
    matching = [
        rule
        for rule in rules
        if "get" in rule.get("verbs", ["get"])
        and "resources" not in rule
        and "nonResourceURLs" not in rule
        and (
            collector.COLLECTOR in rule.get("users", ())
            or "system:serviceaccounts:kube-system" in rule.get("userGroups", ())
        )
    ]
    assert matching[0]["level"] == "Metadata"
    assert collector.COLLECTOR in matching[0]["users"]
