"""RBAC rules as 4.3.6 reads them: what a manifest grants, and what a run used of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from grader.verdict import Fail

SERVICE_ACCOUNT, NAMESPACE = "webapp-operator", "phase4-system"
#: In no namespace in particular: a ClusterRole bound by a ClusterRoleBinding.
EVERYWHERE = ""
_KINDS = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}


@dataclass(frozen=True, order=True)
class Grant:
    """One verb on one resource (``pods``, ``webapps/status``) in one namespace or everywhere."""

    group: str
    resource: str
    verb: str
    namespace: str

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        where = f"in {self.namespace}" if self.namespace else "in every namespace"
        resource, slash, sub = self.resource.partition("/")
        return f"{self.verb} {resource}{group}{slash}{sub} {where}"

    def covers(self, group: str, resource: str, verb: str, namespace: str) -> bool:
        return (self.group, self.resource, self.verb) == (group, resource, verb) and (
            self.namespace in (EVERYWHERE, namespace)
        )


def parse(text: str, shown: str) -> list[dict[str, Any]]:
    """The objects of a manifest. Raises Fail for what is no YAML, or no RBAC."""
    try:
        objects = [one for one in yaml.safe_load_all(text) if one is not None]
    except yaml.YAMLError as error:
        raise Fail(
            f"{shown} is YAML.",
            f"It is not: {' '.join(str(error).split())[:200]}.",
            next="Try it with `./phase4 kubectl apply --dry-run=client -f` and the file.",
            diagnosis="not-yaml",
        ) from None
    for one in objects:
        kind = one.get("kind") if isinstance(one, dict) else type(one).__name__
        if kind not in _KINDS or not isinstance(one.get("metadata"), dict):
            raise Fail(
                f"{shown} holds roles and their bindings: {', '.join(sorted(_KINDS))}.",
                f"It holds a {kind}.",
                next="Namespaces, ServiceAccount and CRD are there already.",
                diagnosis="not-rbac",
            )
    return objects


def grants(objects: Iterable[dict[str, Any]], shown: str) -> set[Grant]:
    """What the operator's ServiceAccount is granted. Raises Fail for wildcards and foreign roles."""
    objects = list(objects)
    roles = {
        (o["kind"], o["metadata"].get("namespace", "") if o["kind"] == "Role" else "",
         o["metadata"].get("name")): o.get("rules") or []
        for o in objects
        if o["kind"] in ("Role", "ClusterRole")
    }  # fmt: skip
    found: set[Grant] = set()
    for binding in objects:
        if not binding["kind"].endswith("Binding") or not _is_ours(binding):
            continue
        meta, reference = binding["metadata"], binding.get("roleRef") or {}
        where = meta.get("namespace", "default") if binding["kind"] == "RoleBinding" else EVERYWHERE
        kind, name = reference.get("kind"), reference.get("name")
        rules = roles.get((kind, where if kind == "Role" else "", name))
        if rules is None:
            raise Fail(
                f"The roles that are bound are those in {shown}.",
                f"{binding['kind']} {meta.get('name')} binds the {kind} {name}, which is not in it.",
                why="cluster-admin and its like make every 403 go away, and with them all that "
                "protects the cluster from a fault of the operator.",
                next="Write a role with the verbs that the operator needs.",
                diagnosis="role-from-elsewhere",
            )
        for rule in rules:
            found |= _of_rule(rule, where, shown)
    return found


def _is_ours(binding: dict[str, Any]) -> bool:
    return any(
        subject.get("kind") == "ServiceAccount"
        and subject.get("name") == SERVICE_ACCOUNT
        and subject.get("namespace") == NAMESPACE
        for subject in binding.get("subjects") or ()
    )


def _of_rule(rule: dict[str, Any], where: str, shown: str) -> set[Grant]:
    groups, resources, verbs = (rule.get(key) or [] for key in ("apiGroups", "resources", "verbs"))
    if any("*" in str(word) for word in (*groups, *resources, *verbs)):
        raise Fail(
            f"No rule in {shown} has a `*`.",
            f"One has: groups {groups}, resources {resources}, verbs {verbs}.",
            why="A wildcard also grants what is added to the API next year.",
            next="Name each verb and each resource.",
            diagnosis="wildcard",
        )
    return {Grant(g, r, v, where) for g in groups for r in resources for v in verbs}
