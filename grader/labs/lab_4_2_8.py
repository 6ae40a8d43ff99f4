"""4.2.8 The same drawing, now with the file names checked.

The drawing is judged as in 4.1.1, by the same rules. Each stage has a citation,
checked by content and by what that place does: a file that only names the
stage, constructs it or used to be its home is known as such.
"""

from __future__ import annotations

import re

import pytest

from grader.evidence import answers as written
from grader.evidence import citations, mermaid, places, questions
from grader.evidence.graph import words
from grader.evidence.places import Place
from grader.labs import check
from grader.labs import lab_4_1_1 as first_drawing
from grader.labs.pipeline_graph import Pipeline
from grader.verdict import Fail, NotGraded

CLIENT, SAMPLE = "k8s.io/client-go", "k8s.io/sample-controller"
CACHE = "tools/cache"

DRAWING = (
    first_drawing.check_stages,
    first_drawing.check_intake,
    first_drawing.check_indexer,
    first_drawing.check_handlers,
    first_drawing.check_keys,
    first_drawing.check_read_back,
    first_drawing.check_loop,
)


def _client(path: str, function: str = "", described: str = "", diagnosis: str = "") -> Place:
    return places.inside(
        path, function=function, module=CLIENT, described=described, diagnosis=diagnosis
    )


#: Stage → the files that implement it, and places that are taken for it. The latter count first.
STAGES: dict[str, tuple[tuple[Place, ...], tuple[Place, ...]]] = {
    "Reflector": (
        (_client(f"{CACHE}/reflector.go"),),
        (
            _client(
                f"{CACHE}/reflector.go",
                "NewReflectorWithOptions",
                "it makes a reflector; nothing is asked yet",
                "cited-the-constructor",
            ),
            _client(
                f"{CACHE}/listwatch.go",
                "",
                "it wraps two functions; who calls them, and when, is elsewhere",
                "cited-the-interface",
            ),
            _client(
                f"{CACHE}/controller.go",
                "",
                "it makes the reflector and starts it",
                "cited-the-constructor",
            ),
        ),
    ),
    "Delta queue": (
        (_client(f"{CACHE}/the_real_fifo.go"),),
        (
            _client(
                f"{CACHE}/delta_fifo.go",
                "",
                "it is the queue that informers used until client-go 0.36",
                "cited-the-old-home",
            ),
            _client(
                f"{CACHE}/fifo.go",
                "",
                "it has the interface, and a queue that no informer uses",
                "cited-the-interface",
            ),
            _client(
                f"{CACHE}/controller.go",
                "",
                "it chooses the queue, or processes what comes out of it",
                "cited-the-constructor",
            ),
        ),
    ),
    "Indexer": (
        (
            _client(f"{CACHE}/thread_safe_store.go"),
            *(
                _client(f"{CACHE}/store.go", f"cache.{method}")
                for method in ("Add", "Update", "Delete", "Replace", "Transaction")
            ),
        ),
        (
            _client(
                f"{CACHE}/index.go",
                "",
                "it says what an indexer must be able to do; nothing is stored there",
                "cited-the-interface",
            ),
            _client(
                f"{CACHE}/thread_safe_store.go",
                "ThreadSafeStore",
                "it says what a store must be able to do",
                "cited-the-interface",
            ),
        ),
    ),
    "Handlers": (
        (
            _client(f"{CACHE}/shared_informer.go"),
            places.inside("controller.go", function="NewController", module=SAMPLE),
            places.inside("controller.go", function="enqueueFoo", module=SAMPLE),
            places.inside("controller.go", function="handleObject", module=SAMPLE),
        ),
        (
            _client(
                f"{CACHE}/shared_informer.go",
                "SharedInformer",
                "it says what an informer must be able to do",
                "cited-the-interface",
            ),
            _client(
                f"{CACHE}/controller.go",
                "",
                "it defines what a handler is, or an adapter for one",
                "cited-the-interface",
            ),
        ),
    ),
    "Workqueue": (
        (_client("util/workqueue/queue.go"),),
        (
            _client(
                "util/workqueue/queue.go",
                "TypedInterface",
                "it says what a queue must be able to do",
                "cited-the-interface",
            ),
            _client(
                "util/workqueue/rate_limiting_queue.go",
                "",
                "it says how long a key waits before it is added; the queue is elsewhere",
                "cited-the-limiter",
            ),
            _client(
                "util/workqueue/delaying_queue.go",
                "",
                "keys wait there for their time before they are added; the queue is elsewhere",
                "cited-the-limiter",
            ),
            places.inside(
                "controller.go",
                module=SAMPLE,
                described="it uses the queue",
                diagnosis="cited-the-caller",
            ),
        ),
    ),
    "Worker": (
        (
            places.inside("controller.go", function="runWorker", module=SAMPLE),
            places.inside("controller.go", function="processNextWorkItem", module=SAMPLE),
            places.inside("controller.go", function="syncHandler", module=SAMPLE),
        ),
        (
            places.inside(
                "controller.go",
                function="enqueueFoo",
                module=SAMPLE,
                described="it fills the queue; the worker empties it",
                diagnosis="cited-the-other-side",
            ),
            places.inside(
                "controller.go",
                function="Run",
                module=SAMPLE,
                described="it starts the workers",
                diagnosis="cited-the-caller",
            ),
        ),
    ),
}


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
            next="Begin with yours of 4.1.1, and put right what you have learnt since.",
            diagnosis="nothing-handed-in",
        )
    return Pipeline(mermaid.require(text, name="pipeline.mmd"))


@check(
    "4.2.8/drawing",
    title="The drawing has every stage, and what goes from which to which",
    points=2,
    evidence="written",
)
def check_drawing(pipeline):
    for judge in DRAWING:
        judge(pipeline)


def _require_stage(answers, stage: str) -> None:
    right, wrong = STAGES[stage]
    source = answers.require_section(stage).source
    finding = citations.check(citations.required(source, f"answers.md, «{stage}»")[0])
    expected = f"The citation is of a line that does the work of the {stage.lower()}."
    why = "A map whose names are wrong is worse than none: you will look for faults where they are not."
    finding.require_exact(expected, why=why)
    taken = next((place for place in wrong if place.holds(finding)), None)
    if taken is not None:
        raise Fail(
            expected,
            f"`{finding.citation.place}` is another place: {taken}.",
            why=why,
            next="Follow the calls from there until something is asked, stored, told or queued.",
            diagnosis=taken.diagnosis,
        )
    places.require(finding, right, expected=expected, why=why)


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
        section = answers.section(stage)
        cited = citations.find(section.source) if section else []
        if guess and cited:
            observe(stage, {"predicted": guess, "measured": cited[0].path})
