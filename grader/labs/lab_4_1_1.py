"""4.1.1 Draw the pipeline before you open any of it.

The graph is judged and not its text: which stages there are, and what goes
from which to which. Names, shapes, order, frames and directions of drawing are
the learner's own; :mod:`grader.labs.pipeline_graph` says what is recognised.
"""

from __future__ import annotations

import re

import pytest

from grader.evidence import answers as written
from grader.evidence import mermaid
from grader.evidence.graph import words
from grader.labs import check
from grader.labs.pipeline_graph import STAGES, Pipeline, is_put, shown_edge
from grader.verdict import Fail, NotGraded

_KEY = re.compile(r"\b(keys?|names?|namespaced? ?names?|ns ?names?|ns name|object ?refs?)\b")
_OBJECT = re.compile(
    r"\b(objects?|objs?|foos?|deployments?|events?|deltas?|pointers?|structs?|payloads?|resources?)\b"
)
_BOTH = re.compile(
    r"\b(object|obj|event|foo|payload)s?\s*(and|with|plus|\+|&|,|/)\s*(its |the )?keys?\b"
    r"|\bkeys?\s*(and|with|plus|\+|&|,|/)\s*(its |the |whole )*(object|obj|event|foo|payload)s?\b",
    re.IGNORECASE,
)

#: Stages for which a file is guessed, and how a row may call them.
GUESSED = {
    "reflector": r"reflector",
    "delta queue": r"delta|fifo",
    "indexer": r"index|cache|store",
    "handlers": r"handler",
    "workqueue": r"work ?queue",
    "worker": r"worker|sync|reconcil",
}


@pytest.fixture(scope="module")
def pipeline(submission, observe):
    text = submission.text("pipeline.mmd")
    if submission.untouched("pipeline.mmd"):
        raise NotGraded(
            "pipeline.mmd holds your drawing.",
            "It is still the starter's.",
            next="Draw the stages between the API server and the worker, and the way back.",
            diagnosis="nothing-handed-in",
        )
    drawn = Pipeline(mermaid.require(text, name="pipeline.mmd"))
    observe("boxes", {stage.name: drawn.shown(stage.id) for stage in STAGES})
    return drawn


@check(
    "4.1.1/stages",
    title="Every stage has a box: API server, reflector, delta queue, indexer, handlers, "
    "work queue, worker",
    points=1,
    evidence="written",
)
def check_stages(pipeline):
    pipeline.need(*(stage.id for stage in STAGES))


@check(
    "4.1.1/intake",
    title="The reflector lists and watches the API server, and fills the delta queue",
    points=1,
    evidence="written",
)
def check_intake(pipeline):
    pipeline.need("api", "reflector", "deltas")
    why = (
        "The LIST says what is there, the WATCH what changes from then on. Leave one out and the "
        "controller starts blind, or goes blind."
    )
    asked = pipeline.way("api", "reflector")
    if asked is None:
        raise Fail(
            "An arrow joins the API server and the reflector.",
            f"Nothing leads from {pipeline.shown('api')} to {pipeline.shown('reflector')}.",
            why=why,
            next="Which box talks to the API server first? Draw its arrow.",
            diagnosis="reflector-not-fed",
        )
    said = [*pipeline.labels(asked), pipeline.graph.nodes[asked[-1]].label]
    said += [
        edge.label
        for edge in pipeline.graph.edges
        if {pipeline.stage.get(edge.source), pipeline.stage.get(edge.target)}
        == {"api", "reflector"}
    ]
    lacking = [w for w in ("list", "watch") if not re.search(rf"\b{w}", words(" ".join(said)))]
    if lacking:
        raise Fail(
            "The arrow between API server and reflector says both what is listed and what is "
            "watched: «list», «watch».",
            f"It doesn't say «{'» or «'.join(lacking)}».",
            why=why,
            next="Write on the arrow which two kinds of request the reflector makes.",
            diagnosis="list-and-watch-not-both",
            evidence=pipeline.lines(asked),
        )
    if pipeline.way("reflector", "deltas") is None:
        past = pipeline.way("reflector", "indexer") or pipeline.way("reflector", "handlers")
        raise Fail(
            "What the reflector receives goes into the delta queue.",
            "The reflector's arrow goes past the delta queue."
            if past
            else f"Nothing leads from {pipeline.shown('reflector')} to {pipeline.shown('deltas')}.",
            why="The reflector must never wait for whatever handles the changes: a slow reader of "
            "a watch is cut off by the API server.",
            next="What comes after the reflector, in the README's diagram?",
            diagnosis="reflector-bypasses-queue" if past else "delta-queue-not-filled",
            evidence=pipeline.lines(past),
        )


