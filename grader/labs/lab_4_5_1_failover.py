"""Three failovers of two replicas, as Lease and wire have them.

The replica that leads and the one that waits have different durations, as in the midst
of an upgrade: whose the others wait by can be seen. What must not overlap is judged by
the order in which the API server carried writes out (their resourceVersions), and how
late a replica may be by the tries that it let pass, so that a busy machine changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from grader.conformance.bench import Bench
from grader.conformance.parts.replicas import LEASES, SLACK, Pair, election, took_lease
from grader.conformance.processes import STARTING
from grader.verdict import Fail, Unknown
from grader.wire.records import Exchange
from grader.witness import describe

#: Seconds, of the replica that leads: lease duration, renew deadline, retry period. client-go
#: compares records whose times are whole seconds (a ``metav1.Time`` as JSON): of two renewals
#: within one second it sees one, and counts the lease from that. So they are a second apart.
LEASE, DEADLINE, RETRY = 5.0, 3.0, 1.0
#: Seconds, of the replica that waits.
OTHER_LEASE, OTHER_DEADLINE, OTHER_RETRY = 3.0, 2.0, 0.5
#: client-go waits one retry period between two tries, and up to 1.2 more.
LONGEST_PAUSE = (1 + 1.2) * OTHER_RETRY
#: What happens to the leader, in the words of answers.md.
SIGTERM, SIGKILL, CUT = "SIGTERM", "SIGKILL", "cut wire"
#: The first again, with a write on its way. Not predicted: it takes as long as the work.
BUSY = "SIGTERM with work in hand"
#: Seconds from the event to the request that takes the lease: the least and the most. The last
#: renewal is up to a retry period old; the other sees it a pause later, and looks once in a pause.
EXPECTED = {
    SIGTERM: (0.0, LONGEST_PAUSE),
    SIGKILL: (LEASE - RETRY, LEASE + 2 * LONGEST_PAUSE),
    CUT: (LEASE - RETRY, LEASE + 2 * LONGEST_PAUSE),
}
#: Tries that a free lease may see before it is taken: the first may meet a conflict.
TRIES = 3
#: Seconds between two changes that keep the operator at work.
_TICK = 0.25
#: Seconds that a write is under way when the leader is told to stop; it may take five to end.
_IN_HAND = 1.0
#: Seconds by which the clocks of wire and process may differ in their steps.
_CLOCK = 0.05


@dataclass
class Failover:
    """What was seen of one failover. Times are seconds since the epoch, from the wires."""

    kind: str
    #: When the signal was sent or the wire cut.
    at: float
    #: The leader's writes of the Lease, the last that gave it time among them.
    renewals: list[Exchange]
    #: With which the leader gave the lease away; None where it did not.
    release: Exchange | None
    #: With which the other took it; None where it never did.
    taken: Exchange | None
    #: The other's reads of the Lease.
    tries: list[Exchange]
    #: Applied writes but to the Lease.
    leader_writes: list[Exchange]
    standby_writes: list[Exchange]
    #: The leader's writes that the API server answered, refused ones as well.
    leader_answered: list[Exchange] = field(default_factory=list)
    #: Seconds that the grader itself was late in what it meant to do meanwhile.
    lost: float = 0.0
    stderr: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float | None:
        """From the event to the request that took the lease."""
        return self.taken.t_request - self.at if self.taken else None

    @property
    def last_renewal(self) -> Exchange:
        return self.renewals[-1]

    def waited(self) -> float:
        """Seconds from the last renewal to the request that took the lease."""
        assert self.taken is not None
        return self.taken.t_request - self.last_renewal.t_request

    def tries_let_pass(self) -> int:
        """Reads of the Lease that began when it was free, up to the one that led to taking it."""
        assert self.taken is not None
        free = self._free()
        if free is None:
            return 0
        return sum(free < e.t_request <= self.taken.t_request for e in self.tries)

    def _free(self) -> float | None:
        """From when on the other must have known that the lease is free; None where unknown."""
        if self.release:
            return self.release.t_end
        renewed = revision(self.last_renewal)
        shown = [e for e in self.tries if renewed and revision(e) == renewed]
        after = [e for e in self.tries if shown and e.t_request > shown[0].t_end]
        # By its next request it has looked at its clock, however slow the machine.
        return after[0].t_request + LEASE if after else None

    def late_writes(self) -> list[Exchange]:
        """Writes of the old leader that the API server carried out after the lease was another's."""
        return _after(self.leader_writes, self.taken)

    def writes_after_release(self) -> list[Exchange]:
        """Writes of the old leader that were answered after it had given the lease away.

        One that is refused then, since the next leader was quicker, is a second writer too.
        """
        if self.release is None:
            return []
        # One wire, so one order: what is answered is written down before the process hears it.
        return [e for e in self.leader_answered if e.seq > self.release.seq]

    def early_writes(self) -> list[Exchange]:
        """Writes of the other replica before the lease was its own."""
        after = set(map(id, _after(self.standby_writes, self.taken)))
        return [e for e in self.standby_writes if id(e) not in after]


