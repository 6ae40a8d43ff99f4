"""Leader election on a Lease: a watchdog ends the process, and renewals need no read.

The holder knows the version that it wrote last, so it renews with that and reads only
after a conflict. It never asks itself whether it still leads: a thread of its own waits
for the end of the renew deadline, and ends the process there.
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

NAMESPACE, NAME = "phase4-system", "webapp-operator"
LEASES = Resource("coordination.k8s.io", "v1", "leases", NAMESPACE)


@dataclass(frozen=True)
class Durations:
    """Seconds."""

    lease: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease > self.renew_deadline > self.retry_period > 0:
            raise ValueError(
                "lease duration, renew deadline, retry period: each longer than the next"
            )


class Election:
    """One candidate for the lease."""

    def __init__(self, client: Client, identity: str, durations: Durations) -> None:
        self._client, self._identity, self._durations = client, identity, durations
        self._changed = threading.Condition()
        #: Until when we may act, on our own monotonic clock; None once there is nothing to lose.
        self._until: float | None = None
        self._ended = threading.Event()

    def run(self, work: Callable[[], bool], stopping: Stop, lost: Callable[[], None]) -> None:
        lease = self._take(stopping)
        if lease is None:
            return
        threading.Thread(target=self._watch_the_clock, args=(lost,), daemon=True).start()
        renewals = threading.Thread(target=self._renew, args=(lease, lost), daemon=True)
        renewals.start()
        finished = work()
        self._ended.set()
        # No renewal may come after the release.
        renewals.join(0.5)
        if finished and not renewals.is_alive():
            releases = threading.Thread(target=self._release, daemon=True)
            releases.start()
            releases.join(1.0)
        with self._changed:
            self._until = None
            self._changed.notify()

    def _take(self, stopping: Stop) -> Object | None:
        seen, since = None, 0.0
        while not stopping.is_set():
            try:
                began = time.monotonic()
                lease = self._read()
                spec = lease.get("spec") or {}
                if spec != seen:
                    seen, since = spec, time.monotonic()
                over = time.monotonic() - since > (spec.get("leaseDurationSeconds") or 0)
                if over or not spec.get("holderIdentity"):
                    transitions = spec.get("leaseTransitions", -1) + 1
                    now = _now()
                    spec = {**spec, "leaseTransitions": transitions, "acquireTime": now}
                    taken = self._write({**lease, "spec": spec})
                    self._until = began + self._durations.renew_deadline
                    return taken
            except (ApiError, Unreachable) as error:
                log.info("not this time: %s", error)
            # As client-go: one retry period, and up to 1.2 more.
            stopping.wait(self._durations.retry_period * random.uniform(1.0, 2.2))
        return None

    def _renew(self, lease: Object, lost: Callable[[], None]) -> None:
        while not self._ended.wait(self._durations.retry_period):
            began = time.monotonic()
            try:
                lease = self._write(lease)
            except ApiError as error:
                if error.is_conflict:
                    try:
                        lease = self._read()
                    except (ApiError, Unreachable):
                        continue
                    if (lease.get("spec") or {}).get("holderIdentity") != self._identity:
                        lost()
                        return
                continue
            except Unreachable:
                continue
            with self._changed:
                self._until = began + self._durations.renew_deadline
                self._changed.notify()

    def _watch_the_clock(self, lost: Callable[[], None]) -> None:
        with self._changed:
            while self._until is not None:
                left = self._until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            else:
                return
        log.error("the renew deadline is over")
        lost()

    def _read(self) -> Object:
        try:
            return self._client.get(LEASES, NAME, NAMESPACE)
        except ApiError as error:
            if not error.is_not_found:
                raise
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
        }

    def _write(self, lease: Object) -> Object:
        """Write the lease as ours, at the version that it carries."""
        spec = {
            **(lease.get("spec") or {}),
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._durations.lease),
            "renewTime": _now(),
        }
        wanted = {**lease, "spec": spec}
        if "resourceVersion" in lease["metadata"]:
            return self._client.update(LEASES, wanted)
        return self._client.create(LEASES, wanted, NAMESPACE)

    def _release(self) -> None:
        try:
            lease = self._read()
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") == self._identity:
                spec = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}
                self._client.update(LEASES, {**lease, "spec": spec})
        except (ApiError, Unreachable) as error:
            log.warning("not released, others will wait the lease out: %s", error)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
