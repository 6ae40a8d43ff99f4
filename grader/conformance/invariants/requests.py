"""How often: no request is a loop, and pauses start small again after a success."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from grader.conformance import contract
from grader.verdict import Fail
from grader.witness import describe

if TYPE_CHECKING:
    from grader.conformance.past import Past
    from grader.wire.records import Exchange

#: The same request that fails, or changes nothing, within a second. A pause of 5 ms that
#: doubles makes eight; five retries of a Conflict within each of those make forty.
MOST_A_SECOND = 50
#: Seconds. A first pause that no right operator makes after a success.
LONG = 2.0


#: Signals with which the suite ends a process, as exit codes.
_ENDED = (0, -9, -15, None)


def no_crash(past: Past) -> Iterator[Fail]:
    """No process ended by itself; one that takes part in an election may, when it loses."""
    for said in past.said:
        if any(e.resource == "leases" for e in said.exchanges):
            continue
        codes = [mark.data.get("code") for mark in said.marks if mark.what == "process_exited"]
        for code in codes:
            if code not in _ENDED:
                yield Fail(
                    "The operator runs until it is told to stop.",
                    f"{said.client} ended by itself, with exit code {code}.",
                    why="An operator that crashes does nothing until it is restarted, and then "
                    "most likely crashes on the same object.",
                    next="The end of its standard error is in the run's folder.",
                    diagnosis="operator-died",
                    evidence=[describe(e) for e in past.writes[-3:]],
                )
                break


def no_loop(past: Past) -> Iterator[Fail]:
    """The same request fails, or changes nothing, no more than so many times in a second."""
    idle = {id(e) for e in _without_effect(past)}
    attempts: dict[tuple[str, ...], list[Exchange]] = defaultdict(list)
    for e in past.exchanges:
        failed = e.status is not None and e.status >= 400
        if failed or id(e) in idle:
            attempts[e.client, e.verb, e.target, e.namespace, _name(e)].append(e)
    for same in attempts.values():
        for first, last in zip(same, same[MOST_A_SECOND:], strict=False):
            if last.t_request - first.t_request < 1.0:
                failed = last.status is not None and last.status >= 400
                yield Fail(
                    "No request that fails, or that changes nothing, is repeated more than "
                    f"{MOST_A_SECOND} times in a second.",
                    f"{last.method} {last.path} was sent {MOST_A_SECOND + 1} times within "
                    f"{last.t_request - first.t_request:.2f} s"
                    + (f", and answered {last.status}." if failed else ", and changed nothing."),
                    why="A client that does not back off makes an overloaded server worse.",
                    next="Use AddRateLimited, not Add, and Forget only after a success."
                    if failed
                    else "Compare what you are about to write with the object, and write only if "
                    "they differ.",
                    diagnosis="no-backoff" if failed else "writes-in-a-loop",
                    evidence=[describe(e) for e in (first, last)],
                )
                break


def _without_effect(past: Past) -> Iterable[Exchange]:
    made = {id(change.exchange) for change in past.changes}
    return (
        e for e in past.writes if e.applied and e.verb in ("update", "patch") and id(e) not in made
    )


def pauses(past: Past) -> Iterator[Fail]:
    """After a WebApp has converged, the first retry of a write that fails comes soon again."""
    if past.said and any(_held(past)):
        return
    converged: dict[str, list[float]] = defaultdict(list)
    for moment in past.moments():
        if moment.world.webapp is not None and not contract.shortfalls(moment.world):
            converged[moment.uid].append(moment.state.seen)
    for uid, app in past.webapps.items():
        meta = app["metadata"]
        for same in _attempts(past, uid, meta["namespace"], meta["name"]):
            runs = _runs(same, converged[uid])
            for earlier, later in zip(runs, runs[1:], strict=False):
                if len(earlier) < 4 or len(later) < 3:
                    continue
                first, again = first_pause(earlier), first_pause(later)
                if again > LONG * past.patience and again > 8 * first:
                    yield Fail(
                        "After a success, the pause before the first retry is short again.",
                        f"The first time, {later[0].method} {later[0].path} was retried after "
                        f"{first * 1000:.0f} ms; after it had succeeded and failed again, after "
                        f"{again:.1f} s.",
                        why="A key that failed often, some time ago, would wait for minutes at its "
                        "next small failure.",
                        next="Forget the key's failures whenever a reconcile succeeds.",
                        diagnosis="never-forgets",
                        evidence=[describe(e) for e in (*earlier[:2], *later[:2])],
                    )


def _held(past: Past) -> Iterator[bool]:
    """Rules that make a pause long through no fault of the operator."""
    for said in past.said:
        for rule, *_ in said.rules:
            yield rule.action in ("hold", "delay", "freeze") and rule.namespace in (
                "",
                *past.namespaces,
            )


def first_pause(attempts: list[Exchange]) -> float:
    """Seconds: the longer of the first two pauses, as the first retry may be an event's doing."""
    times = [e.t_request for e in attempts[:3]]
    return max(later - earlier for earlier, later in zip(times, times[1:], strict=False))


def _attempts(past: Past, uid: str, namespace: str, name: str) -> list[list[Exchange]]:
    """The attempts at each write for one WebApp."""
    found: dict[tuple[str, ...], list[Exchange]] = defaultdict(list)
    alone = sum(app["metadata"]["namespace"] == namespace for app in past.webapps.values()) == 1
    for e in past.writes:
        mine = e.name in (name, f"record-{uid}") or (alone and e.namespace == namespace)
        if mine and e.status is not None:
            found[e.client, e.verb, e.target].append(e)
    return list(found.values())


def _runs(attempts: list[Exchange], converged: list[float]) -> list[list[Exchange]]:
    """The attempts in groups, each from a failure to the success that ended it.

    Between two groups the WebApp had converged.
    """
    runs: list[list[Exchange]] = []
    failing = False
    for e in attempts:
        # A conflict says that there is something newer, after which nothing may be left to write.
        failed = e.status is not None and e.status >= 500
        if failed and not failing:
            before = runs[-1][-1].t_request if runs else None
            if before is None or any(before < t < e.t_request for t in converged):
                runs.append([])
        if failed or failing:
            runs[-1].append(e)
        failing = failed
    return runs


def _name(e: Exchange) -> str:
    body = e.request_body
    if e.name or not isinstance(body, dict):
        return e.name
    return (body.get("metadata") or {}).get("name", "")
