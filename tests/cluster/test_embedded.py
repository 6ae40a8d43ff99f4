"""The embedded control plane: real controllers, and every part of it can be hurt."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from grader import cluster as clusters
from grader.cluster import (
    boot,
    bootstrap,
    components,
    embedded,
    machine,
    pins,
    ports,
    process,
    template,
    waiting,
)
from grader.cluster.api import Api, ApiError
from grader.cluster.errors import ClusterLost, EnvironmentProblem
from grader.cluster.interface import Capability
from grader.cluster.process import records

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def own():
    """A cluster that this file breaks."""
    found = clusters.ensure("test-hurt")
    yield found
    clusters.stop("test-hurt")


@pytest.fixture
def hurt(own):
    """It, whole again."""
    found = clusters.ensure("test-hurt")
    assert set(found.processes()) == set(pins.COMPONENTS)
    return found


def deployment(namespace: str, image: str = "x") -> dict:
    labels = {"app": "d"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": namespace},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": pod},
    }


def pod(namespace: str, name: str, image: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }


def test_what_is_there_from_the_start(cluster, api: Api):
    assert set(cluster.processes()) == set(pins.COMPONENTS)
    assert cluster.versions["kube-apiserver"].startswith("v1.37.")
    assert cluster.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert cluster.capabilities == frozenset(Capability)
    (node,) = api.list("nodes")["items"]
    assert ("Ready", "True") in [(c["type"], c["status"]) for c in node["status"]["conditions"]]
    for namespace in ("default", "dns", "phase4-system"):
        assert api.get("serviceaccounts", "default", namespace)
    assert api.get("customresourcedefinitions", "foos.samplecontroller.k8s.io")
    assert api.get("customresourcedefinitions", "webapps.phase4.example.com")


def test_nobody_else_can_reach_etcd_or_read_a_credential(cluster):
    folder = cluster.layout.folder
    assert folder.stat().st_mode & 0o777 == 0o700
    for one in cluster.processes().values():
        listening = [
            c.laddr for c in psutil.Process(one.pid).net_connections() if c.status == "LISTEN"
        ]
        wanted = [("127.0.0.1", cluster.port)] if one.name == "kube-apiserver" else []
        assert [tuple(address) for address in listening] == wanted, one.name


def test_the_real_controllers_work(api: Api, namespace):
    api.create(deployment(namespace))
    api.until(
        "deployments",
        "d",
        namespace,
        lambda obj: obj["status"].get("readyReplicas") == 3,
        30,
    )
    api.delete("deployments", "d", namespace, propagation="Foreground")
    api.until("deployments", "d", namespace, lambda obj: obj is None, 30)
    assert api.list("pods", namespace)["items"] == []


def test_children_of_the_courses_kinds_are_collected(api: Api, namespace):
    foo = {"apiVersion": "samplecontroller.k8s.io/v1alpha1", "kind": "Foo"}
    foo |= {"metadata": {"name": "f"}, "spec": {"deploymentName": "d", "replicas": 1}}
    uid = api.create(foo, namespace)["metadata"]["uid"]
    owner = {"apiVersion": foo["apiVersion"], "kind": "Foo", "name": "f", "uid": uid}
    child = {"apiVersion": "v1", "kind": "ConfigMap"}
    child |= {"metadata": {"name": "child", "ownerReferences": [owner]}}
    api.create(child, namespace)
    api.delete("foos", "f", namespace)
    api.until("configmaps", "child", namespace, lambda obj: obj is None, 20)


def test_pods_that_are_not_well(api: Api, namespace):
    for name in ("never-ready", "crashes", "fine"):
        api.create(pod(namespace, name, f"phase4.example.com/{name}"))

    def phase(wanted):
        return lambda obj: obj["status"].get("phase") == wanted

    # Pods are bound side by side, so the first to be made need not be the first to have a node.
    api.until("pods", "never-ready", namespace, lambda obj: "nodeName" in obj["spec"], 30)
    api.until("pods", "fine", namespace, phase("Running"), 30)
    api.until("pods", "crashes", namespace, phase("Failed"), 30)
    stuck = api.get("pods", "never-ready", namespace)
    assert stuck["status"]["phase"] == "Pending" and stuck["spec"]["nodeName"] == "node-1"


def test_the_audit_log_says_who_did_what(cluster, api: Api, namespace):
    begun = time.time()
    api.create(deployment(namespace))
    api.until(
        "deployments", "d", namespace, lambda obj: obj["status"].get("readyReplicas") == 3, 30
    )
    api.delete("deployments", "d", namespace)
    found = [
        event
        for event in cluster.audit(begun)
        if event.get("objectRef", {}).get("namespace") == namespace
    ]
    (made,) = [
        e for e in found if e["verb"] == "create" and e["objectRef"]["resource"] == "deployments"
    ]
    assert made["user"]["username"] == "phase4-admin"
    assert made["requestObject"]["spec"]["replicas"] == 3
    assert made["responseObject"]["metadata"]["uid"]
    makers = {
        e["user"]["username"]
        for e in found
        if e["verb"] == "create"
        and e["objectRef"]["resource"] == "pods"
        and "subresource" not in e["objectRef"]
    }
    assert makers == {"system:serviceaccount:kube-system:replicaset-controller"}
    assert list(cluster.audit(time.time() + 3600)) == []


def test_no_token_in_the_audit_log(cluster, api: Api, namespace):
    begun = time.time()
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    token = api.raw("POST", path, body=request)["status"]["token"]
    (event,) = [e for e in cluster.audit(begun) if e["requestURI"].startswith(path)]
    assert "responseObject" not in event and token not in str(event)


def first_event(api: Api, version: str) -> tuple[str, dict]:
    events = api.watch("configmaps", "default", version, 30)
    try:
        return next(events)
    finally:
        events.close()


def test_the_layers_of_a_410(hurt):
    api = Api(hurt)
    before = hurt.processes()
    name = f"c{time.monotonic_ns()}"
    made = api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    version = made["metadata"]["resourceVersion"]
    for number in range(3):
        api.patch("configmaps", name, {"data": {"n": str(number)}})
    compacted = hurt.compact()
    assert compacted > int(version) and hurt.revision() >= compacted
    # The watch cache remembers.
    type, _ = first_event(api, version)
    assert type == "MODIFIED"
    hurt.restart("kube-apiserver", flags=("--watch-cache-sizes=configmaps#0",))
    type, status = first_event(api, version)
    assert (type, status["code"]) == ("ERROR", 410)
    assert status["message"] == "The resourceVersion for the provided watch is too old."
    (part,) = [one for one in hurt.parts() if one["name"] == "kube-apiserver"]
    assert part["flags"] == ["--watch-cache-sizes=configmaps#0"]
    between = hurt.processes()
    hurt.restart("kube-apiserver")
    type, status = first_event(api, version)
    assert type == "ERROR" and status["message"].startswith("too old resource version")
    # The controllers do not sleep off the second time that their watches broke: they are new.
    after = hurt.processes()
    for one, other in ((before, between), (between, after)):
        assert {n for n in other if other[n].born != one[n].born} == {*pins.COMPONENTS} - {"etcd"}
    bootstrap.wait_rolled_out(api, 15.0)


def test_a_paused_api_server_answers_nothing(hurt):
    api = Api(hurt)
    with hurt.pause("kube-apiserver"):
        with pytest.raises(ClusterLost, match="timed out"):
            api.raw("GET", "/readyz", timeout=0.3)
        # Whoever paused it is alive: that is not a fault to be mended.
        assert clusters.find("test-hurt") is not None
        assert process.stopped(hurt.processes()["kube-apiserver"].pid)
    assert api.raw("GET", "/readyz") == "ok"


def test_an_unknown_component(hurt):
    with pytest.raises(ValueError, match="no component is called kubelet"):
        hurt.restart("kubelet")
    with pytest.raises(ValueError), hurt.pause("kubelet"):
        pass


@pytest.mark.parametrize("component", pins.COMPONENTS)
def test_a_dead_component_is_mended(hurt, component):
    before = hurt.processes()
    before[component].kill()
    before[component].wait(30)
    with pytest.raises(ClusterLost, match=f"{component} of the cluster test-hurt has died"):
        with hurt.pause(component):
            pass
    found = clusters.find("test-hurt")
    after = found.processes()
    expected = {component}
    if component in boot.SERVERS:
        # Who spoke to it backs off, informer by informer: it is started anew.
        expected |= {*pins.COMPONENTS} - {*boot.SERVERS}
    assert {n for n in after if after[n].born != before[n].born} == expected
    # What the controllers bring about comes at once, not after some informer's backoff.
    bootstrap.wait_rolled_out(Api(found), 15.0)
    assert Api(found).get("customresourcedefinitions", "foos.samplecontroller.k8s.io")


def test_all_of_it_dead_is_mended_with_what_was_in_it(hurt):
    api = Api(hurt)
    name = f"kept{time.monotonic_ns()}"
    api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    dead = hurt.processes().values()
    for one in dead:
        one.kill()
    for one in dead:
        one.wait(30)
    assert Api(clusters.ensure("test-hurt")).get("configmaps", name)


def python(body: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", body], stdout=subprocess.PIPE, text=True)


def test_killed_while_a_component_was_paused(hurt):
    killed = python(
        "import os, signal\n"
        "from grader import cluster\n"
        "with cluster.find('test-hurt').pause('etcd'):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert killed.wait(60) == -signal.SIGKILL
    assert process.stopped(hurt.processes()["etcd"].pid)
    assert clusters.find("test-hurt") is not None
    assert not process.stopped(hurt.processes()["etcd"].pid)


def test_killed_while_a_component_had_flags_of_its_own(hurt):
    killed = python(
        "import os, signal\n"
        "from grader import cluster\n"
        "cluster.find('test-hurt').restart('kube-apiserver', flags=('--v=1',))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert killed.wait(60) == -signal.SIGKILL
    assert "--v=1" in hurt.processes()["kube-apiserver"].argv
    found = clusters.find("test-hurt")
    assert "--v=1" not in found.processes()["kube-apiserver"].argv


def test_two_side_by_side(cluster, hurt):
    first, second = Api(cluster), Api(hurt)
    name = f"only-here-{time.monotonic_ns()}"
    first.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    assert second.find("configmaps", name) is None
    first.delete("configmaps", name)
    with pytest.raises(ApiError):
        kubeconfig = cluster.kubeconfig.read_text().replace(f":{cluster.port}", f":{hurt.port}")
        path = hurt.layout.folder / "mixed"
        path.write_text(kubeconfig.replace(_ca(cluster), _ca(hurt)))
        Api(path).list("pods")


def _ca(cluster) -> str:
    (line,) = [
        line for line in cluster.kubeconfig.read_text().splitlines() if "authority-data" in line
    ]
    return line.strip()


# -- in a home of its own -----------------------------------------------------------


def nothing_runs(home) -> bool:
    return not [one for one in records.all() if one.alive()]


def test_from_nothing_and_from_the_template(own_home):
    assert not template.there()
    first = clusters.ensure("a")
    assert template.there()
    Api(first).create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    certificate = _ca(first)
    second = clusters.ensure("a", fresh=True)
    assert Api(second).find("configmaps", "x") is None
    assert _ca(second) == certificate, "a good one is used again"
    assert clusters.names() == ["a"]
    assert clusters.stop("a") and nothing_runs(own_home)
    assert clusters.find("a") is None and not clusters.stop("a")
    left = sorted(entry.name for entry in (own_home / "state" / "clusters" / "a").iterdir())
    assert left == ["logs"]


def test_a_damaged_template_is_replaced(own_home):
    clusters.ensure("a")
    clusters.stop("a")
    for path in template.folder().rglob("*"):
        if path.is_file():
            path.write_bytes(b"not a database")
    assert Api(clusters.ensure("a")).get("nodes", "node-1")
    assert template.there()
    clusters.stop("a")


@pytest.mark.parametrize("component", boot.SERVERS)
def test_a_start_from_the_template_that_fails_late_is_made_again_without(
    own_home, component, monkeypatch
):
    clusters.ensure("a")
    clusters.stop("a")
    kept = template.folder().stat().st_ino
    ready, killed = waiting.ready, []

    def dies_first(api: Api) -> bool:
        if not killed:
            killed.extend(one for one in records.live() if one.name == component)
            killed[0].kill()
            killed[0].wait(30)
            return False
        return ready(api)

    monkeypatch.setattr(waiting, "ready", dies_first)
    said: list[str] = []
    found = clusters.ensure("a", progress=said.append)
    assert killed and "the kept copy of etcd's data does not start; starting without it" in said
    assert Api(found).get("nodes", "node-1")
    assert template.there() and template.folder().stat().st_ino != kept
    clusters.stop("a")


def test_a_start_that_fails_without_the_template_too_fails_once(own_home, monkeypatch):
    clusters.ensure("a")
    clusters.stop("a")
    tried = []

    def lost(*_, from_template):
        tried.append(from_template)
        raise ClusterLost("etcd ended.")

    monkeypatch.setattr(boot, "bring_up", lost)
    with pytest.raises(ClusterLost, match="etcd ended"):
        clusters.ensure("a")
    assert tried == [True, False] and not template.there() and nothing_runs(own_home)


@pytest.fixture(params=["fresh", "warm"])
def any_home(own_home, request):
    """One that never had a cluster, and one that keeps the certificate and the template of one."""
    if request.param == "warm":
        clusters.ensure("a")
        clusters.stop("a")
    return own_home


def test_a_port_taken_in_between(any_home, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        answers = iter([taken.getsockname()[1]])
        free = ports.free
        monkeypatch.setattr(ports, "free", lambda: next(answers, None) or free())
        found = clusters.ensure("a")
        assert found.port != taken.getsockname()[1]
    clusters.stop("a")


def test_no_port_to_be_had(any_home, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(ports, "free", lambda: taken.getsockname()[1])
        monkeypatch.setattr(boot, "PORTS_TRIED", 2)
        with pytest.raises(EnvironmentProblem, match="No free port was found"):
            clusters.ensure("a")
    assert nothing_runs(any_home)


def test_a_component_that_does_not_start(own_home, tmp_path, assets, monkeypatch):
    folder = tmp_path / "broken"
    folder.mkdir()
    for name in pins.VERSIONS:
        (folder / name).symlink_to(assets / name)
    (folder / "kube-scheduler").unlink()
    (folder / "kube-scheduler").write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && echo Kubernetes v1.37.2 && exit\n'
        "echo 'Error: out of ideas' >&2; exit 1\n"
    )
    (folder / "kube-scheduler").chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    with pytest.raises(ClusterLost, match="kube-scheduler ended while .*: Error: out of ideas"):
        clusters.ensure("a")
    assert nothing_runs(own_home)


def test_two_commands_start_one_cluster(own_home):
    both = [python("from grader import cluster; print(cluster.ensure('a').port)") for _ in range(2)]
    ports = {one.communicate(timeout=120)[0].strip() for one in both}
    assert [one.returncode for one in both] == [0, 0]
    assert len(ports) == 1 and len(records.live(owner=embedded.owner("a"))) == 5
    clusters.stop("a")


def test_ctrl_c_leaves_nothing(own_home):
    command = python("from grader import cluster; cluster.ensure('a')")
    while not records.live(owner=embedded.owner("a")):
        assert command.poll() is None
        time.sleep(0.01)
    command.send_signal(signal.SIGINT)
    assert command.wait(60) != 0
    assert nothing_runs(own_home) and records.all() == []


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.05, 0.3, 0.8, 1.5, 2.2, 3.0])
def test_kill_9_at_any_moment(own_home, after):
    command = python("from grader import cluster; cluster.ensure('a')")
    try:
        command.wait(after)
    except subprocess.TimeoutExpired:
        command.kill()
        command.wait()
    # Either the next command mends it ...
    assert Api(clusters.ensure("a")).get("serviceaccounts", "default")
    assert len(records.live(owner=embedded.owner("a"))) == 5
    clusters.stop("a")
    assert nothing_runs(own_home)
    # ... or the one that ends everything does.
    command = python("from grader import cluster; cluster.ensure('a')")
    try:
        command.wait(after)
    except subprocess.TimeoutExpired:
        command.kill()
        command.wait()
    clusters.stop("a")
    assert nothing_runs(own_home) and records.all() == []


def test_a_stopped_cluster_ends_though_a_part_is_halted(own_home):
    found = clusters.ensure("a")
    for one in found.processes().values():
        os.kill(one.pid, signal.SIGSTOP)
    clusters.stop("a")
    assert nothing_runs(own_home)


#: What a list, a URL, a pattern, a format or a shell would take for something of its own.
ODD = "a,b=c %41 [d] {e} 'f' \"g\" $h #i;k?l & ü \\ m"


def test_a_path_may_hold_anything(tmp_path, assets, monkeypatch):
    root = tmp_path / ODD
    monkeypatch.setenv("PHASE4_HOME", str(root / "home"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(shutil.copytree(assets, root / "bin", True)))
    manifests = shutil.copytree(components.MANIFESTS, root / "manifests")
    for module in (components, bootstrap, template):
        monkeypatch.setattr(module, "MANIFESTS", manifests)
    try:
        for fresh in (False, True):
            found = clusters.ensure("a", fresh=fresh)
        found.restart("kwok")
        found.compact()
        assert Api(found).get("nodes", "node-1")
        kubectl = [str(root / "bin" / "kubectl"), "get", "nodes", "-o", "name"]
        environment = {**os.environ, "KUBECONFIG": str(found.kubeconfig)}
        assert subprocess.check_output(kubectl, env=environment, text=True) == "node/node-1\n"
    finally:
        clusters.stop("a")


def test_a_colon_would_split_kubeconfig(tmp_path, assets, monkeypatch):
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "a:b"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    with pytest.raises(EnvironmentProblem, match="has a : in it.* Set PHASE4_HOME"):
        clusters.ensure("a")


@pytest.mark.parametrize("component", pins.COMPONENTS)
def test_no_argument_holds_a_path_of_this_machine(component, tmp_path):
    arguments = components.arguments(component, components.Layout(tmp_path), 1)
    assert not any(str(place) in " ".join(arguments) for place in (tmp_path, components.MANIFESTS))


def test_the_cluster_is_known_under_another_host_name(own_home, as_renamed):
    before = clusters.ensure("a").processes()
    as_renamed()
    after = clusters.ensure("a").processes()
    assert {n: one.pid for n, one in after.items()} == {n: one.pid for n, one in before.items()}
    assert clusters.stop("a") and nothing_runs(own_home)


def test_another_machines_cluster_is_left_alone(own_home, monkeypatch):
    """Two machines that share a home: nothing is ended, replaced or started beside it."""
    found = clusters.ensure("a")
    here = machine.here()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(machine, "here", lambda: replace(here, id="other", boot="other"))
        assert found.processes() == {}
        for ask in (clusters.find, clusters.ensure, clusters.stop):
            with pytest.raises(EnvironmentProblem, match="runs on another machine or in a cont"):
                ask("a")
        with pytest.raises(EnvironmentProblem, match="on another machine"):
            clusters.ensure("a", fresh=True)
        assert records.live() == []
    assert set(found.processes()) == set(pins.COMPONENTS)
    assert Api(clusters.find("a")).get("nodes", "node-1")
    clusters.stop("a")


def test_a_cluster_without_records_is_not_replaced(own_home):
    found = clusters.ensure("a")
    kept = {path: path.read_text() for path in records.folder.iterdir()}
    for path in kept:
        path.unlink()
    for ask in (clusters.find, clusters.ensure, clusters.stop):
        with pytest.raises(EnvironmentProblem, match="no record says which process it is"):
            ask("a")
    for path, text in kept.items():
        path.write_text(text)
    assert Api(found).get("nodes", "node-1")
    clusters.stop("a")


def test_a_cluster_that_cannot_be_mended_is_not_replaced_in_silence(own_home, capsys):
    found = clusters.ensure("a")
    for one in found.processes().values():
        one.end(sweep=False)
    for path in found.layout.etcd.rglob("*"):
        if path.is_file():
            path.write_bytes(b"not a database")
    assert clusters.find("a") is None
    assert Api(clusters.ensure("a")).get("nodes", "node-1")
    said = capsys.readouterr().err
    assert "cluster a cannot be repaired, so an empty one replaces it; its objects are lost" in said
    assert "etcd ended" in said
    clusters.stop("a")


@pytest.mark.parametrize("name", ["A", "a/b", "..", "-a", "a" * 41])
def test_a_name_that_cannot_be(name):
    with pytest.raises(EnvironmentProblem, match="cannot be called"):
        clusters.ensure(name)


def test_an_unknown_backend():
    with pytest.raises(EnvironmentProblem, match="can be one of embedded, kind, kubeconfig"):
        clusters.ensure(backend="minikube")
