"""4.4.6 A namespace that will not go, and the condition that says why.

Every kind of namespace (:mod:`grader.labs.lab_4_4_6_kinds`) is made for real, under
names drawn for this run. The learner's ``diagnose`` is started once for each, in an
order drawn at random. Then each cause is mended as its owner would, and each namespace
has to go by itself; whatever a check that was killed leaves is swept by the next.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from grader.cluster import binaries
from grader.cluster.errors import ClusterLost
from grader.cluster.interface import Capability
from grader.evidence import answers as written
from grader.evidence import questions
from grader.labs import check, leftovers
from grader.labs import lab_4_4_6_said as reading
from grader.labs.lab_4_4_6_kinds import KINDS
from grader.labs.lab_4_4_6_wedges import Names, Wedge, wait
from grader.report import pictures
from grader.report.predictions import compared
from grader.verdict import Fail, NotGraded, Outcome, Unknown
from grader.witness import describe

#: One check makes the namespaces that it needs, and no others.
CHECKS_STAND_ALONE = True
#: The kinds that each check is about.
SUBJECTS = {
    "4.4.6/finalizers": ("operator-gone", "chain", "crd-version"),
    "4.4.6/failures": ("apiservice", "webhook"),
    "4.4.6/silent": ("grace", "own-finalizer"),
    "4.4.6/not-wedged": ("not-wedged", "recreated"),
    "4.4.6/only-looks": ("operator-gone", "grace"),
    "4.4.6/order": ("grace",),
}
#: Seconds that a diagnosis may take, until a namespace is wedged, and until a cleared one goes.
DIAGNOSIS, WEDGED, CLEARED = 45.0, 60.0, 90.0
STAYS, GONE = "stays", "gone"
CONTROLLER = "system:serviceaccount:kube-system:namespace-controller"


@dataclass
class Round:
    """What was made, what was said about it, and how it ended."""

    wedges: dict[str, Wedge] = field(default_factory=dict)
    #: By kind: the lines that were printed, or why there are none.
    said: dict[str, list[reading.Said] | Outcome] = field(default_factory=dict)
    cleared: dict[str, str] = field(default_factory=dict)
    #: Whether the ConfigMap was there while the Pod beside it took its time.
    beside: bool | None = None

    def judge(self, kind: str) -> None:
        said = self.said[kind]
        if isinstance(said, Outcome):
            raise said
        reading.judge(self.wedges[kind], said)


@pytest.fixture(scope="module")
def predicted(submission) -> str:
    answers = written.parse(submission.text("answers.md"))
    entry = answers.require_prediction(
        "ConfigMap beside the Pod", section="Prediction", choices=(STAYS, GONE)
    )
    return entry.value


@pytest.fixture(scope="module")
def found(submission, run, api, grading, phase4, observe) -> Round:
    if submission.untouched("diagnose.py") and submission.untouched("program.toml"):
        raise NotGraded(
            "diagnose.py has your diagnosis, or program.toml starts another program of yours.",
            "Both are as they were given.",
            next=f"`./phase4 show {submission.lab}` says what goes into them.",
            diagnosis="answer-missing",
        )
    program = submission.program
    wanted = {kind for id, kinds in SUBJECTS.items() if grading.asks_for(id) for kind in kinds}
    names, made = Names(), Round()
    chosen = [kind for kind in KINDS if kind.kind in wanted]
    random.SystemRandom().shuffle(chosen)
    # Every wait in it has a limit of its own.
    with phase4.untimed("namespaces are wedged, diagnosed and cleared"):
        try:
            together = [kind(api, names) for kind in chosen if not kind.alone]
            _go_through(together, made, program, run)
            for kind in chosen:
                if kind.alone:
                    _go_through([kind(api, names)], made, program, run)
        finally:
            leftovers.sweep(api)
    for kind, how in made.cleared.items():
        observe(f"cleared: {made.wedges[kind].title}", how)
    return made


def _go_through(wedges: list[Wedge], made: Round, program, run) -> None:
    """Make these namespaces, have each diagnosed, mend each cause, and wait until all are gone."""
    try:
        with ThreadPoolExecutor(max(1, len(wedges))) as pool:
            list(pool.map(lambda wedge: wedge.make(), wedges))
        for wedge in wedges:
            made.wedges[wedge.kind] = wedge
            wait(f"{wedge.title} is there", wedge.stuck, WEDGED)
        for wedge in wedges:
            if wedge.kind == "grace":
                made.beside = wedge.beside is not None
            made.said[wedge.kind] = _said(wedge, made, program, run)
    except TimeoutError as error:
        raise Unknown("The cluster wedges the namespaces of this lab.", f"{error}.") from None
    finally:
        for wedge in wedges:
            _clear(wedge, made)
    for wedge in wedges:
        try:
            wait(f"{wedge.title} goes once its cause is mended", lambda w=wedge: w.is_gone, CLEARED)
        except TimeoutError as error:
            raise Unknown("A namespace whose cause is mended goes.", f"{error}.") from None


def _clear(wedge: Wedge, made: Round) -> None:
    try:
        made.cleared[wedge.kind] = wedge.clear()
        wedge.touch()
        for other in wedge.others:
            leftovers.gone(wedge.api, "namespaces", other)
    except ClusterLost:
        raise
    except Exception as error:  # one that was not made to its end; the sweep takes it
        made.cleared[wedge.kind] = f"swept away ({type(error).__name__})"


def _said(wedge: Wedge, made: Round, program, run) -> list[reading.Said] | Outcome:
    """What the program prints about one namespace. After one hang no other is waited for."""
    hung = [one for one in made.said.values() if isinstance(one, Outcome)]
    if hung and hung[0].message.diagnosis in ("program-hangs", "program-not-started"):
        return hung[0]
    try:
        running = run(
            program,
            "diagnose",
            env={
                "NAMESPACE": wedge.namespace,
                "NAMESPACE_UID": wedge.uid,
                "KUBECACHEDIR": "/tmp/kubectl"
                if run.isolation == "bwrap"
                else str(run.run_dir / "kubectl-cache"),
            },
            tools={"kubectl": binaries.ensure(["kubectl"])["kubectl"]},
        )
        how = running.wait_exit(DIAGNOSIS, "ends")
        if how.code != 0:
            missing = how.code in (126, 127)
            raise Fail(
                f"`{running.shown}` ends with exit code 0, whatever it finds.",
                f"It {how}, for «{wedge.title}»."
                + (
                    f" {how.code} is the shell's way of saying that a command is not on this "
                    "machine."
                    if missing
                    else ""
                ),
                next="Its error is below. kubectl is there, and python3; what else it needs you "
                "have to bring along.",
                diagnosis="tool-missing" if missing else "program-exited",
                evidence=running.stderr_tail(6),
            )
        return reading.read(running.stdout_lines)
    except Outcome as outcome:
        return outcome


@check(
    "4.4.6/finalizers",
    title="An operator that is gone, one whose CRD version is, and a chain across namespaces: "
    "object and finalizer are named",
    points=3,
    evidence="live",
)
def check_finalizers(found):
    for kind in SUBJECTS["4.4.6/finalizers"]:
        found.judge(kind)


@check(
    "4.4.6/failures",
    title="A dead APIService and a webhook that refuses deletes are named, with their condition",
    points=3,
    evidence="live",
)
def check_failures(found):
    for kind in SUBJECTS["4.4.6/failures"]:
        found.judge(kind)


@check(
    "4.4.6/silent",
    title="What no condition speaks of is found: a Pod's grace period, the Namespace's own finalizer",
    points=2,
    evidence="live",
)
def check_silent(found):
    for kind in SUBJECTS["4.4.6/silent"]:
        found.judge(kind)


@check(
    "4.4.6/not-wedged",
    title="A namespace that is not wedged is called that, and so is one that was made again",
    points=2,
    evidence="live",
)
def check_not_wedged(found):
    for kind in SUBJECTS["4.4.6/not-wedged"]:
        found.judge(kind)


@check(
    "4.4.6/only-looks",
    title="The diagnosis changes nothing: no /finalize, no patch, no delete",
    points=2,
    evidence="live",
)
def check_only_looks(found, run):
    for kind in SUBJECTS["4.4.6/only-looks"]:
        if isinstance(found.said[kind], Outcome):
            raise found.said[kind]
    timeline = run.timeline
    writes = [e for e in timeline.writes(by="diagnose") if not e.resource.endswith("accessreviews")]
    if not writes:
        return
    forced = [e for e in writes if e.subresource == "finalize"]
    first = (forced or writes)[0]
    raise Fail(
        "diagnose looks, and changes nothing.",
        f"It sent {len(writes)} writes; one of them was {first.method} {first.path}, as the API "
        "server's audit log has it.",
        why="PUT /finalize takes the namespace away and leaves its objects in etcd, with their "
        "finalizers, out of everybody's sight. Make a namespace of that name again, and they are "
        "back."
        if forced
        else "Who diagnoses on a cluster that is not theirs has to be trusted to leave it as it is.",
        next="Leave every write out. `--dry-run=server` is allowed.",
        diagnosis="forces-finalize" if forced else "writes",
        evidence=[describe(e, timeline.start) for e in (forced or writes)[:5]],
    )


@check(
    "4.4.6/order",
    title="What is deleted first is predicted, and shown from the audit log",
    points=1,
    evidence="written",
)
def check_order(predicted, found, cluster, run, observe):
    cluster.require(Capability.AUDIT)
    if found.beside is None:
        raise Unknown("A namespace has a Pod that takes its time.", "It was not made.")
    right = STAYS
    seen = STAYS if found.beside else GONE
    if seen != right:
        raise Unknown(
            "While Pods remain, the namespace controller deletes nothing else (KEP-5080).",
            "The ConfigMap beside the Pod was gone.",
        )
    observe("the ConfigMap beside the Pod", compared(predicted, right, measured=seen))
    namespace = found.wedges["grace"].namespace
    timeline = run.timeline
    asked = [
        e
        for e in timeline.writes(namespace=namespace, verb="deletecollection")
        if CONTROLLER in (e.client, e.user)
    ]
    pods = [e.t_request for e in asked if e.resource == "pods"]
    rest = [e for e in asked if e.resource != "pods"]
    ends = timeline.writes(namespace=namespace, resource="pods", verb="delete", status=200)
    if not pods or not rest or not ends or rest[0].t_request < ends[0].t_request:
        raise Unknown(
            "The audit log has the namespace controller delete Pods first, and the rest after them.",
            f"It has {len(pods)} deletes of Pods, {len(rest)} of other resources, and "
            f"{len(ends)} ends of a Pod, in another order.",
        )
    observe("what goes first", _picture(pods, rest, ends[0].t_request))


def _picture(pods: list[float], rest: list, ended: float) -> dict[str, str]:
    """The namespace controller's deletes in a namespace with a Pod that takes its time."""
    start = pods[0]
    kinds = len({(e.group, e.resource) for e in rest})
    takes = [pictures.Span(0.0, ended - start, "the Pod takes its time")]
    first = [pictures.Moment(0.0, "delete the Pods")]
    then = [pictures.Moment(rest[0].t_request - start, f"delete {kinds} other resources")]
    return pictures.lanes(
        "What the namespace controller deletes, and when",
        f"It asks for the Pods to be deleted. {ended - start:.1f} s later the Pod has ended, and "
        f"{rest[0].t_request - start:.1f} s after the first it asks for {kinds} other resources.",
        [pictures.Lane("Pods", takes, first), pictures.Lane("everything else", [], then)],
    )


@check(
    "4.4.6/why",
    title="A few sentences say what makes a namespace stick in Terminating",
    points=2,
    evidence="written",
)
def check_why(submission):
    answers = written.parse(submission.text("answers.md"))
    question = questions.of("4.4.6/why")
    question.require(answers.require_section(question.heading))
