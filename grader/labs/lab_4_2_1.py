"""4.2.1 Add one key a hundred times, count the reconciles.

The program is asked by traces: calls on a new work queue, one after another.
Some were made to show one thing each, and name the fault; the rest are random,
with client-go's recorded outcomes beside them.
"""

from __future__ import annotations

from typing import Any

import pytest

from grader.evidence import answers as written
from grader.evidence import questions
from grader.labs import check, traces
from grader.report.predictions import compared
from grader.verdict import Fail

#: What client-go's queue hands out (queue.go), whatever the learner's does.
PREDICTIONS = {
    "added 100 times": 1,
    "added while processed": 1,
    "second worker": 0,
    "100 keys": 100,
    "after shut-down": 3,
}
NEXT = "Read `Add`, `Get` and `Done` in client-go's util/workqueue/queue.go: 25, 20 and 14 lines."


def _gets(outcomes: list[Any]) -> int:
    return sum(isinstance(outcome, dict) and "key" in outcome for outcome in outcomes)


def _finish_all(times: int) -> list[list[Any]]:
    return [call for _ in range(times) for call in (["get"], ["done_nth", 0])]


#: What each prediction is about: calls before the counting begins, and calls that are counted.
MEASURED: dict[str, tuple[list, list]] = {
    "added 100 times": ([["add", "a"]] * 100, _finish_all(5)),
    "added while processed": (
        [["add", "a"], ["get"], *[["add", "a"]] * 99, ["done_nth", 0]],
        _finish_all(5),
    ),
    "second worker": ([["add", "a"], ["get"], ["add", "a"]], [["get"]]),
    "100 keys": ([["add", f"key-{i}"] for i in range(100)], _finish_all(105)),
    "after shut-down": (
        [["add", "a"], ["add", "b"], ["add", "c"], ["shut_down"], ["add", "d"], ["add", "e"]],
        _finish_all(5),
    ),
}

ORDER = [["add", key] for key in "cabed"] + _finish_all(5)
LOST = [["add", "a"], ["get"], ["add", "a"], ["done_nth", 0], ["get"]]
TAKEN = [["add", "a"], ["get"], ["add", "a"], ["get"]]
STILL_THERE = [["add", "a"], ["add", "b"], ["shut_down"], ["get"], ["get"], ["get"]]
ADDED_AFTER = [["shut_down"], ["add", "a"], ["len"], ["get"]]
DRAIN = [["add", "a"], ["get"], ["drain"], ["drained"], ["done_nth", 0], ["drained"]]
DRAIN_OVER = [["add", "a"], ["get"], ["drain"], ["drained"], ["shut_down"], ["drained"]]
DRAIN_QUEUED = [["add", "a"], ["drain"], ["get"], ["done_nth", 0], ["get"], ["drained"]]
# One worker waits meanwhile, and nobody asks again after the call that must wake it.
WOKEN_BY_DONE = [["add", "a"], ["get"], ["add", "a"], ["waiter"], ["done_nth", 0], ["told"]]
WOKEN_BY_DRAIN = [["add", "a"], ["get"], ["waiter"], ["drain"], ["told"], ["done_nth", 0]]
WORKERS = [["workers", 4, 400]]
MADE = {
    "order": ORDER,
    "lost": LOST,
    "taken": TAKEN,
    "still there": STILL_THERE,
    "added after": ADDED_AFTER,
    "drain": DRAIN,
    "drain over": DRAIN_OVER,
    "drain queued": DRAIN_QUEUED,
    "woken by done": WOKEN_BY_DONE,
    "woken by drain": WOKEN_BY_DRAIN,
    "workers": WORKERS,
    **{name: before + counted for name, (before, counted) in MEASURED.items()},
}


@pytest.fixture(scope="module")
def answers(submission):
    return written.parse(submission.text("answers.md"))


@pytest.fixture(scope="module")
def random_traces(rng):
    return traces.some(traces.recorded("4.2.1"), rng, 60_000)


@pytest.fixture(scope="module")
def seen(submission, grading, phase4, random_traces) -> dict[str, list]:
    """The outcomes of the traces made for this lab by name, and of the random ones by number."""
    asked = {name: {"structure": "workqueue", "ops": ops} for name, ops in MADE.items()}
    asked |= {str(i): one.trace for i, one in enumerate(random_traces)}
    found = traces.answered(submission, grading, phase4, list(asked.values()))
    return dict(zip(asked, found, strict=True))


def _require_written(seen: dict[str, list], *names: str) -> None:
    for name in names:
        message = traces.not_written(seen[name])
        if message:
            raise Fail(
                "The queue answers every call.",
                f"A call raised: {message}.",
                next=NEXT,
                diagnosis="not-written",
                evidence=traces.shown({"ops": MADE[name]}, seen[name]),
            )


