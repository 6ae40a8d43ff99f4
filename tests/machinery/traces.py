"""Random traces for hypothesis: what a caller could do, in any order.

Keys, names and versions come from small sets, so that calls meet each other.
Times are multiples of 1/512 s: exact as floats here and as nanoseconds in Go.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TICK = 1 / 512
KEYS = st.sampled_from(["a", "b", "c", "d"])


def calls(op: st.SearchStrategy, most: int = 60) -> st.SearchStrategy[list]:
    """Short and long traces. (Left alone, a list of hypothesis has six elements on average.)"""
    return st.one_of(
        st.lists(op, min_size=1, max_size=8), st.lists(op, min_size=most // 2, max_size=most)
    )


TICKS = st.integers(1, 64).map(lambda n: n * TICK)
SIMPLE_LIMITERS = st.one_of(
    st.builds(
        lambda base, factor: {"type": "exponential", "base": base, "max": base * factor},
        TICKS,
        st.integers(1, 5000),
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("bucket"),
            "qps": st.sampled_from([0.5, 1.0, 8.0, 64.0]),
            "burst": st.integers(1, 10),
        }
    ),
)
LIMITERS = st.recursive(
    SIMPLE_LIMITERS,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("max_of"), "limiters": st.lists(inner, min_size=1, max_size=3)}
        ),
        st.fixed_dictionaries(
            {
                "type": st.just("max_wait"),
                "limiters": st.lists(inner, min_size=1, max_size=1),
                "max": TICKS,
            }
        ),
    ),
    max_leaves=4,
)


LIMITER_OPS = st.one_of(
    st.tuples(st.just("when"), KEYS),
    st.tuples(st.just("when"), KEYS),
    st.tuples(st.just("forget"), KEYS),
    st.tuples(st.just("num_requeues"), KEYS),
    st.tuples(st.just("step"), st.integers(1, 2000).map(lambda n: n * TICK)),
)


def limiter_traces() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "structure": st.just("limiter"),
            "limiter": LIMITERS,
            "ops": calls(LIMITER_OPS.map(list)),
        }
    )


QUEUE_OPS = st.one_of(
    *[st.tuples(st.just("add"), KEYS)] * 2,
    *[st.tuples(st.just("get"))] * 3,
    *[st.tuples(st.just("done_nth"), st.integers(0, 3))] * 2,
    *[st.tuples(st.just("add_after"), KEYS, st.integers(-1, 700))] * 2,
    *[st.tuples(st.just("step"), st.integers(1, 600))] * 2,
    st.tuples(st.just("add_rate_limited"), KEYS),
    st.tuples(st.just("forget"), KEYS),
    st.tuples(st.just("num_requeues"), KEYS),
    st.tuples(st.sampled_from(["len", "shutting_down"])),
)
#: How the trace ends: nothing, one of the shutdowns, or one that cuts the other short.
QUEUE_ENDS = st.sampled_from([[], ["shut_down"], ["drain"], ["drain", "shut_down"]])


@st.composite
def workqueue_calls(draw) -> tuple[int, list[tuple]]:
    """The limiter's base, and calls; both in ticks. See :func:`workqueue_trace`."""
    base = draw(st.integers(1, 8))
    drawn = draw(calls(QUEUE_OPS, 50))
    for end in draw(QUEUE_ENDS):
        drawn.append((end,))
        drawn += draw(st.lists(QUEUE_OPS, max_size=12))
    return base, drawn


