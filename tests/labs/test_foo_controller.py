"""The Foo controller on the machinery, with an API server in memory."""

from __future__ import annotations

import copy
import io
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from foo_controller import controller
from machinery.api import ApiError
from machinery.objects import DeletedFinalStateUnknown

from grader.labs import lab_4_1_4_lines as stage_lines

from .fake_api import PATIENCE, FakeApi


def foo(deploymentName: str = "d", **spec) -> dict:
    return {
        "apiVersion": "samplecontroller.k8s.io/v1alpha1",
        "kind": "Foo",
        "metadata": {"name": "a", "namespace": "ns", "uid": "u-1", "resourceVersion": "1"},
        "spec": {"deploymentName": deploymentName, **spec},
    }


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def printed(monkeypatch) -> io.StringIO:
    """The controller's stdout."""
    stdout = io.StringIO()
    monkeypatch.setattr(controller, "sys", SimpleNamespace(stdout=stdout))
    return stdout


@pytest.fixture
def start(api, printed) -> Iterator[Callable[[], controller.FooController]]:
    """Start the controller; at the end it is stopped, and nothing of it is left."""
    stopping = threading.Event()
    running = []

    def begin() -> controller.FooController:
        made = controller.FooController(api)
        running.append(threading.Thread(target=made.run, args=(2, stopping)))
        running[0].start()
        return made

    yield begin
    stopping.set()
    for thread in running:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def written(api: FakeApi, verb: str) -> list[dict]:
    return [write for write in api.writes if write["verb"] == verb]


def test_a_foo_gets_a_deployment_and_its_status_follows(api, start):
    made = api.put("foos", foo(replicas=2))
    start()
    api.until(lambda: written(api, "merge status"))
    create = written(api, "create")[0]
    assert create["key"] == "ns/d" and create["query"] == {"fieldManager": "foo-controller"}
    (owner,) = create["body"]["metadata"]["ownerReferences"]
    assert owner["uid"] == made["metadata"]["uid"] and owner["controller"]
    live = api.find("deployments", "ns/d")
    assert live is not None and live["spec"]["replicas"] == 2
    api.put("deployments", {**live, "status": {"availableReplicas": 2}})
    api.until(lambda: api.find("foos", "ns/a")["status"] == {"availableReplicas": 2})
    assert written(api, "merge status")[-1]["body"] == {"status": {"availableReplicas": 2}}


def test_what_it_owns_is_put_back_by_an_apply_of_that_alone(api, start):
    api.put("foos", foo(replicas=2))
    start()
    api.until(lambda: written(api, "merge status"))
    live = api.find("deployments", "ns/d")
    live["metadata"]["labels"] = {"foreign": "yes"}
    live["spec"]["replicas"] = 9
    live = api.put("deployments", live)
    api.until(lambda: written(api, "apply"))
    apply = written(api, "apply")[0]
    assert apply["query"] == {"fieldManager": "foo-controller", "force": "true"}
    assert apply["body"]["metadata"]["uid"] == live["metadata"]["uid"]
    assert "labels" not in apply["body"]["metadata"]
    assert api.find("deployments", "ns/d")["metadata"]["labels"] == {"foreign": "yes"}


@pytest.mark.parametrize("seen", [True, False], ids=["an event", "a relist"])
def test_a_deployment_that_is_gone_is_made_again(api, start, seen):
    api.put("foos", foo(replicas=1))
    start()
    api.until(lambda: written(api, "merge status"))
    api.delete("deployments", "ns/d", seen=seen)
    api.until(lambda: api.find("deployments", "ns/d"))


def test_a_deployment_of_somebody_else_is_left_alone(api, start):
    other = controller.deployment_for(foo(replicas=7))  # its owner is a Foo of another UID
    api.put("deployments", other)
    api.put("foos", foo(replicas=1))
    made = start()
    for informer in made.informers:
        assert informer.wait_for_sync(PATIENCE)
    with pytest.raises(ApiError, match="belongs to someone else"):
        made.sync("ns/a")
    assert api.writes == []


def test_nothing_is_written_for_a_foo_that_is_gone(api, start):
    made = start()
    for informer in made.informers:
        assert informer.wait_for_sync(PATIENCE)
    made.sync("ns/a")
    assert api.writes == []


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


def test_the_stages_print_a_line_each_in_their_order(api, start, printed):
    start()
    made = api.put("foos", foo(replicas=2))
    api.until(lambda: written(api, "merge status"))
    lines = stage_lines.parse(printed.getvalue().splitlines(), "ns")
    first = list(dict.fromkeys(line.stage for line in lines))
    assert first == list(stage_lines.STAGES)
    version = int(made["metadata"]["resourceVersion"])
    heard = [stage_lines.Heard("ns/a", version, "ADDED", 0.0)]
    stage_lines.require_order(lines, heard)
    stage_lines.require_cached(lines, heard)
    stage_lines.require_enqueued(lines)


def test_what_a_list_no_longer_has_is_taken_out_of_the_cache_with_a_line(printed):
    cache = controller.Cache()
    cache.replace([foo()], "1")
    new = copy.deepcopy(foo())
    new["metadata"] |= {"name": "b", "resourceVersion": "2"}
    cache.replace([new], "2")
    cache.delete(DeletedFinalStateUnknown("ns/b", new))
    lines = [json.loads(line) for line in printed.getvalue().splitlines()]
    assert [(line["key"], line["resourceVersion"]) for line in lines] == [
        ("ns/a", "1"), ("ns/a", "1"), ("ns/b", "2"), ("ns/b", "2"),
    ]  # fmt: skip


def test_it_needs_nothing_of_the_grader():
    assert "grader" not in Path(controller.__file__).read_text(encoding="utf-8")
