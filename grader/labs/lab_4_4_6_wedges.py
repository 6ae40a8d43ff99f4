"""The namespaces of 4.4.6: how each is wedged, for real, what holds it, and how it is cleared.

A :class:`Wedge` makes its objects and asks for the namespace to be deleted; ``stuck``
says whether the cluster shows it as it is; ``holds`` is the truth that a diagnosis has
to find; ``clear`` mends the cause as its owner would, and the namespace goes by itself.
Those that are ``alone`` hurt every namespace of the cluster for as long as they are
there, so no two of them are made at a time.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

from grader.cluster.api import Api, ApiError
from grader.labs import leftovers

DISCOVERY, CONTENT = "NamespaceDeletionDiscoveryFailure", "NamespaceDeletionContentFailure"
REMAINING, FINALIZERS = "NamespaceContentRemaining", "NamespaceFinalizersRemaining"
#: Why a namespace is (or is not) held: the words of a diagnosis.
FINALIZER, DISCOVERED, REFUSED, VERSION = "finalizer", "discovery", "refused", "version"
GRACE, RECREATED, NOTHING = "grace", "recreated", "nothing"
WORDS = (FINALIZER, DISCOVERED, REFUSED, VERSION, GRACE, RECREATED, NOTHING)

WEBHOOKS = "validatingwebhookconfigurations.admissionregistration.k8s.io"
APISERVICES = "apiservices.apiregistration.k8s.io"
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
_PLURALS = ("buckets", "queues", "tenants", "vaults", "meshes", "topics", "shards")
#: Seconds of a Pod's grace period: no run takes so long.
LONG_GRACE = 3600


@dataclass(frozen=True)
class Hold:
    """One thing that holds a namespace. ``conditions`` are those that say so; None: not judged."""

    why: str
    resource: str = ""
    namespace: str = ""
    object: str = ""
    finalizer: str = ""
    conditions: frozenset[str] | None = frozenset()

    @property
    def shown(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        what = f"{self.resource} {where}{self.object}".strip()
        by = f", its finalizer {self.finalizer}" if self.finalizer else ""
        return f"{self.why}: {what}{by}" if what else self.why


class Names:
    """Names that no program can know beforehand; one group of an API for each run."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()
        self.suffix = self.new("")[:5]
        self._plurals = self._random.sample(_PLURALS, len(_PLURALS))

    def new(self, prefix: str) -> str:
        return f"{prefix}{self._random.randrange(16**8):08x}"

    def group(self, word: str) -> str:
        return f"{word}-{self.suffix}.example.com"

    def plural(self) -> str:
        return self._plurals.pop()