@check(
    "4.1.1/indexer",
    title="The indexer is filled from the delta queue, and not by the handlers",
    points=2,
    evidence="written",
)
def check_indexer(pipeline):
    pipeline.need("deltas", "indexer")
    why = (
        "The cache is written before anybody is told: whoever a handler wakes must find there at "
        "least what the handler heard."
    )
    filled = [edge for edge in pipeline.drawn("handlers", "indexer") if is_put(edge)]
    if filled:
        raise Fail(
            "Only what is popped from the delta queue is written into the indexer.",
            "A handler writes into it, by this arrow.",
            why=why,
            next="If that arrow is a look-up, say so on it («get the owner»). If not, who fills "
            "the indexer in the README's diagram?",
            diagnosis="handlers-fill-indexer",
            evidence=[shown_edge(pipeline.graph, edge) for edge in filled],
        )
    if pipeline.way("deltas", "indexer") is None:
        raise Fail(
            "A way leads from the delta queue to the indexer.",
            f"None leads from {pipeline.shown('deltas')} to {pipeline.shown('indexer')}.",
            why=why,
            next="Something pops the delta queue. What does it do with the object, before anything "
            "else?",
            diagnosis="indexer-not-filled",
        )


@check(
    "4.1.1/handlers",
    title="The handlers are told from the delta queue, and call no worker",
    points=2,
    evidence="written",
)
def check_handlers(pipeline):
    pipeline.need("deltas", "handlers", "queue", "worker")
    called = pipeline.drawn_way("handlers", "worker")
    if called:
        raise Fail(
            "The handlers and the worker know nothing of each other: between them is the work "
            "queue.",
            "A handler calls the worker, by this way.",
            why="A handler that works makes every other event wait, has nowhere to put a failure, "
            "and lets two workers work on the same object.",
            next="What is the only thing that a handler does in sample-controller?",
            diagnosis="handler-calls-worker",
            evidence=pipeline.lines(called),
        )
    if pipeline.way("deltas", "handlers", through=("indexer",)) is None:
        raise Fail(
            "A way leads from the delta queue to the handlers.",
            f"None leads from {pipeline.shown('deltas')} to {pipeline.shown('handlers')}.",
            why="Handlers are told of a change when it is popped from the delta queue, after the "
            "indexer has it.",
            next="What pops the delta queue has two things to do. The indexer is the first.",
            diagnosis="handlers-not-told",
        )


@check(
    "4.1.1/keys",
    title="What goes into the work queue, and from it to the worker, is a key",
    points=2,
    evidence="written",
)
def check_keys(pipeline):
    pipeline.need("handlers", "queue", "worker")
    why = (
        "A key is never stale, and a hundred equal keys are one. Queue the object and the "
        "worker acts on what was true when it was queued."
    )
    way = pipeline.way("handlers", "queue")
    if way is None:
        raise Fail(
            "An arrow leads from the handlers to the work queue.",
            f"None leads from {pipeline.shown('handlers')} to {pipeline.shown('queue')}.",
            why=why,
            next="What does a handler do with what it is told?",
            diagnosis="nothing-enqueued",
        )
    wrong = [
        edge
        for edge in pipeline.graph.edges
        if pipeline.stage.get(edge.target) == "queue"
        and (
            _BOTH.search(edge.label) or (_OBJECT.search(edge.words) and not _KEY.search(edge.words))
        )
    ]
    if wrong:
        raise Fail(
            "Every arrow into the work queue carries a key.",
            "This one carries an object.",
            why=why,
            next="What in an object is enough to find it again later?",
            diagnosis="object-on-the-workqueue",
            evidence=[shown_edge(pipeline.graph, edge) for edge in wrong],
        )
    said = [*pipeline.labels(way), pipeline.graph.nodes[way[-1]].label]
    if not any(_KEY.search(words(each)) for each in said):
        raise Fail(
            "The arrow into the work queue, or the queue's box, says that it is keys.",
            "Nothing on this way says what is queued.",
            why=why,
            next="Write on the arrow what exactly the handler hands over.",
            diagnosis="key-not-named",
            evidence=pipeline.lines(way),
        )
    if pipeline.way("queue", "worker") is None:
        raise Fail(
            "A way leads from the work queue to the worker.",
            f"None leads from {pipeline.shown('queue')} to {pipeline.shown('worker')}.",
            why=why,
            next="Draw the arrow from the queue to whoever takes from it; or, drawn from the "
            "worker, write «Get» on it.",
            diagnosis="worker-not-fed",
        )


