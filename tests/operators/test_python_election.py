"""The Python operator's lease: who gives it up, when, and what it does at the end."""

from __future__ import annotations

import threading
import time

import pytest
from machinery.stop import Stop
from webapp_operator.election import Durations, Election

from .upstream import upstream

LEASES = "/apis/coordination.k8s.io/v1/namespaces/phase4-system/leases"
LEASE = f"{LEASES}/webapp-operator"
#: For what must happen; a busy machine takes its time.
SOON = 20.0


@pytest.fixture
def server():
    with upstream() as served:
        yield served


class Leader:
    """An election that runs in a thread, with work that goes on until it is told to stop."""

    def __init__(self, server, durations=None, *, finished=True):
        self.stopping, self.working, self.lost = Stop(), threading.Event(), threading.Event()
        self.finish = threading.Event()
        self.lost_at = 0.0
        self.finished = finished
        self.election = Election(server.client(), "me", durations or Durations())
        self.thread = threading.Thread(
            target=self.election.run, args=(self._work, self.stopping, self._lost), daemon=True
        )
        self.thread.start()

    def _work(self):
        self.working.set()
        self.stopping.wait()
        self.finish.wait(SOON)
        return self.finished

    def _lost(self):
        self.lost_at = time.monotonic()
        self.lost.set()

    def stop(self):
        self.finish.set()
        self.stopping.set()

    def ended(self, within=SOON):
        self.thread.join(within)
        return not self.thread.is_alive()


def holder(server):
    return server.objects[LEASE]["spec"]["holderIdentity"]


@pytest.mark.parametrize("hangs", [False, True], ids=["refused", "hangs"])
def test_no_pause_goes_beyond_the_renew_deadline(server, hangs):
    """Deadline 1.3 retry periods: after one try that failed, a whole pause would end at 2."""
    served = []
    server.fault = lambda method, path: served.append(time.monotonic())
    began = time.monotonic()
    leader = Leader(server, Durations(lease=3.0, renew_deadline=2.6, retry_period=2.0))
    assert leader.working.wait(SOON)
    block = threading.Event()

    def refuse(method, path):
        if hangs:
            block.wait(SOON)
        return 500

    server.fault = refuse
    assert leader.lost.wait(SOON)
    # Not before the deadline, and not by a whole pause after it: that would be 1.4 s.
    assert leader.lost_at - began >= 2.6
    assert leader.lost_at - served[-1] < 2.6 + 1.2
    block.set()


def test_the_lease_says_no_fewer_seconds_than_are_counted_on(server):
    leader = Leader(server, Durations(lease=2.4, renew_deadline=2.2, retry_period=0.5))
    assert leader.working.wait(SOON)
    assert server.objects[LEASE]["spec"]["leaseDurationSeconds"] == 3
    leader.stop()
    assert leader.ended()


def test_the_lease_is_released_after_the_work_has_ended(server):
    leader = Leader(server)
    assert leader.working.wait(SOON)
    leader.stopping.set()
    assert not leader.ended(0.2) and holder(server) == "me"
    leader.finish.set()
    assert leader.ended() and holder(server) == ""


def test_with_work_still_in_hand_the_lease_is_left_to_run_out(server):
    leader = Leader(server, finished=False)
    assert leader.working.wait(SOON)
    leader.stop()
    assert leader.ended() and holder(server) == "me"


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "standby"])
def test_a_stop_does_not_wait_for_a_server_that_hangs(server, leads):
    hung, block = threading.Event(), threading.Event()

    def hang(method, path):
        hung.set()
        block.wait(SOON)

    if not leads:
        server.fault = hang
    leader = Leader(server, Durations(lease=60.0, renew_deadline=40.0, retry_period=0.05))
    if leads:
        assert leader.working.wait(SOON)
        server.fault = hang
    assert hung.wait(SOON)
    leader.stop()
    # 1 s for the release; a request has 30.
    assert leader.ended(10.0)
    assert not leader.lost.is_set()
    block.set()


def test_a_renewal_that_is_late_does_not_keep_the_lease_from_being_released(server):
    """It is applied between the release's GET and PUT: 409, and once more."""
    leader = Leader(server)
    assert leader.working.wait(SOON)

    def renewed_meanwhile(method, path):
        if method == "PUT":
            server.fault = lambda method, path: None
            server.put(LEASE, server.objects[LEASE])
        return None

    server.fault = renewed_meanwhile
    leader.stop()
    assert leader.ended() and holder(server) == ""


def test_a_request_that_comes_late_does_not_take_back_what_was_released(server):
    leader = Leader(server, Durations(retry_period=0.05))
    assert leader.working.wait(SOON)
    hangs, go_on = threading.Event(), threading.Event()

    def first_hangs(method, path):
        if not hangs.is_set():
            hangs.set()
            go_on.wait(SOON)

    server.fault = first_hangs
    assert hangs.wait(SOON)
    leader.stop()
    assert leader.ended() and holder(server) == ""
    go_on.set()
    # The request that was left behind reads the lease only now.
    for thread in threading.enumerate():
        if thread.name == "lease":
            thread.join(SOON)
            assert not thread.is_alive()
    assert holder(server) == ""


def test_another_holders_lease_is_left_alone_until_its_time_is_up(server):
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 3600, "leaseTransitions": 4}
    server.put(
        LEASE, {"metadata": {"name": "webapp-operator", "namespace": "phase4-system"}, "spec": spec}
    )
    leader = Leader(server, Durations(retry_period=0.05))
    while len(server.requests) < 3:
        assert not leader.ended(0.01)
    leader.stop()
    assert leader.ended() and not server.writes() and not leader.working.is_set()
