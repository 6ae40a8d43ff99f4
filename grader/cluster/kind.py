"""The kind backend: the control plane in a container, by the ``kind`` command.

It gives what the kubeconfig backend gives, and the audit log, read out of the node.
The node is one container, so that its components cannot be halted or restarted one
by one from here; a check that needs it is NOT GRADED. ``PHASE4_KIND_IMAGE`` names
another node image than kind's own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grader.cluster import audit, bootstrap, dirs, locks
from grader.cluster.api import Api, ApiError
from grader.cluster.binaries import Progress
from grader.cluster.components import MANIFESTS
from grader.cluster.errors import ClusterLost, EnvironmentProblem
from grader.cluster.external import ExternalCluster
from grader.cluster.interface import Capability

_CONFIG = """\
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
- role: control-plane
  extraMounts:
  - hostPath: {policy}
    containerPath: /etc/kubernetes/phase4/policy.yaml
    readOnly: true
  kubeadmConfigPatches:
  - |
    kind: ClusterConfiguration
    apiServer:
      extraArgs:
      - {{name: audit-policy-file, value: /etc/kubernetes/phase4/policy.yaml}}
      - {{name: audit-log-path, value: /var/log/kubernetes/audit/audit.log}}
      - {{name: audit-log-mode, value: blocking}}
      extraVolumes:
      - name: phase4-policy
        hostPath: /etc/kubernetes/phase4
        mountPath: /etc/kubernetes/phase4
        readOnly: true
        pathType: DirectoryOrCreate
      - name: phase4-audit
        hostPath: /var/log/kubernetes/audit
        mountPath: /var/log/kubernetes/audit
        readOnly: false
        pathType: DirectoryOrCreate
"""

_AUDIT_LOG = "/var/log/kubernetes/audit/audit.log"


@dataclass
class KindCluster(ExternalCluster):
    """A cluster in a container; see :class:`grader.cluster.interface.Cluster`."""

    backend: str = "kind"
    capabilities: frozenset[Capability] = frozenset({Capability.AUDIT})

    def audit(self, since: float) -> Iterator[dict]:
        """Audit events whose request was received at or after ``since`` (epoch seconds)."""
        node = f"{_kind_name(self.name)}-control-plane"
        with tempfile.TemporaryDirectory(prefix="phase4-") as folder:
            log = Path(folder) / "audit.log"
            with log.open("wb") as file:
                _run([_engine(), "exec", node, "cat", _AUDIT_LOG], "read the audit log", file)
            yield from audit.events(log, since)


def ensure(name: str, progress: Progress | None = None, *, fresh: bool = False) -> KindCluster:
    """The running kind cluster, or a new one, with the course's CRDs and namespaces in it."""
    tell = progress or (lambda sentence: None)
    folder = dirs.made(dirs.clusters() / f"kind-{name}", private=True)
    waits = f"another command is busy with the cluster {name}; waiting for it"
    with locks.alone(folder.with_suffix(".lock"), tell, waits):
        if fresh:
            stop(name)
        elif (found := find(name)) is not None:
            return found
        dirs.made(folder, private=True)
        kubeconfig = folder / "kubeconfig"
        # One that does not answer is of no use, and keeps the name.
        _run([_kind(), "delete", "cluster", "--name", _kind_name(name)], "delete the old cluster")
        config = folder / "kind.yaml"
        dirs.write_atomically(config, _CONFIG.format(policy=json.dumps(str(_policy(folder)))))
        command = [_kind(), "create", "cluster", "--name", _kind_name(name)]
        command += ["--config", str(config), "--kubeconfig", str(kubeconfig), "--wait", "180s"]
        if image := os.environ.get("PHASE4_KIND_IMAGE"):
            command += ["--image", image]
        tell("creating a kind cluster (a minute or two; the first time it fetches an image)")
        try:
            _run(command, "create the cluster")
            kubeconfig.chmod(0o600)
            with Api(kubeconfig) as api:
                tell("installing the course's CRDs")
                bootstrap.install(api)
        except BaseException:
            with suppress(EnvironmentProblem):
                stop(name)
            raise
        found = find(name)
        if found is None:
            raise ClusterLost(f"The kind cluster {_kind_name(name)} does not answer.")
        return found


def find(name: str) -> KindCluster | None:
    """The kind cluster if it was made here and answers."""
    kubeconfig = dirs.clusters() / f"kind-{name}" / "kubeconfig"
    if not kubeconfig.exists():
        return None
    try:
        with Api(kubeconfig) as api:
            version = api.raw("GET", "/version", timeout=10.0)["gitVersion"]
            if any(api.find("customresourcedefinitions", crd) is None for crd in bootstrap.CRDS):
                return None  # its making was interrupted
    except (ClusterLost, ApiError, EnvironmentProblem):
        return None
    return KindCluster(name, kubeconfig, {"kube-apiserver": version})


def stop(name: str) -> bool:
    """Delete the kind cluster; False where there was none of ours."""
    folder = dirs.clusters() / f"kind-{name}"
    if not folder.exists():
        return False
    _run([_kind(), "delete", "cluster", "--name", _kind_name(name)], "delete the cluster")
    shutil.rmtree(folder, ignore_errors=True)
    return True


def names() -> list[str]:
    """The kind clusters that were made here."""
    found = dirs.clusters().glob("kind-*/kind.yaml")
    return sorted(path.parent.name.removeprefix("kind-") for path in found)


def _kind_name(name: str) -> str:
    return f"phase4-{name}"


def _policy(folder: Path) -> Path:
    """A copy of the audit policy that stays while the container has it mounted."""
    path = folder / "audit-policy.yaml"
    dirs.write_atomically(path, (MANIFESTS / "audit-policy.yaml").read_bytes())
    return path


def _kind() -> str:
    command = shutil.which("kind")
    if command is None:
        raise EnvironmentProblem(
            "The kind backend needs the command kind (https://kind.sigs.k8s.io) and a container "
            "engine. Without them use the embedded backend: unset PHASE4_BACKEND."
        )
    return command


def _engine() -> str:
    """The container engine that kind uses."""
    chosen = os.environ.get("KIND_EXPERIMENTAL_PROVIDER")
    for command in [chosen] if chosen else ["docker", "podman", "nerdctl"]:
        if command and shutil.which(command):
            return command
    raise EnvironmentProblem("The kind backend needs a container engine such as docker.")


def _run(command: list[str], what: str, output: object = subprocess.DEVNULL) -> None:
    """Run a command to its end. Raises EnvironmentProblem with the last thing it said."""
    done = subprocess.run(
        command, stdout=output, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in said if line.startswith("ERROR")] or said[-1:]
        raise EnvironmentProblem(
            f"{command[0].rpartition('/')[2]} could not {what}: {errors[0] if errors else '?'}"
        )
