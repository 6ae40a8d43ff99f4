"""What is watched in every scenario, of statuses, requests and the lease."""

from __future__ import annotations

import copy

import pytest

from grader.conformance import contract
from grader.wire.records import Mark
from tests.conformance import worlds
from tests.conformance.stories import Story, converged, meta, ours


def test_a_status_that_was_never_so():
    story = converged()
    story.stored("webapps", worlds.app(generation=2, observed=1, image="shop:2"))
    early, true = copy.deepcopy(story), story
    early.wrote("update", "webapps/status", worlds.app(generation=2, image="shop:2"))
    assert early.broken() == [("status-justified", "observed-generation-early")]
    for number in range(2):
        true.stored("pods", ours(f"shop-{number}", image="shop:2"))
    true.wrote("update", "webapps/status", worlds.app(generation=2, image="shop:2"))
    assert true.broken() == []


def test_a_status_may_be_as_old_as_a_cache_but_knows_what_was_deleted():
    story = converged()
    story.stored("pods", meta(ours("shop-0"), deletionTimestamp="now"))
    again = worlds.app()
    again["status"]["conditions"][0]["reason"] = "Again"
    lagging = copy.deepcopy(story)
    lagging.wrote("update", "webapps/status", again)
    assert [name for name, _ in lagging.broken()] == []
    knowing = converged()
    knowing.asked("delete", "pods", ours("shop-0"))
    knowing.stored("pods", meta(ours("shop-0"), deletionTimestamp="now"))
    knowing.wrote("update", "webapps/status", again)
    assert "status-justified" in [name for name, _ in knowing.broken()]


def test_one_cache_may_be_older_than_another():
    story = converged()
    story.stored("configmaps", worlds.record(), "DELETED")
    wider = worlds.app(generation=2, observed=1)
    wider["spec"]["replicas"] = 3
    story.stored("webapps", wider)
    story.stored("pods", ours("shop-2"), "ADDED")
    ready = copy.deepcopy(wider)
    ready["status"] |= {"observedGeneration": 2, "replicas": 3, "readyReplicas": 3}
    story.wrote("update", "webapps/status", ready)
    assert [name for name, _ in story.broken()] == []


def test_a_status_that_stays_wrong():
    story = converged()
    story.stored("pods", meta(ours("shop-0"), deletionTimestamp="now"))
    story.t += 10
    assert story.broken() == []
    story.t += 10
    assert story.broken() == [("status-current", "stale-status")]
    story.rule("hold update webapps/status ns=ns")
    assert story.broken() == []
    elsewhere = copy.deepcopy(story)
    elsewhere.marks = elsewhere.marks[:1]
    elsewhere.rule("hold update webapps/status ns=another")
    assert elsewhere.broken() == [("status-current", "stale-status")]


def test_a_process_that_does_not_run_owes_nothing():
    story = converged()
    story.marks.append(Mark(0, "op", "process_exited", story.t, {"code": -9}))
    story.stored("pods", meta(ours("shop-0"), deletionTimestamp="now"))
    story.t += 60
    assert story.broken() == []


def test_transition_times():
    churn, kept = converged(), converged()
    app = worlds.app()
    app["status"]["conditions"][0]["lastTransitionTime"] = "u"
    stale = copy.deepcopy(churn)
    stale.wrote("update", "webapps/status", app)
    # A moment ago there was no Ready at all: a cache that is behind shows that.
    assert stale.broken() == []
    churn.t += 5
    churn.wrote("update", "webapps/status", app)
    assert churn.broken() == [("transition-times", "transition-time-churn")]
    old = worlds.app()
    old["status"]["conditions"][0]["lastTransitionTime"] = "1970-01-01T00:00:01Z"
    kept.stored("webapps", old)
    turned = copy.deepcopy(old)
    turned["status"]["conditions"][0]["status"] = "False"
    kept.wrote("update", "webapps/status", turned)
    assert kept.broken() == [("transition-times", "transition-time-kept")]


def test_a_loop_of_failures_and_one_of_nothing():
    failing = converged()
    for number in range(60):
        failing.asked("update", "webapps/status", worlds.app(), 500).t_request += number / 100
    assert failing.broken() == [("no-loop", "no-backoff")]
    slower = converged()
    for number in range(60):
        slower.asked("update", "webapps/status", worlds.app(), 500).t_request += number / 10
    assert slower.broken() == []
    idle = converged()
    last = idle.states[-1].object
    for number in range(60):
        e = idle.asked("update", "webapps/status", last)
        e.t_request += number / 100
    assert idle.broken() == [("no-loop", "writes-in-a-loop")]


def test_pauses_after_a_success():
    story = converged()
    for again in (0.0, 5.0):
        for number in range(5):
            e = story.asked("create", "pods", ours("shop-0"), 500)
            e.t_request += number * (again or 0.05)
        story.asked("create", "pods", ours("shop-0"), 201).t_request += 5 * (again or 0.05)
        story.t += 30.0
        story.stored("pods", ours("shop-0"))
    assert story.broken() == [("pauses-start-small", "never-forgets")]


def lease(story: Story, holder: str, t: float, seconds: int = 4) -> None:
    stamp = f"1970-01-01T00:{int(t) // 60:02d}:{t % 60:09.6f}Z"
    spec = {"holderIdentity": holder, "renewTime": stamp, "leaseDurationSeconds": seconds}
    story.t = t
    story.asked(
        "update",
        "leases",
        {"metadata": {"name": contract.LEASE, "namespace": contract.LEASE_NAMESPACE}, "spec": spec},
    )


@pytest.mark.parametrize(
    ("steps", "diagnosis"),
    [
        ([("me", 200.0), (None, 203.0)], ""),
        ([("me", 200.0), (None, 205.0)], "wrote-after-lost-lease"),
        ([("me", 200.0), ("me", 203.0), (None, 205.0)], ""),
        ([("me", 200.0), ("", 201.0), (None, 202.0)], "wrote-after-lost-lease"),
        ([(None, 150.0), ("me", 200.0)], "no-leader-election"),
    ],
)
def test_the_lease_is_what_its_holder_wrote(steps, diagnosis):
    story = Story()
    for holder, t in steps:
        if holder is None:
            story.t = t
            story.asked("create", "pods", ours("shop-0"))
        else:
            lease(story, holder, t)
    assert story.broken() == ([("lease-held", diagnosis)] if diagnosis else [])


def test_a_process_that_ends_by_itself():
    story = converged()
    story.marks.append(Mark(0, "op", "process_exited", story.t, {"code": 2}))
    assert story.broken() == [("no-crash", "operator-died")]
