"""The graders' hands, against a real API server."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from grader.cluster.api import Api, ApiError
from grader.cluster.errors import ClusterLost

pytestmark = pytest.mark.live


def configmap(name: str, namespace: str, **data: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def foo(name: str, namespace: str, replicas: int = 1) -> dict:
    return {
        "apiVersion": "samplecontroller.k8s.io/v1alpha1",
        "kind": "Foo",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"deploymentName": name, "replicas": replicas},
    }


def test_create_read_change_delete(api: Api, namespace):
    made = api.create(configmap("a", namespace, x="1"))
    assert api.get("configmaps", "a", namespace)["metadata"]["uid"] == made["metadata"]["uid"]
    changed = api.replace({**made, "data": {"x": "2"}})
    assert changed["data"] == {"x": "2"}
    with pytest.raises(ApiError) as caught:
        api.replace({**made, "data": {"x": "3"}})
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    assert "PUT /api/v1/namespaces/" in str(caught.value)
    with pytest.raises(ApiError) as caught:
        api.create(configmap("a", namespace))
    assert caught.value.reason == "AlreadyExists"
    with pytest.raises(ApiError) as caught:
        api.delete("configmaps", "a", namespace, preconditions={"uid": "another"})
    assert caught.value.status == 409
    api.delete("configmaps", "a", namespace)
    assert api.find("configmaps", "a", namespace) is None
    with pytest.raises(ApiError) as caught:
        api.get("configmaps", "a", namespace)
    assert caught.value.status == 404


def test_every_kind_of_patch(api: Api, namespace):
    api.create(configmap("a", namespace, x="1", y="1"))
    merged = api.patch("configmaps", "a", {"data": {"x": None, "z": "1"}}, namespace)
    assert merged["data"] == {"y": "1", "z": "1"}
    operations = [{"op": "replace", "path": "/data/y", "value": "2"}]
    assert api.patch("configmaps", "a", operations, namespace, type="json")["data"]["y"] == "2"
    strategic = {"metadata": {"labels": {"l": "1"}}}
    patched = api.patch("configmaps", "a", strategic, namespace, type="strategic")
    assert patched["metadata"]["labels"] == {"l": "1"}
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"y": "3"}}
    with pytest.raises(ApiError) as caught:
        api.patch("configmaps", "a", applied, namespace, type="apply", field_manager="me")
    assert caught.value.status == 409
    done = api.patch(
        "configmaps", "a", applied, namespace, type="apply", field_manager="me", force=True
    )
    assert done["data"]["y"] == "3"


def test_lists_with_selectors_and_pages(api: Api, namespace):
    for number in range(5):
        made = configmap(f"c{number}", namespace)
        made["metadata"]["labels"] = {"odd": str(number % 2)}
        api.create(made)
    odd = api.list("configmaps", namespace, label_selector="odd=1")
    assert [item["metadata"]["name"] for item in odd["items"]] == ["c1", "c3"]
    one = api.list("configmaps", namespace, field_selector="metadata.name=c4")
    assert len(one["items"]) == 1
    page = api.list("configmaps", namespace, limit=2)
    rest = api.list("configmaps", namespace, continue_token=page["metadata"]["continue"])
    assert len(page["items"]) == 2 and len(rest["items"]) == 4  # the root CA is one of them
    everywhere = api.list("configmaps")
    assert {namespace, "kube-system"} <= {i["metadata"]["namespace"] for i in everywhere["items"]}


def test_the_courses_own_kinds(api: Api, namespace):
    made = api.create(foo("f", namespace))
    made["status"] = {"availableReplicas": 1}
    assert "status" not in api.replace(made), "status is a subresource"
    made = api.get("foos", "f", namespace)
    made["status"] = {"availableReplicas": 1}
    assert api.replace(made, "status")["status"] == {"availableReplicas": 1}
    for replicas in (0, 11):
        with pytest.raises(ApiError) as caught:
            api.create(foo("g", namespace, replicas))
        assert caught.value.reason == "Invalid"
    app = {"apiVersion": "phase4.example.com/v1alpha1", "kind": "WebApp"}
    app |= {"metadata": {"name": "w"}, "spec": {"image": "i", "host": "a.example"}}
    made = api.create(app, namespace)
    assert made["spec"]["replicas"] == 1 and made["metadata"]["generation"] == 1
    for bad in ({"host": "b.example"}, {"replicas": 51}, {"replicas": -1}, {"image": ""}):
        with pytest.raises(ApiError) as caught:
            api.patch("webapps", "w", {"spec": bad}, namespace)
        assert caught.value.reason == "Invalid"


def test_names_are_found_by_discovery_where_the_table_ends(api: Api):
    assert api.resource("ingressclasses").full_name == "ingressclasses.networking.k8s.io"
    assert api.resource("storageclasses.storage.k8s.io").kind == "StorageClass"
    csi = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver"}
    assert api.resource_of(csi).plural == "csidrivers"
    with pytest.raises(ValueError, match="has no resource unicorns"):
        api.resource("unicorns")
    with pytest.raises(ValueError, match="has no kind Unicorn"):
        api.resource_of({"apiVersion": "v1", "kind": "Unicorn"})
    with pytest.raises(ValueError, match="nodes are not namespaced"):
        api.get("nodes", "node-1", "default")


def test_a_watch_streams(api: Api, namespace):
    version = api.list("configmaps", namespace)["metadata"]["resourceVersion"]
    events = api.watch("configmaps", namespace, version, timeout=20)
    arrived: list[tuple[str, str, float]] = []

    def follow() -> None:
        for type, obj in events:
            arrived.append((type, obj["metadata"]["name"], time.monotonic()))
            if len(arrived) == 3:
                return

    thread = threading.Thread(target=follow)
    thread.start()
    api.create(configmap("a", namespace))
    api.patch("configmaps", "a", {"data": {"x": "1"}}, namespace)
    api.delete("configmaps", "a", namespace)
    thread.join(30)
    assert [(type, name) for type, name, _ in arrived] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]


def test_a_watch_ends_by_itself(api: Api, namespace):
    begun = time.monotonic()
    events = list(api.watch("pods", namespace, timeout=0.5))
    # A server that did not end it would be lost, not merely late.
    assert events == [] and time.monotonic() - begun > 0.4


def test_an_expired_watch_says_so(api: Api, namespace):
    # The watch cache of a custom resource begins when its CRD is established, so the first
    # revision is always behind it; that of a built-in one may reach back to the first revision.
    ((type, status),) = api.watch("foos", namespace, "1", timeout=30)
    assert (type, status["code"]) == ("ERROR", 410)


def test_until_sees_what_comes(api: Api, namespace):
    timer = threading.Timer(0.2, lambda: api.create(configmap("late", namespace, x="1")))
    timer.start()
    made = api.until("configmaps", "late", namespace, lambda obj: obj is not None, 20)
    assert made["data"] == {"x": "1"} and made["kind"] == "ConfigMap"
    value = api.until("configmaps", "late", namespace, lambda obj: obj["data"]["x"], 5)
    assert value == "1"
    threading.Timer(0.2, lambda: api.delete("configmaps", "late", namespace)).start()
    assert api.until("configmaps", "late", namespace, lambda obj: obj is None, 20) is None


def test_until_says_what_it_waited_for_and_last_saw(api: Api, namespace):
    api.create(configmap("a", namespace, x="1"))
    with pytest.raises(TimeoutError) as caught:
        api.until("configmaps", "a", namespace, lambda obj: False, 0.3, "x to become 2")
    said = str(caught.value)
    assert said.startswith("waited 0.3 s for x to become 2; last seen: configmaps ")
    assert '"x": "1"' in said
    with pytest.raises(TimeoutError, match=f"last seen: no configmaps {namespace}/b"):
        api.until("configmaps", "b", namespace, bool, 0.3)


def test_as_somebody_else(api: Api, namespace):
    user = f"system:serviceaccount:{namespace}:default"
    with pytest.raises(ApiError) as caught:
        api.list("pods", namespace, as_user=user)
    assert caught.value.status == 403 and user in str(caught.value)
    assert api.list("pods", namespace, as_user="x", as_groups=["a", "system:masters"])


def test_raw(api: Api):
    assert api.raw("GET", "/readyz") == "ok"
    assert api.raw("GET", "/version")["major"] == "1"


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "current-context": "x",
                "clusters": [{"name": "x", "cluster": {"server": server}}],
                "users": [{"name": "x", "user": {"token": "t"}}],
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            }
        )
    )
    return path


def test_a_server_that_is_not_there(tmp_path):
    with pytest.raises(ClusterLost, match=r"https://127.0.0.1:9 did not answer GET /api/v1/pods"):
        Api(kubeconfig(tmp_path, "https://127.0.0.1:9")).list("pods")


def test_a_server_that_asks_to_come_again_is_asked_again(tmp_path):
    asked = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            busy = len(asked) < 3 or "pods" in self.path
            self.send_response(429 if busy else 200)
            if busy and "secrets" not in self.path:
                self.send_header("Retry-After", "0")
            body = b'{"reason": "TooManyRequests"}' if busy else b'{"items": []}'
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        api = Api(kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}"))
        assert api.list("configmaps")["items"] == [] and len(asked) == 3
        with pytest.raises(ApiError) as caught:
            api.list("pods")
        assert caught.value.status == 429 and len(asked) == 3 + 11
        asked.clear()
        with pytest.raises(ApiError):  # it does not say when
            api.list("secrets")
        assert len(asked) == 1
        server.shutdown()


def test_a_wrong_token_is_refused(cluster, tmp_path):
    text = cluster.kubeconfig.read_text()
    (token,) = [line for line in text.splitlines() if "token:" in line]
    path = tmp_path / "kubeconfig"
    path.write_text(text.replace(token, "    token: wrong"))
    with pytest.raises(ApiError) as caught:
        Api(path).list("pods")
    assert caught.value.status == 401
