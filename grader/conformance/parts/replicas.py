"""Two replicas: one works, the other waits, and never do both write."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from grader.cluster.api import ApiError
from grader.conformance import contract
from grader.conformance.bench import Bench
from grader.conformance.processes import STARTING
from grader.conformance.scenario import scenario
from grader.runner import RunningProgram
from grader.verdict import Fail, Unknown
from grader.wire.records import WRITE_VERBS, Exchange
from grader.witness import describe

#: Seconds: short, so that a failover can be waited for. Between the deadline (which may start a
#: retry period after the last renewal) and the end of the lease there is room for a slow machine.
LEASES = "leases.coordination.k8s.io"
LEASE, DEADLINE, RETRY = 4.0, 2.5, 0.5


def election(lease: float, deadline: float, retry: float) -> tuple[str, ...]:
    """The flags of a replica with these three durations, in seconds."""
    return (
        "--leader-elect",
        f"--lease-duration={lease:g}s",
        f"--renew-deadline={deadline:g}s",
        f"--retry-period={retry * 1000:g}ms",
    )


FLAGS = election(LEASE, DEADLINE, RETRY)
#: For a process to start its caches and do its first write.
SLACK = 4.0
#: Seconds, with which counting wrong shows: one retry period ends before the deadline, the next
#: after the lease. Who looks at the lease after a whole one, or begins to count only at the first
#: that failed, leads on for two or three seconds when it is another's.
LATE_LEASE, LATE_DEADLINE, LATE_RETRY = 7.0, 6.2, 4.5


def remove_lease(bench: Bench) -> None:
    try:
        bench.api.delete(LEASES, contract.LEASE, contract.LEASE_NAMESPACE)
    except ApiError as error:
        if error.status != 404:
            raise


def holder_of(bench: Bench) -> str:
    """Who holds the lease by now; empty where nobody does."""
    lease = bench.api.find(LEASES, contract.LEASE, contract.LEASE_NAMESPACE) or {}
    return (lease.get("spec") or {}).get("holderIdentity") or ""


def took_lease(exchange: Exchange) -> bool:
    """Whether the exchange made its sender the holder, or kept it that."""
    return bool(
        exchange.resource == "leases"
        and exchange.verb in ("create", "update", "patch")
        and exchange.applied
        # From the answer: the request itself may be protobuf.
        and (exchange.answer or {}).get("spec", {}).get("holderIdentity")
    )


def _writes_of(bench: Bench, program: RunningProgram, since: float) -> list[Exchange]:
    return [
        e
        for e in bench.exchanges(program.client)
        if e.verb in WRITE_VERBS
        and e.resource not in ("leases", "events")
        and e.applied
        and e.t_request >= since
    ]


def nobody(program: RunningProgram, timeout: float) -> Fail:
    return Fail(
        f"Somebody takes the lease {contract.LEASE_NAMESPACE}/{contract.LEASE} within "
        f"{timeout:g} s.",
        f"It {program.exited}." if program.exited else "Nobody did.",
        why="With --leader-elect, only the holder of the lease may write.",
        next="The lease's name and namespace are part of the contract.",
        diagnosis="no-lease",
        evidence=program.stderr_tail(5),
    )


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Pair:
    """Two processes with one lease; ``leader`` and ``standby`` as the lease says.

    Where ``standby_flags`` are given, the second starts once the first leads, with those.
    """

    def __init__(
        self, bench: Bench, flags: tuple[str, ...] = FLAGS, standby_flags: tuple[str, ...] = ()
    ) -> None:
        bench.stop_shared()
        self.bench = bench
        remove_lease(bench)
        self.both = [self._start("a", flags)]
        if standby_flags:
            self.wait_acquired(self.both, 0.0, STARTING)
        self.both.append(self._start("b", standby_flags or flags))
        self.leader = self.wait_acquired(self.both, 0.0, 15.0)
        self.standby = next(p for p in self.both if p is not self.leader)

    def _start(self, letter: str, flags: tuple[str, ...]) -> RunningProgram:
        name = f"replica-{letter}-{self.bench.rng.randrange(16**6):06x}"
        return self.bench.start(*flags, client=name)

    def close(self) -> None:
        for program in self.both:
            program.kill()

    def acquired(self, program: RunningProgram, since: float) -> Any | None:
        """The exchange with which a process took the lease after ``since``."""
        for exchange in self.bench.exchanges(program.client):
            if exchange.t_request >= since and took_lease(exchange):
                return exchange
        return None

    def wait_acquired(
        self, programs: list[RunningProgram], since: float, timeout: float
    ) -> RunningProgram:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            # Asked first: what it did before its end counts.
            ended = all(program.exited is not None for program in programs)
            for program in programs:
                if self.acquired(program, since):
                    return program
            if ended:
                break
            self.bench.wait_exchange(
                programs[0], lambda e: e.resource == "leases" and e.t_request >= since, 0.2
            )
        raise nobody(programs[0], timeout)

    def writes(self, program: RunningProgram, since: float = 0.0) -> list[Any]:
        return _writes_of(self.bench, program, since)

    def require_one_writer(self, since: float, old: RunningProgram, new: RunningProgram) -> None:
        """No write of ``old`` arrived after ``new`` had taken the lease."""
        taken = self.acquired(new, since)
        late = self.writes(old, taken.t_response or taken.t_request) if taken else []
        if late:
            raise Fail(
                "A replica that has lost the lease writes nothing.",
                f"{len(late)} of its writes arrived after the other replica had acquired it.",
                why="Two writers undo each other's work, each taking itself for the only one.",
                next="Give up at the renew deadline, before the lease expires for the others, and "
                "end the process.",
                diagnosis="wrote-after-lost-lease",
                evidence=[describe(taken), *(describe(e) for e in late[:5])],
            )


@scenario("replicas/one-writer", "Of two replicas, only the holder of the lease writes", alone=True)
def one_writer(bench: Bench) -> None:
    pair = Pair(bench)
    for _ in range(3):
        bench.settled(
            bench.create(bench.namespace(), replicas=2), "creating WebApps for two replicas"
        )
    waits = bench.wait_exchange(pair.standby, lambda e: e.resource == "leases", STARTING)
    ended, said = pair.standby.exited, pair.standby.stderr_tail(6)
    idle = pair.writes(pair.standby)
    pair.close()
    if ended is not None or not waits:
        raise Fail(
            "Of two replicas on one machine, one leads and the other waits for the lease.",
            f"The other {ended}." if ended is not None else "The other never asked for the lease.",
            why="A replica that is not there takes over from nobody.",
            next="Is a port taken that both want? Health and metrics are off with 0, and by "
            "default.",
            diagnosis="operator-died" if ended is not None else "no-leader-election",
            evidence=said,
        )
    if idle:
        raise Fail(
            "The replica that does not hold the lease writes nothing.",
            f"It sent {len(idle)} writes.",
            why="Two replicas that both act create everything twice and fight over every status.",
            next="Start the workers only in the callback for becoming the leader.",
            diagnosis="no-leader-election",
            evidence=[describe(e) for e in idle[:6]],
        )


@scenario(
    "replicas/release",
    "After SIGTERM the other takes over without waiting for the lease to expire",
    alone=True,
)
def release(bench: Bench) -> None:
    pair = Pair(bench)
    bench.settled(bench.create(bench.namespace(), replicas=2), "creating a WebApp")
    since = time.time()
    if pair.leader.exited is not None:
        raise Unknown(
            "The leader still leads when it is told to stop.",
            f"It {pair.leader.exited} before that: requests may have taken too long here to renew "
            f"a lease within {DEADLINE:g} s.",
            next="Run it again when the machine has less to do.",
            evidence=pair.leader.stderr_tail(4),
        )
    holder = (pair.acquired(pair.leader, 0.0).answer or {})["spec"]["holderIdentity"]
    pair.leader.terminate(grace=5.0)
    # Whoever has it by now: not the one that has ended.
    kept = holder_of(bench) == holder
    app = bench.create(bench.namespace(), replicas=1)
    bench.settled(app, "the leader got SIGTERM", timeout=LEASE + RETRY + SLACK + 5.0)
    taken = pair.acquired(pair.standby, since)
    waited = taken.t_request - since if taken else float("inf")
    bench.measured["seconds until the lease was acquired"] = round(waited, 2)
    pair.require_one_writer(since, pair.leader, pair.standby)
    pair.close()
    if kept:
        raise Fail(
            f"A leader that stops releases the lease: the other acquires it after a retry period "
            f"({RETRY:g} s), not after the lease duration ({LEASE:g} s).",
            f"It was still the holder when it had ended; the other acquired it after {waited:.1f} s.",
            why="Every upgrade stops the leader: without the release nothing is done for as long "
            "as the lease lasts.",
            next="When the work is finished, write an empty holderIdentity.",
            diagnosis="lease-not-released",
        )


@scenario(
    "replicas/killed", "After SIGKILL the other takes over once the lease has expired", alone=True
)
def killed(bench: Bench) -> None:
    pair = Pair(bench)
    bench.settled(bench.create(bench.namespace(), replicas=2), "creating a WebApp")
    since = time.time()
    pair.leader.kill()
    app = bench.create(bench.namespace(), replicas=1)
    bench.settled(app, "the leader was killed", timeout=LEASE + RETRY + SLACK + 5.0)
    taken = pair.acquired(pair.standby, since)
    bench.measured["seconds until the lease was acquired"] = round(
        taken.t_request - since if taken else -1.0, 2
    )
    pair.close()


@scenario(
    "replicas/lease-lost", "A leader that cannot renew stops before another starts", alone=True
)
def lease_lost(bench: Bench) -> None:
    # Everything else still succeeds: a leader that ignores its lease can show it.
    _without_renewals(bench, "answer 500 create,update,patch leases times=always")


@scenario(
    "replicas/renew-deadline",
    "Whatever the retry period, a leader gives up before its lease ends for others",
    alone=True,
)
def renew_deadline(bench: Bench) -> None:
    bench.stop_shared()
    remove_lease(bench)
    leader = bench.start(
        "--leader-elect",
        f"--lease-duration={LATE_LEASE:g}s",
        f"--renew-deadline={LATE_DEADLINE:g}s",
        f"--retry-period={LATE_RETRY:g}s",
    )
    if not bench.wait_exchange(leader, took_lease, STARTING):
        raise nobody(leader, STARTING)
    lease = _Lease(bench)
    app = bench.create(bench.namespace(), replicas=0)
    # The wire answers by itself, at once: what is judged is the pauses in between.
    leader.wire.rules.add("answer 500 any leases times=always")
    # We are the other replica: it looks twice a second, and goes by its own clock alone.
    number = 0
    while not lease.taken():
        # Work to do all the while, and after it: who still acts is seen to.
        number += 1
        app = bench.change(app, replicas=number % 2)
        bench.ended_within(leader, 0.5)
    since = time.time()
    while (
        time.time() < since + LATE_RETRY
        and leader.exited is None
        and not _writes_of(bench, leader, since)
    ):
        number += 1
        app = bench.change(app, replicas=number % 2)
        bench.ended_within(leader, 0.25)
    late = _writes_of(bench, leader, since)
    bench.measured["writes after the lease was another's"] = len(late)
    if late:
        raise Fail(
            f"With a lease of {LATE_LEASE:g} s, a renew deadline of {LATE_DEADLINE:g} s and a "
            f"retry period of {LATE_RETRY:g} s, a leader that cannot renew has stopped before "
            "another has the lease.",
            f"It wrote {len(late)} times after that.",
            why="Two writers undo each other's work, and each believes to be alone.",
            next="The deadline counts from the request that renewed the lease last. No pause, and "
            "no wait for an answer, may go beyond it.",
            diagnosis="gives-up-late",
            evidence=[describe(e) for e in late[:5]],
        )


class _Lease:
    """The lease as another replica sees it: by its own clock, from the moment of each change."""

    def __init__(self, bench: Bench) -> None:
        self._api = bench.api
        self._seen: dict | None = None
        self._seen_at = 0.0

    def taken(self) -> bool:
        """Take the lease if it has run out; whether it is ours."""
        lease = self._api.get(LEASES, contract.LEASE, contract.LEASE_NAMESPACE)
        if lease["spec"] != self._seen:
            self._seen, self._seen_at = lease["spec"], time.monotonic()
        if time.monotonic() < self._seen_at + LATE_LEASE:
            return False
        lease["spec"] |= {"holderIdentity": "another replica", "renewTime": _micro_time()}
        try:
            self._api.replace(lease)
        except ApiError as error:
            if error.status == 409:
                return False  # It was renewed after all.
            raise
        return True


@scenario(
    "replicas/sigterm-while-leases-hang",
    "A leader whose renewals hang ends within 5 s of a SIGTERM, with exit code 0",
    alone=True,
)
def sigterm_while_leases_hang(bench: Bench) -> None:
    bench.stop_shared()
    remove_lease(bench)
    # A lease that lasts, so that it is not lost meanwhile; a renewal every half second.
    leader = bench.start(
        "--leader-elect", "--lease-duration=60s", "--renew-deadline=40s", "--retry-period=500ms"
    )
    app = bench.create(bench.namespace(), replicas=1)
    bench.settled(app, "creating a WebApp for one replica with --leader-elect")
    hang = leader.wire.rules.add("hold any leases")
    if not bench.fires(leader, hang, 15.0):
        raise nobody(leader, 15.0)
    began = time.monotonic()
    ended = leader.terminate(grace=5.0)
    bench.measured["seconds"] = round(time.monotonic() - began, 2)
    if ended.obeyed and ended.code == 0:
        return
    raise Fail(
        "After SIGTERM a leader exits 0 within 5 s, also where no request for its lease is "
        "answered.",
        f"It {ended}." if ended.obeyed else "It still ran after 5 s and had to be killed.",
        why="A node that is drained in an outage of the API server is where this happens: then "
        "SIGKILL ends it, wherever it is.",
        next="Give the renewal up, and the release no more than a second or two: others can wait "
        "the lease out.",
        diagnosis="waits-for-its-lease",
        evidence=leader.stderr_tail(6),
    )


@scenario("replicas/server-hangs", "A leader whose renewals hang gives up in time", alone=True)
def server_hangs(bench: Bench) -> None:
    # No response at all, not even an error: a request without a timeout hangs here.
    _without_renewals(bench, "hold any leases")


def _without_renewals(bench: Bench, rule: str) -> None:
    pair = Pair(bench)
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=1)
    bench.settled(app, "creating a WebApp")
    since = time.time()
    pair.leader.wire.rules.add(rule)
    deadline = time.monotonic() + LEASE + RETRY + SLACK + 2.0
    number = 0
    while not pair.acquired(pair.standby, since) and time.monotonic() < deadline:
        # Work to do all the while, so that a leader that still acts is seen.
        number += 1
        app = bench.change(app, replicas=1 + number % 3)
        bench.ended_within(pair.leader, 0.25)
    for replicas in (2, 3, 4):
        app = bench.change(app, replicas=replicas)
        bench.history.quiet(namespace, 0.2, 2.0)
    bench.settled(app, f"the leader could not renew («{rule}»)", timeout=LEASE + SLACK + 10.0)
    pair.require_one_writer(since, pair.leader, pair.standby)
    pair.close()