def revision(exchange: Exchange) -> int:
    """The resourceVersion of what the API server answered; 0 where the answer has none."""
    answer = exchange.answer
    meta = answer.get("metadata") if isinstance(answer, dict) else None
    version = str((meta or {}).get("resourceVersion", ""))
    return int(version) if version.isdigit() else 0


def _after(writes: Iterable[Exchange], moment: Exchange | None) -> list[Exchange]:
    """Those that the API server carried out after that write of the Lease."""
    if moment is None:
        return []
    return [
        e
        for e in writes
        if (revision(e) > revision(moment) if revision(e) else e.t_request > moment.t_end)
    ]


def fail_over(bench: Bench, kind: str) -> Failover:
    """Two replicas with work to do; something happens to the one that leads."""
    pair = Pair(
        bench,
        election(LEASE, DEADLINE, RETRY),
        standby_flags=election(OTHER_LEASE, OTHER_DEADLINE, OTHER_RETRY),
    )
    try:
        return _fail_over(bench, pair, kind)
    finally:
        pair.close()


def _fail_over(bench: Bench, pair: Pair, kind: str) -> Failover:
    _require_both(bench, pair)
    app = bench.create(bench.namespace(), replicas=1)
    bench.settled(app, "creating a WebApp for two replicas with --leader-elect")
    _require_leading(pair)
    if kind == BUSY:
        _give_work(bench, pair, app)
    at = time.time()
    if kind in (SIGTERM, BUSY):
        pair.leader.terminate(grace=5.0)
    elif kind == SIGKILL:
        pair.leader.kill()
    else:
        # Its other requests get through: a leader that acts on shows it.
        pair.leader.wire.rules.add("hold any leases")
    lost, number = 0.0, 0
    left = LEASE + 2 * LONGEST_PAUSE + SLACK
    while left > 0 and not pair.acquired(pair.standby, at) and pair.standby.exited is None:
        began = time.monotonic()
        number += 1
        app = bench.change(app, replicas=1 + number % 3)
        bench.ended_within(pair.standby, _TICK)
        took = time.monotonic() - began
        # What the machine took from the grader, it may have taken from the operator.
        lost += max(0.0, took - _TICK)
        left -= min(took, _TICK)
    if pair.acquired(pair.standby, at):
        for replicas in (2, 3, 1):
            app = bench.change(app, replicas=replicas)
            bench.history.quiet(app["metadata"]["namespace"], 0.2, 2.0)
        bench.settled(app, f"a failover ({kind})")
    return _seen(bench, pair, kind, at, lost)


def _give_work(bench: Bench, pair: Pair, app: dict) -> None:
    """Have the leader send a write that is under way for a while."""
    namespace = app["metadata"]["namespace"]
    slow = pair.leader.wire.rules.add(f"delay {_IN_HAND:g}s create pods ns={namespace} times=1")
    bench.change(app, replicas=2)
    if not bench.fires(pair.leader, slow, STARTING):
        raise Unknown(
            "The leader makes a Pod when more replicas are wanted.",
            f"It sent none within {STARTING:g} s, so it was not stopped in the midst of it.",
            evidence=pair.leader.stderr_tail(4),
        )


def _require_both(bench: Bench, pair: Pair) -> None:
    """The other replica runs, and waits for the lease."""
    if bench.wait_exchange(pair.standby, lambda e: e.resource == "leases", STARTING):
        return
    ended = pair.standby.exited
    raise Fail(
        "Of two replicas with --leader-elect, one leads and the other waits for the lease.",
        f"The other {ended}." if ended else "The other never asked for the lease.",
        why="A replica that is not there takes over from nobody.",
        next="Start it by hand with the flags of the page, beside one that leads.",
        diagnosis="operator-died" if ended else "no-leader-election",
        evidence=pair.standby.stderr_tail(6),
    )


