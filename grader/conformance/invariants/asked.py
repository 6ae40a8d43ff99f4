"""What must hold at every moment, judged from the history of the API server's states.

Each raises :class:`grader.verdict.Fail` with the states that break it. They are
asked after a scenario's WebApp has converged.
"""

from __future__ import annotations

from collections import Counter

from grader.conformance import contract
from grader.conformance.contract import FINALIZER, condition, controller_of, is_ready
from grader.conformance.history import History, State
from grader.conformance.past import Past
from grader.verdict import Fail


def _line(state: State, what: str = "") -> str:
    where = f"{state.resource} {state.namespace}/{state.name}"
    return f"revision {state.revision}  {state.type:<8}  {where}  {what}".rstrip()


def finalizer_before_record(history: History, app: dict) -> None:
    """The finalizer was stored before the DNS record was created."""
    uid = app["metadata"]["uid"]
    record = next(
        (
            s
            for s in history.states(resource="configmaps")
            if s.type == "ADDED" and s.name == f"record-{uid}"
        ),
        None,
    )
    stored = next(
        (
            s
            for s in history.states(uid=uid)
            if FINALIZER in s.object["metadata"].get("finalizers", ())
        ),
        None,
    )
    if record is None or (stored is not None and stored.revision < record.revision):
        return
    raise Fail(
        "The finalizer is stored before the DNS record is created.",
        "The record was created first.",
        why="If the WebApp is deleted, or the operator killed, between the two, the record stays "
        "for ever.",
        next="Write the finalizer, check the response, and only then create the record.",
        diagnosis="finalizer-after-record",
        evidence=[_line(s) for s in (record, stored) if s is not None],
    )


def record_gone_before_finalizer(history: History, app: dict) -> None:
    """The finalizer was removed only when the record was gone."""
    uid = app["metadata"]["uid"]
    removed = next(
        (
            s
            for s in history.states(uid=uid)
            if contract.is_terminating(s.object)
            and FINALIZER not in s.object["metadata"].get("finalizers", ())
        ),
        None,
    )
    gone = [
        s
        for s in history.states(resource="configmaps")
        if s.type == "DELETED" and s.name == f"record-{uid}"
    ]
    if removed is None or (gone and gone[-1].revision < removed.revision):
        return
    raise Fail(
        "The finalizer is removed only after the DNS record is gone.",
        "It was removed first." if gone else "It was removed, and the record was never deleted.",
        why="The finalizer is the only thing that keeps the WebApp until the cleanup is done; "
        "without it, a failed cleanup is never retried.",
        next="Delete the record, check that it is gone, then remove the finalizer.",
        diagnosis="finalizer-removed-early",
        evidence=[_line(s) for s in [removed, *gone]],
    )


def nothing_made_while_terminating(history: History, app: dict) -> None:
    """No Pod and no record was created once the WebApp had a deletionTimestamp."""
    uid = app["metadata"]["uid"]
    marked = next((s for s in history.states(uid=uid) if contract.is_terminating(s.object)), None)
    if marked is None:
        return
    made = [
        s
        for s in history.states()
        if s.type == "ADDED"
        and s.revision > marked.revision
        and (
            (s.resource == "pods" and (controller_of(s.object) or {}).get("uid") == uid)
            or (s.resource == "configmaps" and s.name == f"record-{uid}")
        )
    ]
    if made:
        raise Fail(
            "While deletionTimestamp is set, nothing is created for the WebApp.",
            f"{len(made)} object(s) were created after it was marked for deletion.",
            why="The garbage collector and the operator would work against each other.",
            next="Check deletionTimestamp first, before anything is compared or created.",
            diagnosis="made-children-while-terminating",
            evidence=[_line(marked, "deletionTimestamp set"), *map(_line, made[:4])],
        )


def never_more_pods_than(history: History, app: dict, most: int, *, slack: int = 0) -> None:
    """There were never more active Pods than were ever wanted.

    ``slack``: Pods above that which are allowed for a moment, where an answer
    was dropped and nobody can tell whether the create was applied.
    """
    uid = app["metadata"]["uid"]
    standing: dict[str, str] = {}
    for state in history.pods_of(uid):
        alive = state.type != "DELETED" and not (
            contract.is_terminating(state.object) or contract.is_finished(state.object)
        )
        if alive:
            standing[state.uid] = state.name
        else:
            standing.pop(state.uid, None)
        if len(standing) > most + slack:
            raise Fail(
                f"The WebApp never has more than {most + slack} active Pods.",
                f"At revision {state.revision} there were {len(standing)}: "
                f"{', '.join(sorted(standing.values()))}.",
                why="A cache is always a little behind. An operator that creates whatever its cache "
                "lacks, without tracking its own creates, creates it twice.",
                next="Use deterministic names, so that a second create fails with AlreadyExists, "
                "or track expectations.",
                diagnosis="over-created",
                evidence=[_line(state)],
            )


