"""What holds for a WebApp that has converged: what its operator must bring about.

The contract is the operator's page of the course. Nothing here depends on how
an operator names its Pods or in which order it works.
"""

from __future__ import annotations

from dataclasses import dataclass, field

GROUP = "phase4.example.com"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "WebApp"
WEBAPPS = f"webapps.{GROUP}"
LABEL = f"{GROUP}/webapp"
FINALIZER = f"{GROUP}/dns-record"
DNS_NAMESPACE = "dns"
LEASE_NAMESPACE = "phase4-system"
LEASE = "webapp-operator"


def webapp(name: str, namespace: str, *, image: str = "shop:1", host: str = "", **spec) -> dict:
    """A WebApp to create; ``spec`` may hold ``replicas``."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"image": image, "host": host or f"{name}.{namespace}.example.com", **spec},
    }


def record_name(webapp: dict) -> str:
    return f"record-{webapp['metadata']['uid']}"


def controller_of(obj: dict) -> dict | None:
    """The one owner reference with ``controller: true``."""
    for reference in obj["metadata"].get("ownerReferences", ()):
        if reference.get("controller"):
            return reference
    return None


def is_terminating(obj: dict) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_finished(pod: dict) -> bool:
    return pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


def is_ready(pod: dict) -> bool:
    return condition(pod, "Ready").get("status") == "True"


def images(pod: dict) -> list[str]:
    return [container["image"] for container in pod["spec"]["containers"]]


def condition(obj: dict, type: str) -> dict:
    """The condition of that type, or an empty dict."""
    for entry in (obj.get("status") or {}).get("conditions") or ():
        if entry.get("type") == type:
            return entry
    return {}


def wanted(webapp: dict) -> int:
    return webapp["spec"].get("replicas", 1)


@dataclass
class World:
    """A WebApp and all that belongs to it, at one moment.

    ``pods`` are those that its UID controls, wherever their label points;
    ``labelled`` those that carry its label and that it does not control.
    """

    webapp: dict | None
    pods: list[dict] = field(default_factory=list)
    labelled: list[dict] = field(default_factory=list)
    record: dict | None = None

    @property
    def standing(self) -> list[dict]:
        """The active Pods among those it controls: neither terminating nor finished."""
        return [pod for pod in self.pods if not is_terminating(pod) and not is_finished(pod)]


def shortfalls(world: World) -> list[str]:
    """What keeps a WebApp from having converged; empty when it has.

    Each is a sentence. The order is from cause to effect: Pods and record
    first, then the status that speaks of them.
    """
    app = world.webapp
    if app is None:
        return ["The WebApp does not exist."]
    name, uid, want = app["metadata"]["name"], app["metadata"]["uid"], wanted(app)
    found: list[str] = []
    if FINALIZER not in app["metadata"].get("finalizers", ()):
        found.append(f"The WebApp does not have the finalizer {FINALIZER}.")
    if world.record is None:
        found.append(f"The DNS record {DNS_NAMESPACE}/record-{uid} does not exist.")
    else:
        data = world.record.get("data") or {}
        if data.get("host") != app["spec"]["host"]:
            found.append(
                f"The DNS record says host {data.get('host')!r}, the spec {app['spec']['host']!r}."
            )
        owner = f"{app['metadata']['namespace']}/{name}"
        if data.get("owner") != owner:
            found.append(
                f"The DNS record says owner {data.get('owner')!r}, the owner is {owner!r}."
            )
    standing = world.standing
    for pod in world.pods:
        pod_name = pod["metadata"]["name"]
        if is_terminating(pod):
            found.append(f"Pod {pod_name} is still terminating.")
        elif is_finished(pod):
            found.append(
                f"Pod {pod_name} has finished ({pod['status']['phase']}) and still exists."
            )
    if len(standing) != want:
        found.append(f"There are {len(standing)} active Pods instead of {want}.")
    for pod in standing:
        pod_name, labels = pod["metadata"]["name"], pod["metadata"].get("labels", {})
        if labels.get(LABEL) != name:
            found.append(f"Pod {pod_name} has the label {LABEL}={labels.get(LABEL)!r}.")
        if app["spec"]["image"] not in images(pod):
            found.append(f"Pod {pod_name} runs {', '.join(images(pod))}.")
        owner_reference = controller_of(pod) or {}
        if not owner_reference.get("blockOwnerDeletion"):
            found.append(f"The owner reference of Pod {pod_name} does not set blockOwnerDeletion.")
        if not is_ready(pod):
            found.append(f"Pod {pod_name} is not Ready.")
    for pod in world.labelled:
        if controller_of(pod) is None and not is_terminating(pod):
            found.append(
                f"Pod {pod['metadata']['name']} carries the label, has no controller "
                "and was not adopted."
            )
    return found + status_shortfalls(app, len(standing), sum(map(is_ready, standing)))


def has_converged(world: World, generation: int) -> bool:
    """Whether the WebApp exists at that generation or a later one, with no shortfall."""
    app = world.webapp
    return app is not None and app["metadata"]["generation"] >= generation and not shortfalls(world)


def untrue(world: World) -> list[str]:
    """What the status says and is not so, in whatever state the rest is; empty where it is true.

    Ready is True exactly while all wanted Pods are active and Ready with the wanted
    image, and the record exists, is right and is not terminating.
    """
    app, standing = world.webapp, world.standing
    assert app is not None
    ready = [pod for pod in standing if is_ready(pod)]
    current = [pod for pod in ready if app["spec"]["image"] in images(pod)]
    record = world.record
    there = record is not None and not is_terminating(record)
    data = (record or {}).get("data") or {}
    right = there and data.get("host") == app["spec"]["host"]
    holds = right and len(current) == len(standing) == wanted(app)
    found = status_shortfalls(app, len(standing), len(ready))
    if not holds:
        found = [text for text in found if not text.startswith("The condition Ready")]
        if condition(app, "Ready").get("status") == "True":
            found.append(
                f"Ready is True, with {len(current)} of {wanted(app)} wanted Pods Ready"
                + ("." if right else ", and without a right DNS record.")
            )
    return found


def missing(world: World, record: dict | None = None) -> str:
    """The first of the shortfalls in two or three words, for a cell of a table.

    ``record`` is the DNS record of a WebApp that is gone.
    """
    app = world.webapp
    if app is None:
        return "record left" if record else ""
    if is_terminating(app):
        return "still there"
    if FINALIZER not in app["metadata"].get("finalizers", ()):
        return "no finalizer"
    if world.record is None:
        return "no record"
    standing, want = world.standing, wanted(app)
    if len(standing) != want:
        return f"{len(standing)} of {want} Pods"
    if any(app["spec"]["image"] not in images(pod) for pod in standing):
        return "old image"
    if status_shortfalls(app, len(standing), sum(map(is_ready, standing))):
        return "old status"
    return ""


def status_shortfalls(app: dict, standing: int, ready: int) -> list[str]:
    """What the status gets wrong."""
    status = app.get("status", {})
    generation = app["metadata"]["generation"]
    found = []
    if status.get("observedGeneration") != generation:
        found.append(
            f"status.observedGeneration is {status.get('observedGeneration')}, "
            f"the generation {generation}."
        )
    if status.get("replicas", 0) != standing:
        found.append(
            f"status.replicas is {status.get('replicas')}, there are {standing} active Pods."
        )
    if status.get("readyReplicas", 0) != ready:
        found.append(f"status.readyReplicas is {status.get('readyReplicas')}, {ready} are Ready.")
    if condition(app, "Ready").get("status") != "True":
        found.append(f"The condition Ready is {condition(app, 'Ready').get('status', 'missing')}.")
    return found
