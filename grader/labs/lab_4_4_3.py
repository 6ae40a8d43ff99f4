"""4.4.3 Three things an owner reference will not do for you.

An owner in another namespace, an owner by the wrong UID, a thing outside of the cluster:
predicted, made, and then mended as the learner says (:mod:`grader.labs.lab_4_4_3_owners`).
"""

from __future__ import annotations

import pytest

from grader.evidence import answers as written
from grader.evidence import questions
from grader.evidence.answers import fold
from grader.labs import check, collector
from grader.labs.lab_4_4_3_owners import (
    ACCEPTED,
    COLLECTED,
    ELSEWHERE,
    KEPT,
    ON_DEPENDENT,
    ON_OWNER,
    REFUSED,
    REMEDIES,
    STAYS,
    TAKEN_OFF,
    Owners,
    Trial,
)
from grader.verdict import Fail

#: One check needs no other to have been run.
CHECKS_STAND_ALONE = True
OFFERED = {
    "owner in another namespace, the dependent": (COLLECTED, STAYS),
    "owner in another namespace, the event is on": (ON_DEPENDENT, ON_OWNER),
    "right name and wrong UID, the dependent": (COLLECTED, STAYS),
    "one right reference and one wrong, the dependent": (COLLECTED, STAYS),
    "one right reference and one wrong, the wrong one": (KEPT, TAKEN_OFF),
    "thing outside, once its owner is gone": (COLLECTED, STAYS),
    "two references with controller true, the create": (REFUSED, ACCEPTED),
}
REASON, TYPE = "reason", "type"
TYPES = ("Normal", "Warning")


@pytest.fixture(scope="module")
def answers(submission):
    return written.parse(submission.text("answers.md"))


@pytest.fixture(scope="module")
def predictions(answers) -> dict[str, str]:
    return collector.predictions(answers, OFFERED)


@pytest.fixture(scope="module")
def event(answers) -> dict[str, str]:
    said = collector.predictions(answers, {TYPE: TYPES}, "The event")
    return {REASON: answers.require_prediction(REASON, section="The event").value, **said}


@pytest.fixture(scope="module")
def remedies(answers) -> dict[str, str]:
    return collector.predictions(answers, REMEDIES, "Remedies")


@pytest.fixture(scope="module")
def owners(api, cluster, new_namespace, rng, tmp_path_factory):
    with collector.Stage(api, cluster, new_namespace, rng) as stage:
        yield Owners(stage, tmp_path_factory.mktemp("outside"))


@check(
    "4.4.3/predicted",
    title="Seven outcomes are predicted, right or wrong, before the collector shows them",
    points=3,
    evidence="written",
)
def check_predicted(predictions, owners, observe):
    collector.beside(predictions, owners.measured(), observe)
    observe("owners and dependents", owners.picture())


@check(
    "4.4.3/event",
    title="The event that the collector leaves is named as it reads",
    points=2,
    evidence="live",
)
def check_event(event, owners, observe):
    if not owners.event:
        owners.elsewhere()
    made = owners.event
    for what in (REASON, TYPE):
        if _bare(event[what]) != fold(made[what]):
            raise Fail(
                f"The {what} of the collector's event stands in answers.md as it reads.",
                f"answers.md says «{event[what]}», and the event has another one.",
                why="It is the only thing that says why the dependent vanished. The dependent "
                "itself is gone, and events are kept for an hour.",
                next="Make one: a dependent in one namespace, its owner in another. Then "
                "`phase4 kubectl get events` in the dependent's namespace.",
                diagnosis=f"another-{what}",
            )
    # Not before: it is the answer.
    observe("the collector's event", f"{made['type']} {made['reason']}: {made['message']}")


def _bare(said: str) -> str:
    """What was said without words that only introduce it: «Warning, reason X» is X."""
    words = fold(said).split()
    around = {"the", "reason", "type", "is", "it", "event", "a"}
    if len(words) > 1:
        around |= {fold(each) for each in TYPES}
    return " ".join(word for word in words if word not in around)


@check(
    "4.4.3/remedies",
    title="For each of the three, something that does keep a thing as long as its owner",
    points=4,
    evidence="live",
)
def check_remedies(remedies, owners):
    for situation, remedy in remedies.items():
        trial = owners.tried(situation, remedy)
        if trial.early or trial.left:
            _refuse(situation, remedy, trial)


def _refuse(situation: str, remedy: str, trial: Trial) -> None:
    if trial.early:
        seen = "The collector deleted it while its owner was there."
        next = (
            "Where does the collector look for an owner, and by what does it know it?"
            if situation == ELSEWHERE
            else "Which part of a reference changes when an owner is made anew?"
        )
    else:
        seen = "It is still there after its owner has gone, and nobody will remove it."
        next = "Who knows that the thing exists, at the moment when the owner is deleted?"
    raise Fail(
        f"{situation[0].upper()}{situation[1:]} is there as long as its owner, and no longer.",
        f"The remedy was «{remedy}». {seen}",
        why="Too early is data lost; too late is a bill for something that nobody uses.",
        next=next,
        diagnosis="collected-while-the-owner-lives" if trial.early else "left-behind",
        evidence=trial.lines,
    )


@check(
    "4.4.3/controller",
    title="Why exactly one owner may be the controller",
    points=2,
    evidence="written",
)
def check_controller(answers):
    question = questions.of("4.4.3/controller")
    question.require(answers.require_section(question.heading))
