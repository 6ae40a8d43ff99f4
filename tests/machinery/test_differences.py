"""Where we differ from client-go on purpose: machinery/differences.md, shown."""

from __future__ import annotations

import threading

from machinery.listener import Handler
from machinery.replay.__main__ import REPLAYS
from machinery.replay.loop import outcomes

from .script import JumpingClock, Script, SharedInformer, replay_informer
from .traces import EXPIRED


def replay(trace: dict) -> list:
    """The outcomes on the Python machinery."""
    return outcomes(REPLAYS[trace["structure"]], trace)


def test_done_of_a_key_that_only_waits_is_ignored(oracle):
    trace = {
        "structure": "workqueue",
        "ops": [["add", "a"], ["done", "a"], ["get"], ["get"]],
    }
    assert oracle(trace) == [None, None, {"key": "a"}, {"key": "a"}], "upstream queues it twice"
    assert replay(trace) == [None, None, {"key": "a"}, "blocked"]


def test_a_watch_list_that_is_refused_for_the_newest_state_too_is_followed_by_a_pause(oracle):
    """Same requests; upstream sends them without a pause, however many."""
    trace = {
        "structure": "informer",
        "watch_list": True,
        "answers": {"list": [], "watch": [], "watch_list": [{"error": EXPIRED}] * 50},
    }
    assert replay_informer(trace)["requests"] == oracle(trace)["requests"]
    clock = JumpingClock()
    script = Script(trace["answers"], clock)
    informer = SharedInformer(script, clock=clock, on_error=lambda error: None)
    informer.start()
    assert script.over.wait(60)
    informer.stop(60)
    assert len(clock.waits) == 50
    assert min(clock.waits) >= 0.8


def test_a_handler_that_raises_is_told_the_rest_and_counts_as_synced():
    """client-go ends the process, unless it was told not to; then that handler never syncs."""
    answers = {
        "list": [{"items": [{"metadata": {"name": n, "resourceVersion": "1"}} for n in "abc"]}],
        "watch": [],
    }
    clock = JumpingClock()
    script = Script(answers, clock)
    errors = []
    informer = SharedInformer(
        script,
        use_watch_list=False,
        clock=clock,
        on_handler_error=lambda handler, notification, error: errors.append(error),
    )
    told = []
    done = threading.Event()

    class Raises(Handler):
        def on_add(self, obj, in_initial_list):
            told.append(obj["metadata"]["name"])
            if len(told) == 3:
                done.set()
            raise ValueError("a bug")

    registration = informer.add_handler(Raises())
    informer.start()
    assert done.wait(60)
    assert registration.wait_for_sync(60)
    assert sorted(told) == ["a", "b", "c"]
    assert [str(error) for error in errors] == ["a bug"] * 3
    assert informer.stop(60)
