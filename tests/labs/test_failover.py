"""What is judged of a failover, from the order of what was said on two wires."""

from __future__ import annotations

import pytest

from grader.evidence.answers import Entry
from grader.labs import lab_4_5_1
from grader.labs.lab_4_5_1_failover import (
    EXPECTED,
    LEASE,
    SIGKILL,
    SIGTERM,
    TRIES,
    Failover,
    require_duration,
    require_taken,
)
from grader.labs.lab_4_5_1_picture import failover_picture
from grader.verdict import Fail
from tests.witness.builders import exchange

LEASES = "/apis/coordination.k8s.io/v1/namespaces/phase4-system/leases/webapp-operator"


def lease(verb, t, version, holder, duration=5, **more):
    answer = {
        "metadata": {"name": "webapp-operator", "resourceVersion": str(version)},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": duration},
    }
    return exchange(verb, LEASES, t=t, answer=answer, **more)


def write(t, version, **more):
    answer = {"metadata": {"name": "pod", "resourceVersion": str(version)}}
    return exchange("create", t=t, answer=answer, **more)


def failover(kind=SIGKILL, **changed):
    """The leader renews at 99.7 s, is hit at 100 s; the other looks every half second."""
    free_at = 105.5
    fields = {
        "kind": kind,
        "at": 100.0,
        "renewals": [lease("update", 99.2, 10, "a"), lease("update", 99.7, 11, "a")],
        "release": None,
        "taken": lease("update", free_at + 0.1, 20, "b"),
        "tries": [lease("get", 100.0 + 0.5 * n, 11, "a") for n in range(12)],
        "leader_writes": [write(99.0, 9)],
        "standby_writes": [write(free_at + 0.4, 21)],
    }
    return Failover(**{**fields, **changed})


def diagnosis(judge, seen):
    with pytest.raises(Fail) as failed:
        judge(seen)
    return failed.value.message.diagnosis


def test_a_lease_that_is_taken_in_time_is_right():
    require_taken(failover())
    require_duration(failover())


def test_a_lease_taken_before_its_holders_duration_is_over_is_not():
    early = failover(taken=lease("update", 99.7 + LEASE - 0.2, 20, "b"))
    assert diagnosis(require_taken, early) == "takes-by-own-duration"


def test_a_released_lease_may_be_taken_at_once():
    given = lease("update", 100.05, 12, "")
    require_taken(failover(SIGTERM, release=given, taken=lease("update", 100.6, 13, "b")))


def test_a_lease_that_nobody_takes_is_named():
    assert diagnosis(require_taken, failover(taken=None)) == "nobody-takes-over"


def test_late_is_who_lets_tries_pass_and_not_who_is_slow():
    slow = [lease("get", 100.0, 11, "a"), lease("get", 130.0, 11, "a")]
    require_taken(failover(tries=slow, taken=lease("update", 130.1, 20, "b")))
    idle = [lease("get", 100.0 + 0.5 * n, 11, "a") for n in range(30)]
    late = failover(tries=idle, taken=lease("update", 114.6, 20, "b"))
    assert late.tries_let_pass() > TRIES
    assert diagnosis(require_taken, late) == "takes-late"


def test_the_duration_in_the_lease_is_the_flags():
    short = failover(renewals=[lease("update", 99.7, 11, "a", duration=4)])
    assert diagnosis(require_duration, short) == "lease-duration-wrong"


def test_order_is_the_api_servers_and_not_the_clocks():
    # Its answer came late, but it was carried out before the lease was another's.
    before = write(106.0, 19)
    after = write(105.0, 22)
    seen = failover(leader_writes=[before, after])
    assert seen.late_writes() == [after]


def test_a_write_without_a_version_is_ordered_by_when_it_was_sent():
    sent = exchange("delete", t=107.0, answer={"kind": "Status"})
    assert failover(leader_writes=[sent]).late_writes() == [sent]


def test_a_write_under_way_when_the_lease_is_released_is_found_refused_or_not():
    before = write(99.9, 11)
    given = lease("update", 100.05, 12, "")
    # Sent before the release, answered after it: the next leader had made that Pod.
    late = exchange("create", t=100.0, took=1.0, status=409, answer={"kind": "Status"})
    seen = failover(SIGTERM, release=given, leader_answered=[before, late])
    assert seen.writes_after_release() == [late]
    assert failover(leader_answered=[before, late]).writes_after_release() == []


def test_before_anybody_took_it_every_write_of_the_other_is_too_early():
    early = write(100.2, 13)
    assert failover(taken=None, standby_writes=[early]).early_writes() == [early]


@pytest.mark.parametrize("value", ["4.5 to 7.2 s", "4.5-7.2", "4.5 – 7.2 s", "between 4.5 and 7.2"])
def test_an_interval_is_read_as_people_write_it(value):
    assert lab_4_5_1.interval(Entry("SIGKILL", value, 3)) == (4.5, 7.2)


@pytest.mark.parametrize("value", ["5 s", "7.2 to 4.5 s", "soon", "-1 to 4 s", "1 to 2 to 3", ""])
def test_what_is_no_interval_is_said(value):
    entry = Entry("SIGKILL", value, 3)
    assert diagnosis(lab_4_5_1.interval, entry) == "prediction-unreadable"


def test_a_prediction_is_right_within_a_second_at_both_ends():
    right = EXPECTED[SIGKILL]
    assert lab_4_5_1.agrees((right[0] + 0.9, right[1] - 0.9), right)
    assert not lab_4_5_1.agrees((right[0], right[1] + 1.1), right)


@pytest.mark.parametrize("taken", [None, lease("update", 105.6, 20, "b")])
def test_the_picture_says_in_words_what_it_shows(taken):
    drawn = failover_picture("Failovers", [failover(taken=taken)], {SIGKILL: (4.5, 7.2)})
    assert ("after 5.6 s" in drawn["alt"]) == (taken is not None)
    assert "predicted 4.5 to 7.2 s" in drawn["alt"]
    assert drawn["svg"].startswith("<svg")
