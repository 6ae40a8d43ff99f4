"""The embedded backend: a real control plane as local processes, without a container engine."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.cluster import audit, binaries, boot, dirs, pins, process
from grader.cluster.binaries import Progress
from grader.cluster.components import Layout
from grader.cluster.errors import ClusterLost
from grader.cluster.interface import Capability
from grader.cluster.process import Recorded, records


@dataclass
class EmbeddedCluster:
    """A running embedded cluster; see :class:`grader.cluster.interface.Cluster`."""

    name: str
    layout: Layout
    port: int
    versions: dict[str, str]
    backend: str = "embedded"
    capabilities: frozenset[Capability] = frozenset(Capability)

    @property
    def kubeconfig(self) -> Path:
        return self.layout.kubeconfig

    @property
    def audit_log(self) -> Path:
        """The audit log's path, for whoever follows it as it grows."""
        return self.layout.audit_log

    def require(self, *capabilities: Capability) -> None:
        """Does nothing: this backend has every capability."""

    def audit(self, since: float) -> Iterator[dict]:
        """Audit events whose request was received at or after ``since`` (epoch seconds)."""
        return audit.events(self.layout.audit_log, since)

    def processes(self) -> dict[str, Recorded]:
        """The components that run, by name."""
        return {one.name: one for one in records.live(owner=owner(self.name))}

    def _process(self, component: str) -> Recorded:
        _known(component)
        found = self.processes().get(component)
        if found is None:
            raise ClusterLost(f"{component} of the cluster {self.name} has died.")
        return found

    @contextmanager
    def pause(self, component: str) -> Iterator[None]:
        """Halt a component (SIGSTOP) for the length of the block.

        If the command is killed inside the block, the next one that looks for the
        cluster lets the component go on.
        """
        halted = self._process(component)
        mark = self.layout.paused / component
        me = os.getpid()
        dirs.write_atomically(mark, json.dumps([me, process.birth(me)]))
        try:
            halted.halt()
            yield
        finally:
            halted.signal(signal.SIGCONT)
            mark.unlink(missing_ok=True)

    def restart(self, component: str, *, flags: tuple[str, ...] = ()) -> None:
        """Kill a component (SIGKILL) and start it again; ready when this returns.

        ``flags`` are added for this run of it: the next restart is without them, and
        so is the one by which a later command repairs the cluster if this command is
        killed before that.

        With etcd or the API server, the controllers are restarted as well, and
        work when this returns.
        """
        _known(component)
        with boot.lock(self.name):
            boot.note_flags(self.layout, component, flags)
            _start_again(self, {component})
            if component in boot.SERVERS:
                boot.wait_controllers(self.layout, timeout=60.0)

    def compact(self) -> int:
        """Compact etcd up to its present revision, physically; returns that revision."""
        from grader.cluster import etcd

        return etcd.compact(self.layout.socket)

    def revision(self) -> int:
        """The present revision of etcd, which is the newest resourceVersion."""
        from grader.cluster import etcd

        return etcd.revision(self.layout.socket)

    def parts(self) -> list[dict[str, Any]]:
        """What runs: name, version, pid, resident memory (bytes) and extra flags of each component."""
        import psutil

        noted = json.loads(self.layout.record.read_text()).get("flags", {})
        return [
            {
                "name": name,
                "version": self.versions[name],
                "pid": one.pid,
                "memory": psutil.Process(one.pid).memory_info().rss,
                "flags": noted.get(name, {}).get("flags", []),
            }
            for name, one in sorted(self.processes().items())
        ]


def _start_again(cluster: EmbeddedCluster, components: set[str]) -> None:
    """Start components of a cluster, ending those that still run. Under the lock.

    With etcd or the API server the controllers are restarted too: each of
    their informers backs off whenever its watch breaks, longer each time, up to a
    minute, and the next user of the cluster would find them idle.
    """
    servers = [one for one in boot.SERVERS if one in components]
    others = [
        one for one in pins.COMPONENTS if one not in boot.SERVERS and (servers or one in components)
    ]
    running = cluster.processes()
    for one in (*others, *servers):
        if one in running:
            running[one].end(sweep=False)
    # The controllers give up on an API server that does not answer within ten seconds.
    for some in (servers, others):
        boot.start_components(cluster.layout, owner(cluster.name), cluster.port, some)
        boot.wait_ready(cluster.layout, owner(cluster.name), timeout=60.0)


def _known(component: str) -> None:
    if component not in pins.COMPONENTS:
        raise ValueError(f"no component is called {component}")


def owner(name: str) -> str:
    """What a cluster's processes are recorded as belonging to."""
    return f"cluster/{name}"


