"""What waits: the backoff's pauses, the clock that stands still, the signal that ends everything."""

from __future__ import annotations

import random
import threading

import pytest
from machinery.backoff import Backoff
from machinery.clock import FakeClock, RealClock
from machinery.rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
    WithMaxWaitRateLimiter,
    default_controller_rate_limiter,
)
from machinery.stop import Stop, Stopped

#: How long a test waits for what will come (s): a limit, which measures nothing.
PATIENCE = 60


def begun(function, *arguments) -> threading.Thread:
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread


def ended(thread: threading.Thread) -> bool:
    thread.join(PATIENCE)
    return not thread.is_alive()


def test_pauses_double_up_to_the_longest():
    backoff = Backoff(jitter=0, clock=FakeClock())
    assert [backoff.step() for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


def test_each_pause_is_stretched_by_a_share_of_itself():
    plain, stretched = Backoff(jitter=0, clock=FakeClock()), Backoff(clock=FakeClock())
    shares = [stretched.step() / plain.step() for _ in range(50)]
    assert all(1 <= share < 2 for share in shares) and len(set(shares)) > 40
    same = [Backoff(clock=FakeClock(), random_=random.Random(1)).step() for _ in range(2)]
    assert same[0] == same[1]


def test_the_pauses_begin_anew_two_minutes_after_the_first():
    clock = FakeClock()
    backoff = Backoff(jitter=0, clock=clock)
    assert [backoff.step(), backoff.step()] == [0.8, 1.6]
    clock.step(120)
    assert backoff.step() == 3.2, "not later than two minutes: it goes on"
    clock.step(0.1)
    assert backoff.step() == 0.8
    clock.step(120)
    assert backoff.step() == 1.6


def test_the_real_clock_goes_on_and_does_not_wait_for_what_is_past():
    clock, condition = RealClock(), threading.Condition()
    before = clock.now()
    with condition:
        for passed in (0, -1):
            clock.wait(condition, passed)
        clock.wait(condition, 0.01)
    assert clock.now() >= before + 0.01


def test_the_fake_clock_wakes_at_the_time_and_not_before():
    clock, condition = FakeClock(), threading.Condition()
    seen = []

    def sleeper() -> None:
        with condition:
            while clock.now() < 10:
                clock.wait(condition, 10 - clock.now())
                seen.append(clock.now())

    thread = begun(sleeper)
    assert clock.wait_for_waiter(PATIENCE)
    clock.step(4)
    assert seen == [4], "it has looked at the new time, and waits again"
    assert thread.is_alive()
    clock.step(6)
    assert seen == [4, 10] and ended(thread)
    clock.step(1)


def test_nobody_waits_on_a_new_fake_clock():
    assert not FakeClock().wait_for_waiter(0)


def test_stopping_wakes_who_waits_and_calls_back_once():
    stop, called = Stop(), []
    waits = []
    with stop.on_stop(lambda: called.append("inside")):
        thread = begun(lambda: waits.append(stop.wait(PATIENCE)))
        assert not stop.is_set()
        stop.set()
        stop.set()
    assert ended(thread) and waits == [True] and called == ["inside"]
    with stop.on_stop(lambda: called.append("late")):
        assert called == ["inside", "late"], "it has stopped already: at once"
    assert stop.wait(PATIENCE) is True


def test_what_is_over_is_not_called_back():
    stop, called = Stop(), []
    with stop.on_stop(lambda: called.append(1)):
        pass
    stop.set()
    assert called == []


def test_a_wait_has_a_limit_by_its_clock():
    stop, clock, waits = Stop(), FakeClock(), []
    assert stop.wait(0) is False
    thread = begun(lambda: waits.append(stop.wait(5, clock)))
    assert clock.wait_for_waiter(PATIENCE)
    clock.step(4.5)
    assert waits == []
    clock.step(0.5)
    assert ended(thread) and waits == [False]


def test_a_call_gives_its_result_or_its_error():
    stop = Stop()
    assert stop.call(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        stop.call(lambda: 1 / 0)


def test_a_call_is_given_up_on_and_its_result_discarded():
    stop, answer, discarded = Stop(), threading.Event(), threading.Event()
    outcome = []

    def slow() -> str:
        answer.wait(PATIENCE)
        return "too late"

    def caller() -> None:
        try:
            stop.call(slow, lambda result: discarded.set() if result == "too late" else None)
        except Stopped:
            outcome.append("stopped")

    thread = begun(caller)
    stop.set()
    assert ended(thread) and outcome == ["stopped"] and not discarded.is_set()
    answer.set()
    assert discarded.wait(PATIENCE)


def test_each_key_waits_twice_as_long_after_each_failure():
    limiter = ItemExponentialFailureRateLimiter(0.5, 3.0)
    assert [limiter.when("a") for _ in range(4)] == [0.5, 1.0, 2.0, 3.0]
    assert limiter.when("b") == 0.5 and limiter.num_requeues("a") == 4
    limiter.forget("a")
    limiter.forget("never seen")
    assert limiter.num_requeues("a") == 0 and limiter.when("a") == 0.5


def test_failures_without_number_still_end_at_the_longest():
    limiter = ItemExponentialFailureRateLimiter(0.5, 3.0)
    assert {limiter.when("a") for _ in range(2000)} == {0.5, 1.0, 2.0, 3.0}


def test_a_bucket_gives_its_tokens_at_once_then_makes_new_ones():
    clock = FakeClock()
    bucket = BucketRateLimiter(4.0, 2, clock)
    assert [bucket.when(key) for key in "abcd"] == [0.0, 0.0, 0.25, 0.5]
    clock.step(0.5)
    assert bucket.when("a") == 0.25
    clock.step(100)
    assert [bucket.when("a") for _ in range(3)] == [0.0, 0.0, 0.25], "no more than it holds"
    bucket.forget("a")
    assert bucket.num_requeues("a") == 0


def test_the_longest_wait_of_several_counts_and_each_is_asked():
    clock = FakeClock()
    one, other = ItemExponentialFailureRateLimiter(1.0, 9.0), BucketRateLimiter(1.0, 1, clock)
    both = MaxOfRateLimiter(one, other)
    assert [both.when("a"), both.when("b"), both.when("a")] == [1.0, 1.0, 2.0]
    assert both.num_requeues("a") == 2
    both.forget("a")
    assert both.num_requeues("a") == 0 and MaxOfRateLimiter().when("a") == 0.0
    assert WithMaxWaitRateLimiter(both, 0.5).when("c") == 0.5


def test_a_controllers_limiter_is_client_gos():
    limiter = default_controller_rate_limiter(FakeClock())
    assert limiter.when("a") == 0.005 and limiter.when("a") == 0.01
    for number in range(98):
        limiter.when(number)
    assert limiter.when("b") == pytest.approx(0.1), "the hundred at once are used up"
