"""Waiting for components, and saying why one ended meanwhile."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn

from grader.cluster import limits, logs, ports
from grader.cluster.components import Layout
from grader.cluster.errors import ClusterLost, EnvironmentProblem
from grader.cluster.process import Recorded

if TYPE_CHECKING:
    from grader.cluster.api import Api

# The client is imported late: it takes a tenth of a second, in which the API server
# can already be starting.

#: How often a condition is looked at that nothing can be waited on for (s). Looking
#: more often would take time from what is looked at.
_TICK = 0.02


class PortTaken(ClusterLost):
    """Another program listens where a component should."""


def until_listening(files: Layout, started: Mapping[str, Recorded], port: int) -> None:
    """Wait until the API server listens at ``port``; :class:`PortTaken` where another does."""

    def listening() -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return False
        # Somebody else may be who listens there: then ours ends before long, and says why.
        return ports.listens(started["kube-apiserver"].pid, port)

    until(listening, started, files, "the API server to listen", 60.0)


def until(
    condition: Callable[[], bool],
    started: Mapping[str, Recorded],
    files: Layout,
    what: str,
    timeout: float,
) -> None:
    """Wait until a condition holds, at most ``timeout`` seconds.

    Raises as :func:`raise_why_it_ended` does as soon as a component has ended, and
    :class:`ClusterLost`, with ``what`` was waited for, when the time is up.
    """
    deadline = time.monotonic() + timeout
    while True:
        dead = next((one for one in started.values() if not one.alive()), None)
        if dead is not None:
            raise_why_it_ended(dead, files)
        if condition():
            return
        if time.monotonic() > deadline:
            raise ClusterLost(
                f"Waited {timeout:g} s for {what}, in vain. The logs are in {files.logs}."
            )
        time.sleep(_TICK)


def raise_why_it_ended(dead: Recorded, files: Layout) -> NoReturn:
    """Raise what a component's end means.

    :class:`EnvironmentProblem` for a limit of this machine, :class:`PortTaken` for its
    port, else :class:`ClusterLost` with the last line of its log.
    """
    raise_limit_met([dead.name], files)
    log = files.log(dead.name)
    last = logs.last_words(log)
    if "address already in use" in last:
        raise PortTaken(f"Another program listens where {dead.name} should.")
    if dead.returncode == -signal.SIGKILL:
        last = f"none: it was killed, as a machine that is out of memory does. Before that: {last}"
    raise ClusterLost(
        f"{dead.name} ended while the cluster was starting. The end of its log: {last} "
        f"(the whole log: {log})"
    )


def raise_limit_met(started: Iterable[str], files: Layout) -> None:
    """Raise :class:`EnvironmentProblem` where a component complains of a limit last."""
    for name in started:
        if limit := limits.named_in(logs.last_words(files.log(name))):
            raise EnvironmentProblem(f"{name} could not work. {limit}")


def ready(api: Api) -> bool:
    """Whether the API server says that it is ready."""
    from grader.cluster.api import ApiError

    try:
        return api.raw("GET", "/readyz", timeout=5.0) == "ok"
    except (ApiError, ClusterLost):
        return False


def etcd_answers(files: Layout) -> bool:
    """Whether etcd answers a read."""
    from grader.cluster import etcd

    try:
        return etcd.revision(files.socket) > 0
    except ClusterLost:
        return False


def until_served(api: Api, started: Mapping[str, Recorded], files: Layout) -> None:
    """Wait until the controllers work: for the service accounts and a Ready node."""

    def served() -> bool:
        for namespace in ("default", "dns", "phase4-system"):
            if api.find("serviceaccounts", "default", namespace) is None:
                return False
        node = api.get("nodes", "node-1")
        conditions = {c["type"]: c["status"] for c in node["status"].get("conditions") or ()}
        return conditions.get("Ready") == "True" and not node["spec"].get("taints")

    until(served, started, files, "the node and the default service account", 60.0)
