"""The lines that a program of lab 4.1.4 prints, and the rules of their order.

A line is one JSON object with a ``stage`` and a ``key``. Everything here is
about lines alone, in the order in which they were printed; what really came
over the wire is told by :class:`Heard` objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.verdict import Fail, NotGraded

#: In the order in which one change fires them.
STAGES = ("reflector", "queue", "indexer", "handler", "enqueue", "dequeue", "reconcile")
#: Those that have the object in hand, and so know its resourceVersion.
WITH_OBJECT = ("reflector", "queue", "indexer", "handler")

_WHY_ORDER = (
    "A worker that a handler wakes looks into the indexer. If the indexer were filled later, it "
    "would find the state before the change, and nobody would wake it again."
)


@dataclass(frozen=True)
class StageLine:
    """One line. ``number`` is its place among all lines of stdout, from 1; ``version`` None without one."""

    number: int
    stage: str
    key: str
    version: int | None
    data: dict[str, Any] = field(repr=False, hash=False)
    text: str = field(repr=False)
    t: float = 0.0

    def __str__(self) -> str:
        return f"line {self.number}: {self.text[:160]}"


@dataclass(frozen=True)
class Heard:
    """A Foo's state that the API server sent to the program: in a list, or as an event."""

    key: str
    version: int
    type: str
    t: float

    @property
    def deleted(self) -> bool:
        return self.type == "DELETED"


def parse(lines: Sequence[str], namespace: str, first: int = 1) -> list[StageLine]:
    """The stage lines about Foos of the namespace. Fail for a stage line that cannot be read.

    ``first`` is the number of the first of ``lines``.

    Text that is no JSON object, and objects without a ``stage``, are passed
    over: they are the program's own business. So are lines that name another
    ``kind`` than Foo.
    """
    found = []
    for number, text in enumerate(lines, first):
        try:
            data = json.loads(text)
        except ValueError:
            continue
        if not isinstance(data, dict) or "stage" not in data:
            continue
        if str(data.get("kind", "Foo")).lower() not in ("foo", "foos"):
            continue
        stage = data["stage"]
        if stage not in STAGES:
            raise Fail(
                f"Each line's stage is one of {', '.join(STAGES)}.",
                f"Line {number} says {json.dumps(stage)}.",
                next="Rename it; or leave out `stage` where a line is for yourself.",
                diagnosis="unknown-stage",
                evidence=[f"line {number}: {text[:160]}"],
            )
        key = _key(data.get("key"))
        if key is None:
            raise Fail(
                "Each line's key is a string, namespace/name.",
                f"Line {number}, stage {stage}, has {_short(data.get('key'))} as its key.",
                why="A key is what a cache is asked by, and all that a work queue may hold.",
                next='Print it as "namespace/name".',
                diagnosis="object-in-enqueue"
                if stage in ("enqueue", "dequeue") and isinstance(data.get("key"), dict)
                else "key-is-no-key",
                evidence=[f"line {number}: {text[:160]}"],
            )
        if not key.startswith(f"{namespace}/"):
            continue
        version = data.get("resourceVersion")
        try:
            version = None if version in (None, "") else int(version)
        except (TypeError, ValueError):
            raise Fail(
                "A resourceVersion is printed as the API server gave it.",
                f"Line {number}, stage {stage}, has {_short(data['resourceVersion'])}.",
                next="Print metadata.resourceVersion, unchanged.",
                diagnosis="resource-version-unreadable",
                evidence=[f"line {number}: {text[:160]}"],
            ) from None
        found.append(StageLine(number, stage, key, version, data, text, getattr(text, "t", 0.0)))
    return found


def _key(value: Any) -> str | None:
    """A key as ``namespace/name``; also read are the two of them apart. None for anything else."""
    if isinstance(value, dict) and {k.lower() for k in value} == {"namespace", "name"}:
        parts = {k.lower(): v for k, v in value.items()}
        value = f"{parts['namespace']}/{parts['name']}"
    if isinstance(value, str) and value.count("/") == 1 and all(value.split("/")):
        return value
    return None


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def require_all_stages(lines: Iterable[StageLine], tail: Sequence[str] = ()) -> None:
    """Fail unless every stage was printed at least once, with what it has to have."""
    if (lacking := _lacking(list(lines), STAGES, tail)) is not None:
        raise lacking


def require_to_judge(lines: Iterable[StageLine], *stages: str) -> None:
    """NotGraded unless these stages were printed: what a line never said can't be right or wrong.

    That a stage is silent is told once, by :func:`require_all_stages`.
    """
    if (lacking := _lacking(list(lines), stages, ())) is not None:
        raise NotGraded(
            f"Lines of {', '.join(stages)}, to be compared.",
            lacking.message.seen,
            next="First the lines, then what they say: see 4.1.4/lines.",
            diagnosis="nothing-to-compare",
        )


