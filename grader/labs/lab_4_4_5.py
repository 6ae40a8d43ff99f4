"""4.4.5 4.C2 — stuck in Terminating, cleared twice, once wrongly.

The drill (:mod:`grader.labs.lab_4_4_5_drill`): the operator may not delete its records.
A WebApp is cleared wrongly, and what leaked is found; one of the same name is cleared
rightly, and a third must then go by itself. What the operator does about others'
finalizers and unconfirmed deletes is the suite's to judge.
"""

from __future__ import annotations

import pytest

from grader.conformance import contract
from grader.evidence import answers as written
from grader.labs import check, suite_checks
from grader.labs import lab_4_4_5_drill as drills
from grader.report.predictions import compared
from grader.verdict import Fail, NotGraded

#: Each check has its fixtures go as far through the drill as it needs.
CHECKS_STAND_ALONE = True
GONE, STAYS = "gone", "stays"
#: What is left of what, after which clearance.
RIGHT = {
    "first WebApp after wrongly.sh": GONE,
    "its record after wrongly.sh": STAYS,
    "second WebApp after rightly.sh": GONE,
    "its record after rightly.sh": GONE,
    "the first record at the end": STAYS,
}
#: Whose finalizer it is, and why it stays; the first of each is right.
PROMISED = ("the operator", "the garbage collector", "the namespace controller", "the API server")
#: What each wrong one overlooks.
CAUSES = {
    "the delete of the record is forbidden": "",
    "the operator is not running": "It runs, and tries the delete again and again: its wire and "
    "its log show each try.",
    "the record is gone already": "`kubectl get configmaps -n dns` shows it.",
    "a Pod has not ended": "Pods of a WebApp are deleted by the garbage collector once the WebApp "
    "is gone; this finalizer does not wait for them.",
    "the WebApp has a second finalizer": "`metadata.finalizers` has one entry.",
}
SCENARIOS = ("functional/others-finalizer", "held/record-terminating", "faults/errors-on-delete")


@pytest.fixture(scope="module")
def answers(submission):
    return written.parse(submission.text("answers.md"))


@pytest.fixture(scope="module")
def predicted(answers) -> dict[str, str]:
    try:
        return {
            key: answers.require_prediction(key, section="Predictions", choices=(GONE, STAYS)).value
            for key in RIGHT
        }
    except NotGraded as outcome:
        message = outcome.message
        raise NotGraded(
            "You have predicted what is left after each clearance.",
            message.seen,
            why="Once you have seen it you can't predict it any more.",
            next=message.next,
            diagnosis="prediction-first",
        ) from None


@pytest.fixture(scope="module")
def drill(predicted, submission, run, api, namespace, phase4):
    suite_checks.prepare(api)
    with drills.drill(api, run, submission, namespace) as made:
        # Every wait in it has a limit of its own; so have those below.
        with phase4.untimed("the operator starts"):
            made.start_operator()
        yield made


@pytest.fixture(scope="module")
def first(drill, phase4):
    """The first WebApp, stuck."""
    with phase4.untimed("a WebApp gets stuck"):
        return drill.stuck("shop")


@pytest.fixture(scope="module")
def wrongly(drill, first, phase4):
    """What wrongly.sh did about it."""
    with phase4.untimed("wrongly.sh clears it"):
        return drill.cleared("wrongly.sh", "wrongly", first, drills.STEP)


@pytest.fixture(scope="module")
def second(drill, wrongly, phase4):
    """Another WebApp of the same name, stuck too."""
    if wrongly.app_left is not None:
        raise NotGraded(
            "The first WebApp is out of the way before a second one of its name is made.",
            "It is still there.",
            next="Mend wrongly.sh first.",
            diagnosis="first-still-there",
        )
    with phase4.untimed("a second WebApp gets stuck"):
        return drill.stuck("shop")


@pytest.fixture(scope="module")
def rightly(drill, second, phase4):
    """What rightly.sh did about that one."""
    with phase4.untimed("rightly.sh clears it"):
        return drill.cleared("rightly.sh", "rightly", second, drills.RETRY)


@check(
    "4.4.5/predictions",
    title="What each clearance leaves is predicted before it is seen",
    points=1,
    evidence="written",
)
def check_predictions(predicted):
    assert set(predicted) == set(RIGHT)


