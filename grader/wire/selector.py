"""A resource as rules and queries name it: ``pods``, ``pods/status``, ``pods/*``, ``deployments.apps``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from grader.cluster.resources import KNOWN

_WRITTEN = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9.-]+)?(/([a-z]+|\*))?")


class SelectorError(ValueError):
    """A text that names no resource; the message is a sentence for a person."""


class AboutResource(Protocol):
    """What has to do with a resource: a request, or an exchange of a record."""

    group: str
    resource: str
    subresource: str


@dataclass(frozen=True)
class ResourceSelector:
    """One resource. ``group`` None matches every group.

    ``subresource`` "" is the resource itself, ``*`` the resource with every
    subresource of it.

    >>> ResourceSelector.parse("deployments.apps/*")
    ResourceSelector(resource='deployments', group='apps', subresource='*')
    """

    resource: str
    group: str | None = None
    subresource: str = ""

    @classmethod
    def parse(cls, text: str) -> ResourceSelector:
        """The selector that a text names; :func:`mistake_in` tells whether it names any."""
        full, _, subresource = text.partition("/")
        resource, dot, group = full.partition(".")
        return cls(resource, group if dot else None, subresource)

    def matches(self, about: AboutResource) -> bool:
        """Whether that has to do with this resource."""
        return (
            about.resource == self.resource
            and (self.group is None or about.group == self.group)
            and (self.subresource == "*" or about.subresource == self.subresource)
        )

    def __str__(self) -> str:
        group = f".{self.group}" if self.group is not None else ""
        return f"{self.resource}{group}" + (f"/{self.subresource}" if self.subresource else "")


def several(text: str) -> tuple[ResourceSelector, ...]:
    """The selectors of a comma list; empty for ``any``. Raises :class:`SelectorError`."""
    parts = text.split(",")
    if "any" in parts or "*" in parts:
        return ()
    for part in parts:
        if mistake := mistake_in(part):
            raise SelectorError(mistake)
    return tuple(map(ResourceSelector.parse, parts))


def mistake_in(text: str) -> str:
    """Why nothing can ever match what a text names, as a sentence; empty where something can."""
    if not _WRITTEN.fullmatch(text):
        return (
            f"«{text}» is not a resource: write the plural in small letters, as URLs have "
            "it, for example pods, webapps/status or deployments.apps"
        )
    resource = ResourceSelector.parse(text).resource
    if (plural := _PLURALS.get(resource)) is not None:
        return (
            f"«{resource}» is in no URL, so this rule would never act: write the plural, {plural}."
        )
    return ""


#: What kubectl takes for a resource and a URL does not: singulars and short names.
_PLURALS = {kind.kind.lower(): kind.plural for kind in KNOWN} | {
    "po": "pods",
    "cm": "configmaps",
    "svc": "services",
    "ep": "endpoints",
    "ns": "namespaces",
    "no": "nodes",
    "sa": "serviceaccounts",
    "pvc": "persistentvolumeclaims",
    "deploy": "deployments",
    "rs": "replicasets",
    "sts": "statefulsets",
    "ds": "daemonsets",
    "crd": "customresourcedefinitions",
}
for _plural in {kind.plural for kind in KNOWN}:
    _PLURALS.pop(_plural, None)
