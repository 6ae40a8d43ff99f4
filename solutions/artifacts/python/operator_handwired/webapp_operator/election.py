"""Leader election on a Lease, as client-go does it.

Upstream: client-go v0.37.2, tools/leaderelection/leaderelection.go — ``acquire``
(252), ``renew`` (279), ``release`` (319), ``tryAcquireOrRenew`` (444);
``NewFromKubeconfig`` (resourcelock/interface.go:144) for the time limit of a request.

Three durations, in seconds. ``lease_duration`` is what others wait for from the
moment at which *they* saw the lease change: nobody compares clocks. A holder
that could not renew for ``renew_deadline`` gives up, and since that is shorter,
it has stopped before anybody else may start. ``retry_period`` is the pause
between two tries. (Upstream counts the deadline from the start of the next round
of renewals, a retry period later: with a lease of 3 s, a deadline of 2.5 s and a
retry period of 2 s two may lead from 3 s to 4.5 s after the last renewal. Here
it counts from the request that renewed.)

What it does not close: a process that is stopped (SIGSTOP, a frozen machine)
between deciding to write and writing. Such a write meets the resourceVersion
or UID that it carries.

Concurrency: :meth:`Election.run` acquires in the caller's thread, renews in a
thread of its own, and runs the work in the caller's. Requests for the lease run
in threads that can be left behind, so a server that hangs keeps neither the
deadline from being looked at nor the process from stopping.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from machinery.api import ApiError, Resource, Unreachable
from machinery.client import Client
from machinery.objects import Object
from machinery.stop import Stop

log = logging.getLogger("webapp_operator.election")

NAMESPACE = "phase4-system"
NAME = "webapp-operator"
LEASES = Resource("coordination.k8s.io", "v1", "leases", NAMESPACE)
#: Between tries to acquire, so that waiting replicas do not march in step.
JITTER = 1.2
#: What a released lease says: whoever comes may have it at once.
RELEASED_SECONDS = 1
#: Seconds that a stop may wait for the release.
RELEASE_WITHIN = 1.0


@dataclass(frozen=True)
class Durations:
    """Seconds. Raises ValueError where they contradict each other, as client-go does."""

    lease: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if self.lease <= self.renew_deadline:
            raise ValueError("the lease duration must be longer than the renew deadline")
        if self.renew_deadline <= JITTER * self.retry_period:
            raise ValueError(f"the renew deadline must be longer than {JITTER} retry periods")
        if self.retry_period <= 0:
            raise ValueError("the retry period must be longer than nothing")


class Election:
    """One candidate for the lease.

    ``client`` should have a time limit of half the renew deadline for each
    request: one that hangs must leave time for another.
    """

    def __init__(self, client: Client, identity: str, durations: Durations) -> None:
        self._client = client
        self._identity = identity
        self._durations = durations
        self._observed: Object | None = None
        #: When we saw the lease change, on our own monotonic clock.
        self._observed_at = 0.0
        #: Until when we may act, likewise.
        self._leading_until = 0.0
        #: Set when the lease is not wanted any more: no request may take it from then on.
        self._over = Stop()

    def run(self, work: Callable[[], bool], stopping: Stop, lost: Callable[[], None]) -> None:
        """Acquire, then run ``work`` while the lease is renewed, then release it.

        ``work`` returns whether it has nothing in hand any more; only then is the
        lease released, so that the next leader never starts while this one
        still writes. ``lost`` is called, from another thread, the moment the
        lease could not be renewed in time; it must end the process or at least
        every write of it. Returns without leading if ``stopping`` comes first.
        """
        leading = self._acquire(stopping)
        try:
            if leading:
                log.info("leading as %s", self._identity)
                threading.Thread(
                    target=self._renew, args=(lost,), name="renew", daemon=True
                ).start()
                if not work():
                    log.warning("stopped with work in hand: others will wait the lease out")
                    return
        finally:
            self._over.set()
        # Whether it led or not: a request to acquire the lease may have been applied
        # although its answer was not waited for.
        if not self._bounded(self._release, RELEASE_WITHIN):
            log.warning("the lease could not be released: others will wait it out")

    def _acquire(self, stopping: Stop) -> bool:
        while not stopping.is_set():
            if self._attempt(self._durations.renew_deadline, stopping):
                return True
            stopping.wait(self._durations.retry_period * random.uniform(1.0, JITTER))
        return False

    def _renew(self, lost: Callable[[], None]) -> None:
        done = self._over
        while not done.wait(self._pause()):
            left = self._leading_until - time.monotonic()
            if left > 0 and self._attempt(left, done):
                continue
            if done.is_set():
                return
            if (
                self._holder() not in (None, self._identity)
                or self._leading_until <= time.monotonic()
            ):
                log.error("the lease is lost")
                lost()
                return

    def _pause(self) -> float:
        """Until the next try: a retry period, but never beyond the deadline."""
        return max(0.0, min(self._durations.retry_period, self._leading_until - time.monotonic()))

    def _holder(self) -> str | None:
        spec = (self._observed or {}).get("spec") or {}
        return spec.get("holderIdentity") or None

    def _attempt(self, within: float, stop: Stop) -> bool:
        """Try once to acquire or renew; whether the lease is ours.

        Given up on after ``within`` seconds, or when ``stop`` is set.
        """
        began = time.monotonic()
        if not self._bounded(self._acquire_or_renew, within, stop):
            return False
        # From before the request: that is when the others may have seen it at the earliest.
        self._leading_until = began + self._durations.renew_deadline
        return True

    def _bounded(
        self, request: Callable[[], bool], within: float, stop: Stop | None = None
    ) -> bool:
        """What ``request()`` returns; False where it fails, or is left behind.

        That is after ``within`` seconds, or when ``stop`` is set.
        """
        outcome: list[bool] = []
        finished = threading.Event()

        def run() -> None:
            try:
                outcome.append(request())
            except (ApiError, Unreachable) as error:
                log.info("no luck with the lease this time: %s", error)
            finally:
                finished.set()

        threading.Thread(target=run, name="lease", daemon=True).start()
        with (stop or Stop()).on_stop(finished.set):
            finished.wait(within)
        return outcome == [True]

    def _acquire_or_renew(self) -> bool:
        now = _now()
        try:
            lease = self._client.get(LEASES, NAME, NAMESPACE)
        except ApiError as error:
            if not error.is_not_found:
                raise
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": NAME, "namespace": NAMESPACE},
                "spec": self._spec(now, now, 0),
            }
            # A 404 for the namespace, too: it is said, and tried again.
            self._observe(self._client.create(LEASES, lease, NAMESPACE))
            return True
        self._observe(lease)
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        ours = holder == self._identity
        if holder and not ours and self._still_valid(spec):
            return False
        # Asked after the lease was read: what is written below carries its version,
        # so it cannot undo a release that came since.
        if self._over.is_set():
            return False
        transitions = spec.get("leaseTransitions", 0)
        if ours:
            wanted = self._spec(spec.get("acquireTime") or now, now, transitions)
        else:
            wanted = self._spec(now, now, transitions + 1)
        # Carries the resourceVersion that was read: of two that try, one gets a 409.
        self._observe(self._client.update(LEASES, {**lease, "spec": {**spec, **wanted}}))
        return True

    def _still_valid(self, spec: Object) -> bool:
        """By the holder's own duration: ours may be another version's."""
        duration = spec.get("leaseDurationSeconds") or 0
        return time.monotonic() < self._observed_at + duration

    def _observe(self, lease: Object) -> None:
        if self._observed is None or self._observed.get("spec") != lease.get("spec"):
            self._observed = lease
            self._observed_at = time.monotonic()

    def _spec(self, acquired: str, renewed: str, transitions: int) -> Object:
        return {
            "holderIdentity": self._identity,
            # Whole seconds, and never fewer than we count on: others wait by this.
            "leaseDurationSeconds": math.ceil(self._durations.lease),
            "acquireTime": acquired,
            "renewTime": renewed,
            "leaseTransitions": transitions,
        }

    def _release(self) -> bool:
        """Let others have the lease, if it is ours; whether it is somebody's to take."""
        while True:
            try:
                lease = self._client.get(LEASES, NAME, NAMESPACE)
            except ApiError as error:
                if error.is_not_found:
                    return True
                raise
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") != self._identity:
                return True
            now = _now()
            released = {
                "holderIdentity": "",
                "leaseDurationSeconds": RELEASED_SECONDS,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": spec.get("leaseTransitions", 0),
            }
            try:
                # With its resourceVersion: if someone else took it meanwhile, it stays theirs.
                self._client.update(LEASES, {**lease, "spec": released})
                return True
            except ApiError as error:
                # A renewal that was left behind has been applied.
                if not error.is_conflict:
                    raise


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
