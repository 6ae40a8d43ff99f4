"""4.1.4 One log line per stage, and the order they fire in.

The program runs behind a wire that records what the API server sends it. The
grader creates, updates and deletes Foos, and once holds back a write, so that
the worker is busy while changes arrive. Then the lines are compared with each
other and with the wire: :mod:`grader.labs.lab_4_1_4_lines` has the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from grader.labs import check
from grader.labs import lab_4_1_4_lines as stage_lines
from grader.labs.lab_4_1_4_lines import Heard, StageLine
from grader.verdict import Fail, NotGraded
from grader.witness import objects

#: Seconds until the first line about a Foo, imports and connection included.
STARTING = 30.0
#: Seconds that one step may take after that. They take a few hundredths.
PATIENCE = 15.0
API_VERSION = "samplecontroller.k8s.io/v1alpha1"


@dataclass
class Driven:
    """One run: what was printed, what came over the wire, and the part in which the worker was held."""

    lines: list[StageLine]
    #: The lines up to the moment when all that was enqueued had been reconciled, or time was up.
    settled: list[StageLine]
    heard: list[Heard]
    tail: list[str]
    failed_writes: int
    busy_key: str
    #: Versions that the busy key went through while its worker was held; None: no write to hold.
    burst: list[int] | None
    #: How many lines had been printed when the worker's write was answered.
    held_until: int
    #: Whether the worker then came to the last state of the burst.
    caught_up: bool


class _Drive:
    """The grader's hands in one run: makes a change, and waits until the lines show it or time is up."""

    def __init__(self, api, namespace: str, running, rng) -> None:
        self.api, self.namespace, self.running, self.rng = api, namespace, running, rng
        self.patience = PATIENCE
        self._parsed: list[StageLine] = []
        self._read = 0

    def name(self) -> str:
        return "foo-" + "".join(self.rng.choices("abcdefghijkmnpqrstuvwxyz23456789", k=6))

    def create(self, name: str) -> int:
        foo = {
            "apiVersion": API_VERSION,
            "kind": "Foo",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"deploymentName": f"{name}-deployment", "replicas": self.rng.randint(1, 4)},
        }
        return _version(self.api.create(foo))

    def touch(self, name: str) -> int:
        """A change of the spec that is a change for sure; returns its resourceVersion."""
        now = self.api.get("foos", name, namespace=self.namespace)["spec"]["replicas"]
        other = self.rng.choice([n for n in range(1, 7) if n != now])
        spec = {"spec": {"replicas": other}}
        return _version(self.api.patch("foos", name, spec, namespace=self.namespace))

    def reached(self, condition: Callable[[], object]) -> bool:
        """Wait for the lines to show something. False when they don't: the checks say what is missing.

        Whoever kept us waiting once is wrong already; it is not waited for so
        long again.
        """
        try:
            self.running.until(condition, self.patience, "prints it")
        except Fail:
            if self.running.exited:
                raise
            self.patience = 1.0
            return False
        return True

    def speaks(self) -> bool:
        """Wait for the first stage line. False once it works and is silent: nothing more will come."""

        def works() -> bool:
            deployments = self.running.timeline.writes(
                resource="deployments", namespace=self.namespace, status=range(200, 300)
            )
            return bool(self.lines() or deployments)

        try:
            self.running.until(works, STARTING, "prints a stage line")
            # The line stands before the write; it may not have been read yet.
            self.running.until(self.lines, 1.0, "prints a stage line")
        except Fail:
            if self.running.exited:
                raise
            return False
        return True

    def lines(self) -> list[StageLine]:
        """The stage lines so far; what is printed later is not in this list."""
        new = self.running.stdout_lines[self._read :]
        self._parsed += stage_lines.parse(new, self.namespace, self._read + 1)
        self._read += len(new)
        return list(self._parsed)

    def at(self, stage: str, name: str, version: int) -> Callable[[], bool]:
        """Whether a stage has printed that version of a Foo, or a newer one."""
        key = f"{self.namespace}/{name}"

        def look() -> bool:
            return any(
                line.stage == stage and line.key == key and (line.version or 0) >= version
                for line in self.lines()
            )

        return look

    def enqueued(self, name: str, version: int) -> Callable[[], bool]:
        """Whether that version, or a newer one, has gone through a handler to the work queue."""
        key = f"{self.namespace}/{name}"

        def look() -> bool:
            told = False
            for line in self.lines():
                if line.key == key:
                    told = told or (line.stage == "handler" and (line.version or 0) >= version)
                    if told and line.stage == "enqueue":
                        return True
            return False

        return look

    def gone(self, name: str) -> Callable[[], bool]:
        """Whether the last thing printed of a Foo is a reconcile that found nothing."""
        key = f"{self.namespace}/{name}"

        def look() -> bool:
            of_key = [line for line in self.lines() if line.key == key]
            return bool(of_key) and of_key[-1].stage == "reconcile" and of_key[-1].version is None

        return look


