"""Which path belongs to which kind: a table of what the course uses, discovery for the rest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Resource:
    """A kind as the API serves it. ``group`` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, *, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, an object or a subresource of it.

        Raises ValueError for a namespace where the kind has none.
        """
        if namespace and not self.namespaced:
            raise ValueError(f"{self.full_name} are not namespaced")
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


def _table() -> list[Resource]:
    rows = """
    - v1 pods Pod n
    - v1 configmaps ConfigMap n
    - v1 secrets Secret n
    - v1 services Service n
    - v1 endpoints Endpoints n
    - v1 events Event n
    - v1 serviceaccounts ServiceAccount n
    - v1 persistentvolumeclaims PersistentVolumeClaim n
    - v1 replicationcontrollers ReplicationController n
    - v1 resourcequotas ResourceQuota n
    - v1 limitranges LimitRange n
    - v1 namespaces Namespace c
    - v1 nodes Node c
    - v1 persistentvolumes PersistentVolume c
    apps v1 deployments Deployment n
    apps v1 replicasets ReplicaSet n
    apps v1 statefulsets StatefulSet n
    apps v1 daemonsets DaemonSet n
    apps v1 controllerrevisions ControllerRevision n
    batch v1 jobs Job n
    batch v1 cronjobs CronJob n
    coordination.k8s.io v1 leases Lease n
    discovery.k8s.io v1 endpointslices EndpointSlice n
    policy v1 poddisruptionbudgets PodDisruptionBudget n
    rbac.authorization.k8s.io v1 roles Role n
    rbac.authorization.k8s.io v1 rolebindings RoleBinding n
    rbac.authorization.k8s.io v1 clusterroles ClusterRole c
    rbac.authorization.k8s.io v1 clusterrolebindings ClusterRoleBinding c
    scheduling.k8s.io v1 priorityclasses PriorityClass c
    apiextensions.k8s.io v1 customresourcedefinitions CustomResourceDefinition c
    apiregistration.k8s.io v1 apiservices APIService c
    admissionregistration.k8s.io v1 validatingadmissionpolicies ValidatingAdmissionPolicy c
    admissionregistration.k8s.io v1 validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding c
    admissionregistration.k8s.io v1 validatingwebhookconfigurations ValidatingWebhookConfiguration c
    admissionregistration.k8s.io v1 mutatingwebhookconfigurations MutatingWebhookConfiguration c
    authentication.k8s.io v1 tokenreviews TokenReview c
    authorization.k8s.io v1 subjectaccessreviews SubjectAccessReview c
    authorization.k8s.io v1 selfsubjectaccessreviews SelfSubjectAccessReview c
    samplecontroller.k8s.io v1alpha1 foos Foo n
    phase4.example.com v1alpha1 webapps WebApp n
    """
    found = []
    for row in rows.split("\n"):
        if fields := row.split():
            group, version, plural, kind, scope = fields
            found.append(
                Resource("" if group == "-" else group, version, plural, kind, scope == "n")
            )
    return found


KNOWN: tuple[Resource, ...] = tuple(_table())
BY_NAME: dict[str, Resource] = {}
for _resource in KNOWN:
    BY_NAME[_resource.full_name] = _resource
    # A bare plural means the first group of the table that has it (`events` is core's).
    BY_NAME.setdefault(_resource.plural, _resource)
BY_KIND: dict[tuple[str, str], Resource] = {(r.api_version, r.kind): r for r in KNOWN}
