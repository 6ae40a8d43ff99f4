"""Lab 4.1.1's reader of drawings: what it takes for which stage, and which way things go."""

from __future__ import annotations

import pytest

from grader.evidence import mermaid
from grader.evidence.graph import Node
from grader.labs.pipeline_graph import Pipeline, stage_of
from grader.verdict import Fail


@pytest.mark.parametrize(
    ("label", "stage"),
    [
        ("API server", "api"),
        ("kube-apiserver (etcd behind it)", "api"),
        ("watch cache", "api"),
        ("Reflector: ListAndWatch", "reflector"),
        ("ListAndWatch", "reflector"),
        ("DeltaFIFO", "deltas"),
        ("the_real_fifo.go: RealFIFO", "deltas"),
        ("Delta queue", "deltas"),
        ("Indexer (thread-safe store)", "indexer"),
        ("Local cache", "indexer"),
        ("informer cache", "indexer"),
        ("Lister", "lister"),
        ("ResourceEventHandlers", "handlers"),
        ("OnAdd / OnUpdate / OnDelete", "handlers"),
        ("AddFunc", "handlers"),
        ("rate-limiting work queue", "queue"),
        ("Workqueue, keys only", "queue"),
        ("Worker: syncHandler", "worker"),
        ("syncHandler", "worker"),
        ("processNextWorkItem", "worker"),
        ("Reconcile", "worker"),
        ("SharedIndexInformer", "informer"),
        ("MetaNamespaceKeyFunc", ""),
        ("etcd", ""),
    ],
)
def test_a_box_is_known_by_the_first_stage_that_its_words_name(label, stage):
    assert stage_of(Node("x", label, "rectangle", 1)) == stage


def pipeline(arrows: str) -> Pipeline:
    return Pipeline(mermaid.parse(f"flowchart LR\n{arrows}"))


@pytest.mark.parametrize(
    "arrow",
    [
        "workqueue --> worker",
        "worker -->|Get| workqueue",
        "worker -- pops --> workqueue",
        "workqueue --- worker",
        "workqueue <--> worker",
    ],
)
def test_the_key_goes_to_the_worker_however_the_arrow_is_drawn(arrow):
    assert pipeline(arrow).way("queue", "worker")


def test_an_arrow_from_worker_to_queue_that_takes_nothing_feeds_no_worker():
    assert pipeline("worker -->|again, after a while| workqueue").way("queue", "worker") is None


def test_things_pass_through_boxes_that_are_no_stage_and_through_no_other_stage():
    drawn = pipeline("reflector --> x[something] --> fifo\nhandlers --> cache --> worker")
    assert drawn.way("reflector", "deltas") == ["reflector", "x", "fifo"]
    assert drawn.way("handlers", "worker") is None


def test_a_missing_stage_is_named_with_the_boxes_that_could_not_be_placed():
    with pytest.raises(Fail) as failure:
        pipeline("api --> reflector --> Zwischenlager --> cache").need("deltas")
    assert "«Zwischenlager»" in failure.value.message.seen
    assert "«DeltaFIFO»" in failure.value.message.next
