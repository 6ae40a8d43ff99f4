"""From Enter to the verdict: ``phase4 check`` of each built lab's reference answer.

    python benchmarks/check.py [LAB…] [--runs 5] [--isolation bwrap] [--json]

Every track of the labs is checked through the launcher, as a person does, in a
workspace of its own and against a cluster that runs already. Beside it: what of
that the checks themselves took, so that the rest is the price of the command
line and of a process for the grader. It asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main() -> None:
    from grader import cut
    from grader.verify import subjects

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("labs", nargs="*")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--isolation", default="none")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    launcher = str(ROOT / "phase4")
    measured: dict[str, dict[str, object]] = {}
    chosen = subjects(options.labs)
    if any(subject.live for subject in chosen):
        subprocess.run([launcher, "up"], stdout=subprocess.DEVNULL, check=True)
    for subject in chosen:
        for track in cut.tracks(subject.lab):
            name = f"{subject.lab} {track}".strip()
            measured[name] = check(launcher, subject.lab, track, options)
    if options.json:
        print(json.dumps(measured, indent=1))
        return
    print(f"{'':<14} {'verdict':<10} {'median':>8} {'worst':>8} {'checks':>8}   seconds")
    for name, row in measured.items():
        print(
            f"{name:<14} {row['verdict']:<10} {row['median']:8.2f} {row['worst']:8.2f} "
            f"{row['checks']:8.2f}"
        )


def check(launcher: str, lab: str, track: str, options: argparse.Namespace) -> dict[str, object]:
    """One lab in one track; the first run, which compiles, is not counted."""
    from grader import cut

    times: list[float] = []
    checks: list[float] = []
    verdicts: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PHASE4_WORKSPACE": f"{folder}/workspace"}
        init = [launcher, "init", *(["--track", track] if track else [])]
        subprocess.run(init, env=env, stdout=subprocess.DEVNULL, check=True)
        cut.handed_in(lab, track, Path(folder) / "workspace")
        argv = [launcher, "check", lab, "--json", "--isolation", options.isolation]
        for _ in range(options.runs + 1):
            began = time.perf_counter()
            done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
            times.append(time.perf_counter() - began)
            (report,) = json.loads(done.stdout)
            verdicts.add(report["verdict"])
            checks.append(sum(result["duration"] for result in report["checks"]))
    return {
        "verdict": "/".join(sorted(verdicts)),
        "median": statistics.median(times[1:]),
        "worst": max(times[1:]),
        "checks": statistics.median(checks[1:]),
    }


if __name__ == "__main__":
    main()
