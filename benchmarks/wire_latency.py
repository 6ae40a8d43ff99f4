"""What the wire costs: requests and lists through it, against the same ones direct, in one run.

    python benchmarks/wire_latency.py [--json FILE]

Direct and wired requests take turns, so that whatever else the machine does
hits both alike; the figures are medians and ratios of one run. Nothing is
asserted: a target missed is printed as such.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import urllib3

from grader import cluster
from grader.cluster import credentials
from grader.cluster.api import Api
from grader.wire import Wire

OBJECTS = 1000
#: Milliseconds that may be added at the median, and the most a list may take against direct.
MAY_ADD, MAY_RATIO = 2.0, 1.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--lists", type=int, default=20)
    parser.add_argument("--client", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.client:
        kubeconfig, url, namespace = arguments.client
        wired = (urllib3.PoolManager(), url)
        figures = measure(
            _direct(kubeconfig), wired, namespace, arguments.requests, arguments.lists
        )
        print(json.dumps(figures))
        return
    running = cluster.ensure()
    with tempfile.TemporaryDirectory() as folder, Api(running) as api:
        with Wire(running, "bench", Path(folder)) as wire, _objects(api) as namespace:
            # A process of its own, as a learner's is: the wire's interpreter is the wire's.
            words = [sys.executable, __file__, "--requests", str(arguments.requests)]
            words += ["--lists", str(arguments.lists)]
            words += ["--client", str(running.kubeconfig), wire.url, namespace]
            done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
            figures = json.loads(done.stdout)
            sides = {
                "direct": _direct(running.kubeconfig),
                "wired": (urllib3.PoolManager(), wire.url),
            }
            figures |= _event_delay(api, sides, namespace)
    report(figures)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


def _direct(kubeconfig: Path | str) -> tuple[urllib3.PoolManager, str]:
    """A pool and the API server's address, as a client without a wire has them."""
    known = credentials.load(kubeconfig)
    pool = urllib3.PoolManager(ssl_context=known.ssl_context(), headers=known.headers())
    return pool, known.server


class _objects:
    """A namespace with a thousand small pods' worth of configmaps, for the length of a block."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._name = f"bench-{int(time.time())}"

    def __enter__(self) -> str:
        self._api.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._name}}
        )
        # About as large as a pod: 2 KiB.
        data = {f"key-{n}": "x" * 100 for n in range(16)}

        def create(numbers: range) -> None:
            for n in numbers:
                self._api.create(
                    {
                        "apiVersion": "v1",
                        "kind": "ConfigMap",
                        "metadata": {"name": f"c{n}", "labels": {"n": str(n)}},
                        "data": data,
                    },
                    self._name,
                )

        workers = [threading.Thread(target=create, args=(range(k, OBJECTS, 8),)) for k in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return self._name

    def __exit__(self, *exc: object) -> None:
        self._api.delete("namespaces", self._name)


def measure(direct, wired, namespace: str, requests: int, lists: int) -> dict[str, float]:
    """Medians of a small get, a small write and a list of 1,000, direct and through the wire."""
    base = f"/api/v1/namespaces/{namespace}/configmaps"
    patch = json.dumps({"metadata": {"annotations": {"bench": "x"}}})
    merge = {"Content-Type": "application/merge-patch+json"}

    def get(side, n):
        side[0].request("GET", f"{side[1]}{base}/c{n % OBJECTS}")

    def write(side, n):
        headers = {**side[0].headers, **merge}
        body = patch.replace("x", str(n))
        side[0].request("PATCH", f"{side[1]}{base}/c{n % OBJECTS}", body=body, headers=headers)

    def list_all(side, n):
        answer = side[0].request("GET", side[1] + base)
        assert len(answer.data) > 1_000_000

    figures: dict[str, float] = {}
    for name, act, count in (
        ("get", get, requests),
        ("write", write, requests),
        ("list of 1,000", list_all, lists),
    ):
        taken: tuple[list[float], list[float]] = ([], [])
        for n in range(count + 5):
            for side, times in zip((direct, wired), taken, strict=True):
                began = time.perf_counter()
                act(side, n)
                if n >= 5:  # the first ones open connections
                    times.append((time.perf_counter() - began) * 1000)
        a, b = (statistics.median(times) for times in taken)
        figures[f"{name}, direct, ms"] = a
        figures[f"{name}, wired, ms"] = b
        figures[f"{name}, added, ms"] = b - a
        figures[f"{name}, ratio"] = b / a
    return figures


def _event_delay(api: Api, sides: dict, namespace: str) -> dict[str, float]:
    """Milliseconds (median) from a write's answer to its event's arrival, on two open watches."""
    version = api.list("configmaps", namespace=namespace)["metadata"]["resourceVersion"]
    query = f"watch=true&resourceVersion={version}"
    path = f"/api/v1/namespaces/{namespace}/configmaps?{query}"
    figures = {}
    for name, (pool, url) in sides.items():
        answer = pool.request("GET", url + path, preload_content=False)
        seen = b""
        delays = []
        for n in range(50):
            mark = f"{name}-{n}"
            api.patch("configmaps", "c0", {"data": {"n": mark}}, namespace=namespace)
            written = time.perf_counter()
            while f'"n":"{mark}"'.encode() not in seen:
                seen = answer.readline()
            delays.append((time.perf_counter() - written) * 1000)
        answer.close()
        figures[f"event, {name}, ms"] = statistics.median(delays)
    return figures


def report(figures: dict[str, float]) -> None:
    for name, value in figures.items():
        print(f"{name:28} {value:8.2f}")
    added = max(figures["get, added, ms"], figures["write, added, ms"])
    ratio = figures["list of 1,000, ratio"]
    print(f"added at the median: {added:.2f} ms ({_met(added, MAY_ADD)} {MAY_ADD} ms)")
    print(f"list of 1,000: {ratio:.2f} times direct ({_met(ratio, MAY_RATIO)} {MAY_RATIO})")


def _met(value: float, most: float) -> str:
    return "within" if value <= most else "OVER"


if __name__ == "__main__":
    main()
