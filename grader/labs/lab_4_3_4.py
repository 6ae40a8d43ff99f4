"""4.3.4 SIGKILL mid-syncHandler, twice, with one flag changed.

The table of kill points (:mod:`grader.conformance.parts.killpoints`) for the
same operator in two modes: as it is, and with ``--resume``, where it goes on
after the last event it saw instead of listing. Which line puts a key back is seen from the
operator without it (:mod:`grader.labs.lab_4_3_4_requeue`).
"""

from __future__ import annotations

import pytest

from grader.conformance.bench import Bench
from grader.conformance.parts.killpoints import kill_table, require_reached
from grader.conformance.picture import kill_picture
from grader.evidence import answers as written
from grader.evidence import citations, questions
from grader.labs import check, suite_checks
from grader.labs.lab_4_3_4_requeue import Comparison
from grader.labs.taken_out import NotTakenOut, taken_out
from grader.report.predictions import compared
from grader.verdict import Fail, NotGraded

#: One check does its own runs, and no others.
CHECKS_STAND_ALONE = True
PREDICTIONS, REQUEUE, WHY = "Predictions", "The line that puts the key back", "Why nothing is lost"
#: Seconds after a restart, at most while nothing moves: what edge mode has lost, no
#: waiting brings back.
EDGE_RECOVERY = 2.0
#: How far a prediction for edge mode may be off: so much differs from run to run.
EDGE_WITHIN = 2
MODES = {"level": "level: lists at start", "edge": "edge: resumes, without a list"}


@pytest.fixture(scope="module")
def answers(submission):
    return written.parse(submission.text("answers.md"))


@pytest.fixture(scope="module")
def predicted(answers):
    """Mode to the number predicted; what is measured is measured after that."""
    try:
        entries = {mode: answers.require_prediction(mode, number=True) for mode in MODES}
    except (Fail, NotGraded) as outcome:
        message = outcome.message
        raise NotGraded(
            "You have predicted, in numbers, at how many kill points each mode loses work.",
            message.seen,
            why="Once you have seen the table you can't predict it any more.",
            next=message.next or f"Write both numbers under «{PREDICTIONS}» in answers.md first.",
            diagnosis="prediction-first",
        ) from None
    return {mode: round(entry.number()) for mode, entry in entries.items()}