def _lacking(lines: Sequence[StageLine], stages: Sequence[str], tail: Sequence[str]) -> Fail | None:
    """The first of these stages' faults: printed never, or without the object's resourceVersion."""
    silent = [stage for stage in stages if not any(line.stage == stage for line in lines)]
    if silent:
        nothing = not lines
        return Fail(
            "The program prints at least one line for each of the seven stages.",
            "It prints no stage line at all."
            if nothing
            else f"It prints none for {', '.join(silent)}.",
            why="You can't debug a stage that you can't see.",
            next="On stdout, one JSON object a line, flushed at once: "
            '{"stage": "reflector", "key": "ns/name", "resourceVersion": "123"}',
            diagnosis="no-stage-lines" if nothing else "stage-never-printed",
            evidence=list(tail)[-5:],
        )
    for line in lines:
        if line.stage in stages and line.stage in WITH_OBJECT and line.version is None:
            return Fail(
                f"A {line.stage} line has the resourceVersion of the object at hand.",
                f"Line {line.number} has none.",
                why="Without it nobody can tell which of an object's states went by.",
                next="Take it from the object's metadata; for a tombstone, from the last "
                "state known.",
                diagnosis="resource-version-missing",
                evidence=[str(line)],
            )
    return None


def require_true(lines: Sequence[StageLine], heard: Sequence[Heard]) -> None:
    """Fail unless the reflector lines are what the API server sent: no more, no less, in order."""
    sent = {(h.key, h.version) for h in heard}
    why = "Lines that don't come from the stage itself don't show what happened."
    for line in lines:
        if line.stage in WITH_OBJECT and (line.key, line.version) not in sent:
            raise Fail(
                "Every resourceVersion that is printed came to the program from the API server.",
                f"Line {line.number} prints {line.version} for {line.key}; no list and no event "
                "held it.",
                why=why,
                next="Print from inside the stage, from the object that it has in hand.",
                diagnosis="line-without-an-event",
                evidence=[str(line), *(_sent(h) for h in heard if h.key == line.key)],
            )
    printed = [(line.key, line.version) for line in lines if line.stage == "reflector"]
    for each in heard:
        if (each.key, each.version) not in printed:
            raise Fail(
                "Everything that the API server sends about a Foo has its reflector line.",
                f"There is none for {each.key} at {each.version}.",
                why=why,
                next="Lists count as well as watches, and deletes as well as updates: put the "
                "print where the reflector receives, before anything is decided.",
                diagnosis="event-without-a-line",
                evidence=[_sent(each)],
            )
    for key in {h.key for h in heard}:
        was = [h.version for h in heard if h.key == key]
        told = list(dict.fromkeys(v for k, v in printed if k == key))
        if told != list(dict.fromkeys(was)):
            raise Fail(
                "The reflector's lines about one Foo come in the order of its events.",
                f"For {key} the API server sent {was}, and printed was {told}.",
                why=why,
                next="Print and pass on in the same place, in the reflector's own thread.",
                diagnosis="reflector-out-of-order",
            )


def _sent(heard: Heard) -> str:
    return f"on the wire: {heard.type} {heard.key} at resourceVersion {heard.version}"


def require_order(lines: Sequence[StageLine], heard: Sequence[Heard]) -> None:
    """Fail unless each state passes reflector, queue, indexer, handler, in that order, none skipped."""
    places: dict[tuple[str, int | None, str], StageLine] = {}
    for line in lines:
        places.setdefault((line.key, line.version, line.stage), line)
    for each in heard:
        passed = [places.get((each.key, each.version, stage)) for stage in WITH_OBJECT]
        missing = [s for s, line in zip(WITH_OBJECT, passed, strict=True) if line is None]
        if missing:
            # It went on to the handler, so it was not dropped: a line is lacking.
            later = (
                []
                if "handler" not in missing
                else [
                    line
                    for line in lines
                    if line.key == each.key
                    and line.stage == missing[0]
                    and (line.version or 0) > each.version
                ]
            )
            raise Fail(
                "Every state that the reflector hears of passes queue, indexer and handler: only "
                "the work queue may make one of several.",
                f"{each.key} at {each.version} ({each.type}) has no {missing[0]} line"
                + (f"; a later state has: {later[0].version}." if later else "."),
                why="Whoever drops a state before the handler decides for every handler that "
                "it didn't matter. Behind the work queue, one look at the newest state is enough; "
                "before it, nobody knows yet what was missed.",
                next=f"Look at what stands between {_before(missing[0])} and {missing[0]}.",
                diagnosis="coalesced-before-enqueue" if later else "stage-skipped",
                evidence=[str(line) for line in passed if line] + [str(x) for x in later[:1]],
            )
        for first, second in zip(passed, passed[1:], strict=False):
            if first.number > second.number:  # type: ignore[union-attr]
                names = (first.stage, second.stage)  # type: ignore[union-attr]
                raise Fail(
                    f"For one state, {names[0]} comes before {names[1]}.",
                    f"{each.key} at {each.version}: {names[1]} was printed first.",
                    why=_WHY_ORDER
                    if names == ("indexer", "handler")
                    else "Each stage passes on to the "
                    "next; a line that comes too early is not printed by its stage.",
                    next="Which of the two does your informer do first?"
                    if names == ("indexer", "handler")
                    else "Print before passing it on, not after: the next stage may be another thread.",
                    diagnosis="handler-before-indexer"
                    if names == ("indexer", "handler")
                    else "stages-out-of-order",
                    evidence=[str(second), str(first)],
                )


