"""The kubeconfig backend: a cluster that somebody else runs, named by ``PHASE4_KUBECONFIG``.

Its control plane is out of reach: no audit log, no pause, restart or compaction. A
check that needs one of them is NOT GRADED there. The course's CRDs and the namespaces
``dns`` and ``phase4-system`` are created where they are missing, and left there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from grader.cluster import bootstrap
from grader.cluster.api import Api, ApiError
from grader.cluster.binaries import Progress
from grader.cluster.errors import ClusterLost, EnvironmentProblem
from grader.cluster.interface import Capability
from grader.verdict import NotGraded

_HOW = {
    Capability.AUDIT: "reads the API server's audit log",
    Capability.PAUSE: "halts a component of the control plane",
    Capability.RESTART: "restarts a component of the control plane",
    Capability.COMPACT: "compacts etcd",
    Capability.FLAGS: "starts a component with flags of its own",
}


def lacking(backend: str, *capabilities: Capability) -> NotGraded:
    """What a check ends in that needs something this backend does not have."""
    needs = " and ".join(_HOW[capability] for capability in capabilities)
    return NotGraded(
        f"A cluster for a check that {needs}.",
        f"The backend {backend} cannot do that.",
        next="Run it on the embedded backend: unset PHASE4_BACKEND, then `phase4 up`.",
    )


@dataclass
class ExternalCluster:
    """See :class:`grader.cluster.interface.Cluster`."""

    name: str
    kubeconfig: Path
    versions: dict[str, str]
    backend: str = "kubeconfig"
    capabilities: frozenset[Capability] = frozenset()

    def require(self, *capabilities: Capability) -> None:
        """Raise NotGraded for a capability that this backend does not have."""
        if absent := [one for one in capabilities if one not in self.capabilities]:
            raise lacking(self.backend, *absent)

    def audit(self, since: float) -> Iterator[dict]:
        raise lacking(self.backend, Capability.AUDIT)

    def pause(self, component: str) -> AbstractContextManager[None]:
        raise lacking(self.backend, Capability.PAUSE)

    def restart(self, component: str, *, flags: tuple[str, ...] = ()) -> None:
        raise lacking(self.backend, Capability.RESTART)

    def compact(self) -> int:
        raise lacking(self.backend, Capability.COMPACT)


def ensure(name: str, progress: Progress | None = None, *, fresh: bool = False) -> ExternalCluster:
    """The cluster of ``PHASE4_KUBECONFIG``, with the course's CRDs and namespaces in it.

    Raises EnvironmentProblem where it is not named, does not answer or may not be
    changed, and for ``fresh``: what is in somebody's cluster is not thrown away.
    """
    if fresh:
        raise EnvironmentProblem(
            "The kubeconfig backend cannot make a fresh cluster. Leave --fresh out, or use the "
            "embedded backend."
        )
    path = _path()
    with Api(path) as api:
        versions = {"kube-apiserver": _version(api)}
        if progress is not None:
            progress("looking for the course's CRDs in the cluster")
        bootstrap.install(api)
    return ExternalCluster(name, path, versions)


def find(name: str) -> ExternalCluster | None:
    """The cluster of ``PHASE4_KUBECONFIG`` if it answers."""
    if not os.environ.get("PHASE4_KUBECONFIG"):
        return None
    path = _path()
    try:
        with Api(path) as api:
            return ExternalCluster(name, path, {"kube-apiserver": _version(api)})
    except (ClusterLost, ApiError):
        return None


def stop(name: str) -> bool:
    """Nothing to end: the cluster is not ours."""
    return False


def names() -> list[str]:
    """The cluster that is named, if one is."""
    from grader.cluster import default_name

    return [default_name()] if os.environ.get("PHASE4_KUBECONFIG") else []


def _path() -> Path:
    value = os.environ.get("PHASE4_KUBECONFIG")
    if not value:
        raise EnvironmentProblem(
            "The kubeconfig backend needs PHASE4_KUBECONFIG: the path of the kubeconfig of a "
            "cluster that you can throw away."
        )
    return Path(value).expanduser().absolute()


def _version(api: Api) -> str:
    return api.raw("GET", "/version", timeout=10.0)["gitVersion"]
