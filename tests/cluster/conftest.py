"""A home of a test's own, and the cluster that the live tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from grader import cluster as clusters
from grader.cluster.api import Api


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty PHASE4_HOME; what was started in it has ended afterwards."""
    folder = tmp_path / "home"
    monkeypatch.setenv("PHASE4_HOME", str(folder))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("PHASE4_MIRROR", raising=False)
    monkeypatch.delenv("PHASE4_BINARIES", raising=False)
    yield folder
    from grader.cluster.process import Records

    records = Records(folder / "state" / "processes")
    records.reap()


@pytest.fixture
def as_renamed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Gives this machine another host name when called, as far as this process is told."""
    system = os.uname()
    other = os.uname_result((system.sysname, "renamed", *system[2:]))
    return lambda: monkeypatch.setattr(os, "uname", lambda: other)


@pytest.fixture(scope="session")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the control plane's binaries, got as a user's command would."""
    from grader.cluster import binaries, pins

    folder = tmp_path_factory.mktemp("assets")
    for name, path in binaries.ensure(pins.VERSIONS).items():
        (folder / name).symlink_to(path)
    return folder


@pytest.fixture
def own_home(home: Path, assets: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home that has the binaries: for tests that break what they start."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    return home


@pytest.fixture(scope="session")
def cluster():
    """The cluster that all tests share; `phase4 test` ends it."""
    return clusters.ensure()


@pytest.fixture(scope="session")
def api(cluster) -> Api:
    return Api(cluster)


@pytest.fixture
def namespace(api: Api) -> str:
    """A fresh namespace with what is made in each; its deletion is begun, not waited for."""
    made = api.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "cluster-"}}
    )
    name = made["metadata"]["name"]
    # Controllers make both at a moment of their own, else in the middle of a test's list or watch.
    api.until("serviceaccounts", "default", name, bool, 60)
    api.until("configmaps", "kube-root-ca.crt", name, bool, 60)
    yield name
    api.delete("namespaces", name)
