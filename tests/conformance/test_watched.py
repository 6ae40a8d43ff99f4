"""What is watched in every scenario, of objects: right pasts, and wrong ones."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from grader.conformance import contract
from grader.conformance.invariants import WATCHED
from tests.conformance import worlds
from tests.conformance.stories import Story, bare, converged, deleted, meta, ours


def test_a_right_operators_past_breaks_nothing():
    story = converged()
    deleted(story)
    story.asked("delete", "configmaps", worlds.record())
    story.stored("configmaps", worlds.record(), "DELETED")
    gone = meta(worlds.app(), deletionTimestamp="now", finalizers=[])
    story.wrote("update", "webapps", gone, "DELETED")
    assert story.broken() == []


def test_what_others_do_is_not_the_operators_doing():
    story = converged()
    story.stored("pods", meta(ours("shop-0"), labels={}))
    story.stored("webapps", meta(worlds.app(), annotations={"a": "b"}))
    story.stored("webapps", worlds.app())
    story.stored("webapps", {**worlds.app(), "spec": {"image": "x", "host": "y"}})
    assert [name for name, _ in story.broken()] == []


@pytest.mark.parametrize(
    ("resource", "obj", "mark", "diagnosis"),
    [
        ("pods", ours("shop-0"), {"labels": {"team": "red"}}, "stomped-foreign-fields"),
        ("pods", ours("shop-0"), {"finalizers": ["x/y"]}, "removed-others-finalizer"),
        ("configmaps", worlds.record(), {"annotations": {"a": "b"}}, "stomped-foreign-fields"),
        ("webapps", worlds.app(), {"annotations": {"a": "b"}}, "stomped-foreign-fields"),
    ],
)
def test_a_key_of_somebody_elses_stays(resource, obj, mark, diagnosis):
    story = converged()
    marked = copy.deepcopy(obj)
    for key, value in mark.items():
        old = marked["metadata"].get(key)
        marked["metadata"][key] = [*(old or []), *value] if isinstance(value, list) else {
            **(old or {}), **value,
        }  # fmt: skip
    story.stored(resource, marked)
    kept = copy.deepcopy(story)
    kept.wrote("update", resource, marked)
    assert kept.broken() == []
    story.wrote("update", resource, obj)
    assert story.broken() == [(f"foreign-on-{resource}", diagnosis)]


def test_foreign_data_conditions_and_owners_stay():
    for resource, path, own, diagnosis in (
        ("configmaps", ("data",), {"ttl": "60"}, "stomped-foreign-fields"),
        (
            "webapps",
            ("status", "conditions"),
            [{"type": "Audited", "status": "True"}],
            "removed-others-condition",
        ),
        (
            "pods",
            ("metadata", "ownerReferences"),
            [{"kind": "ConfigMap", "uid": "u"}],
            "removed-others-reference",
        ),
    ):
        plain = {"configmaps": worlds.record(), "webapps": worlds.app(), "pods": ours("shop-0")}
        story, marked = converged(), copy.deepcopy(plain[resource])
        place = marked
        for key in path[:-1]:
            place = place[key]
        there = place[path[-1]]
        place[path[-1]] = {**there, **own} if isinstance(own, dict) else [*there, *own]
        story.stored(resource, marked)
        target = "webapps/status" if resource == "webapps" else resource
        story.wrote("update", target, plain[resource])
        assert story.broken() == [(f"foreign-on-{resource}", diagnosis)], resource


def test_a_key_that_the_operator_itself_put_there_is_its_own():
    story = converged()
    story.wrote("patch", "pods", meta(ours("shop-0"), annotations={"mine": "1"}))
    story.stored("pods", meta(ours("shop-0"), annotations={"mine": "edited"}))
    story.wrote("patch", "pods", meta(ours("shop-0"), annotations={"mine": "2"}))
    assert story.broken() == []


def test_a_write_that_changed_nothing_takes_no_state_from_the_one_that_made_it():
    story = converged()
    mine = story.wrote("patch", "pods", meta(ours("shop-0"), annotations={"mine": "1"}))
    story.asked("patch", "pods", mine)
    story.stored("pods", meta(ours("shop-0"), annotations={"mine": "edited"}))
    story.wrote("patch", "pods", meta(ours("shop-0"), annotations={"mine": "2"}))
    assert story.broken() == []


def test_what_somebody_else_wrote_during_a_patch_that_changed_nothing_is_theirs():
    """The answer to such a patch is their state: only what was sent tells."""
    story = converged()
    e = story.asked("patch", "webapps/status", {**worlds.app(), "spec": {}})
    e.request_body = {"status": worlds.app()["status"]}
    edited = worlds.app(generation=2, observed=1, image="shop:2")
    e.response_body = story.stored("webapps", edited)
    assert story.broken() == []
    e.request_body = {"spec": edited["spec"]}
    assert story.broken() == [("spec-untouched", "wrote-the-spec")]


@pytest.mark.parametrize(
    ("body", "content_type", "explained"),
    [
        ({"metadata": {"labels": {"team": None}}}, "application/merge-patch+json", True),
        ({"metadata": {"labels": {"other": "x"}}}, "application/merge-patch+json", False),
        ({"metadata": {"finalizers": []}}, "application/merge-patch+json", False),
        ({"metadata": {"name": "shop-0"}}, "application/apply-patch+yaml", False),
        ([{"op": "remove", "path": "/metadata/labels/team"}], "application/json-patch+json", True),
    ],
)
def test_a_label_that_went_was_taken_by_who_asked_for_it(body, content_type, explained):
    story = converged()
    marked = ours("shop-0")
    marked["metadata"]["labels"]["team"] = "red"
    story.stored("pods", marked)
    e = story.asked("patch", "pods", ours("shop-0"))
    e.request_body, e.content_type = body, content_type
    e.response_body = story.stored("pods", ours("shop-0"))
    assert bool(story.broken()) is explained


def test_foreign_pods_are_neither_written_nor_deleted():
    others = worlds.pod("shop-0", owner="someone")
    others["metadata"]["uid"] = "another"
    others["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet"
    others["metadata"]["ownerReferences"][0]["name"] = "rs"
    story = converged()
    story.stored("pods", others, "ADDED")
    story.t += 10
    touched, killed = copy.deepcopy(story), story
    touched.wrote("patch", "pods", meta(others, labels={"a": "b"}))
    assert ("foreign-objects", "touched-another-owners-pod") in touched.broken()
    killed.asked("delete", "pods", others)
    killed.stored("pods", others, "DELETED")
    assert killed.broken() == [("foreign-objects", "deleted-foreign-pod")]


def test_a_pod_that_was_taken_away_a_moment_ago_may_still_be_hit():
    story = converged()
    free = ours("shop-0")
    free["metadata"]["ownerReferences"] = []
    story.stored("pods", free)
    early, late = copy.deepcopy(story), story
    early.asked("delete", "pods", free)
    assert [found for found in early.broken() if found[0] == "foreign-objects"] == []
    late.t += 10
    late.asked("delete", "pods", free)
    assert ("foreign-objects", "deleted-foreign-pod") in late.broken()


def test_a_strangers_object_is_told_once():
    story, charged = converged(), set()
    for name, namespace in (("unrelated", "dns"), ("record-1", "dns")):
        other = {"metadata": {"name": name, "namespace": namespace, "uid": name}, "data": {}}
        story.asked("delete", "configmaps", other)
    found = [("foreign-objects", "touched-a-strangers-object")]
    assert story.broken(charged=charged) == found
    assert story.broken(charged=charged) == []


def test_the_spec_and_a_second_finalizer():
    story = converged()
    story.wrote(
        "update", "webapps", {**worlds.app(), "spec": {**worlds.app()["spec"], "replicas": 1}}
    )
    assert ("spec-untouched", "wrote-the-spec") in story.broken()
    story = converged()
    more = meta(worlds.app(), finalizers=[contract.FINALIZER, "mine"])
    story.wrote("update", "webapps", more)
    assert story.broken() == [("own-finalizers", "another-finalizer")]


def test_the_record_before_the_finalizer_and_the_finalizer_before_the_record():
    story = Story()
    story.stored("webapps", bare(), "ADDED")
    story.wrote("create", "configmaps", worlds.record(), "ADDED")
    story.wrote("update", "webapps", {**worlds.app(), "status": {}})
    assert story.broken() == [("finalizer-first", "finalizer-after-record")]
    for record in (worlds.record(), meta(worlds.record(), deletionTimestamp="now")):
        story = converged()
        deleted(story)
        story.stored("configmaps", record)
        gone = meta(worlds.app(), deletionTimestamp="now", finalizers=[])
        story.wrote("update", "webapps", gone, "DELETED")
        assert story.broken() == [("record-first", "finalizer-removed-early")]


def test_nothing_is_made_for_a_webapp_that_goes_but_what_was_in_hand():
    story = converged()
    deleted(story)
    in_hand, late = copy.deepcopy(story), story
    in_hand.wrote("create", "pods", ours("shop-2", ready=False), "ADDED")
    assert [name for name, _ in in_hand.broken() if name.startswith("nothing")] == []
    late.t += 5
    late.wrote("create", "pods", ours("shop-2", ready=False), "ADDED")
    assert ("nothing-for-the-going", "made-children-while-terminating") in late.broken()
    blind = converged()
    blind.rule("freeze watch webapps")
    deleted(blind)
    blind.t += 5
    blind.wrote("create", "pods", ours("shop-2", ready=False), "ADDED")
    assert [name for name, _ in blind.broken() if name.startswith("nothing")] == []


def test_no_record_is_made_for_a_webapp_that_is_gone():
    story = converged()
    story.stored("configmaps", worlds.record(), "DELETED")
    story.stored("webapps", meta(worlds.app(), deletionTimestamp="now"), "DELETED")
    story.wrote("create", "configmaps", meta(worlds.record(), uid="r2"), "ADDED")
    assert ("nothing-for-the-gone", "wrote-for-a-gone-webapp") in story.broken()


def test_too_many_pods_without_a_rollout_and_in_one():
    story = converged()
    story.wrote("create", "pods", ours("shop-2", ready=False), "ADDED")
    assert ("never-too-many", "over-created") in story.broken()
    surge = converged()
    new = {**worlds.app(generation=2, observed=1, image="shop:2")}
    surge.stored("webapps", new)
    for number in (2, 3):
        surge.wrote("create", "pods", ours(f"shop-{number}", image="shop:2", ready=False), "ADDED")
    assert surge.broken() == []
    surge.wrote("create", "pods", ours("shop-4", image="shop:2", ready=False), "ADDED")
    assert ("never-too-many", "over-created") in surge.broken()


def test_a_pod_that_is_wanted_is_not_deleted():
    story = converged()
    story.t += 5
    story.asked("delete", "pods", ours("shop-0"))
    going = meta(ours("shop-0"), deletionTimestamp="now")
    story.stored("pods", going)
    assert ("wanted-pods-kept", "replaced-what-was-right") in story.broken()
    smaller = converged()
    smaller.stored("webapps", {**worlds.app(generation=2, observed=1), "spec": {
        **worlds.app()["spec"], "replicas": 1}})  # fmt: skip
    smaller.asked("delete", "pods", ours("shop-0"))
    smaller.stored("pods", going)
    assert smaller.broken() == []


def test_a_process_kept_from_seeing_that_one_pod_has_gone_may_take_another_for_one_too_many():
    story = converged()
    story.stored("pods", ours("shop-2"), "ADDED")
    blinded = copy.deepcopy(story)
    blinded.rule("freeze watch pods")
    for one in (story, blinded):
        one.stored("pods", meta(ours("shop-2"), deletionTimestamp="now"))
        one.asked("delete", "pods", ours("shop-0"))
        one.stored("pods", meta(ours("shop-0"), deletionTimestamp="now"))
    needless = ("wanted-pods-kept", "replaced-what-was-right")
    assert needless in story.broken()
    assert needless not in blinded.broken()


def test_each_invariant_has_a_past_here_that_breaks_it():
    """By the names above: who adds an invariant adds a past."""
    here = Path(__file__).parent.glob("test_watched*.py")
    source = "".join(path.read_text(encoding="utf-8") for path in here)
    source = source.replace("{resource}", "pods")
    ids = {one.id for one in WATCHED} - {"foreign-on-configmaps", "foreign-on-webapps"}
    assert [id for id in ids if f'"{id}"' not in source] == []
