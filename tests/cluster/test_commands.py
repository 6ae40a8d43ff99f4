"""What the cluster's commands say, whatever the cluster is."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from grader import cluster as clusters
from grader.cli import app, doctor
from grader.cluster import binaries
from grader.cluster.errors import EnvironmentProblem


@pytest.mark.parametrize("options", [["down"], ["down", "--json"]])
def test_one_that_cannot_be_ended_does_not_keep_the_others(home, monkeypatch, options):
    def stop(name: str, *, backend: str) -> bool:
        if name == "a":
            raise EnvironmentProblem("The cluster a runs on another machine.")
        return True

    monkeypatch.setattr(
        clusters, "names", lambda *, backend: ["a", "b"][: 2 * (backend == "embedded")]
    )
    monkeypatch.setattr(clusters, "stop", stop)
    done = CliRunner().invoke(app.build(), options)
    assert isinstance(done.exception, EnvironmentProblem)
    assert "b" in done.stdout and "Nothing was running" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "backend", "said"),
    [
        (["logs", "x"], "embedded", True),
        (["-n", "default", "exec", "x", "--", "ls"], "embedded", True),
        (["get", "pods"], "embedded", False),
        (["logs", "x"], "kind", False),
    ],
)
def test_kubectl_has_no_container_to_ask(monkeypatch, arguments, backend, said):
    cluster = SimpleNamespace(kubeconfig=Path("k"), backend=backend)
    monkeypatch.setattr(clusters, "ensure", lambda *_, **__: cluster)
    monkeypatch.setattr(binaries, "ensure", lambda names: {"kubectl": Path("kubectl")})
    ran = []
    monkeypatch.setattr(os, "execve", lambda _, command, __: ran.append(command))
    done = CliRunner().invoke(app.build(), ["kubectl", *arguments])
    assert ran == [["kubectl", *arguments]]
    assert ("no Pod of this cluster runs a container" in done.stderr) == said


def test_the_doctor_says_that_a_cluster_runs_elsewhere(monkeypatch):
    def elsewhere():
        raise EnvironmentProblem("The cluster default runs on another machine.")

    monkeypatch.setattr(clusters, "find", elsewhere)
    (found,) = (one for one in doctor.look() if one.name == "cluster")
    assert (found.state, found.detail) == (
        "missing",
        "The cluster default runs on another machine.",
    )
