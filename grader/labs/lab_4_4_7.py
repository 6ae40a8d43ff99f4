"""4.4.7 The garbage collector matches on UID, and it checks before it deletes.

Predicted, read out of the audit log (:mod:`grader.labs.lab_4_4_7_looks`), cited, and used: a
dependent is to be rescued between its owner's deletion and the collector's look.
"""

from __future__ import annotations

import json

import pytest

from grader.cluster.interface import Capability
from grader.evidence import answers as written
from grader.evidence import places
from grader.labs import check, collector
from grader.labs.lab_4_4_7_looks import (
    BOTH,
    COLLECTED,
    DEPENDENT,
    FIVE,
    GET_ALONE,
    GET_AND_DELETE,
    NEITHER,
    NONE,
    NOTHING,
    ONE,
    OWNER,
    STAYS,
    THE_UID,
    THE_VERSION,
    Looks,
)
from grader.runner.submission import Submission
from grader.verdict import Fail

#: One check needs no other to have been run.
CHECKS_STAND_ALONE = True
OFFERED = {
    "before the delete of a dependent, it gets": (DEPENDENT, OWNER, BOTH, NOTHING),
    "five dependents of an owner that went, gets of the owner": (NONE, ONE, FIVE),
    "a later dependent of the same owner, gets of the owner": (NONE, ONE),
    "the delete names": (THE_UID, THE_VERSION, BOTH, NEITHER),
    "owner made anew under its name, the old one's dependent": (COLLECTED, STAYS),
    "reference taken off in time, the dependent": (COLLECTED, STAYS),
    "reference taken off in time, requests for it": (NONE, GET_ALONE, GET_AND_DELETE),
}
HEADINGS = ("It looks at the live object", "It matches on the UID", "It remembers who was absent")
PATCH = "rescue.json"
#: Bytes. A patch of a reference or two has a few hundred.
_LONGEST = 64 * 1024
WHY = (
    "Between the owner's deletion and the collector's look there is a moment in which an object "
    "can still be given another owner, or none. Adoption lives on it."
)


@pytest.fixture(scope="module")
def answers(submission):
    return written.parse(submission.text("answers.md"))


@pytest.fixture(scope="module")
def predictions(answers) -> dict[str, str]:
    return collector.predictions(answers, OFFERED)


@pytest.fixture(scope="module")
def patch(submission) -> str:
    return read_patch(submission)


@pytest.fixture(scope="module")
def looks(api, cluster, new_namespace, rng):
    cluster.require(Capability.PAUSE)
    with collector.Stage(api, cluster, new_namespace, rng) as stage:
        yield Looks(stage)


def read_patch(submission: Submission) -> str:
    """The learner's merge patch; it is JSON, and an object, as it stands."""
    text = submission.text(PATCH, limit=_LONGEST)
    expected = f"{PATCH} is a merge patch: one JSON object."
    try:
        body = json.loads(text)
    except ValueError as error:
        raise Fail(
            expected,
            f"It cannot be read as JSON: {error}.",
            next=f"`python3 -m json.tool {PATCH}` in the lab's folder says the same.",
            diagnosis="not-json",
        ) from None
    except RecursionError:
        body = None
    if not isinstance(body, dict):
        raise Fail(
            expected,
            "It is JSON, but no object.",
            next='It begins with `{"metadata": …`.',
            diagnosis="not-an-object",
        )
    return text


@check(
    "4.4.7/predicted",
    title="Seven outcomes are predicted, right or wrong, before the audit log shows them",
    points=3,
    evidence="written",
)
def check_predicted(predictions, looks, observe):
    collector.beside(predictions, looks.measured(), observe)
    observe("it looks before it deletes", looks.picture())


@check(
    "4.4.7/rescue",
    title="A patch rescues a dependent whose owner is gone, before the collector looks",
    points=3,
    evidence="live",
)
def check_rescue(patch, looks):
    rescue = looks.rescued(patch)
    expected = "After the patch the collector looks at the dependent, and lets it be."
    if rescue.refused:
        raise Fail(
            "The API server takes the patch.",
            f"It refused it: {rescue.refused}",
            why="A dependent that could not be patched is deleted with its owner.",
            next="A reference has apiVersion, kind, name and uid, and none of them may be empty.",
            diagnosis="patch-refused",
        )
    if rescue.being_deleted:
        raise Fail(
            expected,
            f"It has a deletionTimestamp, and is there only for its finalizers "
            f"{rescue.finalizers}.",
            why="A finalizer puts the end off; there is no way back from a deletionTimestamp.",
            next="Not how the deletion can be held up, but why the collector wants it: which "
            "field does it decide by?",
            diagnosis="only-held-up",
            evidence=rescue.lines or (),
        )
    if rescue.unknown:
        raise Fail(
            expected,
            f"It is there, and {rescue.unknown}.",
            why="What the collector cannot look up it does not delete, and does not let be either: "
            "it tries again, for ever.",
            next="Name an owner that is there, or none.",
            diagnosis="owner-nobody-knows",
            evidence=rescue.lines or (),
        )
    if rescue.gone:
        raise Fail(
            expected,
            "It is gone: the collector looked, and deleted it."
            if rescue.changed
            else "It is gone: the patch changed nothing of the dependent.",
            why=WHY,
            next="The collector reads the live object's owner references, and looks each owner up "
            "by name and UID. What has it to find there?",
            diagnosis="still-collected" if rescue.changed else "patch-changes-nothing",
            evidence=rescue.lines or (),
        )


@check(
    "4.4.7/citations",
    title="Three lines of the collector are cited: the look, the UID, the owner known to be absent",
    points=3,
    evidence="claim",
)
def check_citations(answers):
    for heading in HEADINGS:
        places.of("4.4.7", heading).require(answers.require_section(heading))