@pytest.fixture(scope="module")
def driven(submission, run, api, namespace, rng, observe):
    running = run(submission.program, client="stages", start=False)
    drive = _Drive(api, namespace, running, rng)
    early, late, busy = drive.name(), drive.name(), drive.name()

    # One Foo is there already: it comes by the list, and not as news.
    version = drive.create(early)
    running.start()
    if not drive.speaks():
        running.terminate()
        raise _silent(running, drive.lines())
    drive.reached(drive.at("reconcile", early, version))

    version = drive.create(late)
    drive.reached(drive.at("reconcile", late, version))
    for _ in range(rng.randint(2, 4)):
        drive.reached(drive.at("reconcile", late, drive.touch(late)))

    burst, held_until, caught_up = _burst(drive, busy)

    for name in (late, early, busy):
        api.delete("foos", name, namespace=namespace)
        drive.reached(drive.gone(name))
    settled = _settle(drive)
    running.terminate()

    lines = drive.lines()
    done = Driven(
        lines=lines,
        settled=settled,
        heard=_heard(running, namespace),
        tail=[*running.stdout_lines[-5:], *running.stderr_tail(5)],
        failed_writes=_failed_writes(running, namespace),
        busy_key=f"{namespace}/{busy}",
        burst=burst,
        held_until=held_until,
        caught_up=caught_up,
    )
    observe("lines by stage", {s: sum(x.stage == s for x in lines) for s in stage_lines.STAGES})
    return done


def _silent(running, at_last: list[StageLine]) -> Fail:
    """Why no line came while the program worked."""
    if not at_last:
        try:
            stage_lines.require_all_stages([], [*running.stdout_lines, *running.stderr_tail(5)])
        except Fail as nothing:
            return nothing
    return Fail(
        "Each line is there as soon as its stage has run.",
        f"The program's {len(at_last)} stage lines came all at once, when it was ended.",
        why="A line that stays in a buffer is useless while you look for what hangs.",
        next="Flush after each line: print(..., flush=True).",
        diagnosis="not-flushed",
        evidence=[str(line) for line in at_last[:3]],
    )


def _burst(drive: _Drive, name: str) -> tuple[list[int] | None, int, bool]:
    """Hold the worker in the middle of its first write for a Foo, and change the Foo meanwhile.

    Returns the Foo's versions meanwhile (None where there was no write to hold),
    the number of lines printed when the worker's write was answered, and whether it came
    to the last version afterwards.
    """
    # By name: another Foo's last write may still be on its way.
    rule = drive.running.wire.rules.add(
        f"hold create,update,patch deployments ns={drive.namespace} name={name}-deployment "
        "times=always"
    )
    try:
        drive.create(name)
        try:
            drive.running.until(lambda: rule.fired, drive.patience, "writes the Deployment")
        except Fail:
            if drive.running.exited:
                raise
            return None, 0, True
        versions = [drive.touch(name) for _ in range(drive.rng.randint(5, 9))]
        drive.reached(drive.enqueued(name, versions[-1]))
        end = len(drive.running.stdout_lines)
    finally:
        rule.remove()
    return versions, end, drive.reached(drive.at("reconcile", name, versions[-1]))


def _settle(drive: _Drive) -> list[StageLine]:
    """Wait until all that was enqueued is reconciled, if it ever is; returns the lines up to then.

    What the garbage collector deletes may be heard of, and enqueued, at any time
    after that: the program is ended in the middle of such work, and not to blame.
    """
    settled: list[StageLine] = []

    def all_done() -> bool:
        nonlocal settled
        lines = drive.lines()
        queued: set[str] = set()
        in_hand: set[str] = set()
        for line in lines:
            if line.stage == "enqueue":
                queued.add(line.key)
            elif line.stage == "dequeue":
                queued.discard(line.key)
                in_hand.add(line.key)
            elif line.stage == "reconcile":
                in_hand.discard(line.key)
        settled = lines
        return not queued and not in_hand

    drive.reached(all_done)
    return settled


def _version(obj: dict) -> int:
    return int(obj["metadata"]["resourceVersion"])


@check(
    "4.1.4/lines",
    title="Each of the seven stages prints lines with a key, and with a resourceVersion where the "
    "object is at hand",
    points=1,
    evidence="build",
)
def check_lines(driven):
    stage_lines.require_all_stages(driven.lines, driven.tail)


@check(
    "4.1.4/true",
    title="The reflector's lines are what the API server sent: nothing left out, nothing invented",
    points=2,
    evidence="live",
)
def check_true(driven):
    stage_lines.require_to_judge(driven.lines, "reflector")
    stage_lines.require_true(driven.lines, driven.heard)


@check(
    "4.1.4/order",
    title="Every state of a Foo passes reflector, queue, indexer and handler, in that order",
    points=3,
    evidence="live",
)
def check_order(driven):
    stage_lines.require_to_judge(driven.lines, "reflector", "queue", "indexer", "handler")
    stage_lines.require_order(driven.lines, driven.heard)