@dataclass
class Wedge:
    """A namespace of one kind. ``uid`` is that of the namespace whose delete was asked for."""

    api: Api
    names: Names
    kind: ClassVar[str] = ""
    #: What it is, for reports.
    title: ClassVar[str] = ""
    alone: ClassVar[bool] = False
    namespace: str = ""
    uid: str = ""
    holds: list[Hold] = field(default_factory=list)
    #: Other namespaces that it needed.
    others: list[str] = field(default_factory=list)

    # -- for the kinds ---------------------------------------------------------------

    def make(self) -> None:
        """Make what wedges it, and ask for its end."""
        raise NotImplementedError

    def stuck(self) -> bool:
        """Whether the cluster shows what is to be diagnosed."""
        raise NotImplementedError

    def clear(self) -> str:
        """Mend the cause; returns how, as a sentence."""
        raise NotImplementedError

    # -- for them to use ---------------------------------------------------------------

    def new_namespace(self, **metadata: Any) -> str:
        name = self.names.new("wedge-")
        self.api.create(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "labels": leftovers.label("4.4.6"), **metadata},
            }
        )
        return name

    def begin(self, **metadata: Any) -> None:
        self.namespace = self.new_namespace(**metadata)
        self.uid = self.api.get("namespaces", self.namespace)["metadata"]["uid"]

    def end(self) -> None:
        self.api.delete("namespaces", self.namespace)

    def live(self) -> dict | None:
        return self.api.find("namespaces", self.namespace)

    def true_conditions(self) -> set[str]:
        """The conditions of its deletion that are True."""
        found = (self.live() or {}).get("status", {}).get("conditions") or ()
        return {one["type"] for one in found if one["status"] == "True"}

    def looked_at(self) -> bool:
        """Whether the namespace controller has been through it once."""
        found = (self.live() or {}).get("status", {}).get("conditions") or ()
        return any(one["type"] == DISCOVERY for one in found)

    def touch(self) -> None:
        """Change the Namespace, so that its controller looks at once.

        By itself it comes back after half of what it takes the rest to need: half an hour,
        where a Pod has an hour of grace.
        """
        try:
            mark = {"metadata": {"annotations": {"phase4.example.com/cleared": "yes"}}}
            self.api.patch("namespaces", self.namespace, mark)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    @property
    def is_gone(self) -> bool:
        live = self.live()
        return live is None or live["metadata"]["uid"] != self.uid

    def config_map(self, name: str) -> None:
        self.api.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": self.namespace},
            }
        )

    def crd(self, plural: str, group: str, versions: tuple[str, ...] = ("v1",)) -> str:
        """A CustomResourceDefinition, served; its name."""
        name = f"{plural}.{group}"
        self.api.create(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": name, "labels": leftovers.label("4.4.6")},
                "spec": {
                    "group": group,
                    "scope": "Namespaced",
                    "names": {
                        "plural": plural,
                        "singular": plural[:-1],
                        "kind": plural[:-1].capitalize(),
                    },
                    "versions": [version(one, stored=one == versions[0]) for one in versions],
                },
            }
        )
        return name

    def custom(self, plural: str, group: str, namespace: str, name: str, **more: Any) -> dict:
        """An object of that CRD; ``more`` is added to its metadata."""
        obj = {
            "apiVersion": f"{group}/v1",
            "kind": plural[:-1].capitalize(),
            "metadata": {"name": name, "namespace": namespace, **more},
        }
        path = f"/apis/{group}/v1/namespaces/{namespace}/{plural}"
        return self.api.raw("POST", path, body=obj)

    def path(self, plural: str, group: str, namespace: str, name: str) -> str:
        return f"/apis/{group}/v1/namespaces/{namespace}/{plural}/{name}"

    def unfinalize(self, path: str, finalizer: str) -> None:
        """What the owner of a finalizer does once its cleanup is done: take its own entry out."""
        try:
            live = self.api.raw("GET", path)
            left = [f for f in live["metadata"].get("finalizers", ()) if f != finalizer]
            self.api.raw(
                "PATCH",
                path,
                body={"metadata": {"finalizers": left or None}},
                content_type="application/merge-patch+json",
            )
        except ApiError as error:
            if error.status != 404:
                raise


def version(name: str, *, stored: bool) -> dict:
    """A version of a CRD that keeps whatever it is given."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "name": name,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": schema},
    }


def served(api: Api, group: str, plural: str = "") -> bool:
    """Whether the namespace controller can find a group, and a resource in it.

    It asks for the aggregated discovery: what is not in it yet is not deleted with its
    namespace.
    """
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = api.raw("GET", "/apis", headers={"Accept": accept})["items"]
    found = {
        one["resource"]
        for each in groups
        if each["metadata"]["name"] == group
        for one_version in each["versions"]
        for one in one_version.get("resources", ())
    }
    return plural in found if plural else bool(found)


def wait(what: str, predicate: Any, seconds: float) -> None:
    """Wait until the cluster shows it. Raises TimeoutError, saying what was waited for."""
    deadline = time.monotonic() + seconds
    while not predicate():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s: {what}")
        time.sleep(0.1)
