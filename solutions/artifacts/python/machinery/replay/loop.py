"""Traces in, outcomes out.

A trace is a JSON object: a structure's name and calls (``ops``) on it::

    {"structure": "workqueue", "ops": [["add", "a"], ["get"], ["done", "a"]]}

Its outcomes are a JSON array with what each call returned::

    [null, {"key": "a"}, null]

Traces come as a JSON array in the environment variable ``TRACES``, or one a
line on standard input; outcomes go to standard output, one line a trace. A
call that raises ends its trace: the outcome is ``{"raised": "…"}``, and the
outcomes of the calls after it are missing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Trace = dict[str, Any]
#: Yields the outcome of one call after another.
Replay = Callable[[Trace], Iterator[Any]]


def outcomes(replay: Replay, trace: Trace) -> list[Any]:
    """What each call of a trace returned, or raised."""
    found: list[Any] = []
    try:
        for outcome in replay(trace):
            found.append(outcome)
    except Exception as error:
        found.append({"raised": f"{type(error).__name__}: {error}"})
    return found


def calls(table: Mapping[str, Callable[..., Any]], trace: Trace) -> Iterator[Any]:
    """Call by name what the trace says, with its arguments."""
    for name, *arguments in trace["ops"]:
        yield table[name](*arguments)


def serve(replays: Mapping[str, Replay]) -> None:
    """Answer every trace there is; ``replays`` by structure."""
    given = os.environ.get("TRACES")
    traces = json.loads(given) if given else map(json.loads, sys.stdin)
    for trace in traces:
        print(json.dumps(outcomes(replays[trace["structure"]], trace)), flush=True)
