"""Each client library of the course, through the wire."""

from __future__ import annotations

import json
import sys
import textwrap
import threading

import pytest

from grader.wire import Identity
from grader.witness import Timeline
from tests.wire.conftest import PATIENCE, configmap, python_client

pytestmark = pytest.mark.live


def make(api, namespace: str, name: str, **metadata) -> dict:
    body = configmap(name)
    body["metadata"].update(metadata)
    return api.create({"apiVersion": "v1", "kind": "ConfigMap", **body}, namespace)


# kubectl ---------------------------------------------------------------------------------


def test_kubectl(wire, kubectl, start, namespace, timeline):
    def run(*words: str) -> str:
        child = start([kubectl, "-n", namespace, *words], wire)
        assert child.wait() == 0, child.stderr
        return "\n".join(line.get("text", "") for line in child.lines)

    run("create", "configmap", "a", "--from-literal=k=v")
    assert "NAME" in run("get", "configmaps")  # a table
    assert run("get", "configmap", "a", "-o", "jsonpath={.data.k}") == "v"
    run("annotate", "configmap", "a", "x=1")
    run("apply", "--server-side", "-f", _manifest(namespace))
    assert "ConfigMap" in run("api-resources", "--api-group=")  # aggregated discovery
    assert "KIND" in run("explain", "configmap")  # OpenAPI
    run("delete", "configmap", "a")

    create = timeline.writes(verb="create").first
    # It posts protobuf, of which the record can tell the answer.
    assert (create.name, create.status, create.answer["data"]) == ("a", 201, {"k": "v"})
    patch = timeline.writes(
        verb="patch", where=lambda e: "annotations" in str(e.request_body)
    ).first
    assert patch.request_body == {"metadata": {"annotations": {"x": "1"}}}
    apply = timeline.writes(where=lambda e: "apply-patch" in e.content_type).first
    assert apply.request_body["data"] == {"from": "apply"}
    assert timeline.writes(verb="delete").first.applied


def _manifest(namespace: str) -> str:
    import tempfile
    from pathlib import Path

    path = Path(tempfile.mkdtemp()) / "b.yaml"
    path.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {from: apply}\n")
    return str(path)


def test_kubectl_watches_and_waits(wire, kubectl, start, api, namespace):
    child = start([kubectl, "-n", namespace, "get", "configmaps", "-w", "-o", "name"], wire)
    make(api, namespace, "late")
    child.wait_line(text="configmap/late")


def test_kubectl_is_told_what_a_wire_cannot_carry(wire, kubectl, start, api, namespace):
    api.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
        namespace,
    )
    api.until("pods", "p", namespace, lambda p: p["spec"].get("nodeName"), PATIENCE, what="a node")
    child = start([kubectl, "-n", namespace, "exec", "p", "--", "ls"], wire)
    assert child.wait() == 1
    assert "phase4 kubectl" in child.stderr


def test_kubectl_cannot_act_as_another(wire, kubectl, start, timeline):
    child = start([kubectl, "--as", "bob", "get", "--raw", "/api/v1/namespaces"], wire)
    assert child.wait() == 1 and "leave out --as" in child.stderr
    assert not timeline.exchanges(where=lambda e: e.forwarded and e.resource == "namespaces")


# The Python client --------------------------------------------------------------------------


def test_python_client(wire, core, namespace, timeline):
    made = core.create_namespaced_config_map(namespace, configmap("a", k="v"))
    made.data = {"k": "w"}
    core.replace_namespaced_config_map("a", namespace, made)
    core.patch_namespaced_config_map("a", namespace, {"metadata": {"labels": {"l": "1"}}})
    assert core.read_namespaced_config_map("a", namespace).data == {"k": "w"}
    core.delete_namespaced_config_map("a", namespace)
    assert [e.verb for e in timeline.writes()] == ["create", "update", "patch", "delete"]
    assert all(e.applied and e.name == "a" and e.namespace == namespace for e in timeline.writes())
    update = timeline.writes(verb="update").first
    assert update.request_body["data"] == {"k": "w"}
    assert timeline.object_of(timeline.writes(verb="delete").first)["metadata"]["uid"]
    assert "OpenAPI-Generator" in update.user_agent


def test_python_watch(wire, core, api, namespace, timeline):
    from kubernetes import watch

    seen = []
    for event in watch.Watch().stream(
        core.list_namespaced_config_map, namespace, timeout_seconds=PATIENCE
    ):
        if not seen:
            threading.Thread(target=make, args=(api, namespace, "late")).start()
        seen.append(event["object"].metadata.name)
        if "late" in seen:
            break
    assert timeline.events(name="late", fate="delivered")