@check(
    "4.1.1/read-back",
    title="The worker gets the object back from the cache",
    points=1,
    evidence="written",
)
def check_read_back(pipeline):
    pipeline.need("indexer", "worker")
    read = [
        pair
        for pair in pipeline.flows
        if {pipeline.stage.get(id) for id in pair} in ({"worker", "indexer"}, {"worker", "lister"})
    ]
    listed = any(
        {pipeline.stage.get(id) for id in pair} == {"lister", "indexer"} for pair in pipeline.flows
    )
    if any("lister" in {pipeline.stage.get(id) for id in pair} for pair in read) and not listed:
        direct = any("indexer" in {pipeline.stage.get(id) for id in pair} for pair in read)
        if not direct:
            raise Fail(
                "The lister that the worker asks reads from the indexer.",
                f"No arrow joins {pipeline.shown('lister')} and {pipeline.shown('indexer')}.",
                why="A lister holds nothing itself: it is a view of the indexer.",
                next="Draw where the lister gets its objects from.",
                diagnosis="lister-without-indexer",
            )
    if not read and pipeline.way("indexer", "worker") is None:
        raise Fail(
            "An arrow joins the worker with the indexer, or with the lister in front of it.",
            f"No arrow joins {pipeline.shown('worker')} with "
            f"{pipeline.shown('indexer', 'lister')}.",
            why="All the worker has is a key. It has to look up the object as it is now, and the "
            "answer may be that it is gone.",
            next="The README's diagram has two arrows at «Process Item». Where does the second go?",
            diagnosis="no-way-back-to-the-cache",
        )


@check(
    "4.1.1/loop",
    title="The circle closes through the API server, and nowhere else",
    points=1,
    evidence="written",
)
def check_loop(pipeline):
    pipeline.need("api", "reflector", "indexer", "worker")
    why = (
        "The controller learns of its own writes as it learns of everybody's: by the watch. That "
        "is why it can be killed between any two of them."
    )
    stored = [
        edge
        for edge in pipeline.drawn("worker", "indexer")
        if re.search(r"\b(writ|updat|stor|sav|put|creat)", edge.words)
    ]
    if stored:
        raise Fail(
            "The worker writes only to the API server.",
            "It writes into its own cache, by this arrow.",
            why=why,
            next="Delete the arrow: how does the worker's write get into the indexer without it?",
            diagnosis="worker-writes-the-cache",
            evidence=[shown_edge(pipeline.graph, edge) for edge in stored],
        )
    if pipeline.way("worker", "api") is None or pipeline.way("api", "reflector") is None:
        raise Fail(
            "From the worker a way leads to the API server, and from there to the reflector again.",
            f"Nothing leads from {pipeline.shown('worker')} to {pipeline.shown('api')}."
            if pipeline.way("worker", "api") is None
            else f"Nothing leads from {pipeline.shown('api')} to {pipeline.shown('reflector')}.",
            why=why,
            next="What does the worker do once it knows what should be and what is?",
            diagnosis="loop-not-closed",
        )


@check(
    "4.1.1/guesses",
    title="A file is guessed for each stage, right or wrong",
    points=1,
    evidence="written",
)
def check_guesses(submission, observe):
    answers = written.parse(submission.text("answers.md"))
    section = answers.require_section("Guesses")
    guesses: dict[str, str] = {}
    for stage, pattern in GUESSED.items():
        for entry in section.entries:
            if re.search(pattern, words(entry.key)) and not entry.placeholder:
                guesses.setdefault(stage, entry.value)
    lacking = [stage for stage in GUESSED if stage not in guesses]
    if lacking:
        # Nothing guessed at all is not begun, and not wrong.
        raise (Fail if guesses else NotGraded)(
            "Under «Guesses» each stage has the file you expect it in.",
            f"There is none yet for: {', '.join(lacking)}.",
            why="A guess written down is what makes the reading of 4.2 quick: you look for a "
            "difference and not for everything.",
            next="Guess from the names alone. 4.2.8 shows it next to the right file; a wrong guess "
            "costs nothing.",
            diagnosis="guess-missing",
        )
    unlike = [s for s, guess in guesses.items() if not re.search(r"\w\.\w+|\w/\w", guess)]
    if unlike:
        raise Fail(
            "Each guess is a file, such as `tools/cache/reflector.go`.",
            f"For {unlike[0]} it says «{guesses[unlike[0]]}».",
            why="Only a file can be compared with the right file.",
            next="A name like `something.go` will do.",
            diagnosis="guess-is-no-file",
        )
    observe("guesses", guesses)
