"""Where an API server comes from.

    cluster = ensure()                  # the running one, or a new one
    api = Api(cluster)                  # grader.cluster.api

Three backends give the interface of :class:`grader.cluster.interface.Cluster`:
``embedded`` (the default), ``kind`` and ``kubeconfig``.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grader.cluster.binaries import Progress
    from grader.cluster.interface import Cluster

BACKENDS = ("embedded", "kind", "kubeconfig")


def default_name() -> str:
    """The cluster meant where none is named: ``$PHASE4_CLUSTER`` or ``default``."""
    return os.environ.get("PHASE4_CLUSTER") or "default"


def default_backend() -> str:
    """The backend meant where none is named: ``$PHASE4_BACKEND`` or ``embedded``."""
    return os.environ.get("PHASE4_BACKEND") or "embedded"


def ensure(
    name: str | None = None,
    *,
    backend: str | None = None,
    progress: Progress | None = None,
    fresh: bool = False,
) -> Cluster:
    """The running cluster ``name``, or a new one; a component that died is restarted first.

    ``fresh`` replaces a running one. ``progress`` is called with a sentence that says
    what is being done. Raises
    :class:`grader.cluster.errors.EnvironmentProblem` where no cluster can run.
    """
    return _backend(backend).ensure(_checked(name), progress, fresh=fresh)


def find(name: str | None = None, *, backend: str | None = None) -> Cluster | None:
    """The running cluster ``name`` (a component that died is restarted), or None."""
    return _backend(backend).find(_checked(name))


def stop(name: str | None = None, *, backend: str | None = None) -> bool:
    """End the cluster ``name`` and forget its state; False where there was none."""
    return _backend(backend).stop(_checked(name))


def names(*, backend: str | None = None) -> list[str]:
    """The clusters of a backend of which there is a record, running or not."""
    return _backend(backend).names()


def _checked(name: str | None) -> str:
    from grader.cluster.errors import EnvironmentProblem

    chosen = name or default_name()
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", chosen):
        raise EnvironmentProblem(
            f"A cluster cannot be called {chosen!r}: use up to 40 lower-case letters, digits and "
            "hyphens."
        )
    return chosen


def _backend(backend: str | None):
    from importlib import import_module

    from grader.cluster.errors import EnvironmentProblem

    chosen = backend or default_backend()
    if chosen not in BACKENDS:
        raise EnvironmentProblem(
            f"There is no backend {chosen!r}; PHASE4_BACKEND can be one of {', '.join(BACKENDS)}."
        )
    module = {"kubeconfig": "external"}.get(chosen, chosen)
    return import_module(f"grader.cluster.{module}")
