"""What an owner reference does not do, made for real: what 4.4.3 predicts and mends.

Three situations. In each there is a thing that should live as long as its owner and no
longer; a remedy is right where it does, and the collector (or the one who plays the
operator here) is let do its work before anybody looks.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from grader.cluster.api import ApiError
from grader.labs.collector import COLLECTOR, Stage, owned_by, reference
from grader.labs.collector_lanes import changes, lane, owners
from grader.report import pictures
from grader.witness import objects

COLLECTED, STAYS = "collected", "stays"
ON_DEPENDENT, ON_OWNER = "the dependent", "the owner"
KEPT, TAKEN_OFF = "kept", "taken off"
REFUSED, ACCEPTED = "refused", "accepted"

ELSEWHERE, ANEW, OUTSIDE = (
    "a dependent in another namespace",
    "a dependent of an owner that was made anew",
    "a thing outside of the cluster",
)
OWNER, CLUSTER_WIDE, FINALIZER = "owner reference", "cluster-scoped owner", "finalizer"
SAVED, FRESH, NO = "saved reference", "fresh reference", "no reference"
#: What is offered for each situation.
REMEDIES = {
    ELSEWHERE: (OWNER, CLUSTER_WIDE, FINALIZER),
    ANEW: (SAVED, FRESH, NO),
    OUTSIDE: (OWNER, CLUSTER_WIDE, FINALIZER),
}


@dataclass
class Trial:
    """What a remedy came to: was the thing there while its owner was, and gone afterwards?"""

    early: bool = False
    left: bool = False
    lines: list[str] = field(default_factory=list)


@dataclass
class _Dependent:
    """A thing that is an object of the cluster."""

    stage: Stage
    obj: dict

    def gone(self) -> bool:
        return self.stage.history.gone(self.obj) is not None

    def remove(self) -> None:
        self.stage.delete(self.obj, "Background")
        self.stage.gone(self.obj)

    def lines(self) -> list[str]:
        return self.stage.lines(self.obj)


@dataclass
class _Outside:
    """A thing that is none: a file, for a DNS record, a disk, a load balancer."""

    file: Path

    def gone(self) -> bool:
        return not self.file.exists()

    def remove(self) -> None:
        self.file.unlink()

    def lines(self) -> list[str]:
        there = "gone" if self.gone() else "there"
        return [f"{self.file.name}, a file and no object of the API server: {there}"]


class Owners:
    """The situations on a stage, and a folder outside of the cluster."""

    def __init__(self, stage: Stage, outside: Path) -> None:
        self.stage, self.outside = stage, outside
        self.other = stage.new_namespace()
        self.event: dict = {}
        self._shown: dict[str, dict] = {}

    # -- predicted ------------------------------------------------------------------

    def measured(self) -> dict[str, str]:
        """The word that is right for each prediction."""
        elsewhere, event_on = self.elsewhere()
        owner = self.stage.make("owner")
        gone = str(uuid4())
        wrong = self.stage.make("wrong-uid", [reference(objects.name(owner), gone)])
        both = self.stage.make(
            "both", [owned_by(owner), reference(objects.name(owner), str(uuid4()))]
        )
        right = self.stage.make("right-uid", [owned_by(owner)])
        self._shown |= {"right UID": right, "wrong UID": wrong, "right and wrong": both}
        collected = {name: self.stage.goes(obj) for name, obj in self._shown.items()}
        kept = len(owners(self.stage.history.of(both)[-1])) == 2
        thing = self._thing()
        self._shown["owner"] = owner
        self.stage.delete(owner, "Background")
        self.stage.gone(right)
        self.stage.settle()
        return {
            "owner in another namespace, the dependent": elsewhere,
            "owner in another namespace, the event is on": event_on,
            "right name and wrong UID, the dependent": _word(collected["wrong UID"]),
            "one right reference and one wrong, the dependent": _word(collected["right and wrong"]),
            "one right reference and one wrong, the wrong one": KEPT if kept else TAKEN_OFF,
            "thing outside, once its owner is gone": STAYS if thing.exists() else COLLECTED,
            "two references with controller true, the create": self._two_controllers(),
        }

    def elsewhere(self) -> tuple[str, str]:
        """An owner in another namespace, alive: what becomes of its dependent, whom the event is on."""
        owner = self.stage.make("owner-elsewhere")
        dependent = self.stage.make("dependent", [owned_by(owner)], namespace=self.other)
        self._shown |= {"owner elsewhere": owner, "dependent elsewhere": dependent}
        went = self.stage.goes(dependent)
        self.event = self._event_about(owner, dependent)
        about = self.event["involvedObject"]["uid"]
        return _word(went), ON_DEPENDENT if about == objects.uid(dependent) else ON_OWNER

    def _event_about(self, *objs: dict) -> dict:
        """The event that the collector made about one of them, as the audit log has it."""
        uids = {objects.uid(o) for o in objs}

        def fits(exchange) -> bool:
            body = exchange.request_body
            return isinstance(body, dict) and (body.get("involvedObject") or {}).get("uid") in uids

        found = self.stage.in_log(
            lambda: self.stage.log.exchanges(
                by=COLLECTOR, verb="create", resource="events", where=fits
            ),
            "leaves an event about an owner in another namespace",
        )
        return found.last.request_body  # type: ignore[union-attr,return-value]

    def _two_controllers(self) -> str:
        one, other = self.stage.make("one"), self.stage.make("other")
        refs = [owned_by(one, controller=True), owned_by(other, controller=True)]
        try:
            self.stage.make("two-controllers", refs)
        except ApiError as error:
            if error.status != 422:
                raise
            return REFUSED
        return ACCEPTED

    def picture(self) -> dict[str, str]:
        """Owners and dependents over one clock."""
        shown = {
            name: self._shown[name]
            for name in (
                "owner elsewhere",
                "dependent elsewhere",
                "owner",
                "wrong UID",
                "right and wrong",
                "right UID",
            )
        }
        times = [at for obj in shown.values() for at, _ in changes(self.stage, obj)]
        zero, end = min(times), (max(times) - min(times)) * 1000 * 1.1
        return pictures.lanes(
            "Owners and dependents",
            "Milliseconds since the first owner was made, by the API server's clock: what was "
            "there, and what the collector took away while its owner was there still.",
            [
                lane(self.stage, name, obj, zero=zero, start=0.0, end=end)
                for name, obj in shown.items()
            ],
            unit="milliseconds",
        )

    # -- mended ---------------------------------------------------------------------

    def tried(self, situation: str, remedy: str) -> Trial:
        """Carry a remedy out: make owner and thing, look, delete the owner, look again."""
        if situation == ANEW:
            return self._anew(remedy)
        with self._owner(remedy) as (owner, ref, delete):
            thing: _Dependent | _Outside
            if situation == ELSEWHERE:
                refs = [] if remedy == FINALIZER else [ref]
                thing = _Dependent(self.stage, self.stage.make("thing", refs, namespace=self.other))
            else:
                thing = _Outside(self._thing())
            # Beside its owner, and as it should be: when it goes, the collector knows.
            sibling = self.stage.make("sibling", [ref])
            self.stage.settle()
            trial = Trial(early=thing.gone())
            if not trial.early:
                delete()
                if remedy == FINALIZER:
                    # The operator's part: clean up, then let the owner go.
                    self.stage.leaving(owner)
                    thing.remove()
                    self.stage.release(owner)
                self.stage.gone(sibling)
                self.stage.settle()
                trial.left = not thing.gone()
            trial.lines = thing.lines()
        return trial

    def _anew(self, remedy: str) -> Trial:
        """An owner is deleted and made again; a dependent is then applied as it was saved."""
        old = self.stage.make("owner")
        saved = owned_by(old)
        self.stage.delete(old, "Background")
        self.stage.gone(old)
        owner = self.stage.make(objects.name(old), exact=True)
        refs = {SAVED: [saved], FRESH: [owned_by(owner)], NO: []}[remedy]
        restored = _Dependent(self.stage, self.stage.make("restored", refs))
        sibling = self.stage.make("sibling", [owned_by(owner)])
        self.stage.settle()
        trial = Trial(early=restored.gone())
        if not trial.early:
            self.stage.delete(owner, "Background")
            self.stage.gone(sibling)
            self.stage.settle()
            trial.left = not restored.gone()
        trial.lines = restored.lines()
        return trial

    @contextmanager
    def _owner(self, remedy: str) -> Iterator[tuple[dict, dict, Callable[[], object]]]:
        """An owner as the remedy wants it, a reference to it, and its deletion."""
        if remedy != CLUSTER_WIDE:
            owner = self.stage.make("owner", held=remedy == FINALIZER)
            yield owner, owned_by(owner), lambda: self.stage.delete(owner, "Background")
            return
        # No kind of the control plane's does less than a role that allows nothing.
        api = self.stage.api
        role = api.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": f"owner-{secrets.token_hex(3)}"},
                "rules": [],
            }
        )
        name = objects.name(role)
        ref = reference(
            name, objects.uid(role), kind="ClusterRole", api_version="rbac.authorization.k8s.io/v1"
        )
        resource = "clusterroles.rbac.authorization.k8s.io"
        try:
            yield role, ref, lambda: api.delete(resource, name, propagation="Background")
        finally:
            if api.find(resource, name):
                api.delete(resource, name)

    def _thing(self) -> Path:
        thing = self.outside / f"dns-record-{secrets.token_hex(4)}"
        thing.write_text("a record that no API server knows of\n", encoding="utf-8")
        return thing


def _word(went: bool) -> str:
    return COLLECTED if went else STAYS
