"""4.2.8 The same drawing, now with the file names checked.

The drawing is judged as in 4.1.1, by the same rules. Each stage has a citation,
checked by content and by what that statement does: one that only names the
stage, constructs it or used to be its home is known as such.
"""

from __future__ import annotations

import re

import pytest

from grader.evidence import answers as written
from grader.evidence import mermaid, places, questions
from grader.evidence.graph import words
from grader.labs import check
from grader.labs import lab_4_1_1 as first_drawing
from grader.labs.pipeline_graph import Pipeline
from grader.report.predictions import compared
from grader.verdict import Fail, NotGraded

#: The headings of answers.md under which a stage is cited, along the pipeline.
STAGES = ("Reflector", "Delta queue", "Indexer", "Handlers", "Workqueue", "Worker")

DRAWING = (
    first_drawing.check_stages,
    first_drawing.check_intake,
    first_drawing.check_indexer,
    first_drawing.check_handlers,
    first_drawing.check_keys,
    first_drawing.check_read_back,
    first_drawing.check_loop,
)


@pytest.fixture(scope="module")
def answers(submission):
    return written.parse(submission.text("answers.md"))


@pytest.fixture(scope="module")
def pipeline(submission):
    text = submission.text("pipeline.mmd")
    if submission.untouched("pipeline.mmd"):
        raise NotGraded(
            "pipeline.mmd holds your drawing.",
            "It is still the starter's.",
            next="Begin with yours of 4.1.1, and correct what you know better now.",
            diagnosis="nothing-handed-in",
        )
    return Pipeline(mermaid.require(text, name="pipeline.mmd"))


@check(
    "4.2.8/drawing",
    title="The drawing has every stage, and what passes between them",
    points=2,
    evidence="written",
)
def check_drawing(pipeline):
    for judge in DRAWING:
        judge(pipeline)


def _require_stage(answers, stage: str) -> None:
    places.of("4.2.8", stage).require(answers.require_section(stage))


@check("4.2.8/reflector", title="The reflector's place is cited", points=1, evidence="claim")
def check_reflector(answers):
    _require_stage(answers, "Reflector")


@check(
    "4.2.8/delta-queue",
    title="The delta queue's place is cited, and it is today's",
    points=1,
    evidence="claim",
)
def check_delta_queue(answers):
    _require_stage(answers, "Delta queue")


@check(
    "4.2.8/indexer",
    title="The indexer's place is cited, and not the interface of that name",
    points=1,
    evidence="claim",
)
def check_indexer(answers):
    _require_stage(answers, "Indexer")


@check("4.2.8/handlers", title="The handlers' place is cited", points=1, evidence="claim")
def check_handlers(answers):
    _require_stage(answers, "Handlers")


@check("4.2.8/workqueue", title="The work queue's place is cited", points=1, evidence="claim")
def check_workqueue(answers):
    _require_stage(answers, "Workqueue")


@check("4.2.8/worker", title="The worker's place is cited", points=1, evidence="claim")
def check_worker(answers):
    _require_stage(answers, "Worker")


@check(
    "4.2.8/what-moved",
    title="A sentence says which box is another one today",
    points=1,
    evidence="written",
)
def check_what_moved(answers, submission, observe):
    _show_guesses(answers, submission, observe)
    question = questions.of("4.2.8/what-moved")
    question.require(answers.require_section(question.heading))


def _show_guesses(answers, submission, observe) -> None:
    """The guesses of 4.1.1 beside what is cited now, where there are any."""
    earlier = submission.path.parent / "4.1.1" / "answers.md"
    try:
        guesses = written.parse(earlier.read_text(encoding="utf-8")).section("Guesses")
    except (OSError, UnicodeDecodeError, Fail):
        return
    for stage in STAGES if guesses is not None else ():
        pattern = first_drawing.GUESSED[stage.lower()]
        guess = next((e.value for e in guesses.entries if re.search(pattern, words(e.key))), "")
        if guess:
            # The files of what answers the question, not the one that is cited now.
            files = sorted({s.path for s in places.of("4.2.8", stage).right})
            hit = any(_name(guess) == _name(path) for path in files)
            observe(stage, compared(guess, " or ".join(files), agrees=hit))


def _name(path: str) -> str:
    return path.strip("`* ").rsplit("/", 1)[-1].lower()