def _at(seen: dict[str, list], name: str, call: int) -> Any:
    """The outcome of a call (counted from 0; negative from the trace's end); what stands for none."""
    outcomes = seen[name]
    index = call if call >= 0 else len(MADE[name]) + call
    return outcomes[index] if index < len(outcomes) else "nothing: an earlier call raised"


def _got(key: str) -> dict[str, str]:
    return {"key": key}


@check(
    "4.2.1/predictions",
    title="Five numbers were written down before anything was measured",
    points=1,
    evidence="written",
)
def check_predictions(answers, seen, observe):
    predicted = {
        name: answers.require_prediction(name, section="Predictions", number=True).number()
        for name in PREDICTIONS
    }
    for name, (before, _counted) in MEASURED.items():
        measured = _gets(seen[name][len(before) :])
        observe(name, compared(predicted[name], PREDICTIONS[name], measured=measured))


@check(
    "4.2.1/dedup",
    title="A key that is added a hundred times before a worker comes is handed out once",
    points=2,
    evidence="build",
)
def check_dedup(seen):
    _require_written(seen, "added 100 times", "100 keys", "order")
    times = _gets(seen["added 100 times"])
    if times != 1:
        raise Fail(
            "A key that was added 100 times and not yet taken is handed out once.",
            f"It was handed out {times} times, and more were waiting."
            if times > 1
            else "It was not handed out at all.",
            why="A burst of events about one object is one reason to look at it. Without this a "
            "busy object starves the others.",
            next=NEXT,
            diagnosis="queued-twice" if times > 1 else "never-handed-out",
            evidence=traces.shown({"ops": MADE["added 100 times"]}, seen["added 100 times"]),
        )
    order = [outcome["key"] for outcome in seen["order"] if isinstance(outcome, dict)]
    if order != list("cabed"):
        raise Fail(
            "Keys are handed out in the order in which they were first added: c, a, b, e, d.",
            f"They came as {', '.join(order) or 'nothing'}.",
            why="A queue that is not fair can leave a key waiting for ever.",
            next="A set has no order: what decides which key comes next?",
            diagnosis="not-fair",
            evidence=traces.shown({"ops": ORDER}, seen["order"]),
        )


@check(
    "4.2.1/one-worker",
    title="A key that a worker has is given to no second worker, and comes again when it was added meanwhile",
    points=3,
    evidence="build",
)
def check_one_worker(seen):
    _require_written(seen, "taken", "lost", "workers")
    second = _at(seen, "taken", 3)
    if second != "blocked":
        raise Fail(
            "While a worker has a key, nobody else gets it, however often it is added.",
            f"The second get gave {second}, and the first worker was not done.",
            why="Two workers on one object read the same state and write twice.",
            next="Which set tells add() that a worker has the key? It must not go into the queue then.",
            diagnosis="two-workers-on-one-key",
            evidence=traces.shown({"ops": TAKEN}, seen["taken"]),
        )
    again = _at(seen, "lost", 4)
    if again != _got("a"):
        raise Fail(
            "A key that was added while a worker had it comes again after done.",
            f"The get after done gave {again}.",
            why="The worker may have read the object before the change that the add was about: "
            "that change is lost until something else happens to the object.",
            next="add() must leave a note that done() finds.",
            diagnosis="lost-while-processing",
            evidence=traces.shown({"ops": LOST}, seen["lost"]),
        )
    _require_written(seen, "woken by done")
    woken = _at(seen, "woken by done", 5)
    if woken != _got("a"):
        raise Fail(
            "A worker that waits gets the key that comes back to the queue with done.",
            f"It was given {woken}.",
            why="The worker that was done may be busy with something else for a minute: the key "
            "waits as long, beside a worker that has nothing to do.",
            next="add() wakes a worker that waits. done() puts a key into the queue as well.",
            diagnosis="done-wakes-nobody",
            evidence=traces.shown({"ops": WOKEN_BY_DONE}, seen["woken by done"]),
        )
    threads = _at(seen, "workers", 0)
    threads = threads if isinstance(threads, dict) else {}
    if threads != {"overlaps": 0, "lost": 0, "waiting": 0, "stuck": 0}:
        raise Fail(
            "Four workers and 400 adds: no key with two of them, no add without a get after it, "
            "and all end at the shut-down.",
            f"{threads.get('overlaps', '?')} times two had the same key, {threads.get('lost', '?')} "
            f"keys' last add was not acted on, {threads.get('waiting', '?')} keys waited beside idle "
            f"workers, {threads.get('stuck', '?')} workers did not end.",
            why="With one call after another your queue is right; with several threads it is not.",
            next="Every method must look at the sets and change them under one lock, and a waiting "
            "get must look again after it was woken.",
            diagnosis="not-thread-safe",
        )


