"""Random walks: the model, the drawing, the shrinking and the script, without a cluster."""

from __future__ import annotations

import subprocess

import pytest

from grader.cluster.api import ApiError
from grader.conformance.walks import kinds  # noqa: F401  Registers them.
from grader.conformance.walks.generate import WEIGHTS, draw
from grader.conformance.walks.hand import KINDS, Hand
from grader.conformance.walks.model import HELD, NEVER_READY, Difference, Model, View
from grader.conformance.walks.script import failure, script
from grader.conformance.walks.shrink import shrink, size
from grader.conformance.walks.tries import Finding
from grader.conformance.walks.walk import Burst, Op, Walk
from grader.conformance.walks.wirefaults import FAULTS
from grader.verdict import Verdict
from grader.wire.rules import parse_rule
from tests.conformance import worlds


def at_rest() -> tuple[Model, View]:
    """A WebApp of two replicas with which all is well."""
    app = worlds.app()
    model = Model()
    model.created(app)
    record = worlds.record()
    pods = [worlds.pod("shop-0"), worlds.pod("shop-1")]
    return model, View({"shop": app}, pods, {record["metadata"]["name"]: record})


def texts(model: Model, view: View, *hindered: str) -> str:
    return " ".join(one.text for one in model.differences(view, frozenset(hindered)))


def test_what_is_right_has_no_difference():
    model, view = at_rest()
    assert model.differences(view) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda v: v.pods.pop(), "1 active Pods of shop instead of 2"),
        (lambda v: v.records.clear(), "record of shop does not exist"),
        (lambda v: v.records[f"record-{worlds.UID}"].update(data=None), "host=None"),
        (lambda v: v.pods[0]["metadata"]["labels"].clear(), "has the label"),
        (lambda v: v.pods[0]["spec"]["containers"][0].update(image="old:1"), "runs old:1"),
        (lambda v: v.webapps["shop"]["metadata"].update(finalizers=[]), "not have the finalizer"),
        (lambda v: v.webapps["shop"]["status"].update(readyReplicas=1), "readyReplicas of shop"),
        (lambda v: v.webapps["shop"]["spec"].update(replicas=5), "its user wrote"),
        (lambda v: v.webapps.clear(), "Nobody deleted it"),
        (
            lambda v: v.webapps["shop"]["metadata"]["finalizers"].append("example.com/own"),
            "which nobody needs",
        ),
    ],
)
def test_each_thing_that_is_wrong_is_told(change, told):
    model, view = at_rest()
    change(view)
    assert told in texts(model, view)


def test_a_pod_that_is_held_is_excused_and_the_status_must_say_so():
    model, view = at_rest()
    held = view.pods[0]
    held["metadata"] |= {"deletionTimestamp": "t", "finalizers": [HELD]}
    model.marked("Pod", held, "finalizers", HELD)
    assert "Ready of shop is True, and it is not so" in texts(model, view)
    view.webapps["shop"]["status"] |= {
        "replicas": 1,
        "readyReplicas": 1,
        "conditions": [{"type": "Ready", "status": "False"}],
    }
    assert model.differences(view) == []
    # A replacement beside it is as good.
    view.pods.append(worlds.pod("shop-2"))
    view.webapps["shop"] = worlds.app()
    assert model.differences(view) == []
    # Somebody else's finalizer may not be taken away.
    view.pods.pop(0)
    assert any(one.final for one in model.differences(view))


def test_a_record_that_is_held_makes_ready_untrue():
    model, view = at_rest()
    record = view.records[f"record-{worlds.UID}"]
    record["metadata"] |= {"deletionTimestamp": "t", "finalizers": [HELD]}
    model.marked("ConfigMap", record, "finalizers", HELD)
    assert "Ready of shop is True" in texts(model, view)
    view.webapps["shop"]["status"]["conditions"][0]["status"] = "False"
    assert model.differences(view) == []


def test_while_pods_cannot_be_made_only_the_status_is_looked_at():
    model, view = at_rest()
    view.pods.clear()
    assert "status.replicas of shop is 2, there are 0" in texts(model, view, "pods")
    view.webapps["shop"]["status"] = {"observedGeneration": 1}
    assert texts(model, view, "pods") == ""
    assert "0 active Pods" in texts(model, view)


def test_how_far_a_rollout_goes_whose_pods_do_not_become_ready_is_left_open():
    model, view = at_rest()
    view.webapps["shop"] = worlds.app(image=NEVER_READY)
    model.changed(view.webapps["shop"])
    assert texts(model, view) == "The condition Ready of shop is True, and it is not so."
    view.webapps["shop"]["status"]["conditions"][0]["status"] = "False"
    assert model.differences(view) == []


def test_somebody_elses_pod_stays_as_it_was_left():
    model, view = at_rest()
    theirs = worlds.pod("theirs", owner="another")
    model.theirs(theirs)
    (lost,) = model.differences(view)
    assert lost.lost == theirs["metadata"]["uid"] and lost.final
    relabelled = worlds.pod("theirs", owner="another")
    relabelled["metadata"]["labels"] = {}
    view.pods.append(relabelled)
    assert "has other labels" in texts(model, view)


