"""The hand: carries the operations of a walk out, and says each as a command that a person types.

Every kind of operation is a function of :data:`KINDS`. It looks at what is stored now, and does
nothing where there is nothing to do it to. What it did it tells the model.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grader.cluster.api import Api, ApiError
from grader.conformance import contract
from grader.conformance.contract import (
    DNS_NAMESPACE,
    LABEL,
    WEBAPPS,
    controller_of,
    is_finished,
    is_terminating,
)
from grader.conformance.walks.model import HELD, NEVER_READY, Model
from grader.conformance.walks.walk import NAMES, Op

IMAGES = ("shop:2", "shop:3", NEVER_READY)
#: The object that owns what is somebody else's.
SOMEONE = "someone"
#: Answers to an operation that came too late, or found nothing: it is left out.
_NOT_DONE = (404, 409, 422)


@dataclass(frozen=True)
class Kind:
    """``act`` returns whether it did anything. ``apart``: at rest before and after it.

    Where an operator may rightly be acting on what it knew a moment ago, an operation that
    makes that wrong would blame it for a race that nobody can win.
    """

    act: Callable[[Hand, Op], bool]
    apart: bool = False


class Hand:
    """``lines`` are the commands so far. ``written`` are the newest versions by UID, None for gone.

    ``settle`` waits for a condition, no longer than so many seconds, and says whether it holds.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        model: Model,
        settle: Callable[[Callable[[], bool], float], bool],
    ) -> None:
        self.api, self.namespace, self.model = api, namespace, model
        self.lines: list[str] = []
        self.written: dict[str, int | None] = {}
        self._settle = settle
        self._number = 0
        self._owner_uid = ""

    # -- what kinds are made of -------------------------------------------------------

    def do(self, op: Op) -> bool:
        """Carry it out; False where nothing was there to do it to."""
        try:
            return KINDS[op.kind].act(self, op)
        except ApiError as error:
            if error.status not in _NOT_DONE:
                raise
            return False

    def name(self, op: Op) -> str:
        """The WebApp that it is about, of those that the walk has."""
        return self.names[op.app % len(self.names)]

    names: tuple[str, ...] = NAMES[:1]

    def app(self, op: Op) -> dict | None:
        """The live WebApp that it is about, unless it is on its way out."""
        found = self.api.find(WEBAPPS, self.name(op), self.namespace)
        return found if found is not None and not is_terminating(found) else None

    def pods(self, op: Op) -> list[dict]:
        """The active Pods of that WebApp, the oldest first; also while it is on its way out."""
        name = self.name(op)
        gone = [uid for uid, one in self.model.deleted.items() if one == name]
        uid = self.model.uids.get(name) or (gone[-1] if gone else None)
        found = [
            pod
            for pod in self.api.list("pods", self.namespace)["items"]
            if uid and (controller_of(pod) or {}).get("uid") == uid
            if not is_terminating(pod) and not is_finished(pod)
        ]
        return sorted(
            found, key=lambda p: (p["metadata"]["creationTimestamp"], p["metadata"]["name"])
        )

    def pod(self, op: Op) -> tuple[dict, str] | None:
        """One of them, and how a person writes its name."""
        pods = self.pods(op)
        if not pods:
            return None
        place = op.pod % len(pods)
        return pods[place], f'"$(pod {self.name(op)} {place + 1})"'

    def record(self, op: Op) -> dict | None:
        uid = self.model.uids.get(self.name(op))
        found = uid and self.api.find("configmaps", f"record-{uid}", DNS_NAMESPACE)
        return found or None

    def saw(self, obj: dict) -> dict:
        meta = obj["metadata"]
        self.written[meta["uid"]] = int(meta["resourceVersion"])
        return obj

    def say(self, line: str) -> None:
        self.lines.append(line)

    def create(self, obj: dict) -> dict:
        made = self.saw(self.api.create(obj))
        self.say(f"echo {self._quoted(obj)} | kubectl apply -f -")
        return made

    def _quoted(self, value: Any) -> str:
        """A value as JSON, quoted for a shell: in the namespace and with the UIDs of another run."""
        text = json.dumps(value).replace(f'"namespace": "{self.namespace}", ', "")
        text = text.replace(f', "namespace": "{self.namespace}"', "")
        text = text.replace(f"{self.namespace}/", "walk/")
        quoted = shlex.quote(text)
        return quoted.replace(self._owner_uid, "'\"$(owner)\"'") if self._owner_uid else quoted

    def patch(
        self,
        resource: str,
        obj: dict,
        patch: Any,
        shown: str,
        *,
        type: str = "merge",
        subresource: str = "",
        said: Any = None,
    ) -> dict:
        """``shown`` is the object as kubectl is told, ``said`` the patch where it is another."""
        meta = obj["metadata"]
        patched = self.saw(
            self.api.patch(
                resource,
                meta["name"],
                patch,
                meta["namespace"],
                type=type,  # type: ignore[arg-type]
                subresource=subresource or None,
            )
        )
        words = f"kubectl patch {shown}"
        words += f" --subresource={subresource}" if subresource else ""
        words += f" --type={type}" if type != "strategic" else ""
        self.say(f"{words} -p {self._quoted(said or patch)}")
        return patched

    def delete(self, resource: str, obj: dict, shown: str, flags: str = "", **call: Any) -> None:
        meta = obj["metadata"]
        self.api.delete(resource, meta["name"], meta["namespace"], **call)
        self.written[meta["uid"]] = None
        self.say(f"kubectl delete {shown} {flags or '--wait=false'}")

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def wait_free(self, name: str) -> bool:
        """Wait until no WebApp has the name, as `kubectl delete` does."""
        return self._settle(lambda: self.api.find(WEBAPPS, name, self.namespace) is None, 2.0)

    def create_to_stay(self, pod: dict) -> dict:
        """Create a Pod under a name that has just become free.

        The cluster's kwok deletes by name what was deleted by force a moment ago, and may hit
        the new one: it is then made once more.
        """
        made = self.api.create(pod)
        meta = made["metadata"]
        if self._settle(lambda: self._is_another(meta), 0.5):
            made = self.api.create(pod)
        return self.saw(made)

    def _is_another(self, meta: dict) -> bool:
        found = self.api.find("pods", meta["name"], meta["namespace"])
        return found is None or found["metadata"]["uid"] != meta["uid"]

    def owner(self) -> dict:
        """The owner of what is somebody else's: a ConfigMap, made when it is first needed."""
        if found := self.api.find("configmaps", SOMEONE, self.namespace):
            return found
        meta = {"name": SOMEONE, "namespace": self.namespace}
        made = self.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
        # No operator's concern, and in nobody's history.
        self._owner_uid = made["metadata"]["uid"]
        self.written.pop(self._owner_uid)
        return made

    def reference(self, *, controller: bool) -> dict:
        """An owner reference of somebody else's."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": SOMEONE,
            "uid": self.owner()["metadata"]["uid"],
            "controller": controller,
        }

    def new_pod(self, name: str, image: str, labels: dict, owners: list[dict]) -> dict:
        meta: dict[str, Any] = {"name": name, "namespace": self.namespace, "labels": labels}
        if owners:
            meta["ownerReferences"] = owners
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta,
            "spec": {"containers": [{"name": "web", "image": image}]},
        }

    # -- to begin with, and at the end ------------------------------------------------

    def begin(self, replicas: tuple[int, ...]) -> None:
        """Create the walk's WebApps."""
        self.names = NAMES[: len(replicas)]
        for name, number in zip(self.names, replicas, strict=True):
            app = contract.webapp(name, self.namespace, replicas=number, host=f"{name}.example.com")
            self.model.created(self.create(app))

    def let_go(self) -> bool:
        """Take back every finalizer with which a state is held; whether there was any."""
        found = False
        uids = {m.uid for m in self.model.marks if m.place == "finalizers"}
        if not uids:
            return found
        for resource, namespace in (
            (WEBAPPS, self.namespace),
            ("pods", self.namespace),
            ("configmaps", DNS_NAMESPACE),
        ):
            for obj in self.api.list(resource, namespace)["items"]:
                meta = obj["metadata"]
                if meta["uid"] not in uids or HELD not in (meta.get("finalizers") or ()):
                    continue
                self.model.released(meta["uid"])
                # By value: the operator may be changing the list at this moment.
                place = meta["finalizers"].index(HELD)
                patch = [
                    {"op": "test", "path": f"/metadata/finalizers/{place}", "value": HELD},
                    {"op": "remove", "path": f"/metadata/finalizers/{place}"},
                ]
                self.patch(resource, obj, patch, self._shown(resource, meta), type="json")
                found = True
        return found

    def _shown(self, resource: str, meta: dict) -> str:
        """A held object for a person: no name with a UID in it."""
        if resource == "pods":
            return '"$(held pods)"'
        if resource == "configmaps":
            return f'-n {DNS_NAMESPACE} "$(held -n {DNS_NAMESPACE} configmaps)"'
        return f"webapp {meta['name']}"

    def delete_all(self) -> None:
        """Delete every WebApp that is left."""
        for name in list(self.model.uids):
            app = self.api.find(WEBAPPS, name, self.namespace)
            if app is not None:
                self.model.removed(name)
                self.delete(WEBAPPS, app, f"webapp {name}")


#: Filled by :mod:`grader.conformance.walks.kinds`.
KINDS: dict[str, Kind] = {}


def kind(name: str, *, apart: bool = False) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Register a function of hand and operation as the kind ``name``."""

    def register(act: Callable[..., bool]) -> Callable[..., bool]:
        KINDS[name] = Kind(act, apart)
        return act

    return register


def label_of(app: str) -> dict:
    return {LABEL: app}
