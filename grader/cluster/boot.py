"""Starting and stopping an embedded cluster: the order, and what is recorded meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from grader.cluster import (
    binaries,
    certificate,
    dirs,
    limits,
    locks,
    logs,
    pins,
    ports,
    process,
    template,
    waiting,
)
from grader.cluster.binaries import Progress
from grader.cluster.components import ENVIRONMENT, Layout, arguments
from grader.cluster.errors import ClusterLost, EnvironmentProblem
from grader.cluster.process import NotStarted, Recorded, end_all, records

# The client is imported late: it takes a tenth of a second, in which the API server
# can already be starting.

#: Raised when cluster.json changes its meaning: an older cluster is then replaced.
FORMAT = 1

#: The components that the others cannot do without.
SERVERS = ("etcd", "kube-apiserver")

#: How often a free port is tried: another program may take it before it is used.
PORTS_TRIED = 5


def lock(name: str, progress: Progress | None = None) -> AbstractContextManager[None]:
    """Only one command at a time starts, repairs or ends the cluster ``name``."""
    folder = dirs.made(dirs.clusters(), private=True)
    return locks.alone(
        folder / f"{name}.lock",
        progress or (lambda sentence: None),
        f"another command is busy with the cluster {name}; waiting for it",
    )


def check(files: Layout) -> None:
    """Raise :class:`EnvironmentProblem` where no cluster can run, before anything is fetched for it."""
    if os.pathsep in str(files.folder):
        raise EnvironmentProblem(
            f"{files.folder} has a {os.pathsep} in it, which separates paths in KUBECONFIG. "
            "Set PHASE4_HOME to a folder without."
        )
    limits.check()


def start(name: str, files: Layout, owner: str, progress: Progress) -> None:
    """Start an empty cluster in an empty folder; ready when this returns. Under the lock.

    Where a start from the template fails, at whatever point, the template is deleted and
    the cluster is started without it. When this raises, or is interrupted, every process
    that it started has ended.
    """
    paths = binaries.ensure(pins.COMPONENTS, progress)
    progress("starting the control plane")
    try:
        from_template = template.there()
        try:
            port = bring_up(files, owner, from_template=from_template)
        except ClusterLost:
            if not from_template:
                raise
            # A damaged template may show late, and in many ways: etcd panics at the first
            # damaged page, and the API server ends after etcd.
            template.discard()
            clear(files, owner)
            progress("the kept copy of etcd's data does not start; starting without it")
            port = bring_up(files, owner, from_template=False)
        certificate.keep(files.pki)
        versions = {name: binaries.version_of(path) for name, path in paths.items()}
        record = {"format": FORMAT, "ready": True, "port": port, "versions": versions}
        _write_record(files, {**record, "name": name})
    except BaseException:
        clear(files, owner)
        raise


def bring_up(files: Layout, owner: str, *, from_template: bool) -> int:
    """Start the components one after another until the cluster serves; returns the port.

    Raises :class:`ClusterLost` where it never does; what was started may still run then.
    """
    for attempt in range(1, PORTS_TRIED + 1):
        tokens = files.prepare()
        certificate.reuse(files.pki)
        # Another run may have deleted it since.
        from_template = from_template and template.restore(files.etcd)
        port = ports.free()
        _write_record(files, {"format": FORMAT, "ready": False, "port": port})
        started = start_components(files, owner, port, SERVERS)
        try:
            waiting.until_listening(files, started, port)
            break
        except waiting.PortTaken:
            clear(files, owner)
            if attempt == PORTS_TRIED:
                raise EnvironmentProblem(
                    f"No free port was found for the API server ({PORTS_TRIED} were "
                    "tried, and something else took each)."
                ) from None
    from grader.cluster import bootstrap
    from grader.cluster.api import Api, ApiError

    files.write_kubeconfigs(f"https://127.0.0.1:{port}", tokens)
    try:
        with Api(files.kubeconfig, user_agent="phase4-up") as api:
            if not from_template:
                bootstrap.install_early(api, lambda: all(one.alive() for one in started.values()))
            waiting.until(
                lambda: waiting.ready(api), started, files, "the API server to be ready", 60.0
            )
            if not from_template:
                _keep_template(started["etcd"], files)
            started |= start_components(files, owner, port, pins.COMPONENTS[2:])
            bootstrap.create(api, "node.yaml")
            waiting.until_served(api, started, files)
    except (ApiError, TimeoutError, ClusterLost) as error:
        if (dead := next((one for one in started.values() if not one.alive()), None)) is not None:
            waiting.raise_why_it_ended(dead, files)
        waiting.raise_limit_met(started, files)
        if isinstance(error, ClusterLost):
            raise
        raise ClusterLost(f"The API server does not work: {error}.") from error
    return port


def start_components(
    files: Layout, owner: str, port: int, components: Sequence[str]
) -> dict[str, Recorded]:
    """Start some components, with the flags noted for them; waits for nothing."""
    paths = binaries.ensure(components)
    flags = _flags(files)
    files.lay_manifests()
    started = {}
    for component in components:
        if component == "etcd":
            for name in ("etcd.sock", "peer.sock"):
                (files.folder / name).unlink(missing_ok=True)
        with dirs.writing(files.logs):
            log = open(files.log(component), "ab")
        with log:
            logs.begin(log, component)
            try:
                started[component] = records.start(
                    [
                        paths[component],
                        *arguments(component, files, port),
                        *flags.get(component, {}).get("flags", ()),
                    ],
                    name=component,
                    kind="component",
                    owner=owner,
                    cwd=files.folder,
                    env={**_environment(), **ENVIRONMENT[component]},
                    stdout=log,
                    stderr=log,
                )
            except NotStarted as error:
                raise ClusterLost(str(error)) from error
    return started


def wait_ready(files: Layout, owner: str, *, timeout: float) -> None:
    """Wait until etcd and the API server of a running cluster answer."""
    from grader.cluster.api import Api

    running = {one.name: one for one in records.live(owner=owner)}
    with Api(files.kubeconfig, user_agent="phase4-up") as api:
        # The API server remembers for a while that its etcd was well.
        waiting.until(
            lambda: waiting.etcd_answers(files), running, files, "etcd to answer", timeout
        )
        try:
            waiting.until(
                lambda: waiting.ready(api), running, files, "the API server to be ready", timeout
            )
        except waiting.PortTaken:
            raise ClusterLost(
                f"The API server cannot be started again: another program has taken {api.server}."
            ) from None


def wait_controllers(files: Layout, *, timeout: float) -> None:
    """Wait until the controllers work: until a Pod of a Deployment runs.

    A cluster whose API server answers can have controllers that do not follow it yet.
    Raises :class:`ClusterLost` after ``timeout`` seconds for each of the two steps.
    """
    from grader.cluster import bootstrap
    from grader.cluster.api import Api, ApiError

    with Api(files.kubeconfig, user_agent="phase4-up") as api:
        try:
            bootstrap.wait_rolled_out(api, timeout)
        except (TimeoutError, ApiError) as error:
            raise ClusterLost(f"The cluster's controllers do not work: {error}.") from error


def refuse_a_strangers(files: Layout, owner: str) -> None:
    """Raise :class:`EnvironmentProblem` where a cluster runs that cannot be ended from here."""
    from grader.cluster import etcd

    if any(one.name == "etcd" for one in records.live(owner=owner)) or not etcd.in_use(files.etcd):
        return
    name = owner.rpartition("/")[2]
    hosts = sorted({one.host for one in records.all(owner=owner, here=False)})
    if hosts:
        raise EnvironmentProblem(
            f"The cluster {name} runs on another machine or in a container that shares this home "
            f"({', '.join(hosts)}). End it there with `phase4 down`, or set PHASE4_HOME to a "
            "folder that is this machine's own."
        )
    raise EnvironmentProblem(
        f"An etcd runs on the data of the cluster {name}, and no record says which process it is. "
        f"`lsof {files.etcd / 'member' / 'snap' / 'db'}` finds it: end it, and run the command "
        "again."
    )


def clear(files: Layout, owner: str) -> bool:
    """End a cluster's processes and remove its files but for the logs; True if any ran.

    The API server goes before etcd: one whose etcd has gone hangs for minutes when
    it is told to stop. Raises :class:`EnvironmentProblem`, and does nothing, where the
    cluster is another machine's.
    """
    refuse_a_strangers(files, owner)
    everything = records.all(owner=owner)
    running = any(one.alive() for one in everything)
    files.record.unlink(missing_ok=True)
    end_all([one for one in everything if one.name != "etcd"], sweep=False)
    end_all([one for one in everything if one.name == "etcd"], sweep=False)
    if files.folder.is_dir():
        with dirs.writing(files.folder):
            for entry in os.scandir(files.folder):
                if entry.name == "logs":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)
    return running


# -- flags of one run -------------------------------------------------------------


def note_flags(files: Layout, component: str, flags: Sequence[str]) -> None:
    """Write down the flags that the next start of a component gets, and who asked for them."""
    record = json.loads(files.record.read_text())
    noted = record.setdefault("flags", {})
    if flags:
        me = os.getpid()
        noted[component] = {"flags": list(flags), "by": [me, process.birth(me)]}
    else:
        noted.pop(component, None)
    _write_record(files, record)


def abandoned_flags(record: Mapping, component: str) -> bool:
    """Whether a component runs with flags of a command that is gone."""
    noted = record.get("flags", {}).get(component)
    if noted is None:
        return False
    pid, born = noted["by"]
    return process.birth(pid) != born


def _flags(files: Layout) -> dict:
    return json.loads(files.record.read_text()).get("flags", {})


def _write_record(files: Layout, record: Mapping) -> None:
    dirs.write_atomically(files.record, json.dumps(record), mode=0o600)


def _environment() -> dict[str, str]:
    """What a component needs of this process's environment: no proxy, no kubeconfig."""
    kept = ("PATH", "HOME", "TMPDIR", "TZ", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR")
    return {name: os.environ[name] for name in kept if name in os.environ}


# -- what is kept for the next one --------------------------------------------------


def _keep_template(running_etcd: Recorded, files: Layout) -> None:
    if template.there():
        return
    try:
        running_etcd.halt()
        template.capture(files.etcd)
    except EnvironmentProblem:
        pass  # a cache without room costs the next start a second
    finally:
        running_etcd.signal(signal.SIGCONT)
