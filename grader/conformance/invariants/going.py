"""The finalizer and the record, and what a WebApp that is going or gone no longer gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from grader.conformance import contract
from grader.conformance.contract import FINALIZER, controller_of
from grader.verdict import Fail
from grader.witness import describe

if TYPE_CHECKING:
    from grader.conformance.history import State
    from grader.conformance.past import Change, Past

#: Seconds. What was in hand when the news came may still be finished.
IN_HAND = 3.0


def finalizer_first(past: Past) -> Iterator[Fail]:
    """Each record that the operator made was made with the finalizer stored."""
    for uid in past.webapps:
        stored = [
            s
            for s in past.states(uid=uid)
            if FINALIZER in s.object["metadata"].get("finalizers", ())
        ]
        for change in _records_made(past, uid):
            made = int(change.after["metadata"]["resourceVersion"])
            if not stored or stored[0].revision > made:
                yield Fail(
                    "The finalizer is stored before the DNS record is created.",
                    "The record was created first.",
                    why="If the WebApp is deleted, or the operator killed, between the two, the "
                    "record stays for ever.",
                    next="Write the finalizer, check the response, and only then create the record.",
                    diagnosis="finalizer-after-record",
                    evidence=[describe(change.exchange)],
                )


def record_first(past: Past) -> Iterator[Fail]:
    """Wherever the operator removed the finalizer, the record was gone, or had never been."""
    for change in past.changes:
        if change.exchange.resource != "webapps" or change.before is None:
            continue
        had = FINALIZER in change.before["metadata"].get("finalizers", ())
        if not had or FINALIZER in change.after["metadata"].get("finalizers", ()):
            continue
        name = f"record-{change.uid}"
        states = [s for s in past.states(resource="configmaps") if s.name == name]
        # The record's last state that was seen before the answer to this write.
        before = [s for s in states if s.seen <= (change.exchange.t_response or past.now)]
        if not before or before[-1].type == "DELETED":
            continue
        gone = next((s for s in states if s.type == "DELETED"), None)
        if gone is not None and _revision_of_removal(past, change) > gone.revision:
            continue
        terminating = contract.is_terminating(before[-1].object)
        yield Fail(
            "The finalizer is removed only after the DNS record is gone.",
            "It was removed while the record was still terminating."
            if terminating
            else "It was removed first.",
            why="The finalizer is the only thing that keeps the WebApp until the cleanup is done; "
            "without it, a failed cleanup is never retried.",
            next="Delete the record, check that it is gone, then remove the finalizer."
            + (" A DELETE that was accepted is not yet an object that is gone." * terminating),
            diagnosis="finalizer-removed-early",
            evidence=[describe(change.exchange)],
        )


def _revision_of_removal(past: Past, change: Change) -> float:
    """The revision at which the finalizer went; the WebApp's end where it went with it."""
    for state in past.states(uid=change.uid):
        if past.by(state) is change.exchange or state.type == "DELETED":
            return state.revision
    return float("inf")


def nothing_made(past: Past) -> Iterator[Fail]:
    """No Pod and no record was asked for once the operator could know that the WebApp goes."""
    for uid in past.webapps:
        marked = past.marked(uid)
        if marked is None:
            continue
        late = [change for change in _made_for(past, uid) if _too_late(past, change, marked)]
        if late:
            yield Fail(
                "While deletionTimestamp is set, nothing is created for the WebApp.",
                f"{len(late)} object(s) were created more than {IN_HAND:g} s after it was marked "
                "for deletion.",
                why="The garbage collector and the operator would work against each other.",
                next="Check deletionTimestamp first, before anything is compared or created.",
                diagnosis="made-children-while-terminating",
                evidence=[describe(change.exchange) for change in late[:4]],
            )


def nothing_after(past: Past) -> Iterator[Fail]:
    """Nothing that belonged to a WebApp is created or written once it is gone."""
    for uid in past.webapps:
        gone = past.gone(uid)
        if gone is None:
            continue
        late = [
            change
            for change in past.changes
            if _belongs(change, uid) and (_too_late(past, change, gone) or _revived(change, gone))
        ]
        if late:
            yield Fail(
                "Nothing is written for a WebApp that is gone.",
                f"{len(late)} writes were carried out after its end.",
                why="Nobody is left who would clean up after it: a record stays for ever, and a "
                "Pod is the garbage collector's next.",
                next="A key that is no longer in the cache has nothing to be brought about.",
                diagnosis="wrote-for-a-gone-webapp",
                evidence=[describe(change.exchange) for change in late[:4]],
            )


def _too_late(past: Past, change: Change, news: State) -> bool:
    e = change.exchange
    return e.t_request > news.seen + IN_HAND and not past.blinded(news.seen, e.t_request)


def _revived(change: Change, gone: State) -> bool:
    """A record made after the end of its WebApp, which only its own operator could remove."""
    made = int(change.after["metadata"]["resourceVersion"])
    record = change.exchange.resource == "configmaps" and change.before is None
    return record and made > gone.revision


def _made_for(past: Past, uid: str) -> list[Change]:
    return [change for change in past.changes if change.before is None and _belongs(change, uid)]


def _records_made(past: Past, uid: str) -> list[Change]:
    return [change for change in _made_for(past, uid) if change.exchange.resource == "configmaps"]


def _belongs(change: Change, uid: str) -> bool:
    """Whether what was written is a Pod that the WebApp controls, or its record."""
    if change.exchange.resource == "pods":
        return (controller_of(change.after) or {}).get("uid") == uid
    return change.exchange.resource == "configmaps" and change.exchange.name == f"record-{uid}"
