"""What a right world is, and each way in which one falls short."""

from __future__ import annotations

import copy

import pytest

from grader.conformance import contract
from grader.conformance.contract import World, shortfalls
from tests.conformance import worlds


def test_a_right_world_lacks_nothing():
    assert shortfalls(worlds.world()) == []


def test_no_webapp_is_said_to_be_none():
    assert shortfalls(World(None)) == ["The WebApp does not exist."]


def _without_finalizer(world):
    world.webapp["metadata"]["finalizers"] = ["example.com/other"]


def _record_of_another_host(world):
    world.record["data"]["host"] = "elsewhere"


def _failed(world):
    world.pods[0]["status"]["phase"] = "Failed"


def _going(world):
    world.pods[0]["metadata"]["deletionTimestamp"] = "now"


def _unlabelled(world):
    world.pods[0]["metadata"]["labels"] = {}


def _old_image(world):
    world.pods[0]["spec"]["containers"][0]["image"] = "shop:0"


def _not_blocking(world):
    world.pods[0]["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = False


def _orphan(world):
    orphan = worlds.pod("orphan")
    orphan["metadata"]["ownerReferences"] = []
    world.labelled.append(orphan)


def _old_generation(world):
    world.webapp["status"]["observedGeneration"] = 0


def _ready_is_false(world):
    world.webapp["status"]["conditions"][0]["status"] = "False"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (_without_finalizer, "finalizer"),
        (_record_of_another_host, "host"),
        (_failed, "has finished"),
        (_going, "still terminating"),
        (_unlabelled, "has the label"),
        (_old_image, "runs shop:0"),
        (_not_blocking, "blockOwnerDeletion"),
        (_orphan, "not adopted"),
        (_old_generation, "observedGeneration"),
        (_ready_is_false, "condition Ready is False"),
    ],
)
def test_each_shortfall_is_named(change, word):
    world = copy.deepcopy(worlds.world())
    change(world)
    assert any(word in text for text in shortfalls(world)), shortfalls(world)


def test_zero_replicas_are_wanted_and_an_unset_number_is_one():
    assert contract.wanted({"spec": {"replicas": 0}}) == 0
    assert contract.wanted({"spec": {}}) == 1


def test_another_owners_pod_with_the_label_is_no_shortfall():
    other = worlds.pod("theirs", owner="another")
    assert shortfalls(worlds.world(labelled=[other])) == []
