"""The gate at work: a right operator of each language, one from outside, and some wrong ones."""

from __future__ import annotations

import shutil

import pytest

from grader import cluster as clusters
from grader.conformance import measure
from grader.conformance.gate import conform
from grader.verdict import Verdict

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


def test_a_command_that_ends_at_once_is_told_so(cluster, tmp_path):
    from grader.conformance.bench import Subject

    subject = Subject(("python3", "-c", "raise SystemExit(3)"), tmp_path)
    report = conform(cluster, subject, tmp_path / "run", only=("functional/create",))
    (result,) = report.results
    assert result.verdict is Verdict.FAIL
    assert result.message is not None and result.message.diagnosis == "operator-died"