def test_a_name_that_somebody_took_excuses_one_pod():
    model, view = at_rest()
    squatter = worlds.pod("shop-0", owner="")
    squatter["metadata"] |= {"uid": "squatter", "ownerReferences": [], "labels": {}}
    view.pods[0] = squatter
    model.squats(squatter, "shop")
    view.webapps["shop"]["status"] |= {
        "replicas": 1,
        "readyReplicas": 1,
        "conditions": [{"type": "Ready", "status": "False"}],
    }
    assert model.differences(view) == []
    model.not_there("squatter")
    view.pods.pop(0)
    assert "1 active Pods" in texts(model, view)


def test_marks_stay_as_long_as_the_object_does():
    model, view = at_rest()
    pod = view.pods[0]
    model.marked("Pod", pod, "labels", "team", "red")
    assert "team=red" in texts(model, view)
    pod["metadata"]["labels"]["team"] = "red"
    assert model.differences(view) == []


def test_what_was_deleted_leaves_nothing():
    model, view = at_rest()
    model.removed("shop")
    assert "still has the finalizer" in texts(model, view)
    view.webapps.clear()
    assert "its DNS record is still there" in texts(model, view)
    view.records.clear()
    left = model.differences(view)
    # The garbage collector takes the Pods.
    assert left and all(one.cluster for one in left)
    view.pods.clear()
    assert model.differences(view) == []


def test_a_walk_is_its_seed():
    for alone in (False, True):
        assert draw(7, alone=alone) == draw(7, alone=alone)
        assert len({draw(seed, alone=alone) for seed in range(12)}) > 9


def test_every_kind_and_every_fault_is_drawn_and_can_be_carried_out():
    assert set(WEIGHTS) == set(KINDS)
    seen, faults = set(), set()
    for seed in range(999):
        if seen == set(WEIGHTS) and faults == set(FAULTS):
            break
        for alone in (False, True):
            for burst in draw(seed, alone=alone).bursts:
                faults.add(burst.fault)
                seen |= {op.kind for op in burst.ops}
    assert seen == set(WEIGHTS) and faults == set(FAULTS)
    for fault in FAULTS.values():
        assert set(fault.causes) <= set(KINDS)
        for rule in (*fault.rules, *fault.last):
            parse_rule(rule.format(ns="a", record="record-b"))


def needs(*kinds: str):
    """What tries a walk that fails once operations of these kinds were done in this order."""

    def one(walk: Walk) -> Walk | None:
        left = list(kinds)
        for place, burst in enumerate(walk.bursts):
            for op in burst.ops:
                if left and op.kind == left[0]:
                    left.pop(0)
            if not left:
                return walk.up_to(place)
        return None

    return lambda walks: [one(walk) for walk in walks]


@pytest.mark.parametrize("abreast", [1, 6])
def test_a_failing_walk_is_shrunk_to_what_it_needs(abreast):
    try_all = needs("image", "record-null")
    tried = 0

    def counted(walks: list[Walk]) -> list[Walk | None]:
        nonlocal tried
        assert len(walks) <= abreast
        tried += len(walks)
        return try_all(walks)

    failing = next(w for w in ([*try_all([draw(seed)])][0] for seed in range(999)) if w)
    shortest = shrink(failing, counted, abreast=abreast)
    assert [op for burst in shortest.bursts for op in burst.ops] == [Op("image"), Op("record-null")]
    assert shortest.replicas == (1,)
    assert size(shortest) < size(failing) and tried < 80


def test_no_try_is_begun_when_the_time_is_up():
    walk = Walk((1,), (Burst((Op("scale"), Op("image"))),))
    assert shrink(walk, lambda walks: pytest.fail("it was tried"), seconds=0.0) == walk


class OnePod:
    """An API server that has one WebApp and one Pod of it."""

    def __init__(self) -> None:
        self.pod = worlds.pod("shop-0")
        self.pod["metadata"]["creationTimestamp"] = "t"

    def list(self, resource: str, namespace: str) -> dict:
        return {"items": [self.pod]}

    def delete(self, resource: str, name: str, namespace: str, **call: object) -> None:
        if name != "shop-0":
            raise ApiError(404, "NotFound", "")


def test_an_operation_is_said_as_a_command_and_one_with_no_object_does_nothing():
    model, _ = at_rest()
    hand = Hand(OnePod(), "ns", model, lambda condition, seconds: False)  # type: ignore[arg-type]
    assert hand.do(Op("pod-kill", pod=4))
    assert hand.lines == ['kubectl delete "$(pod shop 1)" --force --grace-period=0']
    model.uids.clear()
    assert not hand.do(Op("pod-kill"))


def test_a_failure_has_its_commands_its_seed_and_what_differs():
    finding = Finding(
        Walk((1,), (Burst((Op("pod-kill"),)),)),
        [Difference("The DNS record of shop does not exist.")],
        ['kubectl delete "$(pod shop 1)" --force --grace-period=0'],
        "ns",
    )
    told = failure(finding, 77, came_again=True, alone=True, command="./op", file="f")
    assert told.verdict is Verdict.FAIL and not told.message.diagnosis
    assert "phase4 conform --part walks/alone --seed 77 -- ./op" in told.message.next
    assert "differs: The DNS record of shop does not exist." in told.message.evidence
    assert any(line.startswith("pod() {") for line in told.message.evidence)
    once = failure(finding, 77, came_again=False, alone=False, command="./op", file="f")
    assert "did not come again" in once.message.seen


def test_the_script_is_one_that_a_shell_reads():
    lines = [f"echo '{{}}' | kubectl apply -f - # {word}a 1)" for word in ("$(pod ", "$(record ")]
    text = "\n".join(script([*lines, 'x="$(held pods)$(owner)"']))
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
