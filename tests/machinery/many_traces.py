"""Very many random traces through client-go and the Python machinery, compared; a summary at the end.

hypothesis thinks longer about a trace than both sides take to run it. So it
draws some, and the rest are recombined from those: calls of several, in
stretches, in one trace. Every trace is used once. The oracle answers a batch
while Python does.

    python -m tests.machinery.many_traces [--traces 100000] [--oracle PATH] [--seed N] [STRUCTURE…]

The exit code is 1 where an outcome differs; its trace is then printed, and goes into the
tests with hypothesis' ``@example``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "solutions" / "artifacts" / "python")]

from . import traces  # noqa: E402
from .comparing import equal, replay  # noqa: E402
from .oracle import build, given_oracle  # noqa: E402

#: Drawn by hypothesis, of those asked for.
DRAWN = 0.02
BATCH = 2_000
#: The longest trace made by recombination, in calls.
MOST = 80

Trace = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """Traces of one structure: how they are drawn, and how several become one.

    ``parts`` takes what was drawn apart into what stays as it is, and lists that
    can be recombined freely; ``whole`` makes a trace of such.
    """

    drawn: st.SearchStrategy[Any]
    parts: Callable[[Any], tuple[Any, dict[str, list]]]
    whole: Callable[[Any, dict[str, list]], Trace]


def _before_the_end(ops: list) -> int:
    """Where a queue's shutdown begins: what comes after it belongs to it."""
    ends = ("shut_down", "drain")
    return next((i for i, op in enumerate(ops) if op[0] in ends), len(ops))


def _plain(trace: Trace) -> tuple[Any, dict[str, list]]:
    end = _before_the_end(trace["ops"])
    return trace["ops"][end:], {"ops": trace["ops"][:end]}


def _timed(drawn: tuple[int, list]) -> tuple[Any, dict[str, list]]:
    base, ops = drawn
    end = _before_the_end(ops)
    return (base, ops[end:]), {"ops": ops[:end]}


def _with_tail(structure: st.SearchStrategy[Trace], tail: int) -> Family:
    """Calls in any order, and the same ``tail`` calls after each trace's."""

    def parts(trace: Trace) -> tuple[Any, dict[str, list]]:
        end = len(trace["ops"]) - tail
        return {**trace, "ops": trace["ops"][end:]}, {"ops": trace["ops"][:end]}

    return Family(structure, parts, lambda kept, lists: {**kept, "ops": lists["ops"] + kept["ops"]})


FAMILIES: dict[str, Family] = {
    "plain work queue": Family(
        traces.plain_queue_traces(),
        _plain,
        lambda end, lists: {"structure": "workqueue", "ops": lists["ops"] + end},
    ),
    "work queue": Family(
        traces.workqueue_calls(),
        _timed,
        lambda kept, lists: traces.workqueue_trace((kept[0], lists["ops"] + kept[1])),
    ),
    "rate limiters": _with_tail(traces.limiter_traces(), 0),
    "DeltaFIFO": _with_tail(traces.delta_queue_traces("delta_fifo"), len(traces.EMPTY_IT)),
    "RealFIFO": _with_tail(traces.delta_queue_traces("real_fifo"), len(traces.EMPTY_IT)),
    "store": _with_tail(traces.store_traces(), len(traces.LOOK_AT_ALL)),
    "informer": Family(
        traces.informer_traces(),
        lambda trace: (trace["watch_list"], trace["answers"]),
        lambda watch_list, lists: {
            "structure": "informer",
            "watch_list": watch_list,
            "answers": lists,
        },
    ),
}


def drawn(family: Family, count: int, number: int) -> list[Any]:
    found: list[Any] = []

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(one=family.drawn)
    def draw(one: Any) -> None:
        found.append(one)

    draw()
    return found


def recombined(family: Family, pool: list[Any], rng: random.Random) -> Trace:
    """One trace of several: stretches of their calls after each other, and the frame of one."""
    some = [family.parts(rng.choice(pool)) for _ in range(rng.randint(2, 4))]
    lists: dict[str, list] = {}
    for name in some[0][1]:
        made: list = []
        for _, others in some:
            ops = others[name]
            start = rng.randint(0, len(ops))
            made += ops[start : rng.randint(start, len(ops))]
        lists[name] = made[:MOST]
    return family.whole(some[0][0], lists)


def distinct(
    family: Family, count: int, number: int, pool: list[Any] | None = None
) -> Iterator[tuple[Trace, str]]:
    """That many traces as they are and as JSON, none twice.

    They are made of those in ``pool``, which are not among them; without one
    some are drawn, and are.
    """
    rng = random.Random(number)
    new = pool is None
    if pool is None:
        pool = drawn(family, max(200, int(count * DRAWN)), number)
    seen: set[int] = set()
    whole = (family.whole(*family.parts(one)) for one in (pool if new else ()))
    while len(seen) < count:
        trace = next(whole, None) or recombined(family, pool, rng)
        text = json.dumps(trace)
        if hash(text) not in seen:
            seen.add(hash(text))
            yield trace, text


class Different(AssertionError):
    """A trace with an outcome that is not client-go's."""


def compare(
    name: str, count: int, number: int, oracle: Path, pool: list[Any] | None = None
) -> tuple[int, int, float]:
    """How many traces and calls were equal, and the seconds.

    ``number`` is the seed; ``pool`` is as in :func:`distinct`. Raises :class:`Different` at the first trace that is not.
    """
    started = time.monotonic()
    done = calls = 0
    source = distinct(FAMILIES[name], count, number, pool)
    with ThreadPoolExecutor(1) as aside:
        while batch := list(itertools.islice(source, BATCH)):
            text = "\n".join(text for _, text in batch) + "\n"
            theirs = aside.submit(
                subprocess.run, [oracle], input=text, capture_output=True, text=True, check=True
            )
            ours = [replay(trace) for trace, _ in batch]
            answers = [json.loads(line) for line in theirs.result().stdout.splitlines()]
            for (trace, text), mine, other in zip(batch, ours, answers, strict=True):
                if not equal(trace, mine, other):
                    raise Different(f"{name}: {text}\nours:      {mine}\nclient-go: {other}")
                calls += len(mine.get("requests", ())) if isinstance(mine, dict) else len(mine)
            done += len(batch)
            print(f"\r{name}: {done:,}", end="", file=sys.stderr, flush=True)
    return done, calls, time.monotonic() - started


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("structures", nargs="*", metavar="STRUCTURE", help=", ".join(FAMILIES))
    parser.add_argument("--traces", type=int, default=100_000, help="for each structure")
    parser.add_argument("--oracle", type=Path, help="its binary; built where it is left out")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    chosen = parser.parse_args()
    if unknown := set(chosen.structures) - set(FAMILIES):
        parser.error(f"there is no {min(unknown)}; there are: {', '.join(FAMILIES)}")
    with tempfile.TemporaryDirectory() as folder:
        oracle = chosen.oracle or given_oracle() or build(Path(folder))
        print(f"seed {chosen.seed}\n\n| structure | traces | calls | differences | seconds |")
        print("|---|--:|--:|--:|--:|", flush=True)
        for name in chosen.structures or FAMILIES:
            try:
                done, calls, seconds = compare(name, chosen.traces, chosen.seed, oracle)
            except Different as difference:
                sys.exit(str(difference))
            print(file=sys.stderr)
            print(f"| {name} | {done:,} | {calls:,} | 0 | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