def _before(stage: str) -> str:
    return "the API server" if stage == "reflector" else STAGES[STAGES.index(stage) - 1]


def require_cached(lines: Sequence[StageLine], heard: Sequence[Heard]) -> None:
    """Fail unless the cache holds, whenever a handler runs, what the handler is told, or newer.

    A handler may run late, in a thread of its own. What has been deleted by then is gone
    from the cache, and that is newer.
    """
    deleted = {(h.key, h.version) for h in heard if h.deleted}
    #: Of each key the newest deletion that the reflector has printed so far.
    gone: dict[str, int] = {}
    for line in lines:
        if line.stage == "reflector" and (line.key, line.version) in deleted:
            gone[line.key] = line.version or 0
        if line.stage != "handler":
            continue
        if "cached" not in line.data and (line.key, line.version) not in deleted:
            raise Fail(
                "A handler line says in `cached` which resourceVersion the indexer holds for the "
                "key at that moment.",
                f"Line {line.number} has no `cached`.",
                next="Ask the indexer by key, in the handler, and print what it has; null or "
                "nothing if it has none.",
                diagnosis="cached-missing",
                evidence=[str(line)],
            )
        raw = line.data.get("cached")
        try:
            cached = int(raw) if raw not in (None, "") else None
        except (TypeError, ValueError):
            cached = None
        told = line.version or 0
        if (line.key, line.version) in deleted:
            behind = cached is not None and cached <= told
            should = "no longer has it"
        else:
            known = gone.get(line.key, 0) if cached is None else cached
            behind = known < told
            should = f"has {told} or newer"
        if behind:
            raise Fail(
                f"When a handler is told of {line.key} at {told}, the indexer {should}.",
                f"It holds {'nothing' if cached is None else cached}.",
                why=_WHY_ORDER,
                next="Write into the indexer first, then call the handlers.",
                diagnosis="cache-behind-handler",
                evidence=[str(line)],
            )


def require_enqueued(lines: Sequence[StageLine]) -> None:
    """Fail unless each handler line is followed by its enqueue line, which has a key and no object."""
    for line in lines:
        if line.stage in ("enqueue", "dequeue") and (thing := _object_in(line.data)):
            raise Fail(
                f"What is put into the work queue is a key: an {line.stage} line has nothing else "
                "of the object.",
                f"Line {line.number} has an object in `{thing}`.",
                why="Queue the object, and the worker acts on what was true when it was queued; "
                "and a hundred changes are a hundred entries, for no two objects are equal.",
                next="Hand over namespace/name and let the worker look it up.",
                diagnosis="object-in-enqueue",
                evidence=[str(line)],
            )
    waiting: dict[str, StageLine] = {}
    for line in lines:
        if line.stage == "handler":
            if line.key in waiting:
                raise _not_enqueued(waiting[line.key], line)
            waiting[line.key] = line
        elif line.stage == "enqueue":
            waiting.pop(line.key, None)
    for line in waiting.values():
        raise _not_enqueued(line, None)


def _object_in(data: dict[str, Any]) -> str:
    for name, value in data.items():
        if isinstance(value, list) or (isinstance(value, dict) and name != "key"):
            return name
    return ""


def _not_enqueued(handler: StageLine, following: StageLine | None) -> Fail:
    return Fail(
        "After each handler line, and before the key's next one, comes the key's enqueue line.",
        f"Line {handler.number} is followed by no enqueue of {handler.key}"
        + (f" before line {following.number}." if following else "."),
        why="The handler's whole work is to pass the key on. It cannot know that the last one "
        "is still waiting: the queue does.",
        next="Let every handler, for adds, updates and deletes, end in the same enqueue.",
        diagnosis="handler-without-enqueue",
        evidence=[str(handler), *([str(following)] if following else [])],
    )


