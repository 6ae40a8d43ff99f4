"""4.1.2 The line that enqueues a key, and the line that pays for it.

Two citations in sample-controller, checked by content and by place, and a
sentence with each, judged by the concepts in it. What answers, and what is taken for
it, is in ``grader/places``.
"""

from __future__ import annotations

import pytest

from grader.evidence import answers as written
from grader.evidence import places
from grader.evidence.rubric import Concept, Rubric, WrongClaim
from grader.labs import check

ENQUEUE = "The line that enqueues a key"
PAYMENT = "The line that pays for it"

WHY_A_KEY = Rubric(
    (
        Concept(
            "why a key is enough and an object is not: the object would be out of date by then, "
            "or many changes merge into one key, or the work is level-triggered",
            (
                "out of date",
                "out-dated*",
                "outdat*",
                "stale",
                "old* version*",
                "change* again",
                "changed since",
                "moved on",
                "no longer … current",
                "latest",
                "newest",
                "current state",
                "current version",
                "up-to-date",
                "level-trigger*",
                "level-based",
                "dedup*",
                "de-dup*",
                "duplicat*",
                "coalesc*",
                "collaps*",
                "merge*",
                "compress*",
                "only once",
                "same key",
            ),
            diagnosis="why-a-key-missing",
        ),
    ),
    (
        WrongClaim(
            "the queue holds the object",
            (
                "queue holds the object",
                "enqueue* the object",
                "object … on the queue",
                "puts the object",
            ),
            "What goes on the queue is a name: `objectRef` is namespace and name.",
            diagnosis="claims-object-queued",
        ),
        WrongClaim(
            "the key is used to save memory only",
            ("to save memory", "saves memory", "because … smaller"),
            "A key is small, but that is not why: think of what happens to the object while it waits.",
            diagnosis="claims-memory",
        ),
    ),
)

WHAT_IT_READS = Rubric(
    (
        Concept(
            "where it reads from: the lister, that is the local cache",
            ("cache*", "lister*", "indexer*", "informer*", "store"),
            diagnosis="where-it-reads-missing",
        ),
        Concept(
            "what it gets: the object as it is now, whatever the event said",
            (
                "current",
                "latest",
                "newest",
                "now",
                "up-to-date",
                "fresh*",
                "present state",
                "last known",
                "re-read*",
                "instead of … event",
                "not … event",
                "rather than … event",
                "deleted meanwhile",
            ),
            diagnosis="what-it-gets-missing",
        ),
    ),
    (
        WrongClaim(
            "the API server is asked",
            (
                "live read",
                "live get",
                "from the API server",
                "asks the API server",
                "request* … API server",
                "from etcd",
                "GET request",
            ),
            "A lister reads the informer's local cache: no request leaves the process.",
            diagnosis="claims-live-read",
        ),
    ),
)


@pytest.fixture(scope="module")
def text(submission):
    return submission.text("answers.md")


@pytest.fixture(scope="module")
def answers(text):
    return written.parse(text)


@check(
    "4.1.2/enqueue-line",
    title="The line that puts a key on the work queue is cited, and no line that only leads to it",
    points=2,
    evidence="claim",
)
def check_enqueue_line(answers):
    places.of("4.1.2", ENQUEUE).require(answers.require_section(ENQUEUE))


@check(
    "4.1.2/enqueue-why",
    title="A sentence says why the queue gets a key and not the object",
    points=1,
    evidence="written",
)
def check_enqueue_why(answers):
    WHY_A_KEY.require(
        answers.require_section(ENQUEUE),
        expected="One sentence says why a key is enough, and why an object would not do.",
        why="If you cannot say it, the next controller you write will queue objects.",
        next="Let two updates of one Foo arrive while the worker is busy. What does it find in the "
        "queue, and which Foo should it act on?",
    )


@check(
    "4.1.2/payment-line",
    title="The line that pays for it is cited: the worker's read of the Foo from the lister",
    points=2,
    evidence="claim",
)
def check_payment_line(answers):
    places.of("4.1.2", PAYMENT).require(answers.require_section(PAYMENT))


@check(
    "4.1.2/payment-why",
    title="A sentence says what that line reads, and from where",
    points=1,
    evidence="written",
)
def check_payment_why(answers):
    WHAT_IT_READS.require(
        answers.require_section(PAYMENT),
        expected="One sentence says what the line reads and where from.",
        why="A read from the cache is cheap and may be a moment old; a request to the API server is "
        "neither. The rest of the phase stands on that difference.",
    )
