"""A cluster that somebody else runs: an embedded one stands for it."""

from __future__ import annotations

import pytest

from grader import cluster as clusters
from grader.cluster.api import Api
from grader.cluster.errors import ClusterLost, EnvironmentProblem
from grader.cluster.interface import Capability
from grader.verdict import NotGraded


@pytest.fixture
def theirs(cluster, monkeypatch):
    monkeypatch.setenv("PHASE4_BACKEND", "kubeconfig")
    monkeypatch.setenv("PHASE4_KUBECONFIG", str(cluster.kubeconfig))
    return cluster


@pytest.mark.live
def test_the_same_interface(theirs):
    found = clusters.ensure()
    assert (found.backend, found.kubeconfig) == ("kubeconfig", theirs.kubeconfig)
    assert found.versions["kube-apiserver"] == theirs.versions["kube-apiserver"]
    assert Api(found).list("nodes")["items"]
    assert clusters.find() == found
    assert not clusters.stop() and clusters.find() == found


@pytest.mark.live
def test_what_it_cannot_do_is_not_graded(theirs):
    found = clusters.ensure()
    found.require()
    with pytest.raises(NotGraded) as caught:
        found.require(Capability.AUDIT, Capability.COMPACT)
    assert "reads the API server's audit log and compacts etcd" in caught.value.message.expected
    assert "PHASE4_BACKEND" in caught.value.message.next
    for attempt in (
        lambda: found.audit(0),
        lambda: found.pause("etcd"),
        lambda: found.restart("etcd"),
        found.compact,
    ):
        with pytest.raises(NotGraded):
            attempt()


@pytest.mark.live
@pytest.mark.slow
def test_what_is_missing_is_installed_and_collected(monkeypatch):
    bare = clusters.ensure("test-bare", backend="embedded")
    try:
        api = Api(bare)
        for name in ("foos.samplecontroller.k8s.io", "webapps.phase4.example.com"):
            api.delete("customresourcedefinitions", name)
            api.until("customresourcedefinitions", name, None, lambda obj: obj is None, 30)
        monkeypatch.setenv("PHASE4_KUBECONFIG", str(bare.kubeconfig))
        assert clusters.ensure(backend="kubeconfig")
        assert api.get("customresourcedefinitions", "webapps.phase4.example.com")
        # What it tried the garbage collector with is gone.
        assert api.list("foos")["items"] == api.list("webapps")["items"] == []
    finally:
        clusters.stop("test-bare", backend="embedded")


@pytest.mark.live
def test_a_user_without_rights_gets_a_sentence(
    theirs, cluster, api, namespace, monkeypatch, tmp_path
):
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    token = api.raw("POST", path, body=request)["status"]["token"]
    text = cluster.kubeconfig.read_text()
    (line,) = [line for line in text.splitlines() if "token:" in line]
    weak = tmp_path / "kubeconfig"
    weak.write_text(text.replace(line, f"    token: {token}"))
    monkeypatch.setenv("PHASE4_KUBECONFIG", str(weak))
    with pytest.raises(EnvironmentProblem, match="may not create the course's CRDs"):
        clusters.ensure()


@pytest.mark.live
def test_nothing_of_theirs_is_thrown_away(theirs):
    with pytest.raises(EnvironmentProblem, match="cannot make a fresh cluster"):
        clusters.ensure(fresh=True)


def test_it_must_be_named(monkeypatch):
    monkeypatch.setenv("PHASE4_BACKEND", "kubeconfig")
    monkeypatch.delenv("PHASE4_KUBECONFIG", raising=False)
    assert clusters.find() is None and clusters.names() == []
    with pytest.raises(EnvironmentProblem, match="needs PHASE4_KUBECONFIG"):
        clusters.ensure()


def test_one_that_does_not_answer(monkeypatch, tmp_path):
    from grader.cluster import credentials

    path = tmp_path / "kubeconfig"
    path.write_text(credentials.kubeconfig("http://127.0.0.1:9", "", "t"))
    monkeypatch.setenv("PHASE4_KUBECONFIG", str(path))
    assert clusters.find(backend="kubeconfig") is None
    with pytest.raises(ClusterLost, match="did not answer GET /version"):
        clusters.ensure(backend="kubeconfig")


def test_kind_without_kind(home, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EnvironmentProblem, match="needs the command kind"):
        clusters.ensure(backend="kind")
    assert clusters.find(backend="kind") is None


def test_kind_by_its_command(home, tmp_path, monkeypatch):
    """What is asked of the command; a node is not made here."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "kind").write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n'
        'if [ "$1" = create ]; then echo "ERROR: failed to create cluster: no engine" >&2; exit 1; fi\n'
    )
    (folder / "kind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("PHASE4_KIND_IMAGE", "local/node:v1")
    with pytest.raises(
        EnvironmentProblem, match="kind could not create the cluster: ERROR: failed"
    ):
        clusters.ensure("a", backend="kind")
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[0] == "delete cluster --name phase4-a"
    assert asked[1].startswith("create cluster --name phase4-a --config ")
    assert asked[1].endswith("--wait 180s --image local/node:v1")
    assert asked[2] == "delete cluster --name phase4-a"
    assert clusters.names(backend="kind") == []
