"""The WebApp type, and what is made from it: JSON both ways, deep copies, the CRD.

A field's metadata is its schema; its name in JSON is its name here, in camel case.
"""

from __future__ import annotations

import copy
import dataclasses
import typing
from dataclasses import dataclass, field
from typing import Any

GROUP, VERSION, KIND = "phase4.example.com", "v1alpha1", "WebApp"
API_VERSION = f"{GROUP}/{VERSION}"
_TYPES = {
    str: {"type": "string"},
    int: {"type": "integer", "format": "int32"},
}
HOST = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def schema(**words: Any) -> dict[str, Any]:
    return {"schema": words}


@dataclass
class Condition:
    type: str = field(metadata=schema(maxLength=316))
    status: str = field(metadata=schema(enum=["True", "False", "Unknown"]))
    lastTransitionTime: str = field(metadata=schema(format="date-time"))
    reason: str = field(metadata=schema(minLength=1, maxLength=1024))
    message: str = field(default="", metadata=schema(maxLength=32768, required=True))
    observedGeneration: int | None = field(default=None, metadata=schema(format="int64", minimum=0))


# phase4:solution 4.3.1
@dataclass
class WebAppSpec:
    """What the user wants."""

    image: str = field(metadata=schema(minLength=1, description="Image that every Pod runs."))
    host: str = field(
        metadata=schema(
            minLength=1,
            maxLength=253,
            pattern=HOST,
            description="The DNS name of the record; cannot be changed after creation.",
            **{
                "x-kubernetes-validations": [
                    {
                        "rule": "self == oldSelf",
                        "message": "host cannot be changed after creation",
                    }
                ]
            },
        )
    )
    #: None is left to the server's default.
    replicas: int | None = field(default=None, metadata=schema(minimum=0, maximum=50, default=1))


@dataclass
class WebAppStatus:
    """What the operator saw, and which generation that speaks of."""

    observedGeneration: int | None = field(default=None, metadata=schema(format="int64"))
    replicas: int | None = None
    readyReplicas: int | None = None
    conditions: list[Condition] = field(
        default_factory=list,
        metadata=schema(
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
        ),
    )


# phase4:stub
# @dataclass
# class WebAppSpec:
#     """What the user wants: image, host, replicas. See the contract on the lab's page."""
#
#
# @dataclass
# class WebAppStatus:
#     """What the operator saw: observedGeneration, replicas, readyReplicas, conditions."""
# phase4:end


@dataclass
class WebApp:
    #: As in JSON: others write fields of it that this type need not know.
    metadata: dict[str, Any]
    spec: WebAppSpec
    status: WebAppStatus = field(default_factory=WebAppStatus)

    def deep_copy(self) -> WebApp:
        # phase4:solution 4.3.1
        return copy.deepcopy(self)
        # phase4:stub
        # raise NotImplementedError("a copy that shares nothing")
        # phase4:end

    def to_json(self) -> dict[str, Any]:
        return {"apiVersion": API_VERSION, "kind": KIND, **_to_json(self)}


def _to_json(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        found = {f.name: _to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {name: one for name, one in found.items() if one is not None}
    if isinstance(value, list):
        return [_to_json(one) for one in value]
    return value


def from_json(data: dict[str, Any]) -> WebApp:
    """A WebApp of what the server sent; a field that the type does not have is left out."""
    return _from_json(WebApp, {"status": {}, **data})


def _from_json(kind: Any, data: Any) -> Any:
    if typing.get_origin(kind) is list:
        (item,) = typing.get_args(kind)
        return [_from_json(item, one) for one in data]
    if not dataclasses.is_dataclass(kind):
        return data
    hints = typing.get_type_hints(kind)
    known = {f.name for f in dataclasses.fields(kind)}
    return kind(**{k: _from_json(hints[k], v) for k, v in data.items() if k in known})


def _schema_of(kind: Any) -> dict[str, Any]:
    options = [one for one in typing.get_args(kind) if one is not type(None)]
    if typing.get_origin(kind) is list:
        return {"type": "array", "items": _schema_of(options[0])}
    if options:
        return _schema_of(options[0])
    if not dataclasses.is_dataclass(kind):
        return dict(_TYPES[kind])
    hints = typing.get_type_hints(kind)
    properties, required = {}, []
    for one in dataclasses.fields(kind):
        words = dict(one.metadata.get("schema", {}))
        is_open = one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
        if words.pop("required", is_open):
            required.append(one.name)
        properties[one.name] = {**_schema_of(hints[one.name]), **words}
    found: dict[str, Any] = {"type": "object", "properties": properties}
    return {**found, "required": required} if required else found


def crd() -> dict[str, Any]:
    """The CustomResourceDefinition of the type."""
    # phase4:solution 4.3.1
    columns = (
        ("Host", "string", ".spec.host"),
        ("Wanted", "integer", ".spec.replicas"),
        ("Ready", "integer", ".status.readyReplicas"),
        ("Age", "date", ".metadata.creationTimestamp"),
    )
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": type, "jsonPath": path} for name, type, path in columns
        ],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "x-kubernetes-validations": [
                    {
                        "rule": "self.metadata.name.size() <= 63",
                        "message": "a name has at most 63 characters, as the value of a label",
                    }
                ],
                "required": ["spec"],
                "properties": {
                    "spec": _schema_of(WebAppSpec),
                    "status": _schema_of(WebAppStatus),
                },
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"webapps.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": "WebAppList",
                "plural": "webapps",
                "singular": "webapp",
                "shortNames": ["wa"],
            },
            "versions": [version],
        },
    }
    # phase4:stub
    # raise NotImplementedError("the CRD, out of _schema_of and what it cannot know")
    # phase4:end
