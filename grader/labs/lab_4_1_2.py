"""4.1.2 The line that enqueues a key, and the line that pays for it.

Two citations in sample-controller, checked by content and by place, and a
sentence with each. What answers, and what is taken for it, is in ``grader/places``.
"""

from __future__ import annotations

import pytest

from grader.evidence import answers as written
from grader.evidence import places, questions
from grader.labs import check

ENQUEUE = "The line that enqueues a key"
PAYMENT = "The line that pays for it"


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
    question = questions.of("4.1.2/enqueue-why")
    question.require(answers.require_section(question.heading))


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
    question = questions.of("4.1.2/payment-why")
    question.require(answers.require_section(question.heading))


@check(
    "4.1.2/idempotent",
    title="A sentence states the rule of idempotency: what makes a second reconcile safe",
    points=1,
    evidence="written",
)
def check_idempotent(answers):
    question = questions.of("4.1.2/idempotent")
    question.require(answers.require_section(question.heading))
