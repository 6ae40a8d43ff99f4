"""What every backend provides: the rest of the project uses clusters only through this."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol


class Capability(enum.StrEnum):
    """What some backends can do and others cannot.

    A lab that needs a capability that the backend does not have is NOT GRADED, never FAIL.
    """

    AUDIT = "audit"
    PAUSE = "pause"
    RESTART = "restart"
    COMPACT = "compact"
    FLAGS = "flags"


class Cluster(Protocol):
    """A running control plane."""

    name: str
    backend: str
    #: Admin credentials, a file that only the user can read.
    kubeconfig: Path
    #: Component name to version, for reports.
    versions: dict[str, str]
    capabilities: frozenset[Capability]

    def require(self, *capabilities: Capability) -> None:
        """Raise :class:`grader.verdict.NotGraded` where one is lacking, naming the backends that have it."""

    def audit(self, since: float) -> Iterator[dict]:
        """Audit events (audit.k8s.io/v1) whose request was received at or after ``since`` (epoch seconds)."""

    def pause(self, component: str) -> AbstractContextManager[None]:
        """SIGSTOP a component (``kube-apiserver``, ``etcd``, ...) for the length of the block."""

    def restart(self, component: str, *, flags: tuple[str, ...] = ()) -> None:
        """Kill a component and start it again, ready when this returns; ``flags`` are added for this run.

        With etcd or the API server, the controllers are restarted too, and work by then.
        """

    def compact(self) -> int:
        """Compact etcd up to its present revision; returns that revision."""
