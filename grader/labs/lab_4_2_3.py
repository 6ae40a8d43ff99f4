"""4.2.3 One Pop, one key, several deltas.

The program is asked by traces: calls on a DeltaFIFO and, for comparison, on a
RealFIFO. Some traces were made to show one thing each; the rest are random,
with client-go's recorded outcomes beside them. Two citations say where the one
compresses and the other does not.
"""

from __future__ import annotations

from typing import Any

import pytest

from grader.evidence import answers as written
from grader.evidence import places
from grader.labs import check, traces
from grader.report import pictures
from grader.report.predictions import compared
from grader.verdict import Fail

NEXT = "Read client-go's tools/cache/delta_fifo.go from `Add` to `Resync`."


def _object(name: str, version: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "resourceVersion": str(version)},
    }


A1, A2, A3, A4, B1, B2, C1 = (
    _object(name, version)
    for name, version in (("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 5), ("b", 6), ("c", 7))
)
#: The events of the prediction: what happens to a and b while nobody pops.
EVENTS = [
    ["add", A1],
    ["add", B1],
    ["update", A2],
    ["update", A3],
    ["delete", A4],
    ["delete_tombstone", "a", A3],
]
EMPTY = [["pop"]] * 8
MADE: dict[str, dict[str, Any]] = {
    "one key": {"ops": [*EVENTS, *EMPTY]},
    "real": {"structure": "real_fifo", "atomic": True, "ops": [*EVENTS, *EMPTY]},
    "order": {"ops": [["add", B1], ["add", A1], ["update", B2], ["pop"], ["pop"]]},
    "two deletes": {
        "ops": [["add", A1], ["pop"], ["delete_tombstone", "a", A1], ["delete", A4], ["pop"]]
    },
    "unknown": {"ops": [["delete", A1], ["pop"]]},
    "known": {"ops": [["add", A1], ["pop"], ["delete", A2], ["pop"]]},
    "replace": {
        "ops": [["add", A1], ["add", B1], ["pop"], ["pop"], ["replace", [B2, C1], "9"], *EMPTY[:4]]
    },
    "queued and gone": {"ops": [["add", A1], ["update", A2], ["replace", [], "9"], ["pop"]]},
    "synced": {
        "ops": [
            ["has_synced"],
            ["replace", [A1, B1], "9"],
            ["has_synced"],
            ["pop"],
            ["has_synced"],
            ["pop"],
            ["has_synced"],
        ]
    },
    "synced, some gone": {
        "ops": [
            ["know", A1],
            ["replace", [B1], "9"],
            ["pop"],
            ["has_synced"],
            ["pop"],
            ["has_synced"],
        ]
    },
    "synced, nothing there": {"ops": [["replace", [], "9"], ["has_synced"]]},
    "nothing known": {"known_objects": False, "ops": [["replace", [A1], "9"], ["pop"]]},
    "woken": {"ops": [["waiter"], ["add", A1], ["told"]]},
    "resync": {
        "ops": [["add", A1], ["add", B1], ["pop"], ["pop"], ["update", A2], ["resync"], *EMPTY[:3]]
    },
    "lock": {"ops": [["add", A1], ["pop_while_adding", B1]]},
    "waiting": {"ops": [call for event in EVENTS for call in (event, ["len"])]},
    "waiting, real": {
        "structure": "real_fifo",
        "atomic": True,
        "ops": [call for event in EVENTS for call in (event, ["len"])],
    },
}
#: What client-go's queues hand out, whatever the learner's do.
PREDICTIONS = {
    "DeltaFIFO pops": 2,
    "DeltaFIFO deltas of a": 4,
    "RealFIFO pops": 6,
    "RealFIFO deltas of a": 5,
}


@pytest.fixture(scope="module")
def answers(submission):
    return written.parse(submission.text("answers.md"))


@pytest.fixture(scope="module")
def random_traces(rng):
    return traces.some(traces.recorded("4.2.3"), rng, 85_000)


@pytest.fixture(scope="module")
def seen(submission, grading, phase4, random_traces) -> dict[str, list]:
    asked: dict[str, Any] = {
        name: {"structure": "delta_fifo", "known_objects": True, **trace}
        for name, trace in MADE.items()
    }
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
                evidence=traces.shown(MADE[name], seen[name]),
            )


def _pops(seen: dict[str, list], name: str) -> list[list]:
    """The deltas of each pop that gave some, in order; a delta as type and what it is of."""
    return [
        [_brief(*delta) for delta in outcome["deltas"]]
        for outcome in seen[name]
        if isinstance(outcome, dict) and "deltas" in outcome
    ]


def _brief(type_: str, value: Any) -> str:
    """``Updated a@2``; ``Deleted tombstone of a (a@1)``."""
    if isinstance(value, dict) and "tombstone" in value:
        inner = value["obj"]
        last = "nothing known" if inner is None else _name(inner)
        return f"{type_} tombstone of {value['tombstone']} ({last})"
    return f"{type_} {_name(value)}"


def _name(obj: Any) -> str:
    try:
        return f"{obj['metadata']['name']}@{obj['metadata']['resourceVersion']}"
    except (TypeError, KeyError):
        return "something without metadata"


def _told(outcome: Any) -> str:
    """An outcome that is no pop's, in words."""
    if isinstance(outcome, dict) and "raised" in outcome:
        return f"an error: {outcome['raised']}"
    return f"«{outcome}»"


def _shown(pops: list[list]) -> str:
    return "; ".join(" then ".join(deltas) for deltas in pops) or "nothing"


@check(
    "4.2.3/one-key",
    title="A pop gives all deltas of one key, oldest first, and keys in the order they came",
    points=3,
    evidence="build",
)
def check_one_key(seen):
    _require_written(seen, "one key", "order", "woken")
    order = [deltas[0].split()[1][0] for deltas in _pops(seen, "order") if deltas]
    if order != ["b", "a"]:
        raise Fail(
            "Keys are popped in the order in which they were first queued: b, then a.",
            f"They came as {', '.join(order) or 'nothing'}.",
            why="A queue that is not fair can leave a key waiting for ever.",
            next=NEXT,
            diagnosis="keys-out-of-order",
            evidence=traces.shown(MADE["order"], seen["order"]),
        )
    right = [["Added a@1", "Updated a@2", "Updated a@3", "Deleted a@4"], ["Added b@5"]]
    pops = _pops(seen, "one key")
    first = pops[0] if pops else []
    if first != right[0]:
        if first and len(first) < 3:
            diagnosis, why = (
                "only-the-newest",
                "A consumer that sees only the last state cannot know that the object was "
                "deleted and made again in between.",
            )
        elif sorted(first) == sorted(right[0]):
            diagnosis, why = (
                "deltas-out-of-order",
                "Applied in another order they leave another object in the cache.",
            )
        else:
            diagnosis, why = "unlike-client-go", ""
        raise Fail(
            f"The first pop gives everything that happened to a: {_shown(right[:1])}.",
            f"It gave {_shown(pops[:1])}.",
            why=why,
            next=NEXT,
            diagnosis=diagnosis,
            evidence=traces.shown(MADE["one key"], seen["one key"]),
        )
    if _pops(seen, "woken") != [["Added a@1"]]:
        raise Fail(
            "A pop that waits is woken by what is added.",
            f"It gave {_told(seen['woken'][-1])}.",
            why="The queue is empty most of the time. Whoever pops waits in there: for ever, if "
            "nobody wakes it, and so does everything behind it.",
            next="Wait on the condition, in a loop; whoever queues a delta notifies it.",
            diagnosis="pop-never-woken",
            evidence=traces.shown(MADE["woken"], seen["woken"]),
        )


@check(
    "4.2.3/deletes",
    title="Two deletions in a row are one, the one that knows more; an unknown key's is none",
    points=2,
    evidence="build",
)
def check_deletes(seen):
    _require_written(seen, "two deletes", "unknown", "known")
    if _pops(seen, "known")[-1:] != [["Deleted a@2"]]:
        raise Fail(
            "A deletion of a key that is only in the consumer's store is queued.",
            f"The pop gave {_shown(_pops(seen, 'known')[-1:])}.",
            why="The queue is empty most of the time; a deletion must get through nevertheless.",
            next="Where else than in the queue does delete() have to look?",
            diagnosis="drops-known-delete",
            evidence=traces.shown(MADE["known"], seen["known"]),
        )
    pops = _pops(seen, "two deletes")
    last = pops[-1] if pops else []
    if last != ["Deleted a@4"]:
        twice = len(last) > 1
        raise Fail(
            "A tombstone and a DELETED event of the same key are one deletion: the event's, which "
            "has the final state.",
            f"The pop gave {_shown(pops[-1:])}.",
            why="A relist and the watch both report one deletion; a cleanup must not run twice."
            if twice
            else "The tombstone's state may be old; the event's is the last there was.",
            next="See `isDeletionDup` in client-go's delta_fifo.go: which of the two does it keep?",
            diagnosis="two-deletions" if twice else "kept-the-tombstone",
            evidence=traces.shown(MADE["two deletes"], seen["two deletes"]),
        )
    if seen["unknown"][-1] != "blocked":
        raise Fail(
            "A deletion of a key that neither the queue nor the consumer knows is dropped.",
            f"It was queued: {_shown(_pops(seen, 'unknown'))}.",
            why="A relist has reported it already; handlers would be told of it twice.",
            next=NEXT,
            diagnosis="reports-unknown-delete",
            evidence=traces.shown(MADE["unknown"], seen["unknown"]),
        )


@check(
    "4.2.3/replace",
    title="A list gives Replaced for what it has, and a tombstone with the last state for what it has not",
    points=3,
    evidence="build",
)
def check_replace(seen):
    _require_written(seen, "replace", "queued and gone", "synced", "nothing known")
    pops = _pops(seen, "replace")[2:]
    flat = [delta for deltas in pops for delta in deltas]
    right = ["Replaced b@6", "Replaced c@7", "Deleted tombstone of a (a@1)"]
    if sorted(flat) != sorted(right):
        gone = [delta for delta in flat if delta.startswith("Deleted")]
        if not gone:
            diagnosis = "no-tombstone"
        elif "nothing known" in gone[0]:
            diagnosis = "tombstone-without-state"
        elif "tombstone" not in gone[0]:
            diagnosis = "deletion-without-tombstone"
        else:
            diagnosis = "unlike-client-go"
        raise Fail(
            f"The consumer has a and b, the list b and c: {_shown([right])}.",
            f"It gave {_shown(pops)}.",
            why="This is the delete that no watch has reported. Without it the object stays in the "
            "cache for ever."
            if diagnosis == "no-tombstone"
            else "Handlers must be able to tell a deletion that was seen from one that was "
            "concluded, and they need the last state to clean up.",
            next="See the second half of `Replace` in client-go's delta_fifo.go.",
            diagnosis=diagnosis,
            evidence=traces.shown(MADE["replace"], seen["replace"]),
        )
    queued = _pops(seen, "queued and gone")
    if queued != [["Added a@1", "Updated a@2", "Deleted tombstone of a (a@2)"]]:
        raise Fail(
            "What is still queued and not in the list gets a tombstone too, with the newest "
            "queued state.",
            f"The pop gave {_shown(queued)}.",
            why="The consumer does not have the object yet; it would keep it.",
            next="There are two places where something can be known: the queue, and the consumer.",
            diagnosis="forgets-the-queued",
            evidence=traces.shown(MADE["queued and gone"], seen["queued and gone"]),
        )
    synced = [outcome for outcome in seen["synced"] if isinstance(outcome, bool)]
    if synced != [False, False, False, True]:
        raise Fail(
            "has_synced is true when everything of the first list was popped, and not before.",
            f"Before the list, after it, after one pop, after both: {synced}.",
            why="A controller that starts on a half-filled cache concludes that the rest does not exist.",
            next="Count what the first list queued; count down at each pop.",
            diagnosis="synced-too-early" if True in synced[:3] else "never-synced",
            evidence=traces.shown(MADE["synced"], seen["synced"]),
        )
    gone = [outcome for outcome in seen["synced, some gone"] if isinstance(outcome, bool)]
    if gone != [False, True]:
        raise Fail(
            "The tombstones of the first list count as well: the consumer has a, the list b, and "
            "has_synced is true after two pops.",
            f"After one pop, and after two: {gone}.",
            why="An object that went while nobody looked is part of what the list says.",
            next="What did replace queue, besides the list's own objects?",
            diagnosis="synced-too-early" if True in gone[:1] else "never-synced",
            evidence=traces.shown(MADE["synced, some gone"], seen["synced, some gone"]),
        )
    nothing = seen["synced, nothing there"][-1]
    if nothing is not True:
        raise Fail(
            "A first list without objects is complete at once: has_synced is true.",
            f"It was {nothing}.",
            why="In an empty namespace a controller would wait for ever.",
            next="Nothing is left to be popped: who looks at that, when there is no pop?",
            diagnosis="never-synced",
            evidence=traces.shown(MADE["synced, nothing there"], seen["synced, nothing there"]),
        )
    alone = _pops(seen, "nothing known")
    if alone != [["Replaced a@1"]]:
        raise Fail(
            "A list works without a consumer's store as well.",
            f"The pop gave {_shown(alone) if alone else _told(seen['nothing known'][-1])}.",
            why="known_objects may be None: then only what is queued is known.",
            next=NEXT,
            diagnosis="unlike-client-go",
            evidence=traces.shown(MADE["nothing known"], seen["nothing known"]),
        )


@check(
    "4.2.3/resync",
    title="A resync gives Sync for what the consumer has, except where a newer delta is queued",
    points=1,
    evidence="build",
)
def check_resync(seen):
    _require_written(seen, "resync")
    pops = _pops(seen, "resync")[2:]
    if pops != [["Updated a@2"], ["Sync b@5"]]:
        over = any("Sync a" in delta for deltas in pops for delta in deltas)
        raise Fail(
            "There is an update of a in the queue, b is unchanged: a's update, then Sync of b.",
            f"The pops gave {_shown(pops)}.",
            why="The consumer's a is older than the queued one: a Sync after the update would put "
            "the old one back."
            if over
            else "A resync is for handlers that want to look again at what did not change.",
            next=NEXT,
            diagnosis="resync-over-news" if over else "no-resync",
            evidence=traces.shown(MADE["resync"], seen["resync"]),
        )


@check(
    "4.2.3/lock",
    title="While a delta is processed nobody can add to the DeltaFIFO",
    points=1,
    evidence="build",
)
def check_lock(seen):
    _require_written(seen, "lock")
    outcome = seen["lock"][-1]
    if outcome != {"let_in": False}:
        raise Fail(
            "Pop holds the queue's lock while it calls process.",
            "Another thread's add succeeded before process had ended.",
            why="Between the pop and the update of the store the key is in neither; a Replace at "
            "that moment would not find it, and no tombstone would be made.",
            next="Call process before you leave the lock.",
            diagnosis="pop-without-lock",
            evidence=traces.shown(MADE["lock"], seen["lock"]),
        )


@check(
    "4.2.3/like-client-go",
    title="Random calls have the outcomes that they have on client-go's two queues",
    points=2,
    evidence="build",
)
def check_like_client_go(seen, random_traces, observe):
    for i, one in enumerate(random_traces):
        traces.compare(
            one,
            seen[str(i)],
            why="Handlers everywhere were written against what comes out of this queue.",
            diagnosis="unlike-client-go",
        )
    observe("traces", {"compared": len(random_traces)})


@check(
    "4.2.3/predictions",
    title="What each queue hands out for the same six events was written down first",
    points=1,
    evidence="written",
)
def check_predictions(answers, seen, observe):
    predicted = {
        name: answers.require_prediction(name, section="Predictions", number=True).number()
        for name in PREDICTIONS
    }
    for queue, name in (("DeltaFIFO", "one key"), ("RealFIFO", "real")):
        pops = _pops(seen, name)
        of_a = sum(" a@" in d or "of a " in d for deltas in pops for d in deltas)
        for what, count in (("pops", len(pops)), ("deltas of a", of_a)):
            key = f"{queue} {what}"
            observe(key, compared(predicted[key], PREDICTIONS[key], measured=count))
    waiting = [
        pictures.Series(
            label,
            list(enumerate([n for n in seen[name] if isinstance(n, int)], 1)),
        )
        for label, name in (("DeltaFIFO: keys", "waiting"), ("RealFIFO: deltas", "waiting, real"))
    ]
    if all(series.points for series in waiting):
        observe(
            "what waits",
            pictures.chart(
                "What waits in each queue",
                "After each of the six events: keys in the DeltaFIFO, which stay at two, and "
                "deltas in the RealFIFO, which grow with each event.",
                waiting,
                x="event",
                y="entries",
            ),
        )


@check(
    "4.2.3/citations",
    title="The line that merges two deletions is cited, and the one that always appends",
    points=2,
    evidence="claim",
)
def check_citations(answers):
    for asked in places.load("4.2.3"):
        asked.require(answers.require_section(asked.heading))
