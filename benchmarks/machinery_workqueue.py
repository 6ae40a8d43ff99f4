"""How fast the Python work queue is, and that it stays so as it grows.

Prints a table: add + get + done of one key, in one thread, while 1,000 to
1,000,000 other keys wait. O(1) means that the last column stays level.
client-go's figures, from the oracle, are measured in the same run. Asserts no
times: it is for looking at.

    python benchmarks/machinery_workqueue.py [path of the oracle's binary]
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "solutions" / "artifacts" / "python"))

from machinery.workqueue import WorkQueue  # noqa: E402

SIZES = (1_000, 10_000, 100_000, 1_000_000)


def python_seconds(waiting: int, rounds: int) -> float:
    """Seconds for ``rounds`` of add, get, done with ``waiting`` keys in the queue."""
    queue: WorkQueue[str] = WorkQueue()
    keys = [f"namespace/name-{i}" for i in range(waiting + rounds)]
    for key in keys[:waiting]:
        queue.add(key)
    gc.collect()
    add, get, done = queue.add, queue.get, queue.done
    start = time.perf_counter()
    for key in keys[waiting:]:
        add(key)
        done(get())
    return time.perf_counter() - start


def go_seconds(oracle: str, n: int) -> float:
    output = subprocess.run([oracle, "bench", "-n", str(n)], capture_output=True, check=True)
    return json.loads(output.stdout)["seconds"]


def main() -> None:
    oracle = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "oracle" / "bin" / "oracle")
    with_go = Path(oracle).exists()
    print("keys waiting   Python rounds/s   client-go rounds/s   Python µs/round")
    for waiting in SIZES:
        rounds = min(max(waiting, 50_000), 200_000)
        seconds = min(python_seconds(waiting, rounds) for _ in range(3))
        go = f"{waiting / go_seconds(oracle, waiting):18,.0f}" if with_go else f"{'no oracle':>18}"
        print(
            f"{waiting:12,}   {rounds / seconds:15,.0f}   {go}   {seconds / rounds * 1e6:15.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
