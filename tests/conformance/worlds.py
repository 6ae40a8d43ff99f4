"""WebApps, Pods and records to judge, without a cluster."""

from __future__ import annotations

from typing import Any

from grader.conformance import contract
from grader.conformance.contract import World
from grader.wire.records import Exchange

UID = "11111111-aaaa"


def app(generation: int = 1, observed: int | None = None, ready: int = 2, **spec: Any) -> dict:
    """A WebApp of two replicas whose status says that all is well."""
    found = contract.webapp("shop", "ns", replicas=2, **spec)
    found["metadata"] |= {
        "uid": UID,
        "generation": generation,
        "resourceVersion": "1",
        "finalizers": [contract.FINALIZER],
    }
    found["status"] = {
        "observedGeneration": generation if observed is None else observed,
        "replicas": 2,
        "readyReplicas": ready,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "t"}],
    }
    return found


def pod(name: str, *, owner: str = UID, image: str = "shop:1", ready: bool = True) -> dict:
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": {contract.LABEL: "shop"},
            "ownerReferences": [
                {"kind": "WebApp", "uid": owner, "controller": True, "blockOwnerDeletion": True}
            ],
        },
        "spec": {"containers": [{"image": image}]},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def record() -> dict:
    return {
        "metadata": {"name": f"record-{UID}", "namespace": "dns", "uid": "r"},
        "data": {"host": "shop.ns.example.com", "owner": "ns/shop"},
    }


def world(**changes: Any) -> World:
    parts: dict[str, Any] = {
        "webapp": app(),
        "pods": [pod("shop-0"), pod("shop-1")],
        "record": record(),
    }
    return World(**(parts | changes))


def exchange(
    verb: str,
    target: str,
    status: int | None = 200,
    *,
    name: str = "",
    body: Any = None,
    answer: Any = None,
    error: str = "",
    t: float = 1.0,
) -> Exchange:
    resource, _, subresource = target.partition("/")
    namespace = "dns" if resource == "configmaps" else "ns"
    method = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}[verb]
    if status is not None and status >= 400 and answer is None:
        answer = {"kind": "Status", "code": status, "reason": "InternalError"}
    return Exchange(
        1, "operator", verb, method, f"/{namespace}/{target}/{name}", {}, "", "v1", resource,
        subresource, namespace, name, "op", "", body, status, answer, t, t, server_status=status,
        error=error,
    )  # fmt: skip
