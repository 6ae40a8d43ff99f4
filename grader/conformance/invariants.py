"""What must hold at every moment, judged from the history of the API server's states.

Each raises :class:`grader.verdict.Fail` with the states that break it. They are
asked after a scenario has settled, when nothing of its WebApp moves any more.
"""

from __future__ import annotations

from collections import Counter

from grader.conformance import contract
from grader.conformance.contract import FINALIZER, condition, controller_of, is_ready
from grader.conformance.history import History, State
from grader.verdict import Fail


def _line(state: State, what: str = "") -> str:
    where = f"{state.resource} {state.namespace}/{state.name}"
    return f"revision {state.revision}  {state.type:<8}  {where}  {what}".rstrip()


def finalizer_before_record(history: History, app: dict) -> None:
    """The finalizer was stored before the DNS record was made."""
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
        "The finalizer is stored before the DNS record is made.",
        "The record was made first.",
        why="A WebApp that is deleted (or an operator that is killed) between the two leaves a "
        "record that nobody will ever remove.",
        next="Write the finalizer, look at the answer, and only then create the record.",
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
        "without it, a failed cleanup is never tried again.",
        next="Delete the record, see that it is not there any more, then remove the finalizer.",
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
            next="Look at deletionTimestamp first, before anything is compared or made.",
            diagnosis="made-children-while-terminating",
            evidence=[_line(marked, "deletionTimestamp set"), *map(_line, made[:4])],
        )


def never_more_pods_than(history: History, app: dict, most: int, *, slack: int = 0) -> None:
    """At no moment did more Pods stand than were ever wanted.

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
                f"There are never more than {most + slack} Pods of the WebApp.",
                f"At revision {state.revision} there were {len(standing)}: "
                f"{', '.join(sorted(standing.values()))}.",
                why="A cache is always a little behind. Who creates what the cache lacks, without "
                "remembering what is on its way, creates it twice.",
                next="Give children names that a second create runs into, or keep expectations.",
                diagnosis="over-created",
                evidence=[_line(state)],
            )


def work_done(history: History, app: dict) -> Counter[str]:
    """How many objects were made and deleted for a WebApp so far, whoever did it."""
    uid = app["metadata"]["uid"]
    pods = history.pods_of(uid)
    gone = {s.uid for s in pods if s.type == "DELETED" or contract.is_terminating(s.object)}
    records = [
        s
        for s in history.states(resource="configmaps")
        if s.type == "ADDED" and s.name == f"record-{uid}"
    ]
    made = {s.uid for s in pods if s.type == "ADDED"}
    return Counter(
        {"Pods made": len(made), "Pods deleted": len(gone), "records made": len(records)}
    )


def no_more_work_than(history: History, app: dict, undisturbed: Counter[str]) -> None:
    """No more was made and deleted for the WebApp than for one whose operator was not disturbed."""
    done = work_done(history, app)
    if more := done - undisturbed:
        what = next(iter(more))
        raise Fail(
            f"A kill and a restart end with as much work done as without: {what}: "
            f"{undisturbed[what]}.",
            f"{what}: {done[what]}.",
            why="What was there already was done again: each Pod that is replaced is an outage "
            "that nobody asked for.",
            next="What does the new process take to be different from what is wanted? It sees "
            "what the old one made, and must find it right.",
            diagnosis="did-it-again-after-kill",
            evidence=[_line(s) for s in history.pods_of(app["metadata"]["uid"])[-8:]],
        )


def status_is_true(history: History, app: dict) -> None:
    """Whenever the status said Ready of a generation, the world was as that generation's spec says.

    Only for WebApps whose Pods nobody else disturbed: a Pod that is lost makes
    a status untrue through no fault of its writer.
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
            f"A status that says observedGeneration {generation} and Ready speaks of what "
            f"generation {generation} wants.",
            f"At revision {state.revision} it said so, and {len(right)} of "
            f"{contract.wanted(seen)} Pods were Ready with the wanted image"
            + ("." if record else ", and there was no DNS record."),
            why="observedGeneration is how a user tells a status about the new spec from one about "
            "the old. Raised early, «Ready» is believed, and wrong.",
            next="Write observedGeneration together with the conditions that were worked out for "
            "that generation, in one write.",
            diagnosis="observed-generation-early",
            evidence=[_line(state, f"status {seen['status']}")],
        )


def transition_times(history: History, app: dict) -> None:
    """lastTransitionTime moved only when the condition's status did."""
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
                "lastTransitionTime of Ready moves only when its status does.",
                f"The status stayed {now['status']}, and the time went from "
                f"{before.get('lastTransitionTime')} to {now.get('lastTransitionTime')}.",
                why="It says since when the condition is what it is; and a time that is new on "
                "each pass is a write on each pass, which is an event, which is a pass.",
                next="Keep the old time unless the status changes; compare before you write.",
                diagnosis="transition-time-churn",
                evidence=[_line(state)],
            )
        before = now or before
