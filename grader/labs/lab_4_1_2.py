"""4.1.2 The line that enqueues a key, and the line that pays for it.

Two citations in sample-controller, checked by content and by place, and a
sentence with each. Lines that a reader takes for
the right one are known by name, so that the message can say what they do.
"""

from __future__ import annotations

import pytest

from grader.evidence import answers as written
from grader.evidence import citations, places, questions
from grader.evidence.places import Place
from grader.labs import check
from grader.verdict import Fail

MODULE = "k8s.io/sample-controller"
FILE = "k8s.io/sample-controller@v0.36.2/controller.go"
ENQUEUE = "The line that enqueues a key"
PAYMENT = "The line that pays for it"

#: Places that are taken for the right line: (line, its text, what it does, diagnosis).
_TAKEN_FOR_IT = (
    (
        234,
        "c.workqueue.AddRateLimited(objRef)",
        "it puts a key back after a failed sync; the key came off the queue a few lines before",
        "cited-the-requeue",
    ),
    (
        129,
        "AddFunc: controller.enqueueFoo,",
        "it hands the whole object to enqueueFoo; nothing is on the queue yet",
        "cited-the-call-of-enqueue",
    ),
    (
        131,
        "controller.enqueueFoo(new)",
        "it hands the whole object to enqueueFoo; nothing is on the queue yet",
        "cited-the-call-of-enqueue",
    ),
    (
        380,
        "c.enqueueFoo(foo)",
        "it hands the owning Foo to enqueueFoo; nothing is on the queue yet",
        "cited-the-call-of-enqueue",
    ),
    (
        332,
        "if objectRef, err := cache.ObjectToName(obj); err != nil {",
        "it makes the key; the queue gets it a few lines later",
        "cited-the-making-of-the-key",
    ),
    (
        267,
        "deployment, err := c.deploymentsLister.Deployments(foo.Namespace).Get(deploymentName)",
        "it reads the child; the key is the Foo's",
        "cited-the-read-of-the-child",
    ),
    (
        374,
        "foo, err := c.foosLister.Foos(object.GetNamespace()).Get(ownerRef.Name)",
        "it runs in a handler, before the key is queued, to find a Deployment's owner",
        "cited-a-read-in-a-handler",
    ),
    (
        270,
        "deployment, err = c.kubeclientset.AppsV1().Deployments(foo.Namespace)."
        "Create(ctx, newDeployment(foo), metav1.CreateOptions{FieldManager: FieldManager})",
        "it is a request to the API server; the read that is asked for makes none",
        "cited-a-live-request",
    ),
    (
        293,
        "deployment, err = c.kubeclientset.AppsV1().Deployments(foo.Namespace)."
        "Update(ctx, newDeployment(foo), metav1.UpdateOptions{FieldManager: FieldManager})",
        "it is a request to the API server; the read that is asked for makes none",
        "cited-a-live-request",
    ),
    (
        324,
        "_, err := c.sampleclientset.SamplecontrollerV1alpha1().Foos(foo.Namespace)."
        "UpdateStatus(ctx, fooCopy, metav1.UpdateOptions{FieldManager: FieldManager})",
        "it is a request to the API server; the read that is asked for makes none",
        "cited-a-live-request",
    ),
    (
        201,
        "objRef, shutdown := c.workqueue.Get()",
        "it takes the key off the queue; the object is still not known",
        "cited-the-taking-of-the-key",
    ),
)


@pytest.fixture(scope="module")
def text(submission):
    return submission.text("answers.md")


@pytest.fixture(scope="module")
def answers(text):
    return written.parse(text)


def _taken_for_it() -> list[Place]:
    return [
        places.line(f"{FILE}:{number}", quote, described=does, diagnosis=diagnosis)
        for number, quote, does, diagnosis in _TAKEN_FOR_IT
    ]


def _cited(section: written.Section) -> list[citations.Finding]:
    """The section's citations of sample-controller, checked; of other modules where it has none."""
    found = citations.required(section.source, f"answers.md, «{section.title}»")
    ours = citations.upstream(found, MODULE) or found
    return [citations.check(each) for each in ours]


def _require(findings: list[citations.Finding], right: Place, **message: str) -> None:
    """Pass if one of the citations is right and none is broken; else the first fault decides."""
    for finding in findings:
        finding.require_exact(message["expected"], why=message["why"])
    if any(right.holds(finding) for finding in findings):
        return
    places.require(findings[0], [right], wrong=_taken_for_it(), **message)


@check(
    "4.1.2/enqueue-line",
    title="The line that puts a key on the work queue is cited, and no line that only leads to it",
    points=2,
    evidence="claim",
)
def check_enqueue_line(answers):
    section = answers.require_section(ENQUEUE)
    _require(
        _cited(section),
        places.line(f"{FILE}:336", "c.workqueue.Add(objectRef)"),
        expected="The citation is of the line at which the work queue receives a Foo's key for "
        "the first time.",
        why="Everything before this line has the object in hand, everything after it only a name. "
        "Objective 2 and the gate ask for this line.",
        next="Follow an AddFunc of NewController to the end: which call has the queue on its left?",
    )


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
    section = answers.require_section(PAYMENT)
    findings = _cited(section)
    right = places.line(
        f"{FILE}:245", "foo, err := c.foosLister.Foos(objectRef.Namespace).Get(objectRef.Name)"
    )
    enqueue = places.line(f"{FILE}:336", "c.workqueue.Add(objectRef)")
    if any(enqueue.holds(f) for f in findings) and not any(right.holds(f) for f in findings):
        raise Fail(
            "The two headings cite two different lines.",
            "Both cite the line that enqueues.",
            why="The second line is where the debt is paid: the object has to come from somewhere.",
            next="Look at the beginning of the function that gets the key.",
            diagnosis="cited-the-enqueue-twice",
        )
    _require(
        findings,
        right,
        expected="The citation is of the line at which the worker, with only a key in hand, looks "
        "the Foo up.",
        why="This read is what makes it safe to have thrown the event away: it sees the newest "
        "state, and it sees that a Foo is gone.",
        next="Start at syncHandler's first line: where does a Foo come from again, and what is "
        "asked for it?",
    )


@check(
    "4.1.2/payment-why",
    title="A sentence says what that line reads, and from where",
    points=1,
    evidence="written",
)
def check_payment_why(answers):
    question = questions.of("4.1.2/payment-why")
    question.require(answers.require_section(question.heading))
