"""What the collector asks before it deletes: what 4.4.7 predicts, and the dependent to be rescued.

Where something has to happen before the collector looks, kube-controller-manager is halted
meanwhile: the order is then ours, whatever the machine's pace.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from string import Template

from grader.cluster.api import ApiError
from grader.labs.collector import RESOURCE, Stage, State, owned_by
from grader.labs.collector_lanes import changes, lane, owners
from grader.report import pictures
from grader.report.pictures import Lane, Moment
from grader.wire.records import Exchange
from grader.witness import objects
from grader.witness.trace import begin

COLLECTED, STAYS = "collected", "stays"
DEPENDENT, OWNER, BOTH, NOTHING = "the dependent", "the owner", "both", "nothing"
THE_UID, THE_VERSION, NEITHER = "the UID", "the resourceVersion", "neither"
NONE, ONE, FIVE = "none", "one", "five"
GET_ALONE, GET_AND_DELETE = "a get", "a get and a delete"
MANY = 5
_NUMBERS = {0: NONE, 1: ONE, MANY: FIVE}
_MANAGER = "kube-controller-manager"


@dataclass
class Rescue:
    """What a patch came to: the API server's refusal, or the dependent afterwards."""

    refused: str = ""
    gone: bool = False
    being_deleted: bool = False
    changed: bool = True
    #: What its references name that the grader has not made, as half a sentence.
    unknown: str = ""
    finalizers: list[str] | None = None
    lines: list[str] | None = None


