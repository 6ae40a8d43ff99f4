"""Pasts made up for what is watched in every scenario: states, and who wrote them."""

from __future__ import annotations

import copy
from typing import Any

from grader.conformance import contract
from grader.conformance.history import State
from grader.conformance.invariants import watch
from grader.conformance.past import Past, Said
from grader.wire.records import Exchange, Mark
from tests.conformance import worlds

VERBS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "get": "GET"}


class Story:
    """States and exchanges, one after the other; each step takes a tenth of a second."""

    def __init__(self, **wire: Any):
        self.t, self.revision = 100.0, 0
        self.states: list[State] = []
        self.exchanges: list[Exchange] = []
        self.marks = [Mark(0, "op", "process_started", 1.0)]

    def stored(self, resource: str, obj: dict, type: str = "MODIFIED") -> dict:
        """Somebody else's write: a state, and no exchange."""
        self.t += 0.1
        self.revision += 1
        obj = copy.deepcopy(obj)
        obj["metadata"]["resourceVersion"] = str(self.revision)
        self.states.append(State(self.revision, type, resource, obj, self.t))
        return obj

    def wrote(self, verb: str, target: str, obj: dict, type: str = "MODIFIED") -> dict:
        """The operator's write, and the state that it made."""
        asked = self.asked(verb, target, obj)
        stored = self.stored(target.partition("/")[0], obj, type)
        asked.response_body = stored
        asked.t_response = self.t
        return stored

    def asked(self, verb: str, target: str, obj: dict, status: int = 200) -> Exchange:
        resource, _, subresource = target.partition("/")
        meta = obj["metadata"]
        self.exchanges.append(
            Exchange(
                len(self.exchanges),
                "op",
                verb,
                VERBS[verb],
                f"/{target}/{meta['name']}",
                {},
                "",
                "v1",
                resource,
                subresource,
                meta["namespace"],
                meta["name"],
                "op",
                "",
                obj,
                status,
                copy.deepcopy(obj),
                self.t + 0.01,
                self.t + 0.02,
                server_status=status,
            )  # fmt: skip
        )
        return self.exchanges[-1]

    def rule(self, text: str) -> None:
        self.marks.append(Mark(0, "op", "rule_added", self.t, {"rule": "r1", "text": text}))

    def past(self, **options: Any) -> Past:
        said = Said("op", self.exchanges, self.marks)
        return Past(self.states, [said], {"ns"}, now=self.t + 0.1, **options)

    def broken(self, **options: Any) -> list[tuple[str, str]]:
        watched = watch(self.past(**options))
        return [(invariant.id, fail.message.diagnosis) for invariant, fail in watched]


def meta(obj: dict, **changes: Any) -> dict:
    obj = copy.deepcopy(obj)
    obj["metadata"] |= changes
    return obj


def bare() -> dict:
    app = meta(worlds.app(), finalizers=[])
    return {**app, "status": {}}


def ours(name: str, **spec: Any) -> dict:
    pod = worlds.pod(name, **spec)
    pod["metadata"]["ownerReferences"][0] |= {"apiVersion": contract.API_VERSION, "name": "shop"}
    return pod


def another(name: str) -> dict:
    """A Pod of that name that is not the one of :func:`ours`."""
    return meta(ours(name), uid=f"another-{name}")


def converged() -> Story:
    """A WebApp of two replicas, created and brought to rest as it should be."""
    story = Story()
    story.stored("webapps", bare(), "ADDED")
    story.wrote("update", "webapps", {**worlds.app(), "status": {}})
    story.wrote("create", "configmaps", worlds.record(), "ADDED")
    for name in ("shop-0", "shop-1"):
        story.wrote("create", "pods", ours(name, ready=False), "ADDED")
    for name in ("shop-0", "shop-1"):
        story.stored("pods", ours(name))
    story.wrote("update", "webapps/status", worlds.app())
    return story


def deleted(story: Story) -> dict:
    return story.stored("webapps", meta(worlds.app(), deletionTimestamp="now"))
