"""4.4.4 The same delete, three times, with three different meanings.

Predictions first, then the deletes, for real, and what came of them beside what was
predicted (:mod:`grader.labs.lab_4_4_4_deletes`). What is judged is whether the learner can
ask for what they want: each wish is carried out as they asked for it.
"""

from __future__ import annotations

import pytest

from grader.evidence import answers as written
from grader.evidence import questions
from grader.labs import check, collector
from grader.labs.collector_lanes import COLLECTORS
from grader.labs.lab_4_4_4_deletes import (
    ALONE,
    FIRST,
    GOES,
    KEPT,
    LAST,
    NONE,
    POLICIES,
    TAKEN_OFF,
    WAITS,
    Deletes,
)
from grader.verdict import Fail

#: One check needs no other to have been run.
CHECKS_STAND_ALONE = True
ORDERS = (FIRST, LAST, ALONE)
FINALIZERS = (*COLLECTORS, NONE)
OFFERED = {
    **{f"{policy}, order": ORDERS for policy in POLICIES},
    "no policy named, order": ORDERS,
    **{f"{policy}, finalizer on the owner": FINALIZERS for policy in POLICIES},
    "Foreground, finalizer on the dependent": FINALIZERS,
    "Orphan, owner reference of the dependent": (KEPT, TAKEN_OFF),
    "blocking dependent held back, the owner": (WAITS, GOES),
    "other dependent held back, the owner": (WAITS, GOES),
}
OWNER_LAST, AT_ONCE, OUTLIVE = (
    "the owner goes last",
    "the owner goes at once, the dependents follow",
    "the dependents outlive the owner",
)
WISHES = (OWNER_LAST, AT_ONCE, OUTLIVE)
BACKUP, CACHE = "backup", "cache"


@pytest.fixture(scope="module")
def answers(submission):
    return written.parse(submission.text("answers.md"))


@pytest.fixture(scope="module")
def predictions(answers) -> dict[str, str]:
    return collector.predictions(answers, OFFERED)


@pytest.fixture(scope="module")
def wishes(answers) -> dict[str, str]:
    return collector.predictions(answers, dict.fromkeys(WISHES, POLICIES), "Wishes")


@pytest.fixture(scope="module")
def flags(answers) -> dict[str, str]:
    return collector.predictions(
        answers, dict.fromkeys((BACKUP, CACHE), ("true", "false")), "Blocking"
    )


@pytest.fixture(scope="module")
def deletes(api, cluster, new_namespace, rng):
    with collector.Stage(api, cluster, new_namespace, rng) as stage:
        yield Deletes(stage)


@check(
    "4.4.4/predicted",
    title="Eleven outcomes are predicted, right or wrong, before the collector shows them",
    points=3,
    evidence="written",
)
def check_predicted(predictions, deletes, observe):
    measured = deletes.measured()
    collector.beside(predictions, measured, observe)
    observe("the same delete, three times", deletes.picture())


@check(
    "4.4.4/wishes",
    title="Three wishes, each with the propagation policy that grants it",
    points=3,
    evidence="live",
)
def check_wishes(wishes, deletes):
    _require_owner_last(deletes, wishes[OWNER_LAST])
    _require_at_once(deletes, wishes[AT_ONCE])
    _require_outlived(deletes, wishes[OUTLIVE])


def _require_owner_last(deletes: Deletes, policy: str) -> None:
    deletion = deletes.chain(policy)
    if deletion.order == LAST:
        return
    _refuse(
        OWNER_LAST,
        policy,
        f"The owner went {'first' if deletion.order == FIRST else 'alone'}; what went, in order: "
        f"{', '.join(deletion.went)}.",
        diagnosis="owner-went-first" if deletion.order == FIRST else "dependents-left-behind",
        evidence=deletes.stage.lines(*deletion.objs.values()),
    )


def _require_at_once(deletes: Deletes, policy: str) -> None:
    stage = deletes.stage
    owner = stage.make("owner")
    slow = stage.make("slow", [collector.owned_by(owner, block=True)], held=True)
    stage.settle()
    stage.delete(owner, policy)
    if not stage.goes(owner):
        _refuse(
            AT_ONCE,
            policy,
            "One dependent takes long to go, and the owner is still there with the finalizers "
            f"{stage.history.of(owner)[-1].finalizers}.",
            diagnosis="owner-waits",
            evidence=stage.lines(owner, slow),
        )
    stage.history.until(
        lambda: any(s.type != "ADDED" for s in stage.history.of(slow)),
        "deletes the dependent, or takes its owner reference off",
    )
    if not any(collector.being_deleted(s) for s in stage.history.of(slow)):
        _refuse(
            AT_ONCE,
            policy,
            "The owner went, and its dependent is there without an owner: nobody will delete it.",
            diagnosis="dependents-left-behind",
            evidence=stage.lines(owner, slow),
        )


def _require_outlived(deletes: Deletes, policy: str) -> None:
    deletion = deletes.chain(policy)
    if deletion.order == ALONE:
        return
    _refuse(
        OUTLIVE,
        policy,
        f"What went, in order: {', '.join(deletion.went)}.",
        diagnosis="dependents-collected",
        evidence=deletes.stage.lines(*deletion.objs.values()),
    )


def _refuse(wish: str, policy: str, seen: str, *, diagnosis: str, evidence: list[str]) -> None:
    raise Fail(
        f"«{wish}» is granted by the policy that you chose for it.",
        f"It was deleted with {policy}. {seen}",
        why="Whoever deletes decides, once, in one word of the request. There is no asking again: "
        "the owner that would say what belonged to it is gone.",
        next="Look at the three rows of the report's picture: which one shows what is wished for?",
        diagnosis=diagnosis,
        evidence=evidence,
    )


@check(
    "4.4.4/blocking",
    title="The owner waits for the backup, and for the cache it does not",
    points=2,
    evidence="live",
)
def check_blocking(flags, deletes):
    blocked = deletes.blocking({name: flag == "true" for name, flag in flags.items()})
    asked = f"backup: {flags[BACKUP]}, cache: {flags[CACHE]}"
    if blocked.owner_goes():
        raise Fail(
            "The owner is there for as long as the backup is.",
            f"With {asked} it went while the backup was still being cleaned up.",
            why="An owner that is gone cannot tell anybody that its backup never ended.",
            next="Which field of an owner reference makes the owner wait, under Foreground?",
            diagnosis="nothing-blocks",
            evidence=blocked.lines(),
        )
    blocked.release(BACKUP)
    if not blocked.owner_goes():
        raise Fail(
            "The owner goes once the backup is gone, however long the cache takes.",
            f"With {asked} it is still there.",
            why="A dependent that blocks and never goes is an owner that never goes: «stuck in "
            "Terminating», and the reason is in another object.",
            next="Who else still has a reference to the owner, and what does it say?",
            diagnosis="everything-blocks",
            evidence=blocked.lines(),
        )


@check(
    "4.4.4/terminating",
    title="What an owner in the foreground waits for, and who lets it go",
    points=2,
    evidence="written",
)
def check_terminating(answers):
    question = questions.of("4.4.4/terminating")
    question.require(answers.require_section(question.heading))
