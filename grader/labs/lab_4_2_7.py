"""4.2.7 4.C4 — a controller with an empty cache concludes nothing should exist.

The pruner runs four times, each in a namespace of its own: once without the
learner's part, while the list of one kind of owner is held back; and three times
at once with it: with each kind of owner held back, and with nothing held back,
which tells waiting for the caches from waiting for some time. What it destroyed
is counted at the API server.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from grader.evidence import answers as written
from grader.evidence import questions
from grader.labs import check
from grader.report import pictures
from grader.report.predictions import compared
from grader.runner.running import RunningProgram
from grader.verdict import Fail, NotGraded
from grader.wire.records import Exchange
from grader.witness import describe

#: No check needs what another one left behind.
CHECKS_STAND_ALONE = True

CONFIGMAPS, SERVICEACCOUNTS = 3, 2
#: Seconds until the program is ready, and that it has to prune once the lists have come.
STARTING, PATIENCE = 40.0, 8.0
#: For how long (seconds) a list is held back while nothing may be destroyed.
HELD = 4.0
#: Whoever destroys later than this after the children were known has waited for something else.
AT_ONCE = 1.8
#: Whoever is so much slower where nothing was held back has let the time pass that it was.
BY_THE_CLOCK = 3.0


class _Place:
    """A namespace with owners, their children, and one child whose owner never was."""

    def __init__(self, api, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.owned: list[str] = []
        for kind, plural, count in (
            ("ConfigMap", "configmaps", CONFIGMAPS),
            ("ServiceAccount", "serviceaccounts", SERVICEACCOUNTS),
        ):
            for i in range(count):
                name = f"{kind.lower()}-{i}"
                api.create(
                    {
                        "apiVersion": "v1",
                        "kind": kind,
                        "metadata": {
                            "name": name,
                            "namespace": namespace,
                            "labels": {"kind": "owner"},
                        },
                    }
                )
                self.child(f"child-of-{name}", f"{plural}/{name}")
                self.owned.append(f"child-of-{name}")
        self.child("orphan", "configmaps/nobody")

    def child(self, name: str, owner: str) -> None:
        self.api.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": name,
                    "namespace": self.namespace,
                    "labels": {"kind": "child"},
                    "annotations": {"owner": owner},
                },
            }
        )

    def there(self) -> set[str]:
        found = self.api.list("secrets", namespace=self.namespace, label_selector="kind=child")
        return {item["metadata"]["name"] for item in found["items"]}


@dataclass
class _Run:
    """One pruner in its place, and what it has done so far. ``kind`` is what is held back."""

    client: str
    kind: str
    place: _Place
    running: RunningProgram
    #: When the children were known; the time from then to the first delete.
    since: float = 0.0
    after: float = 0.0
    #: When its list was no longer held, or it was ended.
    until: float = 0.0
    #: Children of owners that are gone, before and after the list was no longer held.
    destroyed: tuple[str, ...] = ()
    lost_later: tuple[str, ...] = ()
    orphan_kept: bool = True
    #: From when the last list had come to when the orphan was pruned.
    delay: float = 0.0
    ended: str = ""
    evidence: tuple[str, ...] = ()

    @classmethod
    def started(cls, program, client: str, kind: str, run, api, namespace: str) -> _Run:
        place = _Place(api, namespace)
        rules = [f"hold list {kind}"] if kind else []
        running = run(program, client, env={"NAMESPACE": namespace}, rules=rules)
        return cls(client, kind, place, running)

    def answered(self, resource: str) -> list[float]:
        """When lists of a resource were answered, or the watches that bring it."""
        reads = self.running.timeline.reads(by=self.client, resource=resource)
        return [e.t_response or e.t_request for e in reads if e.status == 200]

    def deletes(self) -> list[Exchange]:
        """The deletes that the API server did."""
        writes = self.running.timeline.writes(by=self.client, resource="secrets", verb="delete")
        return [e for e in writes if e.status == 200]

    def ready(self) -> None:
        self.running.wait_line(lambda line: line == "started", STARTING, "prints started")
        self.running.until(lambda: self.answered("secrets"), STARTING, "asks for the children")
        self.since = max(self.answered("secrets"))

    @property
    def at_stake(self) -> int:
        """How many children have an owner of the kind that is held back."""
        return {"configmaps": CONFIGMAPS, "serviceaccounts": SERVICEACCOUNTS, "": 0}[self.kind]

    def harm_is_done(self) -> bool:
        hurt = sum(e.name in self.place.owned for e in self.deletes())
        return bool(self.running.exited) or 0 < self.at_stake <= hurt

    def count(self) -> None:
        """What was destroyed while the list was held back: nothing where none was."""
        if self.kind:
            self.destroyed = tuple(sorted(set(self.place.owned) - self.place.there()))
        deletes = self.deletes()
        if deletes:
            self.after = deletes[0].t_request - self.since
        start = self.running.timeline.start
        self.evidence = tuple(describe(each, start) for each in deletes[:6])
        self.ended = str(self.running.exited or "")

    def pruned_orphan(self) -> bool:
        return any(e.name == "orphan" for e in self.deletes())

    def count_again(self) -> None:
        there = self.place.there()
        self.orphan_kept = "orphan" in there
        self.lost_later = tuple(sorted(set(self.place.owned) - there - set(self.destroyed)))
        pruned = [e.t_request for e in self.deletes() if e.name == "orphan"]
        lists = [
            t
            for resource in ("secrets", "configmaps", "serviceaccounts")
            for t in self.answered(resource)
        ]
        if pruned:
            self.delay = pruned[0] - max((t for t in lists if t < pruned[0]), default=pruned[0])


def _picture(title: str, runs: list[_Run]) -> dict[str, str]:
    """When each list was held back, and what was deleted when, from when the children were known."""
    rows = []
    for each in runs:
        deletes = each.deletes()
        owned = [e for e in deletes if e.name in each.place.owned]
        moments = [
            pictures.Moment(some[0].t_request - each.since, label)
            for some, label in (
                (owned, f"{len(owned)} owned children"),
                ([e for e in deletes if e.name == "orphan"], "the orphan"),
            )
            if some
        ]
        held = [pictures.Span(0.0, each.until - each.since, "the list is held back")]
        name = f"{each.kind} held" if each.kind else "nothing held"
        rows.append(pictures.Lane(name, held if each.kind else [], moments))
    told = "; ".join(
        f"{row.name}: "
        + (", ".join(f"{m.label} at {m.at:.1f} s" for m in row.moments) or "nothing deleted")
        for row in rows
    )
    return pictures.lanes(title, f"What was deleted when. {told}.", rows)


def _held(runs: list[_Run], seconds: float) -> None:
    """Wait until it is seen what they destroy, or for so long: for what must not happen."""
    for each in runs:
        each.ready()
    until = time.monotonic() + seconds
    for each in runs:
        if not each.kind or each.running.exited:
            continue
        each.running.until(
            lambda each=each: each.harm_is_done() or time.monotonic() > until,
            seconds + STARTING,
            "goes on",
        )
    for each in runs:
        each.count()


@pytest.fixture(scope="module")
def unsafe(predicted, submission, run, api, new_namespace) -> _Run:
    program = submission.program_named("unsafe")
    alone = _Run.started(program, "unsafe", "configmaps", run, api, new_namespace())
    _held([alone], HELD)
    if not alone.running.exited:
        alone.running.kill()
    alone.until = time.time()
    return alone


@pytest.fixture(scope="module")
def held(submission, run, api, new_namespace) -> list[_Run]:
    """The learner's pruner three times at once; what each destroyed while a list was held back."""
    runs = [
        _Run.started(submission.program, client, kind, run, api, new_namespace())
        for client, kind in (
            ("pruner", "configmaps"),
            ("pruner-2", "serviceaccounts"),
            ("pruner-3", ""),
        )
    ]
    _held(runs, HELD)
    return runs


