"""What the garbage collector does: owners and dependents for it, their history, and its requests.

All of them are ConfigMaps. One kind has one watch, and what the collector's graph is built
from arrives in the order of that watch; so an object that is made last, and collected, shows
that the collector has taken in everything before it (:meth:`Stage.settle`). Nothing is
concluded from a time.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from grader.cluster.api import ApiError
from grader.cluster.interface import Capability
from grader.evidence.answers import Answers
from grader.report.predictions import compared
from grader.verdict import Unknown
from grader.witness import NotObserved, Timeline, describe, objects

if TYPE_CHECKING:
    import random

    from grader.cluster.api import Api
    from grader.cluster.interface import Cluster
    from grader.wire.records import Exchange
    from grader.witness.trace import Trace

T = TypeVar("T")

#: The user of the collector's requests, as the audit log names it.
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
#: The finalizer with which a grader holds an object back.
HOLD = "example.com/held-by-the-grader"
#: Seconds for one step of the collector. It takes a few hundredths; one that needs more than
#: this is no collector to judge anything by, and the verdict is UNKNOWN.
PATIENCE = 20.0
#: Seconds of one watch; the next goes on where it ended.
_WATCH = 2.0

KIND, RESOURCE = "ConfigMap", "configmaps"


@dataclass(frozen=True)
class State:
    """One event of the watch: when it arrived (seconds since the epoch), its type, the object."""

    at: float
    type: str
    object: dict

    @property
    def finalizers(self) -> list[str]:
        return objects.metadata(self.object).get("finalizers") or []


class History:
    """Every state of every ConfigMap since it began, from one watch, in the server's order."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._states: list[State] = []
        self._changed = threading.Condition()
        self._closing = False
        self._broken = ""
        version = api.list(RESOURCE)["metadata"]["resourceVersion"]
        threading.Thread(target=self._follow, args=(version,), daemon=True).start()

    def close(self) -> None:
        self._closing = True

    def _follow(self, version: str) -> None:
        try:
            while not self._closing:
                for type, obj in self._api.watch(RESOURCE, None, version, _WATCH):
                    if type == "ERROR":
                        raise RuntimeError(f"the watch ended with {obj.get('message')}")
                    version = obj["metadata"]["resourceVersion"]
                    with self._changed:
                        self._states.append(State(time.time(), type, obj))
                        self._changed.notify_all()
        except Exception as error:
            with self._changed:
                self._broken = str(error)
                self._changed.notify_all()

    def of(self, obj: Mapping[str, Any]) -> list[State]:
        """The states of one object, by its UID."""
        uid = objects.uid(obj)
        with self._changed:
            return [s for s in self._states if objects.uid(s.object) == uid]

    def gone(self, obj: Mapping[str, Any]) -> State | None:
        """The event with which it went, None while it is there."""
        return next((s for s in self.of(obj) if s.type == "DELETED"), None)

    def left(self, objs: Mapping[str, dict]) -> list[str]:
        """The keys of what is gone, in the order in which it went."""
        went = {key: gone for key, obj in objs.items() if (gone := self.gone(obj))}
        return sorted(went, key=lambda key: objects.resource_version(went[key].object))

    def until(self, seen: Callable[[], T], what: str) -> T:
        """Wait until ``seen()`` is true and return what it gave; Unknown where it never is."""
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while not (found := seen()):
                left = deadline - time.monotonic()
                if self._broken or left <= 0:
                    raise _not_seen(
                        what,
                        f"The grader could not go on watching: {self._broken}."
                        if self._broken
                        else f"It did not within {PATIENCE:g} s.",
                    )
                self._changed.wait(min(left, 1.0))
        return found


