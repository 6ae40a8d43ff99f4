"""The suite at work: a right operator of each language, one from outside, and some wrong ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from grader import cluster as clusters
from grader import exit_codes
from grader.conformance import measure
from grader.conformance.suite import conform
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
    command.terminate()
    assert command.wait(60) == exit_codes.INTERRUPTED
    assert timeline.marks("process_exited")