@pytest.fixture(scope="module")
def unheld(held) -> list[_Run]:
    """The same, some time after the lists were no longer held."""
    if any(each.destroyed for each in held):
        raise NotGraded(
            "What is pruned after the sync can be told from what was before.",
            "Children were deleted before the lists had come.",
            next="Start with the wait.",
            diagnosis="destroyed-before",
        )
    for each in held:
        each.running.wire.rules.clear()
        each.until = time.time()
    for each in held:
        if each.running.exited:
            continue
        each.running.until(
            lambda each=each: each.answered("configmaps") and each.answered("serviceaccounts"),
            STARTING,
            "gets every list",
        )
    until = time.monotonic() + PATIENCE
    for each in held:
        if each.running.exited:
            continue
        each.running.until(
            lambda each=each: (
                bool(each.running.exited) or each.pruned_orphan() or time.monotonic() > until
            ),
            PATIENCE + STARTING,
            "goes on",
        )
    for each in held:
        each.count_again()
        if not each.running.exited:
            each.running.kill()
    return held


@pytest.fixture(scope="module")
def predicted(submission) -> float:
    answers = written.parse(submission.text("answers.md"))
    return answers.require_prediction("destroyed", section="Predictions", number=True).number()


@check(
    "4.2.7/unsafe",
    title="What the pruner destroys when it does not wait was predicted, and is counted",
    points=1,
    evidence="written",
)
def check_unsafe(predicted, unsafe, observe):
    observe("destroyed", compared(predicted, unsafe.at_stake, measured=len(unsafe.destroyed)))
    observe("without the wait", _picture("Without the wait", [unsafe]))