def _require_leading(pair: Pair) -> None:
    """The first still leads; what else may have happened is no fault, or one with a name."""
    taken = pair.acquired(pair.standby, 0.0)
    if taken is None and pair.leader.exited is None:
        return
    renewals = [e for e in pair.bench.exchanges(pair.leader.client) if took_lease(e)]
    if taken and taken.t_request < renewals[-1].t_request + LEASE - _CLOCK:
        raise taken_early(taken, renewals[-1])
    seen = "The other one took it over." if taken else f"It {pair.leader.exited}."
    raise Unknown(
        "The replica that took the lease first still has it when something is to happen to it.",
        f"{seen} Requests may have taken too long here to renew a lease within {DEADLINE:g} s.",
        next="Run it again when the machine has less to do.",
        evidence=pair.leader.stderr_tail(4),
    )


def _seen(bench: Bench, pair: Pair, kind: str, at: float, lost: float) -> Failover:
    leader = bench.exchanges(pair.leader.client)
    renewals = [e for e in leader if took_lease(e)]
    given = [e for e in leader if e.resource == "leases" and e.applied and _is_free(e.answer)]
    standby = bench.exchanges(pair.standby.client)
    return Failover(
        kind,
        at,
        renewals,
        given[-1] if given else None,
        pair.acquired(pair.standby, at),
        [e for e in standby if e.resource == "leases" and e.verb == "get" and e.status == 200],
        pair.writes(pair.leader),
        pair.writes(pair.standby),
        [
            e
            for e in leader
            if e.is_write and e.resource not in ("leases", "events") and e.server_status is not None
        ],
        lost,
        pair.standby.stderr_tail(4),
    )


def _is_free(lease: Any) -> bool:
    """Whether that is a Lease that nobody holds; a deleted one is free as well."""
    if not isinstance(lease, dict):
        return False
    return not (lease.get("spec") or {}).get("holderIdentity")


def taken_early(taken: Exchange, renewal: Exchange) -> Fail:
    """It was taken while its holder's own duration still ran."""
    waited = taken.t_request - renewal.t_request
    own = f" Its own --lease-duration is {OTHER_LEASE:g} s." if waited >= OTHER_LEASE - 0.5 else ""
    return Fail(
        f"A lease whose holder wrote {LEASE:g} s into it is taken no sooner than {LEASE:g} s "
        "after it was renewed last.",
        f"The other replica took it {waited:.1f} s after the last renewal.{own}",
        why="During an upgrade two replicas have different flags. The holder counts on what it "
        "wrote: whoever waits for less writes beside it.",
        next=f"Wait for the leaseDurationSeconds of the {LEASES.partition('.')[0]} object that "
        "was read, from the moment at which it was seen to change.",
        diagnosis="takes-by-own-duration",
        evidence=[describe(renewal), describe(taken)],
    )


def require_taken(failover: Failover) -> None:
    """The other replica took the lease: no sooner than it may, and at one of its next tries."""
    taken = failover.taken
    if taken is None:
        raise Fail(
            f"After {failover.kind}, the other replica takes the lease over.",
            "It did not.",
            why="Nothing is reconciled for as long as nobody leads.",
            next="Does it go on asking for the Lease, once in a retry period of its own?",
            diagnosis="nobody-takes-over",
            evidence=failover.stderr,
        )
    if not failover.release and failover.waited() < LEASE - _CLOCK:
        raise taken_early(taken, failover.last_renewal)
    if (tries := failover.tries_let_pass()) > TRIES:
        raise Fail(
            "A lease that is free is taken at the next try.",
            f"The other replica read it {tries} times more before it took it.",
            why="The service is without a leader all the while.",
            next="An empty holderIdentity is free at once; any other once its "
            "leaseDurationSeconds have passed since it was seen to change.",
            diagnosis="takes-late",
            evidence=[describe(failover.last_renewal), describe(taken)],
        )


def require_duration(failover: Failover) -> None:
    """The leader wrote the duration it was given into the Lease."""
    lease = failover.last_renewal.answer["spec"]
    written = lease.get("leaseDurationSeconds")
    if written != LEASE:
        raise Fail(
            f"With --lease-duration={LEASE:g}s the Lease says {LEASE:g} s.",
            f"Its leaseDurationSeconds are {written}.",
            why="The others go by what is written there, not by the holder's flag.",
            next="Is the flag read, and in seconds?",
            diagnosis="lease-duration-wrong",
            evidence=[describe(failover.last_renewal)],
        )
