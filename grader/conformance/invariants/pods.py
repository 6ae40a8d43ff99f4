"""Never more Pods than there may be."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from grader.conformance import contract
from grader.conformance.contract import is_ready
from grader.verdict import Fail
from grader.witness import describe

if TYPE_CHECKING:
    from grader.conformance.history import State
    from grader.conformance.past import Past
    from grader.wire.records import Exchange


#: Seconds. A spec that was the live one so recently may still be acted on.
_STALE = 3.0
#: Seconds. As long may a cache be behind whose watch is kept back.
_BLIND = 15.0


def wanted_kept(past: Past) -> Iterator[Fail]:
    """No Pod is deleted that is Ready, of the wanted image and one of no more than are wanted."""
    apps: dict[str, list] = defaultdict(list)
    for state in past.states(resource="webapps"):
        apps[state.uid].append(state)
    hit = {uid: e for e, uid in past.deleted() if e.resource == "pods"}
    before: dict[str, list[tuple[float, list[dict]]]] = defaultdict(list)
    for moment in past.moments():
        e = hit.get(moment.state.uid)
        standing = moment.world.standing
        went = moment.state.type == "DELETED" or contract.is_terminating(moment.state.object)
        if e is not None and went and moment.world.webapp is not None:
            hit.pop(moment.state.uid)
            yield from _needless(past, moment.state, before[moment.uid], apps[moment.uid], e)
        before[moment.uid].append((moment.state.seen, standing))


def _needless(
    past: Past,
    went: State,
    before: list[tuple[float, list[dict]]],
    states: list[State],
    e: Exchange,
) -> Iterator[Fail]:
    standing = before[-1][1]
    # Kept from seeing that another Pod has gone, it must take that one for one of too many.
    since = e.t_request - _BLIND * past.patience
    could_see = [standing]
    if past.blinded(since, e.t_request):
        could_see += [p for t, p in before if t < since][-1:] + [p for t, p in before if t >= since]
    most = max(map(len, could_see))
    pod = next((p for p in standing if p["metadata"]["uid"] == went.uid), None)
    # By revision: the suite's own watch may be behind the operator's.
    known = [s for s in states if s.revision < went.revision]
    recent = [s for s in known if s.seen < e.t_request - _STALE][-1:]
    recent += [s for s in known if s.seen >= e.t_request - _STALE]
    if pod is None or not is_ready(pod) or not recent:
        return
    if all(
        most <= contract.wanted(s.object)
        and s.object["spec"]["image"] in contract.images(pod)
        and not contract.is_terminating(s.object)
        for s in recent
    ):
        yield Fail(
            "No Pod is deleted that the spec wants.",
            f"The operator deleted Pod {pod['metadata']['name']}, which was Ready, had the wanted "
            f"image and was one of {len(standing)}; {contract.wanted(recent[-1].object)} are wanted.",
            why="A replaced Pod is an unnecessary outage; a delete cannot be undone.",
            next="Before you delete, get the live object from the API server, and compare its UID "
            "and generation with those you decided on.",
            diagnosis="replaced-what-was-right",
            evidence=[describe(e)],
        )


def never_too_many(past: Past) -> Iterator[Fail]:
    """No create makes more active Pods than were ever wanted; twice as many during a rollout.

    A rollout is under way while a Pod stands that has not the wanted image. Where the
    answer to a create was lost, whoever has generated names cannot tell that there is
    a Pod: one more for each is no mistake.
    """
    most: dict[str, int] = defaultdict(int)
    lost: Counter[str] = Counter()
    for e in past.writes:
        # An apply creates as well.
        if e.verb in ("create", "patch") and e.resource == "pods" and e.applied is not False:
            if e.status is None or e.status >= 400:
                lost[e.namespace] += 1
    for moment in past.moments():
        app = moment.world.webapp
        if app is None:
            continue
        uid, standing = moment.uid, moment.world.standing
        most[uid] = max(most[uid], contract.wanted(app))
        e = past.by(moment.state)
        if e is None or moment.state.type != "ADDED" or moment.state.resource != "pods":
            continue
        rollout = any(app["spec"]["image"] not in contract.images(pod) for pod in standing)
        allowed = most[uid] * (2 if rollout else 1) + lost[e.namespace]
        if len(standing) > allowed:
            names = sorted(pod["metadata"]["name"] for pod in standing)
            yield Fail(
                f"A WebApp that wanted {most[uid]} Pods at most never has more than {allowed} "
                "active ones" + (" during a rollout." if rollout else "."),
                f"With this create there were {len(standing)}: {', '.join(names[:8])}.",
                why="A cache is always a little behind. An operator that creates whatever its cache "
                "lacks, without tracking its own creates, creates it twice.",
                next="Use deterministic names, so that a second create fails with AlreadyExists, "
                "or track expectations.",
                diagnosis="over-created",
                evidence=[describe(e)],
            )