def test_python_dynamic_client_and_custom_objects(wire, core, api, namespace, timeline):
    from kubernetes import client, dynamic

    foo = {
        "apiVersion": "samplecontroller.k8s.io/v1alpha1",
        "kind": "Foo",
        "metadata": {"name": "f"},
        "spec": {"deploymentName": "d", "replicas": 1},
    }
    custom = client.CustomObjectsApi(core.api_client)
    group = ("samplecontroller.k8s.io", "v1alpha1", namespace, "foos")
    custom.create_namespaced_custom_object(*group, foo)
    found = custom.get_namespaced_custom_object(*group, "f")
    found["status"] = {"availableReplicas": 1}
    custom.replace_namespaced_custom_object_status(*group, "f", found)
    foos = dynamic.DynamicClient(core.api_client).resources.get(
        api_version="samplecontroller.k8s.io/v1alpha1", kind="Foo"
    )
    assert foos.get(name="f", namespace=namespace).status.availableReplicas == 1
    status = timeline.writes(resource="foos/status").first
    assert (status.group, status.subresource) == ("samplecontroller.k8s.io", "status")
    assert not timeline.writes(resource="foos", verb="update")


# kopf ----------------------------------------------------------------------------------------

KOPF = textwrap.dedent("""
    import json, kopf

    def say(**fields):
        print(json.dumps(fields), flush=True)

    @kopf.on.startup()
    def startup(settings, **_):
        settings.posting.enabled = False
        settings.scanning.disabled = True

    @kopf.on.create("samplecontroller.k8s.io", "v1alpha1", "foos")
    def created(name, patch, **_):
        patch.status["availableReplicas"] = 7
        say(what="created", name=name)

    @kopf.on.update("samplecontroller.k8s.io", "v1alpha1", "foos", field="spec")
    def updated(name, **_):
        say(what="updated", name=name)

    @kopf.on.delete("samplecontroller.k8s.io", "v1alpha1", "foos")
    def deleted(name, **_):
        say(what="deleted", name=name)
""")


def test_kopf(wire, start, api, namespace, timeline, tmp_path):
    handlers = tmp_path / "handlers.py"
    handlers.write_text(KOPF)
    child = start(
        [sys.executable, "-m", "kopf", "run", "-n", namespace, "--standalone", str(handlers)], wire
    )
    foo = {
        "apiVersion": "samplecontroller.k8s.io/v1alpha1",
        "kind": "Foo",
        "metadata": {"name": "f"},
        "spec": {"deploymentName": "d", "replicas": 1},
    }
    resource = "foos.samplecontroller.k8s.io"
    api.create(foo, namespace)
    child.wait_line(what="created", name="f")
    api.until(
        resource, "f", namespace,
        lambda f: (f or {}).get("status", {}).get("availableReplicas") == 7, PATIENCE, what="the status",
    )  # fmt: skip
    api.patch(resource, "f", {"spec": {"replicas": 2}}, namespace=namespace)
    child.wait_line(what="updated", name="f")
    api.delete(resource, "f", namespace)
    child.wait_line(what="deleted", name="f")
    api.until(resource, "f", namespace, lambda f: f is None, PATIENCE, what="the finalizer to go")
    finalizer = timeline.writes(
        where=lambda e: "finalizers" in str(e.request_body) and e.resource == "foos"
    )
    assert finalizer and timeline.writes(resource="foos/status", verb="patch")
    timeline.until(
        lambda t: t.events(resource="foos", type="DELETED", fate="delivered"),
        PATIENCE,
        "the last event",
    )


def test_kopf_relists_on_an_error_in_the_stream(wire, start, api, namespace, timeline, tmp_path):
    handlers = tmp_path / "handlers.py"
    handlers.write_text(KOPF)
    start(
        [sys.executable, "-m", "kopf", "run", "-n", namespace, "--standalone", str(handlers)], wire
    )
    opened = timeline.until(
        lambda t: t.reads(verb="watch", resource="foos").first, PATIENCE, "kopf's watch"
    )
    wire.rules.add("error 410 watch foos")
    timeline.until(
        lambda t: t.after(opened).reads(verb="list", resource="foos"),
        PATIENCE,
        "kopf's list after 410",
    )


# client-go and controller-runtime -------------------------------------------------------------


@pytest.mark.parametrize("protobuf", [False, True])
def test_client_go_writes(wire, go_clients, start, namespace, timeline, protobuf):
    flags = ["-namespace", namespace, "-write", "w", f"-protobuf={protobuf}".lower()]
    child = start([str(go_clients / "informer"), *flags], wire)
    assert child.wait() == 0, child.lines
    assert [line["what"] for line in child.lines] == ["created", "updated", "deleted"]
    writes = timeline.writes()
    assert [e.verb for e in writes] == ["create", "update", "delete"]
    # What was posted as protobuf can be read in the answer.
    assert writes[1].answer["data"] == {"a": "b"}
    assert (writes[1].request_body is None) is protobuf


