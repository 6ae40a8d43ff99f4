"""How long the command line takes from Enter to its last word, for commands that do little.

    python benchmarks/cli_start.py [--runs 20] [--json]

Each command is run through the launcher, as a person does; the bare interpreter
beside it says what of that is Python's own start. It asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = (
    ("--version",),
    ("list",),
    ("progress",),
    ("gate",),
    ("show", "4.1.2"),
    ("status",),
    ("--help",),
)


def seconds(argv: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Wall and processor seconds: on a busy machine only the second says something."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PHASE4_WORKSPACE": f"{folder}/workspace", "PHASE4_HOME": folder}
        launcher = str(ROOT / "phase4")
        subprocess.run([launcher, "init"], env=env, stdout=subprocess.DEVNULL, check=True)
        rows = {"python -c pass": [sys.executable, "-c", "pass"]}
        rows |= {f"phase4 {' '.join(words)}": [launcher, *words] for words in COMMANDS}
        measured = {}
        for name, argv in rows.items():
            seconds(argv, env)
            times = [seconds(argv, env) for _ in range(options.runs)]
            measured[name] = {
                "median": statistics.median(wall for wall, _ in times),
                "worst": max(wall for wall, _ in times),
                "processor": statistics.median(cpu for _, cpu in times),
            }
    if options.json:
        print(json.dumps(measured, indent=1))
        return
    print(
        f"{'':<22} {'median':>8} {'worst':>8} {'processor':>10}   of {options.runs} runs, seconds"
    )
    for name, row in measured.items():
        print(f"{name:<22} {row['median']:8.3f} {row['worst']:8.3f} {row['processor']:10.3f}")


if __name__ == "__main__":
    main()