@check(
    "4.4.5/diagnosis",
    title="The diagnosis names the finalizer, who promised to remove it, and why it stays",
    points=2,
    evidence="written",
)
def check_diagnosis(answers):
    finalizer = answers.require_prediction("finalizer", section="Diagnosis")
    promised = answers.require_prediction("promised by", section="Diagnosis", choices=PROMISED)
    cause = answers.require_prediction("cause", section="Diagnosis", choices=tuple(CAUSES))
    look = "Look at it while it is stuck: the drill's page, 4.C2, has the commands."
    if finalizer.value.strip("` \"'") != contract.FINALIZER:
        raise Fail(
            "The diagnosis names the finalizer that holds the WebApp.",
            f"Line {finalizer.line} of answers.md says «{finalizer.value}».",
            why="Whoever has to mend it looks for that very name in the code of the controllers.",
            next="It stands in `metadata.finalizers` of the WebApp, word for word. " + look,
            diagnosis="names-another-finalizer",
        )
    if promised.value != PROMISED[0]:
        raise Fail(
            "The diagnosis says who promised to remove that finalizer.",
            f"Line {promised.line} of answers.md says {promised.value}.",
            why="A finalizer is removed by whoever put it there. Nobody else knows what has to "
            "happen first.",
            next="Who writes it into the WebApp? `./phase4 timeline` shows that write. " + look,
            diagnosis="names-another-promiser",
        )
    if (why_not := CAUSES[cause.value]) or cause.value != next(iter(CAUSES)):
        raise Fail(
            "The diagnosis says why the cleanup does not come to its end.",
            f"Line {cause.line} of answers.md says: {cause.value}. {why_not}",
            why="The finalizer is only where it shows. What has to be mended is behind it.",
            next="Which request does the operator repeat, and what is it answered? " + look,
            diagnosis="names-another-cause",
        )


@check(
    "4.4.5/wrongly",
    title="Cleared wrongly: the WebApp goes, and its record is left to nobody",
    points=2,
    evidence="live",
)
def check_wrongly(drill, wrongly, observe):
    expected = (
        "wrongly.sh makes the WebApp go without its cleanup: the finalizer is patched away, and "
        "the record stays."
    )
    if wrongly.app_left is not None:
        raise Fail(
            expected,
            f"After it the WebApp is still there, with the finalizers "
            f"{wrongly.app_left['metadata'].get('finalizers')}.",
            next="`kubectl patch` with a merge patch can set `metadata.finalizers` to null. The "
            "names are in WEBAPP and NAMESPACE.",
            diagnosis="not-cleared",
            evidence=wrongly.writes,
        )
    leaked = drill.leaked()
    if not wrongly.record_left or wrongly.stuck.record not in leaked:
        raise Fail(
            expected,
            f"The WebApp is gone, and so is {contract.DNS_NAMESPACE}/{wrongly.stuck.record}"
            + (
                f": {wrongly.record_deleted_by or 'somebody'} deleted it."
                if wrongly.record_deleted_by != "operator"
                else ": the operator could delete it all at once."
            ),
            why="This is the clearance that everybody finds first. You do it once, to see what it "
            "leaves behind.",
            next="Only take the finalizer off here; what is right belongs in rightly.sh.",
            diagnosis="nothing-leaked",
            evidence=wrongly.writes,
        )
    record = drill.record(wrongly.stuck.app)
    observe("leaked, found by the grader", f"dns/{wrongly.stuck.record}")
    observe("what it says", (record or {}).get("data") or {})


@check(
    "4.4.5/leaked",
    title="leaked.sh finds the record that leaked, and not that of a WebApp of the same name",
    points=2,
    evidence="live",
)
def check_leaked(drill, wrongly, second):
    script = drill.script("leaked.sh", "leaked", "")
    said = sorted({line.strip().rpartition("/")[2] for line in script.stdout_lines} - {""})
    right = drill.leaked()
    expected = (
        "leaked.sh prints the name of each record in dns whose WebApp is no more, a line each."
    )
    missed, wrong = sorted(set(right) - set(said)), sorted(set(said) - set(right))
    if strange := [one for one in wrong if not one.startswith("record-")]:
        raise Fail(
            expected,
            f"It printed «{strange[0][:120]}».",
            next="Print names and nothing else: `-o jsonpath`, `-o custom-columns … "
            "--no-headers`, or `-o name`.",
            diagnosis="not-a-record",
        )
    if wrong:
        there = wrong[0] in drill.records()
        raise Fail(
            expected,
            f"It printed {wrong[0][:80]}, "
            + ("the record of a WebApp that exists." if there else "and there is no such record."),
            why="A tool that finds too much is one that somebody will feed to `kubectl delete`.",
            next="A record has the UID of its WebApp in its name. Print those whose UID no WebApp "
            "has.",
            diagnosis="finds-too-much",
        )
    if missed:
        same = wrongly.stuck.record in missed
        raise Fail(
            expected,
            f"It did not print {missed[0]}."
            + (
                " A WebApp of the name that this record speaks of exists: it is another one, with "
                "another UID."
                if same
                else ""
            ),
            why="After `kubectl delete` and `apply` an object has its old name and a new UID. By "
            "the name, the old record looks as if it had an owner.",
            next="Compare UIDs: the record's name ends with that of its WebApp.",
            diagnosis="misses-the-leaked",
        )