def workqueue_trace(drawn: tuple[int, list[tuple]]) -> dict[str, Any]:
    """Calls on a rate-limiting queue. No two keys are ever due at the same instant.

    (Which of them comes first is not promised, and client-go's heap does not care.)
    """
    base = drawn[0]
    ops: list[list[Any]] = []
    now = 0
    due: set[int] = set()
    failures: dict[str, int] = {}
    draining = False
    for name, *arguments in drawn[1]:
        if name == "step":
            now += arguments[0]
            arguments = [arguments[0] * TICK]
        elif name == "add_after":
            key, ticks = arguments
            while ticks > 0 and now + ticks in due:
                ticks += 1
            due.add(now + ticks)
            arguments = [key, ticks * TICK]
        elif name == "add_rate_limited":
            ticks = base * 2 ** failures.get(arguments[0], 0)
            while now + ticks in due:
                ops.append(["step", TICK])
                now += 1
            due.add(now + ticks)
            failures[arguments[0]] = failures.get(arguments[0], 0) + 1
        elif name == "forget":
            failures.pop(arguments[0], None)
        ops.append([name, *arguments])
        draining = draining or name == "drain"
        if draining:
            ops.append(["drained"])
    limiter = {"type": "exponential", "base": base * TICK, "max": 1e6}
    return {"structure": "workqueue", "limiter": limiter, "ops": ops}


def workqueue_traces() -> st.SearchStrategy[dict[str, Any]]:
    return workqueue_calls().map(workqueue_trace)


PLAIN_QUEUE_OPS = st.one_of(
    *[st.tuples(st.just("add"), KEYS)] * 3,
    *[st.tuples(st.just("get"))] * 3,
    *[st.tuples(st.just("done_nth"), st.integers(0, 3))] * 2,
    st.tuples(st.just("len")),
)


@st.composite
def plain_queue_traces(draw) -> dict[str, Any]:
    """Calls on a work queue without delays or limits."""
    ops = list(draw(calls(PLAIN_QUEUE_OPS, 50)))
    ends = draw(QUEUE_ENDS)
    for end in ends:
        ops += [(end,), *draw(st.lists(PLAIN_QUEUE_OPS, min_size=4, max_size=12))]
        if "drain" in ends:
            ops += [("drained",)]
    return {"structure": "workqueue", "ops": [list(op) for op in ops]}


VERSIONS = st.integers(1, 30).map(str)
NAMES = st.sampled_from(["a", "b", "c"])
NAMESPACES = st.sampled_from(["", "x", "y"])


COLOURS = st.sampled_from(["red", "blue", "red,blue", "red,red"])


def _object(name: str, namespace: str, version: str, uid: str, labels: dict) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "resourceVersion": version, "uid": uid}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata}


OBJECTS = st.builds(
    _object,
    NAMES,
    NAMESPACES,
    VERSIONS,
    st.sampled_from(["u1", "u2"]),
    st.fixed_dictionaries({}, optional={"app": COLOURS, "tier": COLOURS}),
)
KEYED = st.sampled_from(["a", "b", "c", "x/a", "x/b", "x/c", "y/a", "y/b"])
LISTS = st.lists(OBJECTS, max_size=5)
CHANGES = [
    st.tuples(st.just("add"), OBJECTS),
    st.tuples(st.just("update"), OBJECTS),
    st.tuples(st.just("delete"), OBJECTS),
    st.tuples(st.just("delete_tombstone"), KEYED, st.none() | OBJECTS),
    st.tuples(st.just("replace"), LISTS, VERSIONS),
]
POPS = [st.just(("pop",))] * 4 + [st.just(("resync",)), st.just(("has_synced",))]
DELTA_FIFO_OPS = calls(st.one_of(*CHANGES, *POPS))
REAL_FIFO_OPS = calls(st.one_of(*CHANGES, *POPS, st.tuples(st.just("bookmark"), VERSIONS)))
#: In the end everything comes out: nothing may stay hidden in the queue.
EMPTY_IT = [("close",), *[("pop",)] * 12, ("has_synced",)]


def delta_queue_traces(structure: str) -> st.SearchStrategy[dict[str, Any]]:
    option = "known_objects" if structure == "delta_fifo" else "atomic"
    ops = DELTA_FIFO_OPS if structure == "delta_fifo" else REAL_FIFO_OPS
    return st.builds(
        lambda flag, ops: {
            "structure": structure,
            option: flag,
            "ops": [list(op) for op in [*ops, *EMPTY_IT]],
        },
        st.booleans(),
        ops,
    )


