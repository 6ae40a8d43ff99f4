"""4.2.7 4.C4 — a controller with an empty cache concludes nothing should exist.

The pruner runs three times, each in a namespace of its own: once without the
learner's part, while the list of one kind of owner is held back; and twice with
it, once for each kind of owner. What it destroyed is counted at the API server.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from grader.evidence import answers as written
from grader.evidence.rubric import Concept, Rubric, WrongClaim
from grader.labs import check
from grader.verdict import Fail
from grader.witness import describe

CONFIGMAPS, SERVICEACCOUNTS = 3, 2
#: Seconds until the program is ready, and that it has to prune once it may.
STARTING, PATIENCE = 40.0, 25.0
#: For how long (seconds) a list is held back while nothing may be destroyed.
HELD = 7.0
#: Whoever destroys later than this after the children were known has waited for something else.
AT_ONCE = 1.8

RECOVERY = Rubric(
    (
        Concept(
            "what recovers: looking again at the state (re-read, resync, level-triggered), not at an event",
            (
                "re-read*",
                "read* … again",
                "look* … again",
                "resync*",
                "level-trigger*",
                "level-based",
                "again … state",
                "next reconcile",
                "reconcile* again",
            ),
            diagnosis="looking-again-missing",
        ),
        Concept(
            "what it cannot bring back: a delete that was made",
            (
                "cannot … back",
                "not … back",
                "gone",
                "undo*",
                "irreversib*",
                "destroyed",
                "no way back",
                "lost",
                "too late",
            ),
            diagnosis="no-undo-missing",
        ),
    ),
    (
        WrongClaim(
            "a resync fetches the list again",
            ("resync lists", "resync … from the API server", "resync fetches", "resync relists"),
            "A resync tells handlers again what the cache has; no request is made.",
            diagnosis="claims-resync-lists",
        ),
    ),
)


@dataclass
class Outcome:
    """What one run destroyed while a list was held back, and what it did afterwards."""

    kind: str
    destroyed: list[str] = field(default_factory=list)
    #: Seconds from when the children were known to the first delete; None: there was none.
    after: float | None = None
    orphan_kept: bool = True
    lost_later: list[str] = field(default_factory=list)
    ended: str = ""
    evidence: list[str] = field(default_factory=list)


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


def _run(program, client: str, kind: str, run, api, namespace: str, *, release: bool) -> Outcome:
    place = _Place(api, namespace)
    running = run(program, client, env={"NAMESPACE": namespace}, rules=[f"hold list {kind}"])
    running.wait_line(lambda line: line == "started", STARTING, "prints started")

    def known() -> bool:
        """Whether the children's list, or the watch that brings it, was answered."""
        reads = running.timeline.reads(by=client, resource="secrets")
        return any(exchange.status == 200 for exchange in reads)

    running.until(known, STARTING, "asks for the children")
    since = max(e.t_request for e in running.timeline.reads(by=client, resource="secrets"))

    def deletes() -> list:
        return list(running.timeline.writes(by=client, resource="secrets", verb="delete"))

    def destroyed() -> list[str]:
        return sorted(set(place.owned) - place.there())

    outcome = Outcome(kind)
    try:
        # It is waited for something that must not happen; so the time is what it is.
        running.until(lambda: bool(destroyed()), HELD, "destroys something")
        running.until(lambda: len(destroyed()) >= _at_stake(kind), 5, "destroys the rest")
    except Fail:
        pass
    outcome.destroyed = destroyed()
    if deletes():
        outcome.after = deletes()[0].t_request - since
    outcome.evidence = [describe(each, running.timeline.start) for each in deletes()[:6]]
    outcome.ended = str(running.exited) if running.exited else ""
    if release and not outcome.ended:
        running.wire.rules.thaw()
        try:
            running.until(lambda: "orphan" not in place.there(), PATIENCE, "prunes the orphan")
        except Fail:
            pass
        outcome.orphan_kept = "orphan" in place.there()
        outcome.lost_later = sorted(set(destroyed()) - set(outcome.destroyed))
    if not running.exited:
        running.kill()
    return outcome


def _at_stake(kind: str) -> int:
    """How many children have an owner of the kind whose list is held back."""
    return CONFIGMAPS if kind == "configmaps" else SERVICEACCOUNTS


@pytest.fixture(scope="module")
def unsafe(submission, run, api, new_namespace) -> Outcome:
    program = submission.program_named("unsafe")
    return _run(program, "unsafe", "configmaps", run, api, new_namespace(), release=False)


@pytest.fixture(scope="module")
def safe(submission, run, api, new_namespace) -> dict[str, Outcome]:
    return {
        kind: _run(submission.program, client, kind, run, api, new_namespace(), release=True)
        for kind, client in (("configmaps", "pruner"), ("serviceaccounts", "pruner-2"))
    }


@check(
    "4.2.7/unsafe",
    title="What the pruner destroys when it does not wait was predicted, and is counted",
    points=1,
    evidence="written",
)
def check_unsafe(submission, unsafe, observe):
    answers = written.parse(submission.text("answers.md"))
    entry = answers.require_prediction("destroyed", section="Predictions", number=True)
    observe("destroyed", {"predicted": entry.number(), "measured": len(unsafe.destroyed)})


@check(
    "4.2.7/waits",
    title="While a list of owners is held back, nothing is destroyed",
    points=3,
    evidence="live",
)
def check_waits(safe):
    for outcome in safe.values():
        if outcome.ended:
            raise Fail(
                "While the list is held back the pruner waits.",
                f"It {outcome.ended}.",
                why="A controller that ends because its API server is slow is started again at "
                "once, and asks again: a hundred of them keep it slow.",
                next="Wait until the caches have synced, or until the process is told to stop.",
                diagnosis="stops-waiting",
            )
    hurt = [outcome for outcome in safe.values() if outcome.destroyed]
    if not hurt:
        return
    outcome = hurt[0]
    count = f"{len(outcome.destroyed)} of {_at_stake(outcome.kind)}"
    if len(hurt) == 1:
        diagnosis, seen, next_ = (
            "waits-for-one-cache",
            f"{count} children were deleted while the {outcome.kind} were held back; while the "
            "other kind of owner was, none.",
            "How many caches does the conclusion rest on? Each of them must have synced.",
        )
    elif (outcome.after or 0.0) > AT_ONCE:
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
        why="An empty cache says that nothing exists. A controller that believes it deletes "
        "everything that it looks after, in every namespace, within a second.",
        next=next_,
        diagnosis=diagnosis,
        evidence=outcome.evidence,
    )


@check(
    "4.2.7/prunes",
    title="Right after the sync the orphan is pruned, and every child of an owner is left",
    points=2,
    evidence="live",
)
def check_prunes(safe):
    for outcome in safe.values():
        if outcome.orphan_kept:
            raise Fail(
                "When the lists have come, the child whose owner does not exist is deleted.",
                f"It was still there {PATIENCE:g} s after the {outcome.kind} were let go.",
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


@check(
    "4.2.7/recovery",
    title="A sentence says why looking again recovers from most mistakes, and why not from this one",
    points=1,
    evidence="written",
)
def check_recovery(submission):
    answers = written.parse(submission.text("answers.md"))
    RECOVERY.require(
        answers.require_section("Why looking again is not enough"),
        expected="The answer says what a later look at the state puts right, and what it cannot.",
        why="It is the difference between a controller that was late and an outage.",
    )