@check(
    "4.4.5/rightly",
    title="Cleared rightly: the cause is mended, and the operator does the rest, then and later",
    points=3,
    evidence="live",
)
def check_rightly(drill, predicted, first, wrongly, rightly, phase4, observe):
    measured = {
        "first WebApp after wrongly.sh": wrongly.app_left is not None,
        "its record after wrongly.sh": wrongly.record_left,
        "second WebApp after rightly.sh": rightly.app_left is not None,
        "its record after rightly.sh": rightly.record_left,
        "the first record at the end": drill.record(first.app) is not None,
    }
    for key, right in RIGHT.items():
        seen = STAYS if measured[key] else GONE
        observe(key, compared(predicted[key], right, measured=seen))
    expected = (
        "rightly.sh mends what keeps the operator from its cleanup. The operator then deletes "
        "the record, removes its finalizer, and the WebApp goes."
    )
    mend = (
        "Which one right does the operator lack? Its Role is in dns, and has the name in OPERATOR."
    )
    if rightly.finalizer_removed_by == "rightly":
        raise Fail(
            expected,
            "rightly.sh took the finalizer off itself.",
            why="That is the wrong clearance once more, however carefully it is done: the promise "
            "is broken, and whatever keeps the operator from its work is still there.",
            next=mend,
            diagnosis="finalizer-patched-again",
            evidence=rightly.writes,
        )
    if rightly.record_deleted_by == "rightly":
        raise Fail(
            expected,
            f"rightly.sh deleted {contract.DNS_NAMESPACE}/{rightly.stuck.record} itself.",
            why="It unsticks this WebApp, and the next one is stuck again: the cause is still "
            "there.",
            next=mend,
            diagnosis="record-deleted-by-hand",
            evidence=rightly.writes,
        )
    if rightly.app_left is not None:
        raise Fail(
            expected,
            f"After it the WebApp is still there, with the finalizers "
            f"{rightly.app_left['metadata'].get('finalizers')}.",
            next=mend,
            diagnosis="still-stuck",
            evidence=rightly.writes,
        )
    if extra := drill.too_much():
        raise Fail(
            "rightly.sh gives the operator the one right that it lacks.",
            f"Now it may also {extra[0]}.",
            why="A right that is given in a hurry is never taken back.",
            next="One verb, on ConfigMaps, in the namespace dns.",
            diagnosis="granted-too-much",
            evidence=rightly.writes,
        )
    with phase4.untimed("a third WebApp comes and goes"):
        gone = drill.goes_by_itself("shop")
    if not gone:
        raise Fail(
            "After rightly.sh the next WebApp that is deleted goes without any help.",
            "It stayed: the delete of its record is refused again.",
            why="A clearance that has to be repeated for each object is none.",
            next=mend,
            diagnosis="cause-remains",
            evidence=rightly.writes,
        )


@pytest.fixture(scope="module")
def suite(predicted, submission, run, cluster, api, grading, phase4):
    # The drill's own operator would serve the suite's WebApps, too.
    for program in run.programs:
        if program.exited is None:
            program.kill()
    with (
        phase4.untimed("finalizers of others, deletes that are not confirmed"),
        suite_checks.trial(submission, run, cluster, api, grading) as trial,
    ):
        return suite_checks.results(trial, SCENARIOS)


@check(
    "4.4.5/operator",
    title="The operator keeps its finalizer until the record is confirmed gone, and leaves others' alone",
    points=3,
    evidence="live",
)
def check_operator(suite):
    suite_checks.require(suite, *SCENARIOS)
