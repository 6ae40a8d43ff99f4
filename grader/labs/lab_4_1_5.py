"""4.1.5 Two edits: one gets stomped, one survives.

Six edits by hand, made against the Foo controller or the one handed in.
Whether an edit survives is looked at after the controller has written the same
object again: so «survives» never means «nobody has looked at it yet».
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from grader.evidence import answers as written
from grader.evidence import questions
from grader.labs import check
from grader.report.predictions import compared
from grader.verdict import Fail, Unknown
from grader.witness import describe, objects

#: Seconds that the controller has for one step. Right ones take a few hundredths.
PATIENCE = 20.0
#: Seconds that it has once it has let the first step go by.
IMPATIENCE = 4.0
#: Seconds between two looks at the objects: often enough, and no load on the API server.
_LOOK = 0.05
API_VERSION = "samplecontroller.k8s.io/v1alpha1"
SOMEONE = "someone-else"

STOMPED, SURVIVES = "stomped", "survives"
#: What the controller has to hold, and what is none of its business.
OWNED = ("managed field", "scaled by hand", "status")
FOREIGN = ("foreign label", "foreign annotation", "finalizer of someone else")


@dataclass
class Outcome:
    """What became of one edit. ``evidence`` is the controller's write that decided, if there was one."""

    what: str
    evidence: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def answers(submission):
    return written.parse(submission.text("answers.md"))


@pytest.fixture(scope="module")
def predictions(answers) -> dict[str, str]:
    return {
        edit: answers.require_prediction(
            edit, section="Predictions", choices=(STOMPED, SURVIVES)
        ).value
        for edit in OWNED + FOREIGN
    }


class _Hands:
    """Somebody with kubectl, beside the controller: the edits, and the waits for what comes of them."""

    def __init__(self, api, namespace: str, running, rng) -> None:
        self.api, self.namespace, self.running, self.rng = api, namespace, running, rng
        word = "".join(rng.choices("abcdefghijkmnpqrstuvwxyz", k=6))
        self.foo, self.deployment = f"foo-{word}", f"{word}-deployment"
        self.replicas = rng.randint(1, 3)
        self.patience = PATIENCE
        self._looked = 0.0

    def settled(self) -> bool:
        """Whether Foo and Deployment agree, nothing is being rolled out, and the Foo's status says so.

        A Deployment that is still on its way would change its numbers by
        itself, and with them what the controller does next.
        """
        if time.monotonic() - self._looked < _LOOK:
            return False
        self._looked = time.monotonic()
        deployment = self.api.find("deployments", self.deployment, namespace=self.namespace)
        foo = self.api.find("foos", self.foo, namespace=self.namespace)
        if not deployment or not foo:
            return False
        status = deployment.get("status", {})
        counts = [deployment["spec"]["replicas"]]
        counts += [status.get(n, 0) for n in ("replicas", "updatedReplicas", "availableReplicas")]
        counts += [foo.get("status", {}).get("availableReplicas", 0)]
        return (
            set(counts) == {self.replicas}
            and status.get("observedGeneration") == deployment["metadata"]["generation"]
        )

    def create(self) -> None:
        foo = {
            "apiVersion": API_VERSION,
            "kind": "Foo",
            "metadata": {"name": self.foo, "namespace": self.namespace},
            "spec": {"deploymentName": self.deployment, "replicas": self.replicas},
        }
        self.api.create(foo)
        self._wait_settled("makes the Deployment that a new Foo asks for, and writes its status")

    def make_it_write(self) -> None:
        """Change the Foo, so that the controller writes the Deployment and the Foo's status again."""
        self.replicas += 1
        self._patch("foos", self.foo, {"spec": {"replicas": self.replicas}})
        self._wait_settled("follows the Foo's new number of replicas, and writes its status")

    def _wait_settled(self, what: str) -> None:
        try:
            self.running.until(self.settled, PATIENCE, what)
        except Fail:
            self._require_rolled_out()
            raise

    def _require_rolled_out(self) -> None:
        """Unknown where the cluster's own controllers have not done their part.

        Making Pods of a Deployment is theirs: no controller of Foos can be blamed
        for a rollout that stands still.
        """
        deployment = self.api.find("deployments", self.deployment, namespace=self.namespace)
        if deployment is None or deployment["spec"]["replicas"] != self.replicas:
            return
        status = deployment.get("status", {})
        if status.get("availableReplicas", 0) == self.replicas:
            return
        raise Unknown(
            f"The cluster rolls a Deployment of {self.replicas} out within {PATIENCE:g} s.",
            f"Its status is {status}: the cluster's own controllers have not caught up.",
            next="Check again; if it stays like this, `phase4 down` and then `phase4 up`.",
        )

    def edit_deployment(self, patch: dict) -> None:
        self._patch("deployments.apps", self.deployment, patch, type="strategic")

    def edit_foo(self, patch: dict, subresource: str | None = None) -> None:
        self._patch("foos", self.foo, patch, subresource=subresource)

    def _patch(self, resource: str, name: str, patch: dict, **how) -> None:
        self.api.patch(
            resource, name, patch, namespace=self.namespace, field_manager=SOMEONE, **how
        )

    def comes_back(self, resource: str, name: str, right: Callable[[dict], bool]) -> bool:
        """Wait until the object is as it was; False if that does not happen."""
        try:
            self.api.until(
                resource,
                name,
                self.namespace,
                lambda obj: obj is not None and right(obj),
                self.patience,
            )
        except TimeoutError:
            self.patience = IMPATIENCE
            return False
        return True