@pytest.fixture(scope="module")
def bench(predicted, submission, run, cluster, api, grading):
    with (
        suite_checks.trial(submission, run, cluster, api, grading) as trial,
        Bench(trial, "killpoints", alone=True) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def comparison(submission, run, cluster, api, grading):
    """The operator, as it is and without a line."""
    return Comparison(submission, run, cluster, api, grading)


@pytest.fixture(scope="module")
def level(bench, phase4):
    """The kill table of the operator as it is."""
    # Every wait at a kill point has a limit of its own.
    with phase4.untimed("every kill point, level mode"):
        return kill_table(bench, of_a_kind=1)


@pytest.fixture(scope="module")
def edge(bench, grading, phase4):
    """The same with ``--resume``."""
    # In the sandbox only /tmp can be written, and it goes with the process.
    folder = "/tmp/resume" if grading.isolation == "bwrap" else str(grading.run_dir / "resume")
    with phase4.untimed("every kill point, edge mode"):
        return kill_table(
            bench,
            flags=("--resume", folder),
            # Not scaled: what is right must not look lost here for want of patience.
            recovery=EDGE_RECOVERY / grading.patience,
            of_a_kind=1,
            most_lost=100,
            one_by_one=True,
        )


@pytest.fixture
def tables(request, grading, edge):
    """Mode to kill table: both, or the one that is asked for alone."""
    both = grading.asks_for("4.3.4/level")
    return {**({"level": request.getfixturevalue("level")} if both else {}), "edge": edge}


def compared_lost(mode: str, predicted: int, lost: dict[str, int], measured: int) -> dict:
    """The prediction for a mode beside the truth, where the runs show one.

    A level-triggered operator loses nothing, whatever this one did. How much edge mode loses
    is known only from an operator that is right otherwise.
    """
    if mode == "level":
        return compared(predicted, 0, measured=measured)
    if not lost["edge"] or lost.get("level"):
        return {"predicted": predicted, "measured": measured}
    return compared(predicted, measured, within=EDGE_WITHIN)


@check(
    "4.3.4/predictions",
    title="The number of kill points that lose work is predicted for both modes",
    points=1,
    evidence="written",
)
def check_predictions(answers):
    for mode in MODES:
        answers.require_prediction(mode, number=True)


@check(
    "4.3.4/level",
    title="Killed before and after each write, and started again, it loses nothing",
    points=4,
    evidence="live",
)
def check_level(level):
    lost = [outcome for outcome in level if outcome.converged is False]
    if lost:
        first = lost[0]
        assert first.message is not None
        raise Fail(
            f"Killed {first.point.shown}, and started again, the operator ends where it would "
            "have ended without the kill.",
            f"It did not, at {len(lost)} of the {len(level)} kill points tried. "
            f"{first.message.seen}",
            why=first.message.why,
            next="A restart has only the list to go by. Does every object in it reach the queue?",
            diagnosis="lost-work-after-kill",
            evidence=[*(f"lost: {o.point.shown}" for o in lost), *first.message.evidence],
        )
    require_reached(level)


@check(
    "4.3.4/edge",
    title="With --resume the same operator works, and loses work at least at one kill point",
    points=3,
    evidence="live",
)
def check_edge(tables, predicted, observe):
    observe(
        "killed before and after every write",
        kill_picture(
            "Killed before and after every write, and started again",
            {MODES[mode]: [one.to_json() for one in table] for mode, table in tables.items()},
        ),
    )
    lost = {
        mode: sum(outcome.converged is False for outcome in table) for mode, table in tables.items()
    }
    for mode, measured in lost.items():
        observe(
            f"kill points that lose work, {mode}",
            compared_lost(mode, predicted[mode], lost, measured),
        )
    if lost["edge"]:
        return
    raise Fail(
        "In edge mode, work is lost at one kill point at least.",
        f"At each of {len(tables['edge'])} kill points it was done after the restart.",
        why="A process that still finds the work has looked at the present state, with or without "
        "a list: then there is nothing to compare level mode with.",
        next="With --resume, the list must be empty, and the watch begin after the last event "
        "that the killed process was given. Is that version stored before the event is handed on?",
        diagnosis="edge-loses-nothing",
    )


@check(
    "4.3.4/requeue-line",
    title="The line of your own operator that puts the key of a failed reconcile back is cited",
    points=2,
    evidence="claim",
)
def check_requeue_line(answers, submission, request):
    section = answers.require_section(REQUEUE)
    why = "It is the line that the gate to the next phase asks for, in your own code."
    next = (
        "Follow an error that reconcile returns: where does the worker give the key to the queue "
        "again, and with what delay?"
    )
    expected = "The citation is of the line that puts a key back after a reconcile failed."
    (cited, *_) = citations.required(section.source, f"answers.md, «{REQUEUE}»", first=section.body)
    finding = citations.check(cited, handed_in=submission.root)
    cited = finding.citation
    if not cited.is_own and not cited.malformed:
        raise Fail(
            expected,
            f"It cites {cited.module}, which you did not write.",
            why=why,
            next="`./phase4 cite workspace/operator_handwired/PATH:LINE` prints it ready to paste.",
            diagnosis="not-your-own-line",
        )
    finding.require_exact(expected, why=why)
    program = submission.program_folder
    if program and not cited.path.startswith(f"{program}/"):
        raise Fail(
            expected,
            f"`{cited.place}` is no line of your operator, which is in {program}.",
            why=why,
            next=next,
            diagnosis="not-your-operator",
        )
    shown = f"`{cited.place}`, `{(cited.quote or '').strip()}`"
    try:
        without = taken_out(cited.path, submission.text(cited.path), cited.line)
    except NotTakenOut as error:
        raise Fail(
            expected,
            f"{shown}, {error}.",
            why=why,
            next=next,
            diagnosis="not-the-requeue-line",
        ) from None
    diagnosis, seen = request.getfixturevalue("comparison").why_not(cited.path, without)
    if diagnosis:
        raise Fail(
            expected,
            f"Your operator was run without {shown}. {seen}.",
            why=why,
            next=next,
            diagnosis=diagnosis,
        )


@check(
    "4.3.4/why",
    title="A few sentences say why level mode loses nothing: the list, the comparison, repetition",
    points=2,
    evidence="written",
)
def check_why(answers):
    question = questions.of("4.3.4/why")
    question.require(answers.require_section(question.heading))
