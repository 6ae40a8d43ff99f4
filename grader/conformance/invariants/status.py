"""The status: what each write of it claimed was so, and what is no longer so does not stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from grader.conformance import contract
from grader.conformance.contract import World, condition, is_ready
from grader.verdict import Fail
from grader.witness import describe

if TYPE_CHECKING:
    from grader.conformance.history import State
    from grader.conformance.past import Change, Past
    from grader.wire.records import Exchange

#: Seconds. The contract's limit for an operator that is idle, and for one that is at work.
RESPONSE, AT_WORK = 15.0, 60.0
#: Seconds. What a cache may be behind, of what the operator wrote itself.
_STALE = 3.0
#: Seconds. On a busy machine things are seen a little later than they are.
_SLACK = 1.0


@dataclass(frozen=True)
class Facts:
    """What there was at a moment, as far as a status speaks of it; Pods by UID."""

    state: State
    standing: dict[str, dict]
    record: bool

    @classmethod
    def of(cls, state: State, world: World) -> Facts:
        record = world.record
        there = record is not None and not contract.is_terminating(record)
        host = (world.webapp or {}).get("spec", {}).get("host")
        right = there and ((record or {}).get("data") or {}).get("host") == host
        return cls(state, {pod["metadata"]["uid"]: pod for pod in world.standing}, right)

    def ready(self, without: set[str], image: str = "") -> int:
        """How many of the Pods are Ready (with that image), but for those."""
        return sum(
            is_ready(pod) and (not image or image in contract.images(pod))
            for uid, pod in self.standing.items()
            if uid not in without
        )


def justified(past: Past) -> Iterator[Fail]:
    """What a written status claims was so at some moment that the operator could still see.

    Its caches may lag behind by as much as the contract lets it take; but what it
    deleted itself, and was told so, it knows to be gone. To say too little is not
    judged here.
    """
    deleted = sorted((e.t_end, uid) for e, uid in past.deleted() if e.status and e.status < 300)
    written = [c for c in past.changes if c.exchange.resource == "webapps" and c.before is not None]
    facts: dict[str, list[Facts]] = defaultdict(list)
    for moment in past.moments() if written else ():
        facts[moment.uid].append(Facts.of(moment.state, moment.world))
    specs: dict[str, dict[int, dict]] = defaultdict(dict)
    for state in past.states(resource="webapps"):
        specs[state.uid].setdefault(state.object["metadata"]["generation"], state.object)
    for change in written:
        status = change.after.get("status") or {}
        if status == (change.before or {}).get("status"):
            continue
        e, uid, generation = change.exchange, change.uid, status.get("observedGeneration") or 0
        if generation > change.after["metadata"]["generation"]:
            yield _early(
                e, f"It is {generation}, of a WebApp at {change.after['metadata']['generation']}."
            )
            continue
        since = e.t_request - RESPONSE * past.patience
        seen = _in_window(facts[uid], int(change.after["metadata"]["resourceVersion"]), since, past)
        gone = {pod for t, pod in deleted if t < e.t_request}
        claims_ready = condition(change.after, "Ready").get("status") == "True"
        spec = specs[uid].get(generation)
        if claims_ready and spec is not None:
            wanted, image = contract.wanted(spec), spec["spec"]["image"]
            # Each cache lags behind by itself: what was so of the record at one moment, and of
            # the Pods at another, it may see together.
            there = any(f.record for f in seen)
            best = max((f.ready(gone, image) for f in seen), default=-1) if there else -1
            if best < wanted:
                yield _early(
                    e,
                    f"It says Ready for generation {generation}, which wants {wanted} Pods; "
                    + (
                        f"at most {best} were Ready with the wanted image."
                        if best >= 0
                        else "there was no right DNS record."
                    ),
                )
        counts = {
            "replicas": max((len(f.standing.keys() - gone) for f in seen), default=0),
            "readyReplicas": max((f.ready(gone) for f in seen), default=0),
        }
        for key, most in counts.items():
            if status.get(key, 0) > most:
                yield Fail(
                    "A status never says more than was so when the operator looked last, less "
                    "what it has deleted since.",
                    f"It says {key} {status[key]}, and there were {most} at most.",
                    why="Users, and everything that waits for a status, rely on it.",
                    next="Count what exists, after what you did in this reconcile; a Pod that is "
                    "terminating or has finished is none.",
                    diagnosis="status-claims-too-much",
                    evidence=[describe(e)],
                )


def _in_window(facts: list[Facts], revision: int, since: float, past: Past) -> list[Facts]:
    """The moments before ``revision`` that an operator could still see at the end of the window."""
    before = [f for f in facts if f.state.revision <= revision]
    if past.blinded(since, before[-1].state.seen if before else since):
        return before
    recent = [f for f in before if f.state.seen >= since]
    return [f for f in before if f.state.seen < since][-1:] + recent


def _early(e: Exchange, seen: str) -> Fail:
    return Fail(
        "A status with Ready is written once it is true of the generation that it names.",
        seen,
        why="observedGeneration tells users whether the status is about the new spec or the old "
        "one. Written too early, it makes them trust a wrong «Ready».",
        next="Write observedGeneration together with the conditions computed for that generation, "
        "in one write, after the rest.",
        diagnosis="observed-generation-early",
        evidence=[describe(e)],
    )


def current(past: Past) -> Iterator[Fail]:
    """No status stays wrong for longer than the contract lets an operator take.

    Ready must not stay True once it is false, however the rest changes meanwhile; the
    rest must become right once nothing changes any more.
    """
    facts: dict[str, list[tuple[State, World]]] = defaultdict(list)
    for moment in past.moments():
        facts[moment.uid].append((moment.state, moment.world))
    for moments in facts.values():
        lies_since: float | None = None
        wrong: tuple[float, tuple] | None = None
        for (state, world), until in zip(
            moments, [*(s.seen for s, _ in moments[1:]), past.now], strict=True
        ):
            app = world.webapp
            if app is None or contract.is_terminating(app):
                lies_since = wrong = None
                continue
            lies = _ready_is_untrue(world)
            lies_since = (lies_since or state.seen) if lies else None
            if lies_since is not None and _too_long(past, lies_since, until):
                yield _stale(app, until - lies_since, _what(world))
                break
            about = _about(world)
            if not _counts_are_wrong(world):
                wrong = None
            elif wrong is None or wrong[1] != about:
                wrong = state.seen, about
            if wrong is not None and _too_long(past, wrong[0], until):
                yield _stale(app, until - wrong[0], _what(world))
                break


def _about(world: World) -> tuple:
    """What the status must speak of: as long as it stays the same, nothing changes."""
    assert world.webapp is not None
    standing = world.standing
    generation = world.webapp["metadata"]["generation"]
    return len(standing), sum(map(is_ready, standing)), generation, world.record is not None


def _counts_are_wrong(world: World) -> bool:
    assert world.webapp is not None
    standing, ready, generation, _ = _about(world)
    status = world.webapp.get("status") or {}
    return (
        status.get("observedGeneration") != generation
        or status.get("replicas", 0) != standing
        or status.get("readyReplicas", 0) != ready
    )


def _ready_is_untrue(world: World) -> bool:
    """Whether Ready is True and what it claims, of the present spec, is not so."""
    app = world.webapp
    assert app is not None
    if condition(app, "Ready").get("status") != "True":
        return False
    facts = Facts.of(None, world)  # type: ignore[arg-type]
    return not facts.record or facts.ready(set(), app["spec"]["image"]) < contract.wanted(app)


def _what(world: World) -> str:
    app = world.webapp
    assert app is not None
    standing, ready, generation, record = _about(world)
    return (
        f"The status is {app.get('status')}; the generation is {generation}, {standing} Pods are "
        f"active, {ready} of them Ready, and the DNS record "
        + ("exists." if record else "does not exist.")
    )


def _too_long(past: Past, since: float, until: float) -> bool:
    """Whether from ``since`` to ``until`` is more than an operator may take that was not kept."""
    took = until - since
    if took <= RESPONSE * past.patience + _SLACK:
        return False
    said = past.served(since, until)
    if said is None or past.hindered(since, until):
        return False
    # One that is at work on other things is waited for.
    late = since + RESPONSE * past.patience
    busy = any(
        e.is_write and e.resource not in ("leases", "events") and e.applied and e.t_request > late
        for e in said.exchanges
    )
    return not busy or took > AT_WORK * past.patience


def _stale(app: dict, seconds: float, seen: str) -> Fail:
    return Fail(
        f"A status that is no longer true is brought up to date within {RESPONSE:g} s, whatever "
        "else fails or has to wait.",
        f"It stayed wrong for {seconds:.0f} s. {seen}",
        why="Users, and everything that waits for Ready, rely on the status, most of all while "
        "something is wrong.",
        next="Compute the status from what exists now, in each reconcile, and write it also where "
        "the rest has failed.",
        diagnosis="stale-status",
    )


def transitions(past: Past) -> Iterator[Fail]:
    """In each write of the operator, lastTransitionTime of Ready changed if and only if its
    status did."""
    for change in past.changes:
        if change.exchange.resource != "webapps" or change.before is None:
            continue
        before, now = condition(change.before, "Ready"), condition(change.after, "Ready")
        if not before or not now:
            continue
        turned = before.get("status") != now.get("status")
        times = before.get("lastTransitionTime"), now.get("lastTransitionTime")
        if not turned and times[0] != times[1] and not _may_seem_turned(past, change, now):
            yield Fail(
                "lastTransitionTime of Ready changes only when its status does.",
                f"The status stayed {now['status']}, and the time changed from {times[0]} to "
                f"{times[1]}.",
                why="It says since when the condition has its status. A new time in each reconcile "
                "is a write in each, which causes an event, which causes a reconcile.",
                next="Keep the old time unless the status changes, and compare before you write.",
                diagnosis="transition-time-churn",
                evidence=[describe(change.exchange)],
            )
        elif turned and times[0] == times[1] and _is_old(times[0], change.exchange.t_request):
            yield Fail(
                "lastTransitionTime of Ready changes when its status does.",
                f"The status changed from {before['status']} to {now['status']}, and the time "
                f"stayed {times[0]}.",
                why="It says since when the condition has its status: who waits for a Pod to be "
                "Ready for a minute counts from it.",
                next="Set the time together with the status.",
                diagnosis="transition-time-kept",
                evidence=[describe(change.exchange)],
            )


def _may_seem_turned(past: Past, change: Change, now: dict) -> bool:
    """Whether a cache that is a little behind had another status there a moment ago."""
    since = change.exchange.t_request - _STALE
    version = int(change.after["metadata"]["resourceVersion"])
    before = [s for s in past.states(uid=change.uid) if s.revision < version]
    recent = [s for s in before if s.seen >= since]
    could_see = [s for s in before if s.seen < since][-1:] + recent
    return any(condition(s.object, "Ready").get("status") != now.get("status") for s in could_see)


def _is_old(time: str | None, now: float) -> bool:
    """Whether a time (it has whole seconds) is certainly not that of a change just now."""
    if not time:
        return False
    return now - datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() > 3.0
