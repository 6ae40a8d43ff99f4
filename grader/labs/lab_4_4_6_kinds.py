"""The kinds of namespaces of 4.4.6 (see :mod:`grader.labs.lab_4_4_6_wedges`)."""

from __future__ import annotations

from grader.cluster.api import ApiError
from grader.labs import leftovers
from grader.labs.lab_4_4_6_wedges import (
    _APISERVICES,
    _CRDS,
    _WEBHOOKS,
    CONTENT,
    DISCOVERED,
    DISCOVERY,
    FINALIZER,
    FINALIZERS,
    GRACE,
    LONG_GRACE,
    NOTHING,
    RECREATED,
    REFUSED,
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
            wait(f"{plural} are served", lambda p=plural: self._served(p), _SOON)
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

    def _served(self, plural: str) -> bool:
        accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        groups = self.api.raw("GET", "/apis", headers={"Accept": accept})["items"]
        return any(
            one["resource"] == plural
            for group in groups
            if group["metadata"]["name"] == self.group
            for each in group["versions"]
            for one in each["resources"]
        )

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


class DeadApiService(Wedge):
    """A group that an aggregated API server should serve, and the server is gone."""

    kind, title, alone = "apiservice", "a dead APIService", True

    def make(self) -> None:
        self.begin()
        group = self.names.group("metrics")
        self.name = f"v1.{group}"
        self.api.create(
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": self.name, "labels": leftovers.label("4.4.6")},
                "spec": {
                    "group": group,
                    "version": "v1",
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                    "insecureSkipTLSVerify": True,
                    "service": {"namespace": self.namespace, "name": "api-server"},
                },
            }
        )
        wait("the APIService is found dead", self._dead, _SOON)
        self.config_map("settings")
        self.end()
        self.holds = [Hold(DISCOVERED, _APISERVICES, "", self.name, "", frozenset({DISCOVERY}))]

    def _dead(self) -> bool:
        found = self.api.get(_APISERVICES, self.name).get("status", {}).get("conditions") or ()
        return any(one["type"] == "Available" and one["status"] == "False" for one in found)

    def stuck(self) -> bool:
        return DISCOVERY in self.true_conditions()

    def clear(self) -> str:
        leftovers.gone(self.api, _APISERVICES, self.name)
        return "the APIService was removed, as nobody serves its group any more"


class Webhook(Wedge):
    """Deletes in the namespace have to pass a webhook that nobody answers."""

    kind, title = "webhook", "a webhook that refuses deletes"

    def make(self) -> None:
        self.begin()
        self.config_map("settings")
        self.name = self.names.new("guard-")
        self.api.create(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": self.name, "labels": leftovers.label("4.4.6")},
                "webhooks": [
                    {
                        "name": f"deletes.{self.names.group('guard')}",
                        "admissionReviewVersions": ["v1"],
                        "sideEffects": "None",
                        "failurePolicy": "Fail",
                        "timeoutSeconds": 2,
                        # A port where nothing listens.
                        "clientConfig": {"url": "https://127.0.0.1:1/deletes"},
                        "namespaceSelector": {
                            "matchLabels": {"kubernetes.io/metadata.name": self.namespace}
                        },
                        "rules": [
                            {
                                "apiGroups": [""],
                                "apiVersions": ["v1"],
                                "operations": ["DELETE"],
                                "resources": ["configmaps"],
                            }
                        ],
                    }
                ],
            }
        )
        wait("the webhook refuses deletes", self._refuses, _SOON)
        self.end()
        self.holds = [Hold(REFUSED, _WEBHOOKS, "", self.name, "", frozenset({CONTENT}))]

    def _refuses(self) -> bool:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/settings"
        try:
            self.api.raw("DELETE", path, query={"dryRun": "All"})
        except ApiError:
            return True
        return False

    def stuck(self) -> bool:
        return CONTENT in self.true_conditions()

    def clear(self) -> str:
        leftovers.gone(self.api, _WEBHOOKS, self.name)
        return "the webhook, which nobody serves any more, was removed"


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
        self.api.patch(_CRDS, self.definition, {"spec": {"versions": list(versions)}})

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


class GracePeriod(Wedge):
    """A Pod takes its time to end, on a node whose kubelet says nothing."""

    kind, title = "grace", "a Pod that takes its grace period"

    def make(self) -> None:
        self.begin()
        node = self.names.new("node-")
        self.node, self.name = node, self.names.new("slow-")
        self.api.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node, "labels": leftovers.label("4.4.6")},
                "spec": {"unschedulable": True},
            }
        )
        self.api.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": self.name, "namespace": self.namespace},
                "spec": {
                    "nodeName": node,
                    "terminationGracePeriodSeconds": LONG_GRACE,
                    "containers": [{"name": "main", "image": "slow:1"}],
                },
            }
        )
        self.config_map("settings")
        self.end()
        self.holds = [Hold(GRACE, "pods", self.namespace, self.name)]

    def stuck(self) -> bool:
        pod = self.api.find("pods", self.name, self.namespace)
        terminating = pod is not None and "deletionTimestamp" in pod["metadata"]
        return terminating and self.looked_at()

    @property
    def beside(self) -> dict | None:
        """The ConfigMap beside the Pod."""
        return self.api.find("configmaps", "settings", self.namespace)

    def clear(self) -> str:
        try:
            # What a kubelet does when the containers have ended.
            self.api.delete("pods", self.name, self.namespace, grace_seconds=0)
        except ApiError as error:
            if error.status != 404:
                raise
        leftovers.gone(self.api, "nodes", self.node)
        return "the Pod was given its time, and ended"


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


class NotWedged(Wedge):
    """Nobody has asked for its end; a finalizer in it waits for nothing."""

    kind, title = "not-wedged", "a namespace that is not wedged at all"

    def make(self) -> None:
        self.begin()
        self.api.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": "settings",
                    "namespace": self.namespace,
                    "finalizers": [f"{self.names.group('keep')}/cleanup"],
                },
            }
        )
        self.holds = [Hold(NOTHING)]

    def stuck(self) -> bool:
        return self.live() is not None

    def clear(self) -> str:
        leftovers.release(self.api, "configmaps", "settings", self.namespace)
        self.end()
        return "there was nothing to clear"


class Recreated(Wedge):
    """It went as it should, and somebody makes it again as soon as it is gone."""

    kind, title = "recreated", "a namespace that is made again as fast as it is deleted"

    def make(self) -> None:
        self.begin()
        self.config_map("settings")
        self.end()
        self.holds = [Hold(RECREATED, "namespaces", "", self.namespace)]

    def stuck(self) -> bool:
        live = self.live()
        if live is None:
            labels = {**leftovers.label("4.4.6"), "app.kubernetes.io/managed-by": "gitops"}
            self.api.create(
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": self.namespace, "labels": labels},
                }
            )
            return True
        return live["metadata"]["uid"] != self.uid

    def clear(self) -> str:
        self.end()
        return "whoever makes it again was stopped, and then it was deleted once more"


KINDS: tuple[type[Wedge], ...] = (
    OperatorGone,
    Chain,
    Webhook,
    GracePeriod,
    OwnFinalizer,
    NotWedged,
    Recreated,
    MissingVersion,
    DeadApiService,
)