def work_done(past: Past, app: dict) -> Counter[str]:
    """How many objects were created and deleted for a WebApp so far.

    Pods that somebody else took away, and those made in their place, do not count.
    """
    uid = app["metadata"]["uid"]
    taken = past.taken_by_others(uid)
    pods = [state for state in past.pods_of(uid) if state.uid not in taken]
    gone = {s.uid for s in pods if s.type == "DELETED" or contract.is_terminating(s.object)}
    records = [
        s
        for s in past.states(resource="configmaps")
        if s.type == "ADDED" and s.name == f"record-{uid}"
    ]
    made = {s.uid for s in pods if s.type == "ADDED"}
    return Counter(
        {
            "Pods created": len(made),
            "Pods deleted": len(gone),
            "records created": len(records),
        }
    )


def no_more_work_than(past: Past, app: dict, undisturbed: Counter[str]) -> None:
    """No more was created and deleted for the WebApp than without the kill."""
    done = work_done(past, app)
    if more := done - undisturbed:
        what = next(iter(more))
        raise Fail(
            f"With a kill and a restart no more is done than without. {what}: {undisturbed[what]}.",
            f"{what}: {done[what]}.",
            why="Work that was done already was done again: each Pod that is replaced is an "
            "unnecessary outage.",
            next="Which difference does the new process see? What the old one created matches the "
            "spec.",
            diagnosis="did-it-again-after-kill",
            evidence=[_line(s) for s in past.pods_of(app["metadata"]["uid"])[-8:]],
        )


def status_is_correct(history: History, app: dict) -> None:
    """Whenever the status was Ready for a generation, that generation's spec was met.

    Only for WebApps whose Pods nobody else touched: a Pod that is lost makes a
    status wrong through no fault of the operator.
    """
    uid = app["metadata"]["uid"]
    for state, live in history.replay():
        if state.uid != uid or state.type == "DELETED":
            continue
        seen = state.object
        ready = condition(seen, "Ready")
        generation = seen["metadata"]["generation"]
        if ready.get("status") != "True" or seen["status"].get("observedGeneration") != generation:
            continue
        pods = [
            pod
            for pod in live["pods"].values()
            if (controller_of(pod) or {}).get("uid") == uid and not contract.is_terminating(pod)
        ]
        right = [p for p in pods if is_ready(p) and seen["spec"]["image"] in contract.images(p)]
        record = any(r["metadata"]["name"] == f"record-{uid}" for r in live["configmaps"].values())
        if len(right) >= contract.wanted(seen) and record:
            continue
        raise Fail(
            f"A status with observedGeneration {generation} and Ready describes generation "
            f"{generation}.",
            f"At revision {state.revision} it was Ready, and {len(right)} of "
            f"{contract.wanted(seen)} Pods were Ready with the wanted image"
            + ("." if record else ", and there was no DNS record."),
            why="observedGeneration tells users whether the status is about the new spec or the "
            "old one. Written too early, it makes them trust a wrong «Ready».",
            next="Write observedGeneration together with the conditions computed for that "
            "generation, in one write.",
            diagnosis="observed-generation-early",
            evidence=[_line(state, f"status {seen['status']}")],
        )


def transition_times(history: History, app: dict) -> None:
    """lastTransitionTime changed only when the condition's status did."""
    before: dict = {}
    for state in history.states(uid=app["metadata"]["uid"]):
        now = condition(state.object, "Ready")
        if (
            before
            and now
            and before.get("status") == now.get("status")
            and before.get("lastTransitionTime") != now.get("lastTransitionTime")
        ):
            raise Fail(
                "lastTransitionTime of Ready changes only when its status does.",
                f"The status stayed {now['status']}, and the time changed from "
                f"{before.get('lastTransitionTime')} to {now.get('lastTransitionTime')}.",
                why="It says since when the condition has its status. A new time in each reconcile "
                "is a write in each, which causes an event, which causes a reconcile.",
                next="Keep the old time unless the status changes, and compare before you write.",
                diagnosis="transition-time-churn",
                evidence=[_line(state)],
            )
        before = now or before
