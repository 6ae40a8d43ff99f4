"""Wires for tests, on the shared embedded cluster, and real clients to put on them."""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import urllib3

from grader.cluster.api import Api
from grader.wire import Wire
from grader.witness import Timeline
from tests.wire.upstream import Upstream

HERE = Path(__file__).parent

#: The ConfigMap that the control plane makes in every namespace.
ROOT_CA = "kube-root-ca.crt"

#: How long a test waits for what will come (s): a limit, which measures nothing.
PATIENCE = 60


@pytest.fixture(scope="session")
def cluster():
    """The tests' cluster, started where none runs."""
    from grader import cluster

    return cluster.ensure()


@pytest.fixture(scope="session")
def api(cluster) -> Iterator[Api]:
    with Api(cluster) as api:
        yield api


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    """A namespace of the test's own, with the ConfigMap that is made in each."""
    name = f"wire-{uuid.uuid4().hex[:8]}"
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    # A controller makes it at a moment of its own, else between any two events of a test.
    api.until("configmaps", ROOT_CA, name, bool, 60)
    yield name
    api.delete("namespaces", name)


@pytest.fixture
def full_disk() -> Callable[[], AbstractContextManager[None]]:
    """No file of this process grows while it lasts: the limit refuses a write as a full disk does."""

    @contextmanager
    def full() -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return full


@pytest.fixture
def new_wire(cluster, tmp_path: Path) -> Iterator[Callable[..., Wire]]:
    """A factory of wires; each is closed after the test."""
    opened: list[Wire] = []
    numbers = itertools.count(1)

    def new(*rules: str, client: str = "", **options) -> Wire:
        wire = Wire(cluster, client or f"c{next(numbers)}", tmp_path, rules=rules, **options)
        opened.append(wire.open())
        return wire

    yield new
    for wire in opened:
        wire.close()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """In place of a cluster, for what concerns the wire alone."""
    with Upstream() as upstream:
        yield upstream


@pytest.fixture
def alone(upstream: Upstream, tmp_path: Path) -> Iterator[Callable[..., Wire]]:
    """A factory of wires in front of ``upstream``; each is closed after the test."""
    opened: list[Wire] = []

    def new(*rules: str, client: str = "op", **options) -> Wire:
        wire = Wire(upstream.kubeconfig(tmp_path), client, tmp_path, rules=rules, **options)
        opened.append(wire.open())
        return wire

    yield new
    for wire in opened:
        wire.close()


@pytest.fixture
def http() -> urllib3.PoolManager:
    """A client that tries nothing twice."""
    return urllib3.PoolManager(retries=False, timeout=PATIENCE)


@pytest.fixture
def wire(new_wire) -> Wire:
    return new_wire()


@pytest.fixture
def timeline(wire: Wire) -> Timeline:
    return Timeline.of(wire)


@pytest.fixture
def core(wire: Wire):
    """The official Python client's CoreV1Api, on the test's wire, without retries of its own."""
    return python_client(wire)


def python_client(wire: Wire):
    from kubernetes import client, config

    configuration = client.Configuration()
    config.load_kube_config(str(wire.kubeconfig), client_configuration=configuration)
    configuration.retries = False
    return client.CoreV1Api(client.ApiClient(configuration))


def configmap(name: str, **data: str):
    """A configmap as the Python client takes it."""
    return {"metadata": {"name": name}, "data": data}


class Child:
    """A client in a process of its own; its standard output is read as JSON lines."""

    def __init__(self, argv: list[str], wire: Wire, **env: str) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")}
        environment.update(KUBECONFIG=str(wire.kubeconfig), **env)
        self.process = subprocess.Popen(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.lines: list[dict] = []
        self._stderr: list[str] = []
        self._changed = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_lines(self) -> None:
        for line in self.process.stdout:
            try:
                data = json.loads(line)
            except ValueError:
                data = {"text": line.rstrip("\n")}
            with self._changed:
                self.lines.append(data)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _read_errors(self) -> None:
        for line in self.process.stderr:
            self._stderr.append(line)

    @property
    def stderr(self) -> str:
        return "".join(self._stderr)

    def wait_line(self, timeout: float = PATIENCE, **wanted: str) -> dict:
        """The first line with these fields; fails the test where it does not come."""

        def found():
            return next((x for x in self.lines if wanted.items() <= x.items()), None)

        with self._changed:
            if not self._changed.wait_for(found, timeout):
                pytest.fail(f"no line {wanted} in {self.lines}; stderr: {self.stderr[-2000:]}")
            return found()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone: what a runner registers with the wire."""
        self.process.kill()
        self.process.wait()

    def wait(self, timeout: float = PATIENCE) -> int:
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        return code


@pytest.fixture
def start() -> Iterator[Callable[..., Child]]:
    """Start a client in a process of its own; ended after the test."""
    children: list[Child] = []

    def new(argv: list[str], wire: Wire, **env: str) -> Child:
        child = Child(argv, wire, **env)
        children.append(child)
        wire.on_kill(child.kill)
        return child

    yield new
    for child in children:
        child.process.kill()
        child.process.wait()


@pytest.fixture(scope="session")
def kubectl() -> str:
    from grader.cluster import binaries

    return str(binaries.ensure(["kubectl"])["kubectl"])


@pytest.fixture(scope="session")
def go_clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the programs of tests/wire/clients, built."""
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    out = tmp_path_factory.mktemp("clients")
    built = subprocess.run(
        ["go", "build", "-trimpath", "-o", f"{out}/", "./..."],
        cwd=HERE / "clients",
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
    )
    if built.returncode and "dial tcp" in built.stderr:
        pytest.skip("the Go modules are not in the cache and cannot be fetched")
    assert built.returncode == 0, built.stderr
    return out


PYTHON = sys.executable