@pytest.fixture(scope="module")
def measured(predictions, submission, run, api, namespace, rng, observe) -> dict[str, Outcome]:
    in_the_artifacts = bool(submission.program_folder)
    observe("controller", "the Foo controller" if in_the_artifacts else "the one handed in")
    running = run(submission.program, client="controller")
    hands = _Hands(api, namespace, running, rng)
    hands.create()
    try:
        # The status first: nothing has moved yet but up to what was asked for. After
        # a scaling by hand the Deployment's numbers go on changing for a while, and
        # a controller that writes a status for that reason has put nothing back.
        outcomes = _status_edit(hands)
        outcomes |= _foreign_edits(hands)
        outcomes |= _owned_edits(hands)
    finally:
        # Without this the namespace would wait for a finalizer that nobody serves.
        hands.edit_foo({"metadata": {"finalizers": None}})
    for edit in OWNED + FOREIGN:
        predicted, measured = predictions[edit], outcomes[edit].what
        right = STOMPED if edit in OWNED else SURVIVES
        # A controller of one's own may send more, and then predictions are about that.
        if edit in FOREIGN and not in_the_artifacts and predicted == measured:
            right = measured
        observe(edit, compared(predicted, right, measured=measured))
    return outcomes


def _foreign_edits(hands: _Hands) -> dict[str, Outcome]:
    mark = "".join(hands.rng.choices("abcdefghijkmnpqrstuvwxyz", k=5))
    label, annotation, finalizer = (f"example.com/{kind}-{mark}" for kind in ("l", "a", "f"))
    hands.edit_deployment({"metadata": {"labels": {label: mark}}})
    hands.edit_deployment({"metadata": {"annotations": {annotation: mark}}})
    hands.edit_foo({"metadata": {"finalizers": [finalizer]}})
    # Twice: a controller may write more after what can be waited for. By the second
    # time it has ended what it began the first time, since a key has one worker.
    hands.make_it_write()
    hands.make_it_write()

    def without(resource: str, part: str, key: str) -> list[str]:
        writes = hands.running.timeline.writes(
            by="controller", resource=resource, namespace=hands.namespace, status=range(200, 300)
        )
        guilty = [w for w in writes if key not in (objects.metadata(w.answer).get(part) or ())]
        return [describe(guilty[-1], hands.running.timeline.start)] if guilty else []

    deployment = hands.api.get("deployments", hands.deployment, namespace=hands.namespace)
    foo = hands.api.get("foos", hands.foo, namespace=hands.namespace)
    places = (
        ("foreign label", deployment, "deployments", "labels", label),
        ("foreign annotation", deployment, "deployments", "annotations", annotation),
        ("finalizer of someone else", foo, "foos/*", "finalizers", finalizer),
    )
    outcomes = {}
    for edit, obj, resource, part, key in places:
        survived = key in (objects.metadata(obj).get(part) or ())
        outcomes[edit] = (
            Outcome(SURVIVES) if survived else Outcome(STOMPED, without(resource, part, key))
        )
    return outcomes


