"""Never more Pods than there may be."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from grader.conformance import contract
from grader.verdict import Fail
from grader.witness import describe

if TYPE_CHECKING:
    from grader.conformance.past import Past


def never_too_many(past: Past) -> Iterator[Fail]:
    """No create makes more active Pods than were ever wanted; twice as many during a rollout.

    A rollout is under way while a Pod stands that has not the wanted image. Where the
    answer to a create was lost, whoever has generated names cannot tell that there is
    a Pod: one more for each is no mistake.
    """
    most: dict[str, int] = defaultdict(int)
    lost: Counter[str] = Counter()
    for e in past.writes:
        if e.verb == "create" and e.resource == "pods" and e.applied is not False:
            if e.status is None or e.status >= 400:
                lost[e.namespace] += 1
    for moment in past.moments():
        app = moment.world.webapp
        if app is None:
            continue
        uid, standing = moment.uid, moment.world.standing
        most[uid] = max(most[uid], contract.wanted(app))
        e = past.by(moment.state)
        if e is None or e.verb != "create" or moment.state.resource != "pods":
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