@check(
    "4.2.1/shut-down",
    title="After a shut-down, what was queued is still handed out, and nothing new is taken",
    points=2,
    evidence="build",
)
def check_shut_down(seen):
    _require_written(seen, "still there", "added after")
    got = [_at(seen, "still there", call) for call in (3, 4, 5)]
    if got != [_got("a"), _got("b"), "shutdown"]:
        dropped = "shutdown" in got[:2]
        raise Fail(
            "Two keys were queued before the shut-down: both are handed out, then workers are told "
            "that the queue is shut down.",
            f"Three gets gave {', '.join(map(str, got))}.",
            why="What is in the queue is work that somebody asked for. Dropping it leaves an "
            "object half done until the process starts again."
            if dropped
            else "A worker that is never told waits for ever, and the process does not end.",
            next="get() is over when the queue is shut down *and* empty.",
            diagnosis="drops-on-shut-down" if dropped else "workers-never-told",
            evidence=traces.shown({"ops": STILL_THERE}, seen["still there"]),
        )
    after = [_at(seen, "added after", call) for call in (2, 3)]
    if after != [0, "shutdown"]:
        raise Fail(
            "An add after the shut-down is ignored.",
            f"The queue's length was {after[0]} after it, and a get gave {after[1]}.",
            why="Otherwise retries keep the workers busy for ever, and the process does not end.",
            next=NEXT,
            diagnosis="takes-after-shut-down",
            evidence=traces.shown({"ops": ADDED_AFTER}, seen["added after"]),
        )


@check(
    "4.2.1/drain",
    title="A shut-down with drain waits for the workers, and a plain shut-down ends that wait",
    points=2,
    evidence="build",
)
def check_drain(seen):
    _require_written(seen, "drain", "drain over", "drain queued", "woken by drain")
    early, late = _at(seen, "drain", 3), _at(seen, "drain", 5)
    if early is not False:
        raise Fail(
            "A drain returns only when no worker has a key any more.",
            "It returned while a worker had one.",
            why="A drain is how a process that is told to stop lets the write in hand be finished.",
            next="What does ShutDownWithDrain wait for? See the loop at its end.",
            diagnosis="drain-does-not-wait",
            evidence=traces.shown({"ops": DRAIN}, seen["drain"]),
        )
    if late is not True:
        raise Fail(
            "A drain returns when the last worker is done.",
            "It did not, within five seconds after that.",
            why="Then a process that is told to stop never ends, and is killed in the middle of "
            "something.",
            next="Who wakes the thread that waits in the drain?",
            diagnosis="drain-never-ends",
            evidence=traces.shown({"ops": DRAIN}, seen["drain"]),
        )
    told = _at(seen, "woken by drain", 4)
    if told != "shutdown":
        raise Fail(
            "A worker that waits in get is told of a drain, as of a plain shut-down.",
            f"It was given {told}.",
            why="A worker that is never told waits for ever, and the process does not end.",
            next="Who wakes up the workers that wait in get() when the queue is shut down?",
            diagnosis="workers-never-told",
            evidence=traces.shown({"ops": WOKEN_BY_DRAIN}, seen["woken by drain"]),
        )
    if _at(seen, "drain queued", 2) != _got("a"):
        raise Fail(
            "Keys that are queued are still handed out during a drain.",
            f"A get gave {_at(seen, 'drain queued', 2)}.",
            next="A drain is a shut-down that waits; what was queued is handed out as in the other.",
            diagnosis="drops-on-shut-down",
            evidence=traces.shown({"ops": DRAIN_QUEUED}, seen["drain queued"]),
        )
    if _at(seen, "drain over", 5) is not True:
        raise Fail(
            "A plain shut-down after a drain ends the drain's wait.",
            "The drain went on waiting.",
            why="It is the second Ctrl-C: it must be possible to stop waiting.",
            next="ShutDown sets a second flag besides the one that says «shutting down».",
            diagnosis="drain-cannot-be-ended",
            evidence=traces.shown({"ops": DRAIN_OVER}, seen["drain over"]),
        )


@check(
    "4.2.1/like-client-go",
    title="Random calls have the outcomes that they have on client-go's queue",
    points=3,
    evidence="build",
)
def check_like_client_go(seen, random_traces, observe):
    for i, one in enumerate(random_traces):
        traces.compare(
            one,
            seen[str(i)],
            why="Everything that uses this queue was written against client-go's behaviour, "
            "corners included.",
            diagnosis="unlike-client-go",
        )
    observe("traces", {"compared": len(random_traces)})


@check(
    "4.2.1/two-sets",
    title="A sentence says what goes wrong with one set instead of two",
    points=1,
    evidence="written",
)
def check_two_sets(answers):
    question = questions.of("4.2.1/two-sets")
    question.require(answers.require_section(question.heading))
