"""The example of a test with envtest: it runs, on our binaries, and tells right from wrong."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from grader import mistakes
from grader.cluster import binaries
from grader.conformance import measure
from grader.course import ROOT

EXAMPLE = ROOT / "examples" / "envtest"
CRDS = ROOT / "solutions/artifacts/common/operator_handwired/config/crd"
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go on this machine"),
]


def go_test(subject: measure.Subject) -> subprocess.CompletedProcess:
    """``go test`` of the example, with that operator."""
    argv = [word for word in subject.argv if word not in ("--kubeconfig", "{kubeconfig}")]
    environment = {
        **os.environ,
        **subject.env,
        "KUBEBUILDER_ASSETS": str(binaries.assets()),
        "OPERATOR": " ".join(argv),
        "CRDS": str(CRDS),
        "CGO_ENABLED": "0",
    }
    return subprocess.run(
        ["go", "test", "-trimpath", "-count=1", "-v", "./..."],
        cwd=EXAMPLE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.mark.parametrize("track", ["python", "go"])
def test_a_right_operator_passes(track, tmp_path):
    done = go_test(measure.operator(track, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("--- PASS") == 5


def test_an_operator_that_fights_the_defaults_does_not(tmp_path):
    wrong = next(m for m in mistakes.load("planted") if m.name == "defaults")
    done = go_test(measure.operator("python", tmp_path, wrong))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "--- FAIL: TestDefaults" in done.stdout
    assert "--- PASS: TestSchemaRefuses" in done.stdout
