"""Write what graders compare with: random traces, and client-go's outcomes.

    python -m tests.machinery.record [path of the oracle's binary]

The traces come from fixed seeds: run twice, it writes the same files.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from . import traces
from .oracle import Oracle, build, given_oracle

FOLDER = Path(__file__).resolve().parents[2] / "grader" / "labs" / "recorded"

#: Lab → what is recorded for it: strategies, how many traces of each, how long at least.
LABS: dict[str, list[tuple[st.SearchStrategy[dict[str, Any]], int, int]]] = {
    "4.2.1": [(traces.plain_queue_traces(), 120, 25)],
    "4.2.2": [(traces.limiter_traces(), 60, 15), (traces.workqueue_traces(), 80, 25)],
    "4.2.3": [
        (traces.delta_queue_traces("delta_fifo"), 40, 30),
        (traces.delta_queue_traces("real_fifo"), 40, 30),
    ],
}


def choose(strategy: st.SearchStrategy, count: int, least: int) -> list[dict[str, Any]]:
    """``count`` different traces with at least ``least`` calls."""
    chosen: dict[str, dict[str, Any]] = {}

    @seed(421)
    @settings(
        max_examples=count * 4,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(trace: dict[str, Any]) -> None:
        # Looking on is no call that says much.
        calls = sum(op[0] not in ("drained", "has_synced") for op in trace["ops"])
        if calls >= least and len(chosen) < count:
            chosen[json.dumps(trace)] = trace

    collect()
    return list(chosen.values())


def record(answer: Callable[[dict[str, Any]], Any], lab: str) -> str:
    """The content of a lab's file."""
    lines = []
    for strategy, count, least in LABS[lab]:
        for trace in choose(strategy, count, least):
            line = {"trace": trace, "outcomes": answer(trace)}
            lines.append(json.dumps(line, separators=(",", ":")))
    return "\n".join(lines) + "\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else given_oracle()
    binary = given or build(FOLDER.parents[2] / "oracle" / "bin")
    oracle = Oracle(binary)
    for lab in LABS:
        (FOLDER / f"{lab}.jsonl").write_text(record(oracle, lab), encoding="utf-8")
    oracle.close()


if __name__ == "__main__":
    main()
