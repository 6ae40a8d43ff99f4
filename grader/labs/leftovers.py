"""What a check makes for the whole cluster, and what of it a check that was killed left behind.

A check takes its objects away when it ends. One that was killed cannot, and some
objects hurt everybody: with a dead APIService no namespace of the cluster can be
deleted. So whatever lies outside of a check's own namespaces carries a label, and
every session that gets the cluster for itself removes first what carries it.
"""

from __future__ import annotations

from grader.cluster.api import Api, ApiError

LABEL = "phase4.example.com/made-for-lab"
#: In this order: what keeps other things from being deleted comes first.
KINDS = (
    "apiservices.apiregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
)


def label(lab: str) -> dict[str, str]:
    """The labels of an object that a check of ``lab`` makes."""
    return {LABEL: lab}


def sweep(api: Api) -> list[str]:
    """Remove what carries the label, in every namespace; returns what that was.

    Only for whoever has the cluster for itself: another check's objects carry it too.
    """
    found = []
    for kind in KINDS:
        for item in api.list(kind, label_selector=LABEL)["items"]:
            meta = item["metadata"]
            gone(api, kind, meta["name"], meta.get("namespace"))
            found.append(f"{kind} {meta['name']}")
    return found


def gone(api: Api, resource: str, name: str, namespace: str | None = None) -> None:
    """Delete an object; no matter if it is gone already."""
    try:
        api.delete(resource, name, namespace)
    except ApiError as error:
        if error.status != 404:
            raise


def release(api: Api, resource: str, name: str, namespace: str | None = None) -> None:
    """Take every finalizer off an object: whoever would do that for a reason is not there."""
    try:
        api.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)
    except ApiError as error:
        if error.status != 404:
            raise
