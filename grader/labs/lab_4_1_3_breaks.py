"""What somebody broke by hand, and who repaired it: read out of a timeline, for 4.1.3.

A break is a write by a person that takes a Deployment away from what its Foo
says (or the Foo away from its Deployment). A repair is a write of the
controller's that brings them together again: for the same owner UID, and
before anybody else did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from grader.verdict import Fail
from grader.witness import Exchange, Timeline, objects

Kind = Literal["scale", "delete", "delete-while-down", "edit-while-down"]

#: What each break is, and what the repair has to be.
DESCRIBED: dict[Kind, tuple[str, str]] = {
    "scale": (
        "the Deployment is scaled by hand while the controller runs",
        "the controller sets its replicas back to what the Foo says",
    ),
    "delete": (
        "the Deployment is deleted by hand while the controller runs",
        "the controller creates it again, owned by the same Foo",
    ),
    "delete-while-down": (
        "the Deployment is deleted by hand while the controller is down",
        "the controller, started again, creates it, though it never saw the delete",
    ),
    "edit-while-down": (
        "the Foo is edited by hand while the controller is down",
        "the controller, started again, makes the Deployment what the Foo says now",
    ),
}


@dataclass(frozen=True)
class Break:
    """One break: the write that did it, and the Foo and Deployment concerned."""

    kind: Kind
    write: Exchange
    namespace: str
    deployment: str
    #: UID of the Deployment as it was; empty where there need not have been one.
    deployment_uid: str
    foo_uid: str
    foo: str


class Story:
    """A timeline with its two characters: the controller (a wire's client), and whoever broke things."""

    def __init__(self, timeline: Timeline, controller: str) -> None:
        self.timeline = timeline
        self.controller = controller
        self._runs = list(self._lifetimes())

    def _lifetimes(self) -> Iterable[tuple[float, float]]:
        """(start, end) of each of the controller's lives; the last one may end at infinity."""
        started: float | None = None
        ends = ("process_exited", "process_killed")
        for mark in self.timeline.marks(("process_started", *ends), by=self.controller):
            if mark.what == "process_started":
                started = mark.t if started is None else started
            elif started is not None:
                yield started, mark.t
                started = None
        if started is not None:
            yield started, float("inf")

    @property
    def was_down(self) -> bool:
        """Whether it was started again after it had ended."""
        return len(self._runs) > 1

    def running_at(self, t: float) -> bool:
        return any(start <= t <= end for start, end in self._runs)

    def started_after(self, t: float) -> float | None:
        """When it was next started after a moment; None if it never was."""
        return next((start for start, _ in self._runs if start > t), None)

    def by_person(self, exchange: Exchange) -> bool:
        """Whether a person did it: neither the controller nor a part of the control plane."""
        return exchange.client != self.controller and not exchange.user.startswith("system:")

    # Breaks ----------------------------------------------------------------------

    def breaks(self, kind: Kind) -> list[Break]:
        """The breaks of a kind, in order; those of the wrong time (running, down) are left out."""
        down = kind.endswith("while-down")
        find = {
            "scale": self._scale,
            "delete": self._delete,
            "delete-while-down": self._delete,
            "edit-while-down": self._edit,
        }[kind]
        writes = self.timeline.writes(applied=True).where(self.by_person)
        return [
            found
            for write in writes
            if self.running_at(write.t_end) is not down and (found := find(kind, write)) is not None
        ]

    def _scale(self, kind: Kind, write: Exchange) -> Break | None:
        if write.verb not in ("update", "patch") or write.target not in (
            "deployments",
            "deployments/scale",
        ):
            return None
        before = self._deployment(write)
        replicas = _replicas(write.answer)
        if before is None or replicas is None or replicas == _replicas(before):
            return None
        broken = self._break(kind, write, before)
        if broken is None or replicas == self._wanted(broken, write).get("replicas", 1):
            return None  # put right, and not broken
        return broken

    def _delete(self, kind: Kind, write: Exchange) -> Break | None:
        if write.verb not in ("delete", "deletecollection") or write.target != "deployments":
            return None
        before = self._deployment(write)
        return self._break(kind, write, before) if before is not None else None

    def _edit(self, kind: Kind, write: Exchange) -> Break | None:
        if write.verb not in ("update", "patch") or write.target != "foos":
            return None
        before = self.timeline.truth(write).get("foos", write.name, write.namespace)
        after = write.answer
        if not objects.is_object(after) or (before or {}).get("spec") == after.get("spec"):
            return None
        return Break(
            kind,
            write,
            write.namespace,
            after["spec"].get("deploymentName", ""),
            "",
            objects.uid(after),
            write.name,
        )

    def _deployment(self, write: Exchange) -> dict | None:
        """The Deployment that a write concerns, as it was before."""
        known = self.timeline.truth(write)
        if write.name:
            return known.get("deployments", write.name, write.namespace)
        owned = [d for d in known.all("deployments", write.namespace) if objects.controller_uid(d)]
        return owned[0] if owned else None

    def _break(self, kind: Kind, write: Exchange, deployment: dict) -> Break | None:
        for owner in objects.metadata(deployment).get("ownerReferences") or ():
            if owner.get("controller") and owner.get("kind") == "Foo":
                return Break(
                    kind,
                    write,
                    write.namespace,
                    objects.name(deployment),
                    objects.uid(deployment),
                    owner["uid"],
                    owner["name"],
                )
        return None

    # Repairs -----------------------------------------------------------------------

    def repair(self, broken: Break) -> Exchange:
        """The controller's write that repaired it. Fail where there is none, or somebody else did it."""
        happened, wanted = DESCRIBED[broken.kind]
        # A controller may have reacted before whoever broke it got the answer.
        happened_at = self.timeline.moment(broken.write)
        for write in self.timeline.writes(
            resource="deployments", namespace=broken.namespace, applied=True
        ):
            if self.timeline.moment(write) <= happened_at or not self._mends(broken, write):
                continue
            if write.client == self.controller:
                return write
            if self.by_person(write):
                raise Fail(
                    f"After {happened}, {wanted}.",
                    f"{write.client} did it, and not the controller.",
                    why="The lab shows what the controller does about drift. When "
                    "you repair it yourself, there is nothing left for it to do.",
                    next="Record again, and change nothing after each break until the Deployment "
                    "is back.",
                    diagnosis="repaired-by-hand",
                    evidence=self._lines(broken.write, write),
                )
        end = "The recording ends before that." if self._unfinished(broken) else ""
        raise Fail(
            f"After {happened}, {wanted}.",
            f"No such write of the controller's follows. {end}".strip(),
            why="A Foo says what should be, all the time, and not only when it is edited.",
            next="Start the controller again and wait until the Deployment is there."
            if end
            else "Look at the controller's output at that time; `phase4 timeline` shows its writes.",
            diagnosis="not-repaired",
            evidence=self._lines(broken.write),
        )

    def _unfinished(self, broken: Break) -> bool:
        return (
            broken.kind.endswith("while-down")
            and self.started_after(broken.write.t_request) is None
        )

    def _mends(self, broken: Break, write: Exchange) -> bool:
        after = write.answer
        if not objects.is_object(after) or objects.controller_uid(after) != broken.foo_uid:
            return False
        if broken.kind in ("delete", "delete-while-down"):
            return write.verb == "create" or objects.generation(after) == 1
        if broken.kind == "scale" and objects.uid(after) != broken.deployment_uid:
            return False  # another Deployment of that name
        wanted = self._wanted(broken, write)
        return objects.name(after) == wanted.get("deploymentName") and _replicas(
            after
        ) == wanted.get("replicas", 1)

    def _wanted(self, broken: Break, at: Exchange) -> dict:
        """The spec of the Foo concerned, as it was when ``at`` began."""
        foo = self.timeline.truth(at).get("foos", broken.foo, broken.namespace)
        return (foo or {}).get("spec") or {}

    def _lines(self, *records: Exchange) -> list[str]:
        return [self.timeline.line(record) for record in records]

    def require(self, kind: Kind) -> tuple[Break, Exchange]:
        """A break of that kind and its repair; Fail with the best reason there is."""
        found = self.breaks(kind)
        if not found:
            raise self._no_break(kind)
        failure: Fail | None = None
        for broken in found:
            try:
                return broken, self.repair(broken)
            except Fail as fail:
                failure = failure or fail
        assert failure is not None
        raise failure

    def _no_break(self, kind: Kind) -> Fail:
        happened, wanted = DESCRIBED[kind]
        down = kind.endswith("while-down")
        if down and not self.was_down:
            return Fail(
                f"In the recording {happened}, and then it is started again.",
                "The controller runs from beginning to end: it was never stopped and started again.",
                why="An event that came while nobody listened is gone for good. That a controller "
                "recovers from that is what this lab is about.",
                next="Type `stop`, break something, and `start` again.",
                diagnosis="controller-never-down",
            )
        other = self._at_the_wrong_time(kind)
        return Fail(
            f"In the recording {happened}, and {wanted}.",
            f"It happens only while the controller {'runs' if down else 'is down'}."
            if other
            else "It doesn't happen in it.",
            next=_HOW[kind],
            diagnosis=f"break-missing-{kind}",
            evidence=self._lines(*(broken.write for broken in other[:2])),
        )

    def _at_the_wrong_time(self, kind: Kind) -> list[Break]:
        find: Callable[[Kind, Exchange], Break | None] = {
            "scale": self._scale,
            "edit-while-down": self._edit,
        }.get(kind, self._delete)
        writes = self.timeline.writes(applied=True).where(self.by_person)
        return [found for write in writes if (found := find(kind, write)) is not None]


_HOW: dict[Kind, str] = {
    "scale": "`kubectl scale deployment NAME --replicas=5`, with the controller running.",
    "delete": "`kubectl delete deployment NAME`, with the controller running.",
    "delete-while-down": "`stop`, then `kubectl delete deployment NAME`, then `start`.",
    "edit-while-down": "`stop`, then `kubectl patch foo NAME --type=merge "
    '-p \'{"spec":{"replicas":3}}\'`, then `start`.',
}


def _replicas(obj: object) -> int | None:
    """``spec.replicas`` of a Deployment or a Scale; a Scale to zero does not mention it."""
    if not objects.is_object(obj):
        return None
    assert isinstance(obj, dict)
    spec = obj.get("spec") or {}
    return spec.get("replicas", 0 if obj.get("kind") == "Scale" else 1)
