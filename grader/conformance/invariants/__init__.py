"""What must hold at every moment.

Two kinds. What a scenario asks of its WebApp when it has converged
(:mod:`~grader.conformance.invariants.asked`), and what is watched in every
scenario, whatever it is about (:data:`WATCHED`, judged by :func:`watch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from grader.conformance.invariants import foreign, going, leases, pods, requests, status
from grader.conformance.invariants.asked import (
    finalizer_before_record,
    never_more_pods_than,
    no_more_work_than,
    nothing_made_while_terminating,
    record_gone_before_finalizer,
    status_is_correct,
    transition_times,
    work_done,
)

if TYPE_CHECKING:
    from grader.conformance.past import Past
    from grader.verdict import Fail

__all__ = [
    "AT_REST",
    "WATCHED",
    "Invariant",
    "finalizer_before_record",
    "never_more_pods_than",
    "no_more_work_than",
    "nothing_made_while_terminating",
    "record_gone_before_finalizer",
    "status_is_correct",
    "transition_times",
    "watch",
    "work_done",
]


@dataclass(frozen=True)
class Invariant:
    """Something that is watched in every scenario; ``find`` yields what breaks it.

    ``id`` is what the contract's file names it by, ``title`` says it in a few words.
    """

    id: str
    title: str
    find: Callable[[Past], Iterator[Fail]]


#: What every wait for a WebApp compares, by name: see
#: :func:`grader.conformance.contract.shortfalls`.
AT_REST = {
    "converged": "a WebApp that exists has converged, wherever a scenario waits for it",
    "gone": "a WebApp that was deleted is gone, its Pods and its record with it",
}

#: In the order in which they are told: what destroyed something goes first.
WATCHED = (
    Invariant("foreign-objects", "only its own Pods and records are written", foreign.objects),
    *(
        Invariant(
            f"foreign-on-{resource}", f"{what} stays", partial(foreign.fields, resource=resource)
        )
        for resource, what in (
            ("pods", "what others wrote on a Pod"),
            ("configmaps", "what others wrote on a record"),
            ("webapps", "what others wrote on a WebApp"),
        )
    ),
    Invariant("spec-untouched", "the spec is the user's alone", foreign.spec),
    Invariant("own-finalizers", "no finalizer but the one is left", foreign.finalizers),
    Invariant("finalizer-first", "finalizer before record", going.finalizer_first),
    Invariant("record-first", "record gone before finalizer", going.record_first),
    Invariant("nothing-for-the-going", "nothing is created for a going WebApp", going.nothing_made),
    Invariant("nothing-for-the-gone", "nothing is written for a gone WebApp", going.nothing_after),
    Invariant("never-too-many", "no more Pods than wanted", pods.never_too_many),
    Invariant("wanted-pods-kept", "no Pod is deleted that is wanted", pods.wanted_kept),
    Invariant("lease-held", "no write without the lease", leases.held),
    Invariant("status-justified", "a status claims what was so", status.justified),
    Invariant("status-current", "a status does not stay wrong", status.current),
    Invariant("transition-times", "lastTransitionTime moves with the status", status.transitions),
    Invariant("no-crash", "no process ends by itself", requests.no_crash),
    Invariant("no-loop", "no request is sent in a loop", requests.no_loop),
    Invariant("pauses-start-small", "pauses start small again", requests.pauses),
)


def watch(past: Past) -> Iterator[tuple[Invariant, Fail]]:
    """What the past of a scenario breaks, the first of each invariant."""
    for invariant in WATCHED:
        for fail in invariant.find(past):
            yield invariant, fail
            break
