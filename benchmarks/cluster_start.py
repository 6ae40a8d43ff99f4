"""How long an empty cluster takes, next to envtest with the same binaries on the same machine.

    python benchmarks/cluster_start.py [--runs N] [--json]

In each round, one after the other: envtest (etcd and kube-apiserver alone), an
embedded cluster without a template, one from the template; five components, node
Ready and the default service account there, each as a new command would start it.
Prints medians and their ratios to envtest's, the time of `down`, and the resident
memory of all five components. Asserts nothing. Needs Go and the binaries
(KUBEBUILDER_ASSETS or the cache).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    from grader.cluster import binaries, build, pins

    with tempfile.TemporaryDirectory(prefix="phase4-bench-") as scratch:
        assets = Path(scratch) / "assets"
        assets.mkdir()
        for name, path in binaries.ensure(pins.VERSIONS).items():
            (assets / name).symlink_to(path)
        envtest = Path(scratch) / "envtest"
        subprocess.run(
            [str(build.usable_go()), "build", "-trimpath", "-o", str(envtest), "."],
            cwd=ROOT / "benchmarks" / "envtest",
            env=build.environment(),
            check=True,
        )
        os.environ["KUBEBUILDER_ASSETS"] = str(assets)
        os.environ["PHASE4_HOME"] = str(Path(scratch) / "home")
        os.environ["PHASE4_CLUSTER"] = "bench"
        rounds = [_round(envtest) for _ in range(arguments.runs)]
    if arguments.json:
        print(json.dumps(rounds))
        return
    middle = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
    print(
        f"medians of {len(rounds)} rounds on {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    for key, label in (
        ("envtest", "envtest: etcd and kube-apiserver"),
        ("fresh", "embedded, nothing kept"),
        ("template", "embedded, from the template"),
    ):
        print(f"{label:<36} {middle[key]:5.2f} s   {middle[key] / middle['envtest']:4.2f} times")
    print(f"{'envtest stop':<36} {middle['envtest_stop']:5.2f} s")
    print(f"{'embedded down':<36} {middle['down']:5.2f} s")
    print(f"{'memory of the five components':<36} {middle['memory'] / 2**20:5.0f} MiB")


def _round(envtest: Path) -> dict[str, float]:
    done = subprocess.run([str(envtest)], capture_output=True, text=True, check=True)
    reference = json.loads(done.stdout)
    home = Path(os.environ["PHASE4_HOME"])
    shutil.rmtree(home / "cache" / "etcd-template", ignore_errors=True)
    fresh, _, _ = _up_and_down()
    template, down, memory = _up_and_down()
    return {
        "envtest": reference["start"],
        "envtest_stop": reference["stop"],
        "fresh": fresh,
        "template": template,
        "down": down,
        "memory": memory,
    }


def _up_and_down() -> tuple[float, float, int]:
    """Seconds to start, seconds to end, bytes of memory a moment after the start."""
    from grader import cluster

    begun = time.monotonic()
    found = cluster.ensure()
    started = time.monotonic() - begun
    memory = sum(part["memory"] for part in found.parts())  # type: ignore[attr-defined]
    begun = time.monotonic()
    cluster.stop()
    return started, time.monotonic() - begun, memory


if __name__ == "__main__":
    main()
