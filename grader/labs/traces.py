"""Graders' traces: calls on a learner's structure, and what client-go does with the same ones.

The outcomes of client-go were recorded with the oracle (oracle/, and
tests/machinery/record.py, which checks that they are still so); so neither Go
nor a cluster is needed to grade. A program answers every trace of the
environment variable ``TRACES`` with one line of JSON: an outcome for each call.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.runner.offline import offline
from grader.verdict import Fail

RECORDED = Path(__file__).with_name("recorded")
#: Seconds for all traces of a run. Right answers take one or two, interpreter included.
PATIENCE = 60.0
#: Bytes of TRACES: a variable of the environment must stay below 128 KiB.
MOST = 100_000

Trace = dict[str, Any]


@dataclass(frozen=True)
class Recorded:
    """A trace and client-go's outcomes."""

    trace: Trace
    outcomes: list[Any]


def recorded(name: str) -> list[Recorded]:
    """The recorded traces of a lab (``4.2.1``), in order."""
    lines = (RECORDED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Recorded(**json.loads(line)) for line in lines]


def some(all_of_them: Sequence[Recorded], rng: random.Random, room: int) -> list[Recorded]:
    """A random choice of which the traces take at most ``room`` bytes."""
    chosen, left = [], room
    for one in rng.sample(list(all_of_them), len(all_of_them)):
        left -= len(json.dumps(one.trace)) + 2
        if left < 0:
            break
        chosen.append(one)
    return chosen


def answered(
    submission: Any, grading: Any, phase4: Any, traces: Sequence[Trace], *, program: str = ""
) -> list[list]:
    """Run the submission's program on the traces; the outcomes it printed, trace by trace.

    ``program`` is the name of one of several.

    Raises Fail where it ends badly, hangs, or prints something else. The
    outcomes may still be fewer than a trace's calls: see :func:`compare`.
    """
    from grader.labs.grading_request import MARKER

    text = json.dumps(list(traces))
    assert len(text) <= MOST, f"{len(text)} bytes of traces"
    with offline(
        submission.program_named(program) if program else submission.program,
        grading.run_dir,
        name=program or "program",
        env={"TRACES": text},
        isolation=grading.isolation,
        marker=f"{MARKER}={grading.marker}",
        building=phase4.untimed,
    ) as running:
        ended = running.wait_exit(PATIENCE, "answers every trace and ends")
        lines = list(running.stdout_lines)
        if ended.code != 0:
            raise Fail(
                "The program answers every trace and ends with exit code 0.",
                f"It {ended}, after {len(lines)} of {len(traces)} traces.",
                why="Every trace is calls one after another on a new structure; one of them ended "
                "the program.",
                next="Run it yourself: TRACES='[…]' with the trace below.",
                diagnosis="program-crashes",
                evidence=[
                    *([json.dumps(traces[len(lines)])[:400]] if len(lines) < len(traces) else []),
                    *running.stderr_tail(8),
                ],
            )
    found = []
    for number, line in enumerate(lines):
        try:
            outcomes = json.loads(line)
        except ValueError:
            outcomes = None
        if not isinstance(outcomes, list):
            raise Fail(
                "Each line on standard output is a JSON array: the outcomes of one trace.",
                f"Line {number + 1} is not: {str(line)[:120]}",
                next="Print debugging output to standard error.",
                diagnosis="not-outcomes",
            )
        found.append(outcomes)
    if len(found) != len(traces):
        raise Fail(
            "There is a line of outcomes for each trace.",
            f"There are {len(found)} lines for {len(traces)} traces.",
            next="The loop in the starter prints exactly one line a trace.",
            diagnosis="not-outcomes",
        )
    return found


def shown(trace: Trace, seen: Sequence[Any], right: Sequence[Any] | None = None, *, last: int = 14):
    """The last calls of a trace with their outcomes, for a message's evidence."""
    lines = []
    calls = trace["ops"][: len(seen) + (0 if right is None else 1)]
    for i, (name, *arguments) in list(enumerate(calls))[-last:]:
        call = f"{name}({', '.join(_brief(a) for a in arguments)})"
        got = _brief(seen[i]) if i < len(seen) else "…"
        line = f"{call:<34} {got}"
        if right is not None and i < len(right) and (i >= len(seen) or seen[i] != right[i]):
            line += f"   client-go: {_brief(right[i])}"
        lines.append(line)
    return lines


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 90 else text[:89] + "…"


def not_written(outcomes: Sequence[Any]) -> str:
    """The message of a call that raised NotImplementedError or says it is not written; or ""."""
    last = outcomes[-1] if outcomes else None
    raised = last.get("raised", "") if isinstance(last, dict) else ""
    return raised if "NotImplementedError" in raised or "not written" in raised else ""


def compare(
    one: Recorded,
    seen: Sequence[Any],
    *,
    equal: Callable[[Any, Any], bool] = lambda ours, theirs: ours == theirs,
    why: str,
    diagnosis: str,
) -> None:
    """Fail at the first call whose outcome is not client-go's."""
    for i, right in enumerate(one.outcomes):
        ours = seen[i] if i < len(seen) else None
        if i < len(seen) and equal(ours, right):
            continue
        call = one.trace["ops"][i]
        raised = ours.get("raised") if isinstance(ours, dict) else None
        what = f"raised {raised}" if raised else f"gave {_brief(ours)}"
        raise Fail(
            "The same calls have the same outcomes as on client-go's own structure.",
            f"Call {i + 1} of a trace, {call[0]}, {what}; client-go gave {_brief(right)}.",
            why=why,
            next="Go through the calls below by hand, and write down what your structure has after "
            "each.",
            diagnosis="not-written" if not_written(seen) else diagnosis,
            evidence=shown(one.trace, list(seen)[: i + 1], one.outcomes),
        )
