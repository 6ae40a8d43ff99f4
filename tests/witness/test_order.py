"""Moments agree with the API server's own order, whatever the network did to the answers."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from grader.witness import Timeline, order
from tests.witness.builders import exchange, listing, obj

POD = "/api/v1/namespaces/a/pods"


def test_a_write_that_was_answered_late_keeps_its_place():
    slow = exchange("update", f"{POD}/x", t=0.0, took=1.0, answer=obj("x", 10), client="slow")
    fast = exchange("update", f"{POD}/x", t=0.1, took=0.1, answer=obj("x", 9), client="fast")
    timeline = Timeline.of_records([slow, fast])
    assert sorted(
        timeline.writes(), key=lambda e: (timeline.moment(e), order.revision(e), not e.is_write)
    ) == [fast, slow]


def test_a_read_comes_after_the_write_it_saw_and_before_the_next():
    first = exchange("update", f"{POD}/x", t=0.0, took=1.0, answer=obj("x", 9))
    read = exchange("list", POD, t=0.0, took=1.0, answer=listing(9, obj("x", 9)), client="r")
    second = exchange("update", f"{POD}/x", t=0.0, took=1.0, answer=obj("x", 10))
    timeline = Timeline.of_records([second, read, first])
    assert sorted(
        timeline.exchanges(), key=lambda e: (timeline.moment(e), order.revision(e), not e.is_write)
    ) == [first, read, second]


def test_an_old_object_read_again_says_nothing():
    write = exchange("update", f"{POD}/x", t=0.0, took=0.1, answer=obj("x", 50))
    read = exchange("get", f"{POD}/old", t=5.0, took=0.1, answer=obj("old", 3))
    timeline = Timeline.of_records([write, read])
    assert 5.0 <= timeline.moment(read) <= 5.1


@given(st.integers(0, 2**32), st.integers(2, 30))
def test_moments_rise_with_versions_and_stay_within_requests(seed, count):
    """Writes applied one after another; requests begin earlier and answers come later at random."""
    rng = random.Random(seed)
    writes, clock = [], 0.0
    for rv in range(1, count + 1):
        clock += rng.random()
        begun, answered = clock - rng.random() * 3, clock + rng.random() * 3
        writes.append(
            exchange(
                "update",
                f"{POD}/p{rng.randrange(3)}",
                t=begun,
                took=answered - begun,
                answer=obj("p", rv),
                client=rng.choice("abc"),
            )
        )
    shuffled = writes[:]
    rng.shuffle(shuffled)
    timeline = Timeline.of_records(shuffled)
    assert (
        sorted(shuffled, key=lambda e: (timeline.moment(e), order.revision(e), not e.is_write))
        == writes
    )
    for write in writes:
        assert write.t_request - 1e-9 <= timeline.moment(write) <= write.t_response + 1e-9
