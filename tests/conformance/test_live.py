"""The suite at work: a right operator of each language, one from outside, and some wrong ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
import xml.etree.ElementTree as ET

import pytest

from grader import cluster as clusters
from grader import exit_codes
from grader.cluster.api import Api, ApiError
from grader.conformance import contract, measure
from grader.conformance.suite import FIRST, conform, prepare
from grader.course import ROOT
from grader.verdict import Verdict
from grader.witness import Timeline

pytestmark = pytest.mark.live

#: One scenario of each part, the quick ones.
SOME = (
    "functional/create",
    "functional/delete",
    "restart/changed-meanwhile",
    "faults/hidden-delete",
    "killpoints/delete",
    "replicas/release",
)


@pytest.fixture(scope="module")
def cluster():
    return clusters.ensure()


@pytest.mark.parametrize("name", ["python", "go", "relist-loop"])
def test_a_right_operator_passes(cluster, tmp_path, name):
    (one,) = measure.right_operators([name])
    if one.track == "go" and shutil.which("go") is None:
        pytest.skip("there is no Go on this machine")
    report = measure.try_right(cluster, one, tmp_path, SOME)
    assert [r.to_json() for r in report.results if r.verdict is not Verdict.PASS] == []


@pytest.mark.parametrize("name", ["finalizer-late", "image-not-compared", "no-sync-wait"])
def test_a_wrong_operator_is_caught_and_named(cluster, tmp_path, name):
    (mistake,) = measure.wrong_operators([name])
    row = measure.measure(cluster, mistake, tmp_path)
    assert row.ok, row


def test_a_walk_finds_a_wrong_operator_and_is_shrunk_to_commands(cluster, tmp_path):
    """Nobody wrote a scenario for it here: only the walks are asked."""
    (mistake,) = measure.wrong_operators(["failed-pods-count"])
    report = measure.try_wrong(cluster, mistake, tmp_path, ["walks/together"], seed=35)
    (result,) = report.results
    assert result.verdict is Verdict.FAIL and result.message is not None
    told = result.message
    assert "came again" in told.seen and "did not come again" not in told.seen
    commands = [line for line in told.evidence if line.startswith("kubectl ")]
    assert any('"phase": ' in line for line in commands) and len(commands) <= 4
    assert f"--seed {result.measured['seed']}" in told.next
    saved = (tmp_path / "run" / "walk.sh").read_text(encoding="utf-8").splitlines()
    assert set(commands) <= set(saved)


def test_what_somebody_left_behind_is_not_counted(cluster, tmp_path):
    """A WebApp that is on its way out, and stays: its operator tries again and again."""
    api = Api(cluster)
    prepare(api)
    namespace = f"left-{uuid.uuid4().hex[:8]}"
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    left = contract.webapp("left-over", namespace, replicas=0)
    left["metadata"]["finalizers"] = [contract.FINALIZER]
    left = api.create(left)
    record = {"name": contract.record_name(left), "namespace": contract.DNS_NAMESPACE}
    api.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**record, "finalizers": ["example.com/keep"]},
        }
    )
    api.delete(contract.WEBAPPS, "left-over", namespace)
    try:
        (one,) = measure.right_operators(["python"])
        report = measure.try_right(cluster, one, tmp_path, ["quiet/budget"])
        assert [r.to_json() for r in report.results if r.verdict is not Verdict.PASS] == []
    finally:
        nobodys = {"metadata": {"finalizers": None}}
        api.patch("configmaps", record["name"], nobodys, contract.DNS_NAMESPACE)
        api.patch(contract.WEBAPPS, "left-over", nobodys, namespace)
        if api.find("configmaps", record["name"], contract.DNS_NAMESPACE):
            api.delete("configmaps", record["name"], contract.DNS_NAMESPACE)
        api.delete("namespaces", namespace)


def test_the_api_server_refuses_a_name_that_is_no_value_of_a_label(cluster):
    api = Api(cluster)
    with pytest.raises(ApiError, match="a name has at most 63 characters"):
        api.create(contract.webapp("n" * 64, "default"), dry_run=True)
    api.create(contract.webapp("n" * 63, "default"), dry_run=True)


def test_an_operator_from_outside_goes_through_the_command(cluster, tmp_path):
    (one,) = measure.right_operators(["relist-loop"])
    subject = measure.right_subject(one, tmp_path)
    words = [sys.executable, "-m", "grader", "conform", "--json", "--out", str(tmp_path / "out")]
    for part in ("functional/create", "functional/adoption", "killpoints/delete"):
        words += ["--part", part]
    ended = subprocess.run(
        [*words, "--", *subject.argv],
        cwd=subject.cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    report = json.loads(ended.stdout)
    assert ended.returncode == 0, report["results"]
    assert [result["verdict"] for result in report["results"]] == ["PASS"] * 3
    assert report == json.loads((tmp_path / "out" / "conformance.json").read_text())
    picture = ET.parse(tmp_path / "out" / "kill-points.svg")
    assert "No work was lost." in "".join(picture.getroot().itertext())


def test_a_command_that_ends_at_once_is_told_so(cluster, tmp_path):
    from grader.conformance.processes import Subject

    subject = Subject(("python3", "-c", "raise SystemExit(3)"), tmp_path)
    report = conform(cluster, subject, tmp_path / "run", only=("functional",))
    (result,) = report.results
    assert result.id not in report.not_tried and len(report.not_tried) > 10
    assert result.verdict is Verdict.FAIL
    assert result.message is not None and result.message.diagnosis == "operator-died"


def test_a_command_that_is_ended_ends_its_operators(cluster, tmp_path):
    (one,) = measure.right_operators(["relist-loop"])
    subject = measure.right_subject(one, tmp_path)
    before = clusters.names()
    words = [sys.executable, "-m", "grader", "conform", "--out", str(tmp_path), "--", *subject.argv]
    command = subprocess.Popen(
        words,
        cwd=subject.cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    timeline = Timeline(tmp_path / "operator" / "wire.jsonl")
    timeline.until(lambda t: t.marks("process_started"), 60, "the operator's start")
    # What has been judged by then is kept.
    report = tmp_path / "conformance.json"
    timeline.until(lambda t: report.exists(), 60, "the first result")
    command.terminate()
    assert command.wait(60) == exit_codes.INTERRUPTED
    assert timeline.marks("process_exited")
    kept = json.loads(report.read_text())
    assert kept["results"][0]["id"] == FIRST and kept["results"][0]["verdict"] == "PASS"
    assert len(kept["not tried"]) > 10 and kept["why not"] == "The suite was ended."
    assert clusters.names() == before