class Looks:
    """The collector at its work, on a stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self._pictured: dict[str, dict] = {}
        self._zero = 0.0

    def measured(self) -> dict[str, str]:
        """The word that is right for each prediction."""
        return {**self._many(), **self._halted()}

    def _many(self) -> dict[str, str]:
        """Five dependents of an owner that goes, and a sixth that names it afterwards."""
        stage = self.stage
        owner = stage.make("owner")
        dependents = [stage.make("dependent", [owned_by(owner)]) for _ in range(MANY)]
        stage.settle()
        stage.delete(owner, "Background")
        deletes = [stage.logged(each) for each in dependents]
        for each in dependents:
            stage.gone(each)
        stage.settle()
        asked = self._asked_before(owner, dependents[0], deletes[0])
        for_owner = len(stage.asked(owner, verb="get"))
        late = stage.make("late", [owned_by(owner)])
        stage.gone(late)
        stage.logged(late)
        again = len(stage.asked(owner, verb="get")) - for_owner
        return {
            "before the delete of a dependent, it gets": asked,
            f"{FIVE} dependents of an owner that went, gets of the owner": _number(for_owner),
            "a later dependent of the same owner, gets of the owner": _number(again),
            "the delete names": _named(deletes[0]),
        }

    def _asked_before(self, owner: dict, dependent: dict, delete: Exchange) -> str:
        gets = [
            e for e in self.stage.asked(owner, dependent, verb="get") if begin(e) < begin(delete)
        ]
        names = {e.name for e in gets}
        words = {
            (True, True): BOTH,
            (True, False): DEPENDENT,
            (False, True): OWNER,
            (False, False): NOTHING,
        }
        return words[objects.name(dependent) in names, objects.name(owner) in names]

    def _halted(self) -> dict[str, str]:
        """An owner made anew under its name, and a dependent that lost its reference meanwhile."""
        stage = self.stage
        old = stage.make("owner")
        of_old = stage.make("dependent", [owned_by(old)])
        let_go = stage.make("let-go", [owned_by(old)])
        stage.settle()
        with stage.cluster.pause(_MANAGER):
            stage.delete(old, "Background")
            self._patch(let_go, {"metadata": {"ownerReferences": None}})
            new = stage.make(objects.name(old), exact=True)
        stage.logged(let_go, "get")
        of_old_went, let_go_went = stage.goes(of_old), stage.goes(let_go)
        if of_old_went:
            stage.logged(of_old)
        verbs = {e.verb for e in stage.asked(let_go)}
        self._pictured = {
            "old owner": old,
            "new owner": new,
            "dependent": of_old,
            "let go": let_go,
        }
        return {
            "owner made anew under its name, the old one's dependent": _word(of_old_went),
            "reference taken off in time, the dependent": _word(let_go_went),
            "reference taken off in time, requests for it": GET_AND_DELETE
            if "delete" in verbs
            else GET_ALONE
            if verbs
            else NONE,
        }

    def rescued(self, patch: str) -> Rescue:
        """Delete an owner, apply the learner's merge patch to its dependent, let the collector look.

        ``$UID`` and ``$NAME`` stand for the owner that went, ``$NEW_UID`` for the one that was
        made anew under its name, ``$OTHER_UID`` and ``$OTHER_NAME`` for one that is there all along.
        """
        stage = self.stage
        owner, other = stage.make("owner"), stage.make("other")
        dependent = stage.make("dependent", [owned_by(owner)])
        stage.settle()
        rescue = Rescue()
        try:
            with stage.cluster.pause(_MANAGER):
                stage.delete(owner, "Background")
                new = stage.make(objects.name(owner), exact=True)
                known = {
                    "UID": objects.uid(owner),
                    "NAME": objects.name(owner),
                    "NEW_UID": objects.uid(new),
                    "OTHER_UID": objects.uid(other),
                    "OTHER_NAME": objects.name(other),
                }
                body = json.loads(Template(patch).safe_substitute(known))
                try:
                    patched = self._patch(dependent, body)
                    rescue.changed = objects.resource_version(patched) != objects.resource_version(
                        dependent
                    )
                except ApiError as error:
                    rescue.refused = str(error)
            if not rescue.refused:
                rescue.gone = stage.goes(dependent)
                last = stage.history.of(dependent)[-1]
                rescue.being_deleted = objects.being_deleted(last.object) and not rescue.gone
                rescue.finalizers = last.finalizers
                if not rescue.gone and not rescue.being_deleted:
                    rescue.unknown = _unknown(last, owner, new, other)
                    if not rescue.unknown and _names_alone(last, owner):
                        # Nothing keeps it: the collector has yet to come to it.
                        stage.gone(dependent)
                        rescue.gone = True
                rescue.lines = stage.lines(dependent, owner)
        finally:
            # Whatever finalizers it was given: the namespace must be able to go.
            live = stage.api.find(RESOURCE, objects.name(dependent), stage.namespace)
            if live and live["metadata"].get("finalizers"):
                self._patch(dependent, {"metadata": {"finalizers": None}})
        return rescue

    def _patch(self, obj: dict, patch: object) -> dict:
        return self.stage.api.patch(RESOURCE, objects.name(obj), patch, objects.namespace(obj))

    def picture(self) -> dict[str, str]:
        """The halted part over one clock, with the collector's requests beneath each dependent."""
        stage, shown = self.stage, self._pictured
        old = shown["old owner"]
        zero = next(at for at, s in changes(stage, old) if s.type == "DELETED")
        asked = {name: list(stage.asked(obj)) for name, obj in shown.items() if "owner" not in name}
        times = [begin(e) for es in asked.values() for e in es]
        times += [at for obj in shown.values() for at, _ in changes(stage, obj)]
        end = (max(times) - zero) * 1000 * 1.2
        rows = []
        for name, obj in shown.items():
            rows.append(lane(stage, name, obj, zero=zero, start=-end * 0.12, end=end))
            if name in asked:
                moments = [Moment((begin(e) - zero) * 1000, e.method) for e in asked[name]]
                rows.append(Lane("asked about it", moments=moments))
        return pictures.lanes(
            "It looks before it deletes",
            "Milliseconds since the old owner was deleted, by the API server's clock. The "
            "collector was halted until the new owner was there; then it looked at both "
            "dependents, and deleted the one that still named the old owner.",
            rows,
            unit="milliseconds",
        )


def _unknown(state: State, *made: dict) -> str:
    """What an owner reference names, if it is none of the owners that the grader has made."""
    known = [owned_by(each) for each in made]
    for ref in owners(state):
        if not any(known_ref.items() <= ref.items() for known_ref in known):
            return f"names as its owner {ref['kind']} {ref['name']} with the UID {ref['uid']}"
    return ""


def _names_alone(state: State, owner: dict) -> bool:
    """Whether it has references, and all of them are to one owner."""
    uids = {ref["uid"] for ref in owners(state)}
    return uids == {objects.uid(owner)}


def _named(delete: Exchange) -> str:
    """What a delete's preconditions name."""
    body = delete.request_body if isinstance(delete.request_body, dict) else {}
    named = body.get("preconditions") or {}
    words = {
        (True, True): BOTH,
        (True, False): THE_UID,
        (False, True): THE_VERSION,
        (False, False): NEITHER,
    }
    return words["uid" in named, "resourceVersion" in named]


def _number(count: int) -> str:
    return _NUMBERS.get(count, str(count))


def _word(went: bool) -> str:
    return COLLECTED if went else STAYS