def _status_edit(hands: _Hands) -> dict[str, Outcome]:
    hands.edit_foo({"status": {"availableReplicas": 70 + hands.rng.randint(0, 9)}}, "status")
    came_back = hands.comes_back(
        "foos",
        hands.foo,
        lambda f: f.get("status", {}).get("availableReplicas") == hands.replicas,
    )
    return {"status": _outcome(came_back)}


def _owned_edits(hands: _Hands) -> dict[str, Outcome]:
    outcomes = {}

    def image_of(deployment: dict) -> str:
        return deployment["spec"]["template"]["spec"]["containers"][0]["image"]

    before = hands.api.get("deployments", hands.deployment, namespace=hands.namespace)
    container = before["spec"]["template"]["spec"]["containers"][0]
    by_hand = {
        "name": container["name"],
        "image": f"example.com/by-hand:{hands.rng.randint(2, 99)}",
    }
    hands.edit_deployment({"spec": {"template": {"spec": {"containers": [by_hand]}}}})
    hands.make_it_write()
    outcomes["managed field"] = _outcome(
        hands.comes_back(
            "deployments", hands.deployment, lambda d: image_of(d) == container["image"]
        )
    )

    hands.edit_deployment({"spec": {"replicas": hands.replicas + hands.rng.randint(2, 4)}})
    outcomes["scaled by hand"] = _outcome(
        hands.comes_back(
            "deployments", hands.deployment, lambda d: d["spec"]["replicas"] == hands.replicas
        )
    )
    return outcomes


def _outcome(came_back: bool) -> Outcome:
    return Outcome(STOMPED if came_back else SURVIVES)


@check(
    "4.1.5/predicted",
    title="What happens to each of the six edits is predicted, right or wrong",
    points=2,
    evidence="written",
)
def check_predicted(predictions):
    """All is judged by the fixture: whoever comes here has predicted all six."""


@check(
    "4.1.5/owned",
    title="The controller restores what it owns: the managed field, the replicas, the status",
    points=2,
    evidence="live",
)
def check_owned(measured):
    left = [edit for edit in OWNED if measured[edit].what == SURVIVES]
    if left:
        raise Fail(
            "What the controller itself sets is put back after somebody changed it by hand.",
            f"The controller left it as it was: {', '.join(left)}.",
            why="The Foo still says what should be. A controller that only acts on changes of the "
            "Foo lets the cluster drift away from it.",
            next="Compare each field that you write with what is there, whenever the child or the "
            "Foo's status changes, and not only when the Foo's spec does.",
            diagnosis=f"not-put-back-{left[0].replace(' ', '-')}",
        )


@check(
    "4.1.5/foreign",
    title="What others have set survives the controller's next write, as far as was predicted",
    points=3,
    evidence="live",
)
def check_foreign(measured, predictions):
    for edit in FOREIGN:
        if measured[edit].what == STOMPED and predictions[edit] == SURVIVES:
            raise Fail(
                f"The {edit} is still there after the controller's next write, as you predicted.",
                "It was gone after this write." if measured[edit].evidence else "It was gone.",
                why="Its owner was not asked. Two controllers that each replace the whole "
                "object undo each other for ever.",
                next="Send only the fields that are yours (server-side apply, or a patch of "
                "those), or start from the object as it is now and not from an empty one.",
                diagnosis="foreign-finalizer-removed"
                if "finalizer" in edit
                else "full-put-stomps-foreign",
                evidence=measured[edit].evidence,
            )


@check(
    "4.1.5/field-ownership",
    title="A sentence says how it is known whose a field is, and what follows from that",
    points=2,
    evidence="written",
)
def check_field_ownership(answers):
    question = questions.of("4.1.5/field-ownership")
    question.require(answers.require_section(question.heading))