@check(
    "4.1.4/cache",
    title="The cache already holds what the handler is told",
    points=2,
    evidence="live",
)
def check_cache(driven):
    stage_lines.require_to_judge(driven.lines, "handler")
    stage_lines.require_cached(driven.lines, driven.heard)


@check(
    "4.1.4/enqueue",
    title="Every handler ends in an enqueue, of a key and not of an object",
    points=2,
    evidence="live",
)
def check_enqueue(driven):
    stage_lines.require_to_judge(driven.lines, "handler", "enqueue")
    stage_lines.require_enqueued(driven.lines)


@check(
    "4.1.4/worker",
    title="What is enqueued is dequeued and reconciled, at the newest state the cache has",
    points=2,
    evidence="live",
)
def check_worker(driven):
    stage_lines.require_to_judge(driven.lines, "enqueue", "dequeue", "reconcile")
    _require_exclusive(driven)
    stage_lines.require_worker(driven.settled, driven.heard, failed_writes=driven.failed_writes)
    if not driven.caught_up:
        raise Fail(
            "What changes while a worker has the key is reconciled afterwards.",
            f"{driven.busy_key} was changed {len(driven.burst)} times, up to {driven.burst[-1]}, "
            "while the worker waited for the API server; no reconcile of that state followed.",
            why="The change was seen, and then lost: no event will mention it again.",
            next="Look at what your queue does with a key that is added while a worker has it.",
            diagnosis="last-change-lost",
            evidence=[str(x) for x in driven.lines if x.key == driven.busy_key][-6:],
        )


def _require_exclusive(driven: Driven) -> None:
    """Fail if the busy key is reconciled again while the write of its worker is still held back."""
    for line in driven.lines:
        if (
            driven.burst
            and line.number <= driven.held_until
            and (line.key, line.stage) == (driven.busy_key, "reconcile")
            and (line.version or 0) >= driven.burst[0]
        ):
            raise Fail(
                "A key that a worker has is given to no other worker.",
                f"Line {line.number} reconciles {line.key} while the worker that has it still "
                "waits for the API server's answer to its write.",
                why="Either two workers work on one object, or the line was not printed by the "
                "stage whose name it has.",
                next="Print each line where its stage does its work: `dequeue` and `reconcile` in "
                "the worker's own thread.",
                diagnosis="reconciled-while-busy",
                evidence=[str(line)],
            )


@check(
    "4.1.4/decoupled",
    title="While the worker is busy, changes go on to the work queue, one by one",
    points=2,
    evidence="live",
)
def check_decoupled(driven, observe):
    stage_lines.require_to_judge(driven.lines, "handler", "enqueue")
    if driven.burst is None:
        raise NotGraded(
            "The program writes a Deployment, so that its worker can be held in the middle of it.",
            "It wrote none for a new Foo.",
            next="Keep the starter's reconcile: this lab adds lines and removes nothing.",
            diagnosis="no-write-to-hold",
        )
    first, last = driven.burst[0], driven.burst[-1]
    told = [
        line
        for line in driven.lines
        if line.stage == "handler"
        and line.key == driven.busy_key
        and first <= (line.version or 0) <= last
    ]
    while_held = [line for line in told if line.number <= driven.held_until]
    if len(while_held) < len(driven.burst):
        raise Fail(
            f"While the worker waits for the API server, the {len(driven.burst)} changes that "
            "arrive go all the way into the work queue.",
            f"Handlers were told of {len(while_held)} of them while the worker was held.",
            why="If one slow write stops the informer, the cache stops too, for every object: "
            "all other workers act on the past.",
            next="Which thread runs your handlers, and does it ever do the worker's work?",
            diagnosis="informer-blocked-by-worker",
            evidence=[str(line) for line in told[:4]],
        )
    looks = sum(
        line.stage == "reconcile"
        and line.key == driven.busy_key
        and first <= (line.version or 0) <= last
        for line in driven.lines
    )
    observe("changes while the worker was busy", len(driven.burst))
    observe("reconciles that the worker then did", looks)


def _heard(running, namespace: str) -> list[Heard]:
    """What the API server sent the program about the namespace's Foos, in order."""
    found: list[tuple[float, Heard]] = []

    def add(obj: dict, type: str, t: float) -> None:
        if objects.namespace(obj) == namespace:
            key = f"{namespace}/{objects.name(obj)}"
            found.append((t, Heard(key, objects.resource_version(obj), type, t)))

    timeline = running.timeline
    for listed in timeline.exchanges(verb="list", resource="foos"):
        for item in objects.items(listed.answer):
            add(item, "LISTED", listed.t_response or listed.t_request)
    for event in timeline.events(resource="foos", namespace=namespace, fate="delivered"):
        if event.type in ("ADDED", "MODIFIED", "DELETED"):
            add(event.object, event.type, event.t_delivered)
    return [heard for _, heard in sorted(found, key=lambda pair: pair[0])]


def _failed_writes(running, namespace: str) -> int:
    writes = running.timeline.writes(namespace=namespace)
    return sum(each.status is None or each.status >= 400 for each in writes)