@pytest.mark.parametrize("protobuf", [False, True])
def test_client_go_informer(wire, go_clients, start, api, namespace, timeline, protobuf):
    flags = ["-namespace", namespace, f"-protobuf={protobuf}".lower()]
    make(api, namespace, "before")
    child = start([str(go_clients / "informer"), *flags], wire)
    child.wait_line(what="add", name="before")
    child.wait_line(what="synced")
    version = make(api, namespace, "after")["metadata"]["resourceVersion"]
    child.wait_line(what="add", name="after", rv=version)
    api.patch("configmaps", "after", {"data": {"k": "v"}}, namespace=namespace)
    child.wait_line(what="update", name="after")
    api.delete("configmaps", "after", namespace)
    child.wait_line(what="delete", name="after")
    watch = timeline.reads(verb="watch").first
    assert watch.query["sendInitialEvents"] == "true"
    types = [e.type for e in timeline.events(name="after")]
    assert types == ["ADDED", "MODIFIED", "DELETED"]
    assert timeline.events(type="BOOKMARK", watch=watch)  # marks the end of the initial events


def test_client_go_lists_where_watch_lists_are_off(wire, go_clients, start, namespace, timeline):
    child = start(
        [str(go_clients / "informer"), "-namespace", namespace],
        wire,
        KUBE_FEATURE_WatchListClient="false",
    )
    child.wait_line(what="synced")
    assert timeline.reads(verb="list", resource="configmaps").first.answer["items"]


def test_client_go_gets_a_tombstone_for_a_hidden_delete(
    wire, go_clients, start, api, namespace, timeline
):
    child = start([str(go_clients / "informer"), "-namespace", namespace], wire)
    child.wait_line(what="synced")
    make(api, namespace, "gone")
    child.wait_line(what="add", name="gone")
    hide = wire.rules.add("hide DELETED watch configmaps name=gone")
    api.delete("configmaps", "gone", namespace)
    hide.wait_fired(timeout=PATIENCE)
    wire.rules.add("error 410 watch configmaps")
    child.wait_line(what="tombstone", name="gone")
    assert len(timeline.lists(resource="configmaps")) >= 2


def test_controller_runtime(wire, go_clients, start, api, namespace, timeline):
    start([str(go_clients / "manager"), "-namespace", namespace], wire)
    made = make(api, namespace, "a", labels={"wire": "yes"})
    uid = made["metadata"]["uid"]
    copy = timeline.until(
        lambda t: t.writes(verb="create", name="a-copy", applied=True).first, PATIENCE, "the copy"
    )
    assert copy.content_type == "application/vnd.kubernetes.protobuf"
    assert timeline.writes(owner=uid, applied=True).names == ["a-copy"]
    seen = timeline.until(
        lambda t: t.events(owner=uid, fate="delivered").first, PATIENCE, "the copy's event"
    )
    assert timeline.cause(seen) is copy


def test_controller_runtime_is_killed_after_its_write(wire, go_clients, start, api, namespace):
    wire.rules.add("kill-after create configmaps")
    child = start([str(go_clients / "manager"), "-namespace", namespace], wire)
    make(api, namespace, "a", labels={"wire": "yes"})
    assert child.wait() == -9
    assert api.find("configmaps", "a-copy", namespace)
    again = start([str(go_clients / "manager"), "-namespace", namespace], wire)
    make(api, namespace, "b", labels={"wire": "yes"})
    api.until("configmaps", "b-copy", namespace, lambda o: o is not None, PATIENCE, what="b's copy")
    assert again.process.poll() is None


# Whom the API server takes it for -------------------------------------------------------------


def test_identity(new_wire, cluster, namespace):
    from kubernetes import client

    wire = new_wire(client="op-1")
    who = client.AuthenticationV1Api(python_client(wire).api_client)
    info = who.create_self_subject_review(
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    ).status.user_info
    assert info.username == "phase4:op-1" and "system:masters" in info.groups


def test_a_service_account_that_may_do_nothing(new_wire, namespace):
    wire = new_wire(identity=Identity.service_account(namespace, "op"))
    from kubernetes.client import ApiException

    with pytest.raises(ApiException) as caught:
        python_client(wire).list_namespaced_config_map(namespace)
    assert caught.value.status == 403
    assert f"system:serviceaccount:{namespace}:op" in json.loads(caught.value.body)["message"]
    refused = Timeline.of(wire).reads(status=403).first
    assert refused.user == f"system:serviceaccount:{namespace}:op"


def test_the_audit_log_tells_the_same(wire, core, cluster, api, namespace):
    core.create_namespaced_config_map(namespace, configmap("mine"))
    make(api, namespace, "yours")
    timeline = Timeline(wire.record, cluster=cluster)
    timeline.until(
        lambda t: t.writes(name="yours", namespace=namespace), PATIENCE, "the audit log's entry"
    )
    mine = timeline.writes(name="mine", namespace=namespace)
    assert [e.source for e in mine] == ["wire"]  # once, although both tell of it
    yours = timeline.writes(name="yours", namespace=namespace).first
    assert yours.source == "audit" and yours.client != wire.client
    assert yours.answer["metadata"]["name"] == "yours"
