"""What became of owners and dependents, drawn: a lane for each object, over one clock."""

from __future__ import annotations

from grader.labs.collector import Stage, State
from grader.report.pictures import Lane, Moment, Span
from grader.witness import objects

#: The finalizers with which a deletion makes an object wait for the collector.
COLLECTORS = ("foregroundDeletion", "orphan")


def changes(stage: Stage, obj: dict) -> list[tuple[float, State]]:
    """Each state of an object and when (epoch seconds) the write that made it was answered.

    One write, one state: where the log has another number of them (a write that changed
    nothing), the times are those of the watch.
    """
    states = stage.history.of(obj)
    writes = stage.writes(obj)
    if len(writes) != len(states):
        return [(s.at, s) for s in states]
    return [(w.t_response or s.at, s) for w, s in zip(writes, states, strict=True)]


def owners(state: State) -> list[dict]:
    """The owner references that it had."""
    return objects.metadata(state.object).get("ownerReferences") or []


def lane(stage: Stage, name: str, obj: dict, *, zero: float, start: float, end: float) -> Lane:
    """One object in milliseconds since ``zero`` (epoch seconds), between ``start`` and ``end`` (ms)."""
    spans: list[Span] = []
    moments: list[Moment] = []
    kind, since, had = "there", start, 0
    for at, state in changes(stage, obj):
        now = (at - zero) * 1000
        if state.type == "ADDED":
            since = max(start, now)
        else:
            if now > since:
                spans.append(Span(since, now, kind))
            kind, since = _kind(state), max(start, now)
            if state.type == "DELETED":
                moments.append(Moment(now, "gone"))
                break
            if len(owners(state)) < had and now >= start:
                moments.append(Moment(now, "reference taken off"))
        had = len(owners(state))
    else:
        spans.append(Span(since, end, kind))
    return Lane(name, spans, moments)


def _kind(state: State) -> str:
    if not objects.being_deleted(state.object):
        return "there"
    carried = [f for f in state.finalizers if f in COLLECTORS]
    return carried[0] if carried else "being deleted"
