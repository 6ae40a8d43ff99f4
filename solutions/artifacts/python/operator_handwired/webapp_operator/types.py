"""The WebApp API: names that are stored in the cluster, and how to read an object.

Objects are what the API server's JSON says. Those that come out of a cache
are shared by every reader: copy one before changing it.
"""

from __future__ import annotations

from machinery.api import Resource
from machinery.objects import Object

from .webapp_types import API_VERSION, GROUP, KIND, VERSION

#: On every Pod of a WebApp; its value is the WebApp's name.
LABEL = f"{GROUP}/webapp"
#: Keeps a WebApp until its DNS record is gone.
FINALIZER = f"{GROUP}/dns-record"
#: Stands for a DNS provider: outside the WebApp's namespace, so that no owner
#: reference can clean a record up.
DNS_NAMESPACE = "dns"
RECORD_PREFIX = "record-"

WEBAPPS = Resource(GROUP, VERSION, "webapps")
PODS = Resource("", "v1", "pods")
RECORDS = Resource("", "v1", "configmaps", DNS_NAMESPACE)


def name_of(obj: Object) -> str:
    return obj["metadata"]["name"]


def namespace_of(obj: Object) -> str:
    return obj["metadata"].get("namespace", "")


def uid_of(obj: Object) -> str:
    return obj["metadata"]["uid"]


def is_terminating(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def wanted_replicas(webapp: Object) -> int:
    """The server's default fills the field in; an object from before the default has none."""
    return webapp["spec"].get("replicas", 1)


def record_name(webapp: Object) -> str:
    return RECORD_PREFIX + uid_of(webapp)


def controller_of(obj: Object) -> Object | None:
    """The one owner reference with ``controller: true``."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return reference
    return None


def controller_reference(webapp: Object) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": name_of(webapp),
        "uid": uid_of(webapp),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_image(pod: Object) -> str:
    return pod["spec"]["containers"][0]["image"]


def is_finished(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def is_ready(pod: Object) -> bool:
    """Not once it has ended, whatever its last condition says."""
    return not is_finished(pod) and any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in (pod.get("status") or {}).get("conditions") or ()
    )
