"""The kinds of namespaces of 4.4.6 (see :mod:`grader.labs.lab_4_4_6_wedges`)."""

from __future__ import annotations

from grader.cluster.api import ApiError
from grader.labs import leftovers
from grader.labs.lab_4_4_6_finalizers import Chain, MissingVersion, OperatorGone, OwnFinalizer
from grader.labs.lab_4_4_6_wedges import (
    APISERVICES,
    CONTENT,
    DISCOVERED,
    DISCOVERY,
    GRACE,
    LONG_GRACE,
    NOTHING,
    RECREATED,
    REFUSED,
    WEBHOOKS,
    Hold,
    Wedge,
    wait,
)

#: Seconds for what the cluster does at once.
_SOON = 20.0


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
        self.holds = [Hold(DISCOVERED, APISERVICES, "", self.name, "", frozenset({DISCOVERY}))]

    def _dead(self) -> bool:
        found = self.api.get(APISERVICES, self.name).get("status", {}).get("conditions") or ()
        return any(one["type"] == "Available" and one["status"] == "False" for one in found)

    def stuck(self) -> bool:
        return DISCOVERY in self.true_conditions()

    def clear(self) -> str:
        leftovers.gone(self.api, APISERVICES, self.name)
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
        self.holds = [Hold(REFUSED, WEBHOOKS, "", self.name, "", frozenset({CONTENT}))]

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
        leftovers.gone(self.api, WEBHOOKS, self.name)
        return "the webhook, which nobody serves any more, was removed"


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
