"""What a cluster of the course begins with: its CRDs and namespaces."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from grader.cluster.api import Api, ApiError
from grader.cluster.components import MANIFESTS
from grader.cluster.errors import ClusterLost, EnvironmentProblem

#: The manifests of every backend, in the order in which they are applied.
FILES = ("crd-foos.yaml", "crd-webapps.yaml", "namespaces.yaml")

CRDS = ("foos.samplecontroller.k8s.io", "webapps.phase4.example.com")


def documents(file: str) -> list[dict]:
    """The objects of one of the manifests."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [doc for doc in yaml.load_all((MANIFESTS / file).read_text(), loader) if doc]


def create(api: Api, file: str) -> None:
    """Create the objects of a manifest that are not there yet."""
    for document in documents(file):
        try:
            api.create(document)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise


def install_early(api: Api, alive: Callable[[], bool], *, timeout: float = 60.0) -> None:
    """Create CRDs and namespaces in an API server that is still starting.

    Not every part of it is up, so it may refuse for a while: sends the requests again until
    it accepts them, as long as ``alive()``. Raises :class:`ClusterLost` after ``timeout`` s.
    """
    left = [document for file in FILES for document in documents(file)]
    deadline = time.monotonic() + timeout
    while left:
        try:
            api.create(left[0])
        except (ApiError, ClusterLost) as error:
            if getattr(error, "reason", "") != "AlreadyExists":
                if time.monotonic() > deadline or not alive():
                    raise ClusterLost(
                        f"The API server does not accept the CRDs: {error}"
                    ) from error
                time.sleep(0.005)
                continue
        left.pop(0)
    wait_established(api)


def install(api: Api) -> None:
    """Create what is missing in a running cluster, and wait until its controllers know of it.

    Raises :class:`EnvironmentProblem` where the user of the kubeconfig may not.
    """
    try:
        missing = [name for name in CRDS if api.find("customresourcedefinitions", name) is None]
        for file in FILES:
            create(api, file)
        wait_established(api)
        if missing:
            _wait_collected(api)
    except ApiError as error:
        if error.status in (401, 403):
            raise EnvironmentProblem(
                "The user of this kubeconfig may not create the course's CRDs and namespaces "
                f"({error.reason}). Use one with administrator's rights on a cluster that you can "
                "throw away."
            ) from error
        raise
    except TimeoutError as error:
        raise ClusterLost(f"The cluster does not accept the course's CRDs: {error}.") from error


def wait_established(api: Api) -> None:
    """Wait until the API server serves the course's kinds. Raises TimeoutError after 30 s."""
    for name in CRDS:
        api.until("customresourcedefinitions", name, None, _established, 30.0, f"the CRD {name}")


def _established(crd: dict | None) -> bool:
    # The API server's own beginning of a status has conditions, but null.
    conditions = ((crd or {}).get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _wait_collected(api: Api) -> None:
    """Wait until the garbage collector knows the kinds: it re-reads discovery every 30 s.

    Seen by giving it something to collect.
    """
    name = f"phase4-probe-{uuid.uuid4().hex[:8]}"
    for kind, group in (
        ("Foo", "samplecontroller.k8s.io/v1alpha1"),
        ("WebApp", "phase4.example.com/v1alpha1"),
    ):
        spec = {"deploymentName": name, "replicas": 1} if kind == "Foo" else {}
        spec = spec or {"image": "probe", "host": "probe.example", "replicas": 0}
        owner = api.create(
            {"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec},
            namespace="phase4-system",
        )
        reference = {
            "apiVersion": group,
            "kind": kind,
            "name": name,
            "uid": owner["metadata"]["uid"],
        }
        child = {"name": f"{name}-{kind.lower()}", "ownerReferences": [reference]}
        api.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": child}, namespace="phase4-system"
        )
        api.delete(api.resource_of(owner), name, "phase4-system")
        api.until(
            "configmaps",
            child["name"],
            "phase4-system",
            _gone,
            120.0,
            f"the garbage collector to know {kind}",
        )


def wait_rolled_out(api: Api, timeout: float) -> None:
    """Have a Deployment of one Pod rolled out and deleted again by the cluster.

    It needs the controllers of Deployments and ReplicaSets, the scheduler, the node and
    the garbage collector: when it is gone, all of them work.
    Raises TimeoutError after ``timeout`` seconds for the rollout, or for the deletion.
    """
    name = f"phase4-probe-{uuid.uuid4().hex[:8]}"
    labels = {"phase4-probe": name}
    container = {"name": "probe", "image": "probe"}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
        },
    }
    metadata = {"name": name, "namespace": "phase4-system"}
    api.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})

    def available(deployment: dict | None) -> bool:
        return bool(deployment and (deployment.get("status") or {}).get("availableReplicas"))

    try:
        api.until(
            "deployments",
            name,
            "phase4-system",
            available,
            timeout,
            "a Deployment to be rolled out",
        )
    finally:
        # In the foreground: it stays until the garbage collector has taken what it owns.
        api.delete("deployments", name, "phase4-system", propagation="Foreground")
    api.until(
        "deployments", name, "phase4-system", _gone, timeout, "a Deployment's Pods to be collected"
    )


def _gone(obj: dict | None) -> bool:
    return obj is None
