"""The same delete in all its meanings, made and looked at: what 4.4.4 predicts and wishes for.

Whether an owner waits is told from what the collector has acted on, and whether something
came before something else from the order in which the API server let them go.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from grader.labs.collector import Stage, being_deleted, owned_by
from grader.labs.collector_lanes import COLLECTORS, changes, lane, owners
from grader.report import pictures
from grader.witness import objects

POLICIES = ("Foreground", "Background", "Orphan")
FIRST, LAST, ALONE = "owner first", "owner last", "owner alone"
KEPT, TAKEN_OFF = "kept", "taken off"
WAITS, GOES = "waits", "goes"
NONE = "none"

#: As lanes and messages name them: the third is the second's own dependent.
GENERATIONS = ("owner", "dependent", "grandchild")


@dataclass
class Deletion:
    """One delete of an owner that has a dependent, which has one of its own."""

    policy: str
    objs: dict[str, dict]
    went: list[str] = field(default_factory=list)

    @property
    def order(self) -> str:
        if self.went == ["owner"]:
            return ALONE
        return FIRST if self.went[0] == "owner" else LAST if self.went[-1] == "owner" else "between"


class Deletes:
    """Deletes on a stage, one after the other."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.deletions: dict[str, Deletion] = {}

    def chain(self, policy: str | None) -> Deletion:
        """Delete the oldest of three generations; return when all that can go has gone."""
        stage = self.stage
        owner = stage.make("owner")
        dependent = stage.make("dependent", [owned_by(owner, block=True)])
        last = stage.make("grandchild", [owned_by(dependent, block=True)])
        deletion = Deletion(
            policy or "", dict(zip(GENERATIONS, (owner, dependent, last), strict=True))
        )
        # The collector has to know them all: an owner whose dependents it has not seen yet
        # has none to wait for.
        stage.settle()
        stage.delete(owner, policy)
        stage.gone(owner)
        if not self.let_go(dependent):
            stage.gone(last)
        deletion.went = stage.history.left(deletion.objs)
        self.deletions[policy or "no policy"] = deletion
        return deletion

    def let_go(self, dependent: dict) -> bool:
        """Wait until a dependent is gone, or has no owner any more; whether it is the latter."""
        history = self.stage.history

        def decided() -> str:
            if history.gone(dependent):
                return "gone"
            states = history.of(dependent)
            return "let go" if states and not owners(states[-1]) else ""

        what = f"deletes {objects.name(dependent)}, or takes its owner reference off"
        return history.until(decided, what) == "let go"

    def finalizer(self, policy: str, generation: str) -> str:
        """The collector's finalizer that it carried meanwhile, or ``none``."""
        states = self.stage.history.of(self.deletions[policy].objs[generation])
        carried = {f for s in states for f in s.finalizers if f in COLLECTORS}
        return " and ".join(sorted(carried)) or NONE

    def reference(self, policy: str) -> str:
        """What became of the dependent's owner reference."""
        states = self.stage.history.of(self.deletions[policy].objs["dependent"])
        return KEPT if owners(states[-1]) else TAKEN_OFF

    def blocking(self, flags: dict[str, bool]) -> Blocked:
        """Delete in the foreground an owner whose dependents, held back, block or not by ``flags``."""
        stage = self.stage
        owner = stage.make("owner")
        held = {
            name: stage.make(name, [owned_by(owner, block=block)], held=True)
            for name, block in flags.items()
        }
        stage.settle()
        stage.delete(owner, "Foreground")
        for obj in held.values():
            stage.leaving(obj)
        return Blocked(stage, owner, held)

    def measured(self) -> dict[str, str]:
        """The word that is right for each prediction."""
        orders = {policy: self.chain(policy).order for policy in POLICIES}
        unnamed = self.chain(None).order
        blocked = self.blocking({"blocking": True, "not-blocking": False})
        waited = not blocked.owner_goes()
        blocked.release("blocking")
        went = blocked.owner_goes()
        self.blocked = blocked
        return {
            **{f"{policy}, order": order for policy, order in orders.items()},
            "no policy named, order": unnamed,
            **{
                f"{policy}, finalizer on the owner": self.finalizer(policy, "owner")
                for policy in POLICIES
            },
            "Foreground, finalizer on the dependent": self.finalizer("Foreground", "dependent"),
            "Orphan, owner reference of the dependent": self.reference("Orphan"),
            "blocking dependent held back, the owner": WAITS if waited else GOES,
            "other dependent held back, the owner": GOES if went else WAITS,
        }

    def picture(self) -> dict[str, str]:
        """The three policies over one clock: milliseconds since each one's delete."""
        rows, stories = [], []
        zeros = {policy: self._asked_for(policy) for policy in POLICIES}
        last = max(
            at - zeros[policy]
            for policy in POLICIES
            for obj in self.deletions[policy].objs.values()
            for at, _ in changes(self.stage, obj)
        )
        end = last * 1000 * 1.15
        for policy in POLICIES:
            deletion = self.deletions[policy]
            for generation, obj in deletion.objs.items():
                name = f"{policy}: {generation}"
                how = {"zero": zeros[policy], "start": -end * 0.12, "end": end}
                rows.append(lane(self.stage, name, obj, **how))
            stories.append(f"{policy}: {', then '.join(f'the {w}' for w in deletion.went)} went")
        return pictures.lanes(
            "The same delete, three times",
            f"Milliseconds since each delete, by the API server's clock. {'. '.join(stories)}.",
            rows,
            unit="milliseconds since the delete",
        )

    def _asked_for(self, policy: str) -> float:
        """When the owner's deletion began, seconds since the epoch."""
        owner = self.deletions[policy].objs["owner"]
        return next(at for at, state in changes(self.stage, owner) if being_deleted(state))


@dataclass
class Blocked:
    """An owner in the foreground, and dependents of it that are held back."""

    stage: Stage
    owner: dict
    held: dict[str, dict]

    def owner_goes(self) -> bool:
        return self.stage.goes(self.owner)

    def release(self, name: str) -> None:
        self.stage.release(self.held[name])
        self.stage.gone(self.held[name])

    def lines(self) -> list[str]:
        """Who is there still, and with which finalizers."""
        said = []
        for name, obj in {"owner": self.owner, **self.held}.items():
            states = self.stage.history.of(obj)
            last = states[-1]
            there = "gone" if last.type == "DELETED" else f"there, finalizers {last.finalizers}"
            said.append(f"{name}: {there}")
        return said
