"""The course's controller and lab 4.1.4's copy of it: one text, but for what the lab adds."""

from __future__ import annotations

import importlib.util
import re
import time
from pathlib import Path

import pytest

from foo_controller import controller
from grader.course import ROOT
from grader.cut.regions import render

STAGES = Path("solutions/4.1.4/python/stages.py")


def test_the_starter_of_4_1_4_is_the_controller_with_one_function_more():
    starter = render((ROOT / STAGES).read_text(encoding="utf-8"), STAGES, "stub")
    assert starter is not None
    code = starter.partition('"""\n\n')[2]
    added = re.compile(r"^_stdout = .*?sys\.stdout\.flush\(\)\n", re.DOTALL | re.MULTILINE)
    ours = Path(controller.__file__).read_text(encoding="utf-8").partition('"""\n\n')[2]
    assert added.sub("", code, count=1) == ours


def foo(**spec) -> dict:
    metadata = {"name": "a", "namespace": "ns", "uid": "u-1", "resourceVersion": "1"}
    return {"kind": "Foo", "metadata": metadata, "spec": {"deploymentName": "d", **spec}}


def test_defaults_and_additions_of_others_are_no_difference():
    wanted = controller.deployment_for(foo(replicas=2))
    live = {
        **wanted,
        "metadata": {**wanted["metadata"], "labels": {"foreign": "yes"}, "generation": 3},
        "spec": {**wanted["spec"], "revisionHistoryLimit": 10},
    }
    live["spec"]["template"] = {
        "metadata": wanted["spec"]["template"]["metadata"],
        "spec": {
            "containers": [
                {"name": "sidecar", "image": "x"},
                {"name": "nginx", "image": "nginx:latest", "imagePullPolicy": "Always"},
            ]
        },
    }
    assert controller.contains(live, wanted)
    live["spec"]["replicas"] = 5
    assert not controller.contains(live, wanted)


def test_a_foo_without_replicas_leaves_them_to_others():
    assert "replicas" not in controller.deployment_for(foo())["spec"]


def test_a_key_added_while_it_is_worked_on_is_handed_out_once_more_and_not_to_a_second_worker():
    queue = controller.WorkQueue()
    queue.add("k")
    assert queue.get() == "k"
    queue.add("k")
    queue.add("k")
    queue.add("other")
    assert queue.get() == "other"
    queue.done("k")
    assert queue.get() == "k"
    queue.done("k")
    queue.shut_down()
    assert queue.get() is None


def test_failures_double_the_delay_until_forgotten():
    queue = controller.WorkQueue()
    gaps = []
    for _ in range(4):
        began = time.monotonic()
        queue.add_rate_limited("k")
        assert queue.get() == "k"
        gaps.append(time.monotonic() - began)
        queue.done("k")
    assert gaps[0] >= 0.005 and gaps[3] >= 0.04
    queue.forget("k")
    assert not queue._failures


def informer() -> tuple[controller.Informer, list]:
    told: list = []
    found = controller.Informer(controller.DeltaQueue(), controller.Indexer())
    found.on_add = lambda obj: told.append(("add", obj["metadata"]["name"]))
    found.on_update = lambda old, new: told.append(("update", new["metadata"]["name"]))
    found.on_delete = lambda obj: told.append(("delete", obj))
    return found, told


def test_a_relist_tells_of_deletes_that_nobody_saw_with_the_last_known_state():
    found, told = informer()
    found._replace([foo()])
    found._replace([])
    assert told[0] == ("add", "a")
    kind, tombstone = told[1]
    assert kind == "delete" and isinstance(tombstone, controller.Tombstone)
    assert tombstone.key == "ns/a" and tombstone.last_known == foo()
    assert found.indexer.get("ns/a") is None


def test_the_indexer_has_it_before_a_handler_is_told():
    found, _ = informer()
    seen = []
    found.on_add = lambda obj: seen.append(found.indexer.get("ns/a"))
    found._upsert(foo())
    assert seen == [foo()]


@pytest.mark.parametrize("name", ["foo_controller.controller"])
def test_it_needs_nothing_of_the_grader(name):
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    assert "grader" not in Path(spec.origin).read_text(encoding="utf-8")
