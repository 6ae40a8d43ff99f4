"""The shortest walk that still fails: several shorter ones are tried at the same time.

Delta debugging (Zeller and Hildebrandt, 2002) on what a walk is made of: bursts, faults,
operations, WebApps, numbers. Knows no cluster: it is given a function that tries walks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from grader.conformance.walks.walk import Burst, Op, Walk


def size(walk: Walk) -> tuple[int, ...]:
    """What makes a walk simpler than another, in order of weight."""
    faults = sum(bool(burst.fault) for burst in walk.bursts)
    numbers = sum(op.app + op.pod + op.value for burst in walk.bursts for op in burst.ops)
    return (walk.length, faults, len(walk.replicas), len(walk.bursts), sum(walk.replicas), numbers)


def shrink(
    failed: Walk,
    try_all: Callable[[list[Walk]], Sequence[Walk | None]],
    *,
    abreast: int = 1,
    seconds: float = 30.0,
) -> Walk:
    """The simplest walk found that fails as ``failed`` does; no try begins after ``seconds``.

    ``try_all`` is given up to ``abreast`` walks and returns for each how much of it was needed
    to fail, a beginning of it, or None where it passed.
    """
    deadline = time.monotonic() + seconds
    tried = {failed}
    while time.monotonic() < deadline:
        chosen = []
        for walk in simpler(failed):
            if walk not in tried and walk not in chosen:
                chosen.append(walk)
                if len(chosen) == abreast:
                    break
        if not chosen:
            break
        tried.update(chosen)
        failing = [walk for walk in try_all(chosen) if walk is not None]
        failed = min([failed, *failing], key=size)
    return failed


def simpler(walk: Walk) -> Iterator[Walk]:
    """Walks that are simpler in one way or another, those that save most first."""
    *before, last = walk.bursts
    if before:
        yield replace(walk, bursts=(last,))
    if len(last.ops) > 1:
        for op in reversed(last.ops):
            yield replace(walk, bursts=(Burst((op,), last.fault),))
    for start, end in _chunks(len(before)):
        yield replace(walk, bursts=walk.bursts[:start] + walk.bursts[end:])
    for place, burst in enumerate(walk.bursts):
        if burst.fault:
            yield _with(walk, place, replace(burst, fault=""))
    ops = [(place, number) for place, b in enumerate(walk.bursts) for number in range(len(b.ops))]
    for start, end in _chunks(len(ops)):
        if end - start < len(ops):
            yield _without(walk, set(ops[start:end]))
    for replicas in (walk.replicas[:1], walk.replicas[:-1], (1,) * len(walk.replicas)):
        if replicas and replicas != walk.replicas:
            yield replace(walk, replicas=replicas)
    yield _plain(walk)
    for place, burst in enumerate(walk.bursts):
        for number, op in enumerate(burst.ops):
            changed = (*burst.ops[:number], Op(op.kind), *burst.ops[number + 1 :])
            yield _with(walk, place, replace(burst, ops=changed))


def _plain(walk: Walk) -> Walk:
    bursts = tuple(replace(b, ops=tuple(Op(op.kind) for op in b.ops)) for b in walk.bursts)
    return replace(walk, bursts=bursts)


def _chunks(length: int) -> Iterator[tuple[int, int]]:
    """All of it, its halves, its quarters, … one by one."""
    step = length
    while step >= 1:
        for start in range(0, length, step):
            yield start, min(start + step, length)
        step //= 2


def _with(walk: Walk, place: int, burst: Burst) -> Walk:
    return replace(walk, bursts=(*walk.bursts[:place], burst, *walk.bursts[place + 1 :]))


def _without(walk: Walk, gone: set[tuple[int, int]]) -> Walk:
    bursts = []
    for place, burst in enumerate(walk.bursts):
        ops = tuple(op for n, op in enumerate(burst.ops) if (place, n) not in gone)
        if ops:
            bursts.append(replace(burst, ops=ops))
    return replace(walk, bursts=tuple(bursts))