class Stage:
    """Owners and dependents in a namespace, what became of them, and who did it.

    Needs the audit log. Everything that it holds with a finalizer is released at its end.
    """

    def __init__(
        self, api: Api, cluster: Cluster, new_namespace: Callable[[], str], rng: random.Random
    ) -> None:
        cluster.require(Capability.AUDIT)
        self.api, self.cluster, self.new_namespace = api, cluster, new_namespace
        self.rng = rng
        self.namespace = new_namespace()
        self.log = Timeline(cluster=cluster, since=time.time())
        self.history = History(api)
        self.made: list[dict] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        for obj in self.made:
            if HOLD in (objects.metadata(obj).get("finalizers") or ()):
                with contextlib.suppress(ApiError):
                    self.release(obj)
        self.history.close()

    # -- making and breaking --------------------------------------------------------

    def make(
        self,
        name: str,
        owners: Sequence[dict] = (),
        *,
        namespace: str = "",
        held: bool = False,
        exact: bool = False,
    ) -> dict:
        """Create a ConfigMap; ``owners`` are references. A random word makes its name unforeseeable."""
        word = "" if exact else "-" + "".join(self.rng.choices("abcdefghijkmnpqrstuvwxyz", k=5))
        metadata: dict[str, Any] = {
            "name": name + word,
            "namespace": namespace or self.namespace,
            "ownerReferences": list(owners),
        }
        if held:
            metadata["finalizers"] = [HOLD]
        obj = self.api.create({"apiVersion": "v1", "kind": KIND, "metadata": metadata})
        self.made.append(obj)
        return obj

    def delete(self, obj: dict, policy: str | None = None) -> dict:
        """Delete it with a propagation policy; None leaves the choice to the server."""
        meta = objects.metadata(obj)
        return self.api.delete(
            RESOURCE,
            meta["name"],
            meta["namespace"],
            propagation=policy,  # type: ignore[arg-type]
            preconditions={"uid": meta["uid"]},
        )

    def release(self, obj: dict) -> None:
        """Take the grader's own finalizer off."""
        meta = objects.metadata(obj)
        live = self.api.find(RESOURCE, meta["name"], meta["namespace"])
        kept = [f for f in objects.metadata(live).get("finalizers") or () if f != HOLD]
        if live is None or objects.uid(live) != meta["uid"]:
            return
        patch = {
            "metadata": {
                "finalizers": kept,
                "resourceVersion": objects.metadata(live)["resourceVersion"],
            }
        }
        self.api.patch(RESOURCE, meta["name"], patch, meta["namespace"])

    def settle(self) -> None:
        """Wait until the collector has taken in all that was written, and acted upon it.

        Two dependents of an owner that never was, one after the other: the second is made
        when the first has gone the whole way through the collector's graph and queue.
        """
        for _ in range(2):
            canary = self.make("canary", [reference("nobody", str(uuid.uuid4()))])
            self.gone(canary)

    # -- looking --------------------------------------------------------------------

    def gone(self, obj: dict) -> State:
        """Wait until it is gone."""
        name = objects.name(obj)
        return self.history.until(
            lambda: self.history.gone(obj), f"lets {name} go, or deletes it, as its owners ask for"
        )

    def leaving(self, obj: dict) -> None:
        """Wait until it has a deletionTimestamp, or is gone."""
        self.history.until(
            lambda: any(being_deleted(s) for s in self.history.of(obj)),
            f"deletes {objects.name(obj)}",
        )

    def goes(self, obj: dict) -> bool:
        """Whether it is gone by the time at which the collector has acted on all there is."""
        self.settle()
        return self.history.gone(obj) is not None

    def asked(self, *objs: dict, verb: Iterable[str] | str | None = None) -> Trace[Exchange]:
        """The collector's requests about objects, by name and namespace, in the audit log."""
        about = {(objects.namespace(o), objects.name(o)) for o in objs}
        return self.log.exchanges(
            by=COLLECTOR,
            verb=verb,
            resource=RESOURCE,
            where=lambda e: (e.namespace, e.name) in about,
        )

    def writes(self, obj: dict) -> Trace[Exchange]:
        """Anybody's writes to an object that the API server carried out, in order."""
        return self.log.writes(
            resource=RESOURCE,
            namespace=objects.namespace(obj),
            name=objects.name(obj),
            applied=True,
        )

    def logged(self, obj: dict, verb: str = "delete") -> Exchange:
        """Wait until the audit log has a collector's request of that kind; its lines come later."""
        return self.in_log(
            lambda: self.asked(obj, verb=verb), f"sends its {verb} of {objects.name(obj)}"
        ).first  # type: ignore[return-value]

    def in_log(self, found: Callable[[], Trace[Exchange]], what: str) -> Trace[Exchange]:
        """Wait until the audit log has it; Unknown where it never does."""
        try:
            return self.log.until(lambda _: found(), PATIENCE, f"the collector: {what}")
        except NotObserved as error:
            raise _not_seen(what, f"The audit log does not have it: {error}.") from None

    def lines(self, *objs: dict) -> list[str]:
        """What the collector asked about them, a line each."""
        return [describe(e, self.log.start) for e in self.asked(*objs)]


def _not_seen(what: str, seen: str) -> Unknown:
    return Unknown(
        f"The garbage collector {what}.",
        seen,
        next="Check again; if it stays like this, `phase4 down` and then `phase4 up`.",
        diagnosis="collector-not-seen",
    )


def being_deleted(state: State) -> bool:
    """Whether it has a deletionTimestamp, or is gone."""
    return state.type == "DELETED" or objects.being_deleted(state.object)


def reference(
    name: str,
    uid: str,
    *,
    block: bool | None = None,
    controller: bool | None = None,
    kind: str = KIND,
    api_version: str = "v1",
) -> dict:
    """An owner reference."""
    ref: dict[str, Any] = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
    if block is not None:
        ref["blockOwnerDeletion"] = block
    if controller is not None:
        ref["controller"] = controller
    return ref


def owned_by(owner: dict, *, block: bool | None = None, controller: bool | None = None) -> dict:
    """A reference to a ConfigMap as it is."""
    return reference(objects.name(owner), objects.uid(owner), block=block, controller=controller)


def predictions(
    answers: Answers, offered: Mapping[str, Sequence[str]], section: str = "Predictions"
) -> dict[str, str]:
    """The predicted word for each question; raises as :meth:`Answers.require_prediction` does."""
    return {
        question: answers.require_prediction(question, section=section, choices=words).value
        for question, words in offered.items()
    }


def beside(
    predicted: Mapping[str, str],
    measured: Mapping[str, str],
    observe: Callable[[str, Any], None],
) -> None:
    """Put each prediction beside what the collector did."""
    for question, word in predicted.items():
        observe(question, compared(word, measured[question]))
