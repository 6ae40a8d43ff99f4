"""Two replicas: one works, the other waits, and never do both write."""

from __future__ import annotations

import time
from typing import Any

from grader.cluster.api import ApiError
from grader.conformance import contract
from grader.conformance.bench import Bench
from grader.conformance.scenario import scenario
from grader.runner import RunningProgram
from grader.verdict import Fail
from grader.wire.records import WRITE_VERBS
from grader.witness import describe

#: Seconds: short, so that a failover can be waited for. Between the deadline (which may start a
#: retry period after the last renewal) and the end of the lease there is room for a slow machine.
LEASE, DEADLINE, RETRY = 4.0, 2.0, 0.5
FLAGS = (
    "--leader-elect",
    "--lease-duration",
    f"{LEASE:g}s",
    "--renew-deadline",
    f"{DEADLINE:g}s",
    "--retry-period",
    f"{RETRY * 1000:g}ms",
)
#: For a process to start its caches and do its first write.
SLACK = 4.0


class _Pair:
    """Two processes with one lease; ``leader`` and ``standby`` as the lease says."""

    def __init__(self, bench: Bench) -> None:
        bench.stop_shared()
        self.bench = bench
        try:
            bench.api.delete("leases.coordination.k8s.io", contract.LEASE, contract.LEASE_NAMESPACE)
        except ApiError as error:
            if error.status != 404:
                raise
        self.both = [
            bench.start(*FLAGS, client=f"replica-{letter}-{bench.rng.randrange(16**6):06x}")
            for letter in "ab"
        ]
        self.leader = self.wait_acquired(self.both, 0.0, 15.0)
        self.standby = next(p for p in self.both if p is not self.leader)

    def close(self) -> None:
        for program in self.both:
            program.kill()

    def acquired(self, program: RunningProgram, since: float) -> Any | None:
        """The exchange with which a process took the lease after ``since``."""
        for exchange in self.bench.exchanges(program.client):
            if (
                exchange.resource == "leases"
                and exchange.verb in ("create", "update", "patch")
                and exchange.applied
                and exchange.t_request >= since
                # From the answer: the request itself may be protobuf.
                and (exchange.answer or {}).get("spec", {}).get("holderIdentity")
            ):
                return exchange
        return None

    def wait_acquired(
        self, programs: list[RunningProgram], since: float, timeout: float
    ) -> RunningProgram:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for program in programs:
                if self.acquired(program, since):
                    return program
            self.bench.wait_exchange(
                programs[0], lambda e: e.resource == "leases" and e.t_request >= since, 0.2
            )
        raise Fail(
            f"A replica acquires the lease {contract.LEASE_NAMESPACE}/{contract.LEASE} within "
            f"{timeout:g} s.",
            "None did.",
            why="With --leader-elect, only the holder of the lease may write.",
            next="Check the name and the namespace of the lease: they are part of the contract.",
            diagnosis="no-lease",
            evidence=programs[0].stderr_tail(5),
        )

    def writes(self, program: RunningProgram, since: float = 0.0) -> list[Any]:
        return [
            e
            for e in self.bench.exchanges(program.client)
            if e.verb in WRITE_VERBS
            and e.resource not in ("leases", "events")
            and e.applied
            and e.t_request >= since
        ]

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
    pair = _Pair(bench)
    for _ in range(3):
        bench.settled(
            bench.create(bench.namespace(), replicas=2), "creating WebApps for two replicas"
        )
    idle = pair.writes(pair.standby)
    pair.close()
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
    pair = _Pair(bench)
    bench.settled(bench.create(bench.namespace(), replicas=2), "creating a WebApp")
    since = time.time()
    pair.leader.terminate(grace=5.0)
    app = bench.create(bench.namespace(), replicas=1)
    bench.settled(app, "the leader got SIGTERM", timeout=LEASE + RETRY + SLACK + 5.0)
    taken = pair.acquired(pair.standby, since)
    waited = taken.t_request - since if taken else float("inf")
    bench.measured["seconds until the lease was acquired"] = round(waited, 2)
    pair.require_one_writer(since, pair.leader, pair.standby)
    pair.close()
    # A released lease is acquired at the next retry; any other has to expire.
    if waited > LEASE - RETRY:
        raise Fail(
            f"A leader that stops releases the lease: the other replica acquires it after a retry "
            f"period ({RETRY:g} s), not after the lease duration ({LEASE:g} s).",
            f"The other acquired it after {waited:.1f} s.",
            why="Every upgrade stops the leader: without the release nothing happens until the "
            "lease expires.",
            next="When the work is finished, set holderIdentity to an empty string.",
            diagnosis="lease-not-released",
        )


@scenario(
    "replicas/killed", "After SIGKILL the other takes over once the lease has expired", alone=True
)
def killed(bench: Bench) -> None:
    pair = _Pair(bench)
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


@scenario("replicas/server-hangs", "A leader whose renewals hang gives up in time", alone=True)
def server_hangs(bench: Bench) -> None:
    # No response at all, not even an error: a request without a timeout hangs here.
    _without_renewals(bench, "hold any leases")


def _without_renewals(bench: Bench, rule: str) -> None:
    pair = _Pair(bench)
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
