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


@dataclass
class WebAppSpec:
    """What the user wants: image, host, replicas. See the contract on the lab's page."""


@dataclass
class WebAppStatus:
    """What the operator saw: observedGeneration, replicas, readyReplicas, conditions."""


@dataclass
class WebApp:
    #: As in JSON: others write fields of it that this type need not know.
    metadata: dict[str, Any]
    spec: WebAppSpec
    status: WebAppStatus = field(default_factory=WebAppStatus)

    def deep_copy(self) -> WebApp:
        raise NotImplementedError("a copy that shares nothing")

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
    raise NotImplementedError("the CRD, out of _schema_of and what it cannot know")