@check(
    "4.2.7/waits",
    title="While a list of owners is held back, nothing is destroyed",
    points=3,
    evidence="live",
)
def check_waits(held):
    for outcome in held:
        if outcome.ended:
            raise Fail(
                "While the list is held back the pruner waits.",
                f"It {outcome.ended}.",
                why="A controller that ends because its API server is slow is started again at "
                "once, and asks again: a hundred of them keep it slow.",
                next="Wait until the caches have synced, or until the process is told to stop.",
                diagnosis="stops-waiting",
            )
    hurt = [outcome for outcome in held if outcome.kind and outcome.destroyed]
    if not hurt:
        return
    outcome = hurt[0]
    count = f"{len(outcome.destroyed)} of {outcome.at_stake}"
    if len(hurt) == 1:
        diagnosis, seen, next_ = (
            "waits-for-one-cache",
            f"{count} children were deleted while the {outcome.kind} were held back; while the "
            "other kind of owner was, none.",
            "On how many caches does the conclusion rely? Each of them must have synced.",
        )
    elif outcome.after > AT_ONCE:
        diagnosis, seen, next_ = (
            "gives-up-waiting",
            f"{count} children were deleted, {outcome.after:.1f} s after the children were known.",
            "Waiting for some time is not waiting for the caches. What does the wait return, and "
            "who looks at it?",
        )
    else:
        diagnosis, seen, next_ = (
            "acts-before-sync",
            f"{count} children were deleted, as soon as the children were known.",
            "What has to be true before the first worker starts?",
        )
    raise Fail(
        "Nothing is deleted as long as the list of some owners has not come.",
        seen,
        why="An empty cache says that nothing exists. A controller that trusts it deletes "
        "everything that it manages, in every namespace, within a second.",
        next=next_,
        diagnosis=diagnosis,
        evidence=list(outcome.evidence),
    )


@check(
    "4.2.7/prunes",
    title="Right after the sync the orphan is pruned, and every child of an owner is left",
    points=2,
    evidence="live",
)
def check_prunes(unheld, observe):
    observe("with the wait", _picture("With the wait", unheld))
    for outcome in unheld:
        if outcome.orphan_kept:
            raise Fail(
                "When the lists have come, the child whose owner does not exist is deleted.",
                f"It was still there {PATIENCE:g} s after every list had come.",
                why="A wait that never ends is safe, and useless.",
                next="Does the wait end when all caches have synced? Does a worker start then?",
                diagnosis="never-prunes",
            )
        if outcome.lost_later:
            raise Fail(
                "Children whose owner exists are left alone.",
                f"After the lists had come, {', '.join(outcome.lost_later)} was deleted.",
                next="Which cache was asked for its owner, and had it synced?",
                diagnosis="deletes-the-owned",
            )
    free = next(outcome for outcome in unheld if not outcome.kind)
    slowest = max(outcome.delay for outcome in unheld if outcome.kind)
    if free.delay - slowest > BY_THE_CLOCK:
        raise Fail(
            "The orphan is pruned as soon as the last list has come.",
            f"Where no list was held back it was pruned {free.delay:.1f} s after the last one; "
            f"where one was, {slowest:.1f} s after it.",
            why="So it is some time that is waited for. It is too long on a good day, and too "
            "short on a bad one: then everything is deleted.",
            next="Wait for the caches, and for nothing else.",
            diagnosis="waits-for-the-clock",
        )


@check(
    "4.2.7/recovery",
    title="A sentence says why looking again recovers from most mistakes, and why not from this one",
    points=1,
    evidence="written",
)
def check_recovery(submission):
    answers = written.parse(submission.text("answers.md"))
    question = questions.of("4.2.7/recovery")
    question.require(answers.require_section(question.heading))
