"""Citation questions: every defensible statement answers, and what looks like one is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.evidence import citations, pinned, pins, places
from grader.evidence.answers import parse
from grader.evidence.citations import Citation
from grader.evidence.digest import digest
from grader.evidence.pinned import Index
from grader.verdict import Fail, NotGraded, Unknown
from grader.verify import cited

CACHE = "k8s.io/client-go/tools/cache"
CLIENT, SERVER, ETCD = (
    "The client acts on it",
    "The API server passes it on",
    "etcd says it",
)


def outcome(lab, heading, place):
    """The diagnosis that a line of a pinned file gets, empty where it answers."""
    module, path = pinned.load().split(place.rpartition(":")[0])
    question = places.of(lab, heading)
    line = int(place.rpartition(":")[2])
    known = question.at(module, path, line)
    if known in question.right:
        return ""
    return known.diagnosis if known else "no name"


@pytest.mark.parametrize(
    ("lab", "heading", "place"),
    [
        ("4.2.5", CLIENT, f"{CACHE}/reflector.go:728"),
        ("4.2.5", CLIENT, f"{CACHE}/reflector.go:1116"),
        ("4.2.5", CLIENT, f"{CACHE}/reflector.go:1135"),
        ("4.2.5", CLIENT, f"{CACHE}/reflector.go:1011"),
        ("4.2.5", SERVER, "k8s.io/apimachinery/pkg/api/errors/errors.go:274"),
        ("4.2.5", SERVER, "k8s.io/apiserver/pkg/storage/etcd3/watcher.go:764"),
        ("4.2.5", ETCD, "etcd/server/v3/etcdserver/api/v3rpc/watch.go:459"),
        ("4.2.5", ETCD, "etcd/server/v3/storage/mvcc/watcher_group.go:257"),
        ("4.2.5", ETCD, "etcd/client/v3/watch.go:128"),
        ("4.2.3", "Where DeltaFIFO compresses", f"{CACHE}/delta_fifo.go:520"),
        ("4.2.3", "Where RealFIFO does not", f"{CACHE}/the_real_fifo.go:343"),
        ("4.2.3", "Where RealFIFO does not", f"{CACHE}/the_real_fifo.go:369"),
        ("4.2.3", "Where RealFIFO does not", f"{CACHE}/the_real_fifo.go:314"),
    ],
)
def test_a_defensible_statement_answers(lab, heading, place):
    assert outcome(lab, heading, place) == ""


@pytest.mark.parametrize(
    ("lab", "heading", "place", "name"),
    [
        ("4.2.8", "Reflector", f"{CACHE}/reflector.go:17", "no name"),
        ("4.2.8", "Workqueue", "k8s.io/client-go/util/workqueue/queue.go:17", "no name"),
        ("4.2.8", "Indexer", f"{CACHE}/thread_safe_store.go:362", "cited-the-read"),
        ("4.2.8", "Delta queue", f"{CACHE}/the_real_fifo.go:378", "no name"),
        ("4.2.5", ETCD, "etcd/server/v3/storage/mvcc/kvstore.go:44", "cited-a-setting"),
        ("4.2.5", CLIENT, f"{CACHE}/reflector.go:145", "cited-the-field"),
        ("4.2.5", CLIENT, "k8s.io/apiserver/pkg/storage/etcd3/errors.go:34", "cited-another-layer"),
        ("4.2.8", "Worker", f"{CACHE}/reflector.go:605", "cited-another-stage"),
    ],
)
def test_a_place_that_only_looks_right_does_not(lab, heading, place, name):
    assert outcome(lab, heading, place) == name


@pytest.mark.parametrize("lab", ["4.1.2", "4.2.3", "4.2.5", "4.2.8"])
def test_every_line_of_the_named_files_gets_what_it_should(lab):
    for row in cited.measure(lab):
        assert row.complaints == []
        assert 0 < row.accepted < row.named


def test_a_question_that_knows_few_wrong_places_is_complained_about():
    question = places.of("4.1.2", "The line that pays for it")
    few = replace(question, wrong=question.wrong[:4])
    assert "it names 4 wrong places, fewer than 5" in cited.measured(few).complaints


def section(text):
    return parse(f"# A\n\n## Q\n\nwords\n\n{text}\n").section("Q")


ENQUEUE = places.of("4.1.2", "The line that enqueues a key")
RIGHT = "c.workqueue.Add(objectRef)"


@pytest.mark.parametrize(
    "place",
    [
        "sample-controller/controller.go:336",
        "k8s.io/sample-controller/controller.go:336",
        "kubernetes/sample-controller/controller.go:336",
        "github.com/kubernetes/sample-controller/controller.go:336",
        "staging/src/k8s.io/sample-controller/controller.go:336",
    ],
)
def test_a_place_may_be_named_from_its_repository(place):
    ENQUEUE.require(section(f"`{place}` `{RIGHT}`"))


def failed(question, text):
    with pytest.raises(Fail) as outcome:
        question.require(section(text))
    return outcome.value.message


def test_the_line_that_a_failure_names_is_the_files():
    message = failed(ENQUEUE, "`sample-controller/controller.go:131` `controller.enqueueFoo(new)`")
    assert message.diagnosis == "cited-the-call-of-enqueue"
    assert message.evidence[0].startswith("line 7: ")


def test_a_moved_quote_is_sent_to_the_right_line_and_to_no_other():
    assert failed(ENQUEUE, f"`sample-controller/controller.go:9` `{RIGHT}`").next == (
        "Write controller.go:336."
    )
    message = failed(ENQUEUE, "`sample-controller/controller.go:9` `c.enqueueFoo(foo)`")
    assert message.diagnosis == "citation-moved"
    assert "would not answer the question either" in message.seen
    assert "380" not in message.next


def test_no_next_sends_to_a_line_that_fails_too():
    for question in places.every():
        for statement in (*question.right, *question.wrong):
            if not statement.text:
                continue
            (line,) = statement.lines(pinned.load())
            there = Citation(statement.module, "", statement.path, line + 1, statement.text)
            there = replace(there, version=pinned.load().modules[there.module].shown_version)
            finding = citations.check(there)
            if finding.kind != "moved":
                continue
            with pytest.raises(Fail) as outcome:
                question.judge(finding)
            advice = outcome.value.message.next
            if advice.startswith("Write "):
                for place in advice.removeprefix("Write ").removesuffix(".").split(" or "):
                    path, _, number = place.rpartition(":")
                    assert question.is_right(statement.module, path, int(number)), place


def test_the_first_citation_is_the_answer():
    other = "`sample-controller/controller.go:131` `controller.enqueueFoo(new)`"
    ENQUEUE.require(section(f"`sample-controller/controller.go:336` `{RIGHT}`\n\n{other}"))
    assert failed(ENQUEUE, f"{other}\n\n`sample-controller/controller.go:336` `{RIGHT}`")


def test_no_citation_is_not_graded():
    with pytest.raises(NotGraded):
        ENQUEUE.require(section("the enqueue"))


def changed(text, by):
    """The index with another line 1 in controller.go, and one text replaced."""
    index = pinned.load()
    module = index.modules["k8s.io/sample-controller"]
    file = module.files["controller.go"]
    lines = [digest("// new"), *(digest(by) if d == digest(text) else d for d in file.lines)]
    symbols = tuple(replace(s, first=s.first + 1, last=s.last + 1) for s in file.symbols)
    file = replace(file, lines=tuple(lines), symbols=symbols, comments=())
    module = replace(module, files={**module.files, "controller.go": file})
    return Index([*(m for m in index.modules.values() if m.module != module.module), module])


def test_a_statement_that_moved_is_found_and_one_that_changed_shows(monkeypatch):
    (right,) = ENQUEUE.right
    assert right.lines(changed("", "")) == (337,)
    index = changed(RIGHT, "c.workqueue.Put(objectRef)")
    _, gone = pins.statements(index)
    assert {change.use.citation.quote for change in gone} == {RIGHT}
    monkeypatch.setattr(pinned, "load", lambda: index)
    with pytest.raises(Unknown):
        replace(ENQUEUE).at("k8s.io/sample-controller", "controller.go", 337)