def require_worker(
    lines: Sequence[StageLine], heard: Sequence[Heard], *, failed_writes: int
) -> None:
    """Fail unless dequeues follow enqueues, reconciles dequeues, and the worker sees the newest state.

    ``failed_writes`` is how often the API server refused the program: so often
    a key may have come back by a retry that is no enqueue of a handler's.
    """
    enqueued: dict[str, int] = {}
    indexed: dict[str, int | None] = {}
    #: Key to (its dequeue line, what the indexer held by then).
    in_hand: dict[str, tuple[StageLine, int | None]] = {}
    last_enqueue: dict[str, StageLine] = {}
    retries = failed_writes
    for line in lines:
        if line.stage == "indexer":
            indexed[line.key] = line.version
        elif line.stage == "enqueue":
            enqueued[line.key] = enqueued.get(line.key, 0) + 1
            last_enqueue[line.key] = line
        elif line.stage == "dequeue":
            if line.key in in_hand:
                raise Fail(
                    "A key that was taken off the queue is reconciled before it is taken again.",
                    f"{line.key} is dequeued twice with no reconcile between.",
                    why="Two workers on one object undo each other's work.",
                    next="Print `reconcile` right after the look-up, on every path, also when the "
                    "object is gone.",
                    diagnosis="dequeued-twice",
                    evidence=[str(in_hand[line.key][0]), str(line)],
                )
            if not enqueued.get(line.key):
                if not retries:
                    raise Fail(
                        "What comes off the work queue was put there.",
                        f"Line {line.number} dequeues {line.key}, which no enqueue line before it "
                        "has put there.",
                        why="Lines that don't come from the stage itself tell a story, not what "
                        "happened.",
                        next="Print `enqueue` before the key is handed over: once it is, a worker "
                        "may be faster than your print.",
                        diagnosis="dequeue-without-enqueue",
                        evidence=[str(line)],
                    )
                retries -= 1
            else:
                enqueued[line.key] -= 1
            in_hand[line.key] = (line, indexed.get(line.key))
            last_enqueue.pop(line.key, None)
        elif line.stage == "reconcile":
            if line.key not in in_hand:
                raise Fail(
                    "A reconcile is of a key that was just taken off the queue.",
                    f"Line {line.number} reconciles {line.key}, which nobody has dequeued.",
                    why="What is not taken off the queue is not protected by it: two workers may "
                    "work on it.",
                    next="Print `dequeue` where the queue hands the key out, first of all.",
                    diagnosis="reconcile-without-dequeue",
                    evidence=[str(line)],
                )
            _, known = in_hand.pop(line.key)
            gone = any(h.deleted and h.key == line.key and h.version >= (known or 0) for h in heard)
            if line.version is None and known is not None and not gone:
                raise Fail(
                    "A reconcile line has the resourceVersion of what the look-up found.",
                    f"Line {line.number} has none, though the indexer held {line.key} at {known}.",
                    why="It is the one line that shows which state the worker acts on.",
                    next="Print it after the look-up: none at all only if the key was not found.",
                    diagnosis="reconcile-without-version",
                    evidence=[str(line)],
                )
            if known is not None and line.version is not None and line.version < known:
                raise Fail(
                    "The worker looks the key up, and sees what the indexer holds by then.",
                    f"Line {line.number} reconciles {line.key} at {line.version}; when it was "
                    f"dequeued, the indexer had {known}.",
                    why="Acting on what an event said means acting on the past: the late write "
                    "carries older state than the one before it.",
                    next="Where does your worker get the object from? Ask the indexer, by key, "
                    "after the dequeue.",
                    diagnosis="acted-on-event-payload",
                    evidence=[str(line)],
                )
    for key, line in last_enqueue.items():
        raise Fail(
            "What was enqueued is eventually dequeued.",
            f"{key} was enqueued by line {line.number} and never dequeued after that.",
            why="A change that arrives while its key is being worked on must not be lost: the "
            "queue hands the key out again.",
            next="Look at what your queue does with a key that is added while a worker has it.",
            diagnosis="last-change-lost",
            evidence=[str(line)],
        )
    for line, _ in in_hand.values():
        raise Fail(
            "A key that is dequeued is reconciled.",
            f"Line {line.number} dequeues {line.key}, and no reconcile line follows.",
            next="Print `reconcile` right after the look-up, on every path, also when the object "
            "is gone.",
            diagnosis="reconcile-missing",
            evidence=[str(line)],
        )
