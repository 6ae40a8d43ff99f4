"""What a check makes for the whole cluster, and what of it a check that was killed left behind.

A check takes its objects away when it ends. One that was killed cannot, and some
objects hurt everybody: with a dead APIService no namespace of the cluster can be
deleted. So whatever lies outside of a check's own namespaces carries a label, and
every session that gets the cluster for itself removes first what carries it.
"""

from __future__ import annotations

import hashlib
import platform

from grader.cluster import dirs
from grader.cluster.api import Api, ApiError
from grader.cluster.resources import Resource

LABEL, MAKER = "phase4.example.com/made-for-lab", "phase4.example.com/made-by"
_CRDS = "customresourcedefinitions.apiextensions.k8s.io"
#: In this order: what keeps other things from being deleted comes first.
KINDS = (
    "apiservices.apiregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    _CRDS,
    "namespaces",
    "nodes",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
)


def label(lab: str) -> dict[str, str]:
    """The labels of an object that a check of ``lab`` makes."""
    return {LABEL: lab, MAKER: _maker()}


def _maker() -> str:
    """Whose objects they are: others may use the same cluster from elsewhere at the same time."""
    return hashlib.sha256(f"{platform.node()} {dirs.state()}".encode()).hexdigest()[:16]


def sweep(api: Api) -> list[str]:
    """Remove what carries our label, in every namespace; returns what that was.

    Only for whoever has the cluster for itself: another check's objects carry it too.
    """
    found = []
    for kind in KINDS:
        for item in _ours(api, kind):
            meta = item["metadata"]
            if kind == _CRDS:
                _release_all(api, item)
            if kind == "namespaces":
                _empty(api, meta["name"])
            gone(api, kind, meta["name"], meta.get("namespace"))
            found.append(f"{kind} {meta['name']}")
    return found


def _ours(api: Api, kind: str) -> list[dict]:
    try:
        return api.list(kind, label_selector=f"{LABEL},{MAKER}={_maker()}")["items"]
    except ApiError as error:
        # Who may not list them has not made any.
        if error.status in (403, 404):
            return []
        raise


def _release_all(api: Api, crd: dict) -> None:
    """Take the finalizers off every object of a CRD, or neither it nor they would ever go."""
    spec = crd["spec"]
    stored = next(one["name"] for one in spec["versions"] if one["storage"])
    resource = Resource(
        spec["group"],
        stored,
        spec["names"]["plural"],
        spec["names"]["kind"],
        spec["scope"] == "Namespaced",
    )
    for item in api.list(resource)["items"]:
        meta = item["metadata"]
        if meta.get("finalizers"):
            release(api, resource, meta["name"], meta.get("namespace"))


def _empty(api: Api, namespace: str) -> None:
    """Take away what would hold a namespace: finalizers, and Pods that nobody ends."""
    for item in api.list("configmaps", namespace)["items"]:
        if item["metadata"].get("finalizers"):
            release(api, "configmaps", item["metadata"]["name"], namespace)
    for item in api.list("pods", namespace)["items"]:
        gone(api, "pods", item["metadata"]["name"], namespace, grace_seconds=0)
    release(api, "namespaces", namespace)


def gone(api: Api, resource: str, name: str, namespace: str | None = None, **options: int) -> None:
    """Delete an object; no matter if it is gone already, or on its way."""
    try:
        api.delete(resource, name, namespace, **options)
    except ApiError as error:
        # A Namespace that is being deleted answers 409.
        if error.status not in (404, 409):
            raise


def release(api: Api, resource: str | Resource, name: str, namespace: str | None = None) -> None:
    """Take every finalizer off an object: whoever would do that for a reason is not there."""
    try:
        api.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)
    except ApiError as error:
        if error.status != 404:
            raise