def layout(name: str) -> Layout:
    return Layout(dirs.clusters() / name)


def find(name: str) -> EmbeddedCluster | None:
    """The cluster if there is one; a component that died or was left halted is restarted first.

    None where there is none, or where it cannot be repaired. Raises
    :class:`grader.cluster.errors.EnvironmentProblem` where another machine runs it.
    """
    found = _whole(name)
    if found is not None or not layout(name).record.exists():
        return found
    with boot.lock(name):
        if (found := _whole(name)) is not None:
            return found  # whoever held the lock repaired it
        try:
            return _repair(name)
        except ClusterLost:
            return None


def ensure(name: str, progress: Progress | None = None, *, fresh: bool = False) -> EmbeddedCluster:
    """The running cluster, or a new one.

    ``fresh`` ends a running one first. Raises
    :class:`grader.cluster.errors.EnvironmentProblem` where none can be started.
    """
    if not fresh and (found := _whole(name)) is not None:
        return found
    tell = progress or (lambda sentence: None)
    boot.check(layout(name))
    # Before the lock: getting them can take minutes, and `down` must not wait for that.
    binaries.ensure(pins.COMPONENTS, tell)
    with boot.lock(name, tell):
        if not fresh:
            try:
                if (found := _whole(name) or _repair(name)) is not None:
                    return found
            except ClusterLost as lost:
                # Not a step under way, which is gone from the screen when the next one comes.
                print(
                    f"phase4: the cluster {name} cannot be repaired, so an empty one replaces "
                    f"it; its objects are lost. {lost}",
                    file=sys.stderr,
                )
        boot.clear(layout(name), owner(name))
        boot.start(name, layout(name), owner(name), tell)
        found = _whole(name)
        if found is None:
            raise ClusterLost(f"The cluster {name} died right after its start; see `phase4 logs`.")
        return found


def stop(name: str) -> bool:
    """End the cluster and forget its state (its logs stay); False where there was none."""
    if not layout(name).folder.exists() and not records.all(owner=owner(name)):
        return False
    with boot.lock(name):
        return boot.clear(layout(name), owner(name))


def names() -> list[str]:
    """The clusters of which there is a record, running or not."""
    return sorted(path.parent.name for path in dirs.clusters().glob("*/cluster.json"))


def _read(name: str) -> dict | None:
    """The cluster's record, or None where there is none or its start was not finished."""
    try:
        data = json.loads(layout(name).record.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return data if data.get("format") == boot.FORMAT and data.get("ready") else None


def _whole(name: str) -> EmbeddedCluster | None:
    """The cluster, if every component of it runs."""
    data = _read(name)
    if data is None:
        return None
    cluster = EmbeddedCluster(name, layout(name), data["port"], data["versions"])
    running = cluster.processes()
    if set(running) != set(pins.COMPONENTS):
        return None
    for component in _paused(cluster.layout):
        if not _abandoned(cluster.layout.paused / component):
            continue
        return None
    if any(boot.abandoned_flags(data, component) for component in pins.COMPONENTS):
        return None
    return cluster


def _repair(name: str) -> EmbeddedCluster | None:
    """Resume what was left halted, restart what died; None where there is none. Under the lock.

    Raises :class:`ClusterLost` where it cannot be repaired.
    """
    data = _read(name)
    if data is None:
        return None
    files = layout(name)
    boot.refuse_a_strangers(files, owner(name))
    cluster = EmbeddedCluster(name, files, data["port"], data["versions"])
    for component in _paused(files):
        if _abandoned(files.paused / component):
            if (halted := cluster.processes().get(component)) is not None:
                halted.signal(signal.SIGCONT)
            (files.paused / component).unlink(missing_ok=True)
    for component in pins.COMPONENTS:
        if boot.abandoned_flags(data, component):
            boot.note_flags(files, component, ())
            if (changed := cluster.processes().get(component)) is not None:
                changed.end(sweep=False)
    running = cluster.processes()
    dead = {component for component in pins.COMPONENTS if component not in running}
    _start_again(cluster, dead)
    if dead:
        boot.wait_controllers(files, timeout=60.0)
    if (found := _whole(name)) is None:
        raise ClusterLost("A component died again right after its start.")
    return found


def _paused(files: Layout) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(files.paused)]
    except FileNotFoundError:
        return []


def _abandoned(mark: Path) -> bool:
    """Whether the command that halted a component is gone."""
    try:
        pid, born = json.loads(mark.read_text())
    except FileNotFoundError:
        return False
    except ValueError:
        return True
    return process.birth(pid) != born