INDEX = st.sampled_from(["namespace", "app", "tier", "nothing"])
VALUE = st.sampled_from(["", "x", "y", "red", "blue", "green"])
STORE_OPS = st.one_of(
    *CHANGES,
    st.tuples(st.just("bookmark"), VERSIONS),
    st.tuples(st.just("get"), KEYED),
    st.tuples(st.sampled_from(["list", "keys", "version"])),
    st.tuples(st.sampled_from(["by_index", "keys_by_index"]), INDEX, VALUE),
    st.tuples(st.just("like"), INDEX, OBJECTS),
    st.tuples(st.just("add_indexer"), st.sampled_from(["tier", "app"])),
)
LOOK_AT_ALL = [["index_values", "namespace"], ["index_values", "app"], ["list"], ["version"]]


def store_traces() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda ops: {"structure": "store", "ops": [*map(list, ops), *LOOK_AT_ALL]},
        calls(STORE_OPS),
    )


# A scripted server (oracle/informer.go says what an answer is). Its answers need not make
# sense together: a client must not rely on that.


def _status(code: int, reason: str, cause: str = "") -> dict[str, Any]:
    details = {"causes": [{"reason": cause}]} if cause else {}
    status = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code}
    return {**status, "reason": reason, "message": reason, "details": details}


EXPIRED = _status(410, "Expired")
FAILURES = st.sampled_from(
    [
        {"error": EXPIRED},
        {"error": _status(410, "Gone")},
        {"error": _status(504, "Timeout", "ResourceVersionTooLarge")},
        {"error": _status(429, "TooManyRequests")},
        {"error": _status(500, "InternalError")},
        {"error": _status(403, "Forbidden")},
        {"refused": True},
        {"reset": True},
    ]
)
NO_WATCH_LIST = {"error": _status(422, "Invalid")}


def _bookmark(version: str, initial_end: bool) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": version}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"type": "BOOKMARK", "object": {"metadata": metadata, "kind": "Thing"}}


WATCH_EVENTS = st.one_of(
    st.builds(lambda obj: {"type": "ADDED", "object": obj}, OBJECTS),
    st.builds(lambda obj: {"type": "MODIFIED", "object": obj}, OBJECTS),
    st.builds(lambda obj: {"type": "DELETED", "object": obj}, OBJECTS),
    st.builds(_bookmark, VERSIONS, st.just(False)),
)
ERROR_EVENTS = st.sampled_from(
    [
        {"type": "ERROR", "object": EXPIRED},
        {"type": "ERROR", "object": _status(429, "TooManyRequests")},
        {"type": "ERROR", "object": _status(500, "InternalError")},
    ]
)
STREAMS = st.builds(
    lambda events, errors, then, lasts: {"events": events + errors, "then": then, "lasts": lasts},
    st.lists(WATCH_EVENTS, max_size=6),
    st.lists(ERROR_EVENTS, max_size=1),
    st.sampled_from(["close", "close", "close", "hang"]),
    st.sampled_from([0.0, 2.0]),
)
INITIAL_STREAMS = st.builds(
    lambda objs, version, later: {
        **later,
        "events": [
            *({"type": "ADDED", "object": obj} for obj in objs),
            _bookmark(version, True),
            *later["events"],
        ],
    },
    LISTS,
    VERSIONS,
    STREAMS,
)
PAGES = st.builds(
    lambda objs, version, token: {"items": objs, "rv": version, "continue": token},
    LISTS,
    VERSIONS,
    st.sampled_from(["", "", "", "more"]),
)


def informer_traces() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "structure": st.just("informer"),
            "watch_list": st.booleans(),
            "answers": st.fixed_dictionaries(
                {
                    "list": st.lists(st.one_of(PAGES, PAGES, FAILURES), max_size=6),
                    "watch": st.lists(st.one_of(STREAMS, STREAMS, FAILURES), max_size=6),
                    "watch_list": st.lists(
                        st.one_of(INITIAL_STREAMS, STREAMS, FAILURES, st.just(NO_WATCH_LIST)),
                        max_size=5,
                    ),
                }
            ),
        }
    )
