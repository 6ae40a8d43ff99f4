"""The kinds of 4.4.6 that a finalizer holds (see :mod:`grader.labs.lab_4_4_6_wedges`)."""

from __future__ import annotations

from grader.cluster.api import ApiError
from grader.labs.lab_4_4_6_wedges import (
    CRDS,
    FINALIZER,
    FINALIZERS,
    REMAINING,
    VERSION,
    Hold,
    Wedge,
    served,
    version,
    wait,
)

_SAYS_FINALIZER = frozenset({FINALIZERS, REMAINING})
#: Seconds for what the cluster does at once.
_SOON = 20.0


class OperatorGone(Wedge):
    """A custom resource with a finalizer of an operator that does not run any more."""

    kind, title = "operator-gone", "a custom resource whose operator is gone"

    def make(self) -> None:
        self.begin()
        self.plural, self.group = self.names.plural(), self.names.group("store")
        self.name, self.finalizer = self.names.new("main-"), f"{self.group}/cleanup"
        self.crd(self.plural, self.group)
        wait(f"the group {self.group} is served", lambda: served(self.api, self.group), _SOON)
        # One that nothing holds: it goes, and is no part of the answer.
        self.custom(self.plural, self.group, self.namespace, self.names.new("free-"))
        self.custom(self.plural, self.group, self.namespace, self.name, finalizers=[self.finalizer])
        self.end()
        resource = f"{self.plural}.{self.group}"
        self.holds = [
            Hold(FINALIZER, resource, self.namespace, self.name, self.finalizer, _SAYS_FINALIZER)
        ]

    def stuck(self) -> bool:
        return FINALIZERS in self.true_conditions()

    def clear(self) -> str:
        path = self.path(self.plural, self.group, self.namespace, self.name)
        self.unfinalize(path, self.finalizer)
        return "its operator came back, did its cleanup, and removed its own finalizer"


class Chain(Wedge):
    """One finalizer waits for an object in another namespace, which a second finalizer holds."""

    kind, title = "chain", "a chain of two finalizers in different namespaces"

    def make(self) -> None:
        self.begin()
        self.other = self.new_namespace()
        self.others.append(self.other)
        self.group = self.names.group("chain")
        self.first, self.second = self.names.plural(), self.names.plural()
        self.name, self.target = self.names.new("front-"), self.names.new("back-")
        self.finalizers = (f"{self.group}/detach", f"{self.group}/drain")
        for plural in (self.first, self.second):
            self.crd(plural, self.group)
        for plural in (self.first, self.second):
            wait(f"{plural} are served", lambda p=plural: served(self.api, self.group, p), _SOON)
        self.custom(
            self.second, self.group, self.other, self.target, finalizers=[self.finalizers[1]]
        )
        self.custom(
            self.first, self.group, self.namespace, self.name, finalizers=[self.finalizers[0]]
        )
        waiting = {
            "resource": f"{self.second}.{self.group}",
            "namespace": self.other,
            "name": self.target,
        }
        path = self.path(self.first, self.group, self.namespace, self.name)
        patch = {"status": {"phase": "Deleting", "waitingFor": waiting}}
        self.api.raw("PATCH", path, body=patch, content_type="application/merge-patch+json")
        self.api.raw("DELETE", self.path(self.second, self.group, self.other, self.target))
        self.end()
        self.holds = [
            Hold(
                FINALIZER,
                f"{self.first}.{self.group}",
                self.namespace,
                self.name,
                self.finalizers[0],
                _SAYS_FINALIZER,
            ),
            Hold(
                FINALIZER,
                f"{self.second}.{self.group}",
                self.other,
                self.target,
                self.finalizers[1],
                None,
            ),
        ]

    def stuck(self) -> bool:
        return FINALIZERS in self.true_conditions()

    def clear(self) -> str:
        back = self.path(self.second, self.group, self.other, self.target)
        self.unfinalize(back, self.finalizers[1])
        front = self.path(self.first, self.group, self.namespace, self.name)
        self.unfinalize(front, self.finalizers[0])
        return (
            f"what held {self.other}/{self.target} was cleaned up, and then its waiter had nothing "
            "to wait for"
        )


class MissingVersion(Wedge):
    """The operator asks for a version that the CRD does not serve any more, and is answered 404.

    The object was made through that version, and has been stored in the newer one since.
    (Where objects are still *stored* in a version that is gone, the API server answers
    429 to every read, and for minutes no namespace of the cluster can be deleted.)
    """

    kind, title = "crd-version", "a CRD version that the operator needs and the CRD lost"

    def make(self) -> None:
        self.begin()
        self.plural, self.group = self.names.plural(), self.names.group("legacy")
        self.name, self.finalizer = self.names.new("old-"), f"{self.group}/cleanup"
        self.definition = self.crd(self.plural, self.group, ("v1", "v1alpha1"))
        wait(f"the group {self.group} is served", lambda: served(self.api, self.group), _SOON)
        wait("the old version is served", self._old_is_served, _SOON)
        path = f"/apis/{self.group}/v1alpha1/namespaces/{self.namespace}/{self.plural}"
        kind = self.plural[:-1].capitalize()
        obj = {
            "apiVersion": f"{self.group}/v1alpha1",
            "kind": kind,
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "finalizers": [self.finalizer],
            },
        }
        self.api.raw("POST", path, body=obj, query={"fieldManager": "legacy-operator"})
        self._versions(version("v1", stored=True))
        wait("the old version is gone", lambda: not self._old_is_served(), _SOON)
        self.end()
        resource = f"{self.plural}.{self.group}"
        self.holds = [
            Hold(VERSION, resource, self.namespace, self.name, self.finalizer, _SAYS_FINALIZER)
        ]

    def _versions(self, *versions: dict) -> None:
        self.api.patch(CRDS, self.definition, {"spec": {"versions": list(versions)}})

    def _old_is_served(self) -> bool:
        try:
            self.api.raw("GET", f"/apis/{self.group}/v1alpha1/{self.plural}")
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def stuck(self) -> bool:
        return FINALIZERS in self.true_conditions()

    def clear(self) -> str:
        self._versions(version("v1", stored=True), version("v1alpha1", stored=False))
        wait("the old version is served", self._old_is_served, _SOON)
        old = f"/apis/{self.group}/v1alpha1/namespaces/{self.namespace}/{self.plural}/{self.name}"
        self.unfinalize(old, self.finalizer)
        return "the version was put back, and its operator found the object and cleaned up"


class OwnFinalizer(Wedge):
    """A finalizer on the Namespace itself: it is empty, and stays."""

    kind, title = "own-finalizer", "a finalizer on the Namespace itself"

    def make(self) -> None:
        self.finalizer = f"{self.names.group('tenancy')}/accounts"
        self.begin(finalizers=[self.finalizer])
        self.config_map("settings")
        self.end()
        self.holds = [Hold(FINALIZER, "namespaces", "", self.namespace, self.finalizer)]

    def stuck(self) -> bool:
        live = self.live()
        return live is not None and self.looked_at() and not live["spec"].get("finalizers")

    def clear(self) -> str:
        self.unfinalize(f"/api/v1/namespaces/{self.namespace}", self.finalizer)
        return "whoever put the finalizer on the Namespace did what it stands for, and removed it"
