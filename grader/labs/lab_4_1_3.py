"""4.1.3 The Rosetta Stone, running against a cluster you can break.

What is handed in is a recording: a controller, and somebody who breaks what it
made, four times. :mod:`grader.labs.lab_4_1_3_breaks` finds each break and its repair.
With ``--live`` the grader does the breaks itself, against the controller that
the lab's ``program.toml`` declares, or the Foo controller at the root.
"""

from __future__ import annotations

import contextlib
import os

import pytest

from grader.labs import check
from grader.labs.lab_4_1_3_breaks import Story
from grader.verdict import Fail
from grader.witness import Timeline, recording

FILE = "recording.jsonl"
#: Seconds for one repair in a live run.
PATIENCE = 20.0


@pytest.fixture(scope="module")
def recorded(submission) -> recording.Recording:
    path = submission.file(FILE, limit=256 * 1024 * 1024)
    expected = f"{FILE} is a whole recording, as `phase4 record 4.1.3` wrote it."
    try:
        found = recording.load(path)
    except recording.RecordingError as error:
        raise Fail(
            expected,
            str(error),
            why="Whether a controller repaired something can only be read from a record that "
            "nobody has cut or edited.",
            next="Record again with `phase4 record 4.1.3`, and end with `done`.",
            diagnosis=error.diagnosis,
        ) from None
    if found.lab != "4.1.3":
        raise Fail(
            expected,
            f"It is a recording for lab {found.lab}.",
            next="Record again with `phase4 record 4.1.3`.",
            diagnosis="recording-of-another-lab",
        )
    strange = found.unconfirmed
    if strange:
        raise Fail(
            "What the controller wrote and what the API server logged are of one cluster.",
            f"Of {len(strange)} writes on the controller's wire the cluster's own log knows "
            "nothing.",
            why="A recording put together from two says nothing about either.",
            next="Record again, in one go and on one cluster.",
            diagnosis="of-another-cluster",
            evidence=[found.timeline.line(each) for each in strange[:3]],
        )
    return found


# Two fixtures of one name, so that only the live one asks for a cluster: a
# recording is judged without any.
if os.environ.get("PHASE4_LIVE") == "1":

    @pytest.fixture(scope="module")
    def story(live_story, observe) -> Story:
        observe("judged", "a run of the grader's own")
        return live_story

else:

    @pytest.fixture(scope="module")
    def story(recorded) -> Story:
        return Story(recorded.timeline, recorded.header["client"])


@pytest.fixture(scope="module")
def live_story(submission, cluster, grading, run, namespace, rng) -> Story:
    """The four breaks, done by the grader."""
    from grader.cluster.api import Api
    from grader.wire import Wire

    running = run(submission.program, client="controller")
    with Wire(cluster, "hand", grading.run_dir) as wire, Api(wire.kubeconfig) as hand:
        _break_four_times(hand, running, namespace, rng)
        folders = [running.wire.folder, wire.folder]
    return Story(Timeline(folders), "controller")


def _break_four_times(hand, running, namespace: str, rng) -> None:
    word = "".join(rng.choices("abcdefghijkmnpqrstuvwxyz", k=6))
    foo, name = f"foo-{word}", f"{word}-deployment"
    replicas = rng.randint(1, 3)
    hand.create(
        {
            "apiVersion": "samplecontroller.k8s.io/v1alpha1",
            "kind": "Foo",
            "metadata": {"name": foo, "namespace": namespace},
            "spec": {"deploymentName": name, "replicas": replicas},
        }
    )
    with contextlib.suppress(TimeoutError):
        hand.until("deployments", name, namespace, lambda d: d is not None, PATIENCE)
    running.until(
        lambda: hand.find("deployments", name, namespace=namespace),
        0.1,
        "makes the Deployment that a new Foo asks for",
    )

    def comes_back(wanted: int, gone: str = "") -> None:
        """Wait for the repair; where it does not come, the checks say so."""
        with contextlib.suppress(TimeoutError):
            hand.until(
                "deployments",
                name,
                namespace,
                lambda d: bool(
                    d and d["spec"]["replicas"] == wanted and d["metadata"]["uid"] != gone
                ),
                PATIENCE,
            )

    def delete() -> str:
        uid = hand.get("deployments", name, namespace=namespace)["metadata"]["uid"]
        hand.delete("deployments.apps", name, namespace=namespace)
        return uid

    more = {"spec": {"replicas": replicas + rng.randint(2, 4)}}
    hand.patch("deployments.apps", name, more, namespace=namespace)
    comes_back(replicas)
    comes_back(replicas, gone=delete())
    running.terminate()
    gone = delete()
    running.start()
    comes_back(replicas, gone=gone)
    running.terminate()
    hand.patch("foos", foo, {"spec": {"replicas": replicas + 1}}, namespace=namespace)
    running.start()
    comes_back(replicas + 1)
    running.terminate()


@check(
    "4.1.3/recording",
    title="The recording is complete, and of one cluster",
    points=1,
    evidence="live",
)
def check_recording(recorded, observe):
    observe("recorded on", recorded.header["cluster"])
    observe("the controller", " ".join(recorded.header.get("argv") or ["?"]))


@check(
    "4.1.3/scaled",
    title="The Deployment is scaled by hand, and the controller sets it back",
    points=1,
    evidence="live",
)
def check_scaled(story, observe):
    _show(story, "scale", observe)


@check(
    "4.1.3/deleted",
    title="The Deployment is deleted by hand, and the controller creates it again",
    points=1,
    evidence="live",
)
def check_deleted(story, observe):
    _show(story, "delete", observe)


@check(
    "4.1.3/deleted-while-down",
    title="The Deployment is deleted while the controller is down, and is there again after its start",
    points=2,
    evidence="live",
)
def check_deleted_while_down(story, observe):
    _show(story, "delete-while-down", observe)


@check(
    "4.1.3/edited-while-down",
    title="The Foo is edited while the controller is down, and the Deployment follows after its start",
    points=2,
    evidence="live",
)
def check_edited_while_down(story, observe):
    _show(story, "edit-while-down", observe)


def _show(story: Story, kind, observe) -> None:
    broken, repair = story.require(kind)
    began = broken.write.t_end
    if kind.endswith("while-down"):
        began = story.started_after(began) or began
    observe(f"{kind}: repaired after", f"{repair.t_end - began:.2f} s")
