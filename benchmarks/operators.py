"""The hand-wired operators next to each other, and next to what the API server allows.

    python benchmarks/operators.py [converge] [resources] [memory] [--json]

``converge``: 50 WebApps with 3 Pods each, from the first create until every
status says Ready; beside it the same writes from a bare loop with as many
threads as the operators have workers (the finalizer, the record, 3 Pods, two
statuses for each WebApp). ``resources``: 1,000 WebApps with a Pod each:
seconds until all are Ready, then resident memory, CPU seconds up to there, and
CPU in ten seconds of rest. ``memory``: resident memory over 5,000 creates and
deletes of a WebApp. All three if none is named; ``--webapps``, ``--cycles`` and
``--runs`` change the sizes. Medians and ratios are printed, nothing is asserted.

Each operator talks to the API server directly, without a wire, and alone.
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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import psutil  # noqa: E402

from grader import cluster as clusters  # noqa: E402
from grader.cluster.api import Api, ApiError  # noqa: E402
from grader.conformance import contract, measure  # noqa: E402
from grader.conformance.suite import prepare  # noqa: E402

WORKERS = 2
AT_ONCE = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=["converge", "resources", "memory", []])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--webapps", type=int, default=1000)
    parser.add_argument("--cycles", type=int, default=5000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    what = arguments.what or ["converge", "resources", "memory"]
    cluster = clusters.ensure()
    api = Api(cluster)
    prepare(api)
    found: dict[str, Any] = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory(prefix="phase4-bench-") as scratch:
        built = {}
        for track in ("go", "python"):
            folder = Path(scratch) / track
            folder.mkdir()
            built[track] = measure.operator(track, folder)
        if "converge" in what:
            found["converge"] = _converge(cluster, api, built, arguments.runs)
        if "resources" in what:
            found["resources"] = {
                track: _resources(cluster, api, one, arguments.webapps)
                for track, one in built.items()
            }
        if "memory" in what:
            found["memory"] = {
                track: _memory(cluster, api, one, arguments.cycles) for track, one in built.items()
            }
    if arguments.json:
        print(json.dumps(found))
    else:
        _print(found)


@contextmanager
def _running(cluster: Any, subject: Any) -> Iterator[psutil.Process]:
    """The operator, with what it says on disk; ended with SIGTERM."""
    words = [sys.executable if word == "python3" else word for word in subject.argv]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*words, "--workers", str(WORKERS)],
            cwd=subject.cwd,
            env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
            stdout=log,
            stderr=log,
        )
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(10)


@contextmanager
def _namespace(api: Api, operated: bool = True) -> Iterator[str]:
    """A namespace, and nothing of it left at the end, while the operator still runs."""
    name = f"bench-{time.time_ns() % 10**9}"
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    try:
        yield name
    finally:
        items = api.list(contract.WEBAPPS, name)["items"]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda item: _end(api, item, operated), items))
        if operated:
            _until_none(api, name)
        api.delete("namespaces", name)


def _end(api: Api, item: dict, operated: bool) -> None:
    meta = item["metadata"]
    _delete(api, contract.WEBAPPS, meta["name"], meta["namespace"])
    if not operated:
        patch = {"metadata": {"finalizers": None}}
        api.patch(contract.WEBAPPS, meta["name"], patch, meta["namespace"])
        api.delete("configmaps", contract.record_name(item), contract.DNS_NAMESPACE)


def _until_none(api: Api, namespace: str) -> None:
    listed = api.list(contract.WEBAPPS, namespace)
    left = {item["metadata"]["name"] for item in listed["items"]}
    version = listed["metadata"]["resourceVersion"]
    if left:
        for type, obj in api.watch(contract.WEBAPPS, namespace, version, 300.0):
            if type == "DELETED":
                left.discard(obj["metadata"]["name"])
                if not left:
                    return


def _create(api: Api, namespace: str, count: int, replicas: int) -> float:
    """Create WebApps and wait until all are Ready; seconds. Raises TimeoutError after 600 s."""
    version = api.list(contract.WEBAPPS, namespace)["metadata"]["resourceVersion"]
    began = time.monotonic()
    wanted = [contract.webapp(f"app-{n}", namespace, replicas=replicas) for n in range(count)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(api.create, wanted))
    left = {app["metadata"]["name"] for app in wanted}
    for type, obj in api.watch(contract.WEBAPPS, namespace, version, 600.0):
        if (
            type in ("ADDED", "MODIFIED")
            and contract.condition(obj, "Ready").get("status") == "True"
        ):
            left.discard(obj["metadata"]["name"])
            if not left:
                return time.monotonic() - began
    raise TimeoutError(f"{len(left)} of {count} WebApps were not Ready after 600 s")


def _converge(cluster: Any, api: Api, built: dict, runs: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {"bare loop": [], **{track: [] for track in built}}
    for _ in range(runs):
        with _namespace(api, operated=False) as namespace:
            seconds["bare loop"].append(_bare(api, namespace))
        for track, subject in built.items():
            with _running(cluster, subject):
                with _namespace(api) as warm:
                    _create(api, warm, 1, 1)
                with _namespace(api) as namespace:
                    seconds[track].append(_create(api, namespace, 50, 3))
    return seconds


def _bare(api: Api, namespace: str) -> float:
    """The same writes with nothing read and nothing thought about."""
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        wanted = [contract.webapp(f"app-{n}", namespace, replicas=3) for n in range(50)]
        apps = list(pool.map(api.create, wanted))

    def write(app: dict) -> None:
        name, uid = app["metadata"]["name"], app["metadata"]["uid"]
        app["metadata"]["finalizers"] = [contract.FINALIZER]
        app = api.replace(app)
        api.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"record-{uid}", "namespace": contract.DNS_NAMESPACE},
                "data": {"host": app["spec"]["host"], "owner": f"{namespace}/{name}"},
            }
        )
        for number in range(3):
            api.create(_pod(app, number))
        for ready in (0, 3):
            app["status"] = {"observedGeneration": 1, "replicas": 3, "readyReplicas": ready}
            app = api.replace(app, subresource="status")

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(write, apps))
    return time.monotonic() - began


def _pod(app: dict, number: int) -> dict:
    meta = app["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{meta['name']}-{number}",
            "namespace": meta["namespace"],
            "labels": {contract.LABEL: meta["name"]},
            "ownerReferences": [
                {
                    "apiVersion": contract.API_VERSION,
                    "kind": contract.KIND,
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"containers": [{"name": "web", "image": app["spec"]["image"]}]},
    }


def _resources(cluster: Any, api: Api, subject: Any, count: int) -> dict[str, float]:
    with _running(cluster, subject) as process, _namespace(api) as namespace:
        seconds = _create(api, namespace, count, 1)
        busy = _cpu(process)
        # Ten seconds of rest, on purpose: what is measured is what it does when nothing happens.
        time.sleep(10)
        return {
            "seconds until Ready": round(seconds, 1),
            "CPU seconds until Ready": round(busy, 1),
            "CPU seconds in 10 s of rest": round(_cpu(process) - busy, 2),
            "MiB resident": round(process.memory_info().rss / 2**20, 1),
        }


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _memory(cluster: Any, api: Api, subject: Any, cycles: int) -> dict[int, float]:
    """MiB resident after so many creates and deletes."""
    samples: dict[int, float] = {}
    with _running(cluster, subject) as process, _namespace(api) as namespace:
        _create(api, namespace, 1, 1)
        step = max(1, cycles // 10)
        for done in range(0, cycles, step):
            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(lambda n: _cycle(api, namespace, n), range(done, done + step)))
            samples[done + step] = round(process.memory_info().rss / 2**20, 1)
    return samples


def _cycle(api: Api, namespace: str, number: int) -> None:
    name = f"cycle-{number}"
    api.create(contract.webapp(name, namespace, replicas=0))
    api.until(
        contract.WEBAPPS,
        name,
        namespace,
        lambda obj: obj is not None and contract.condition(obj, "Ready").get("status") == "True",
        60.0,
        what=f"{name} is Ready",
    )
    _delete(api, contract.WEBAPPS, name, namespace)


def _delete(api: Api, resource: str, name: str, namespace: str) -> None:
    """Delete what may have gone by itself meanwhile."""
    try:
        api.delete(resource, name, namespace)
    except ApiError as error:
        if error.status != 404:
            raise


def _print(found: dict[str, Any]) -> None:
    print(f"{found['cores']} cores, load {found['load']}")
    if "converge" in found:
        print("\n50 WebApps with 3 Pods, seconds (median)")
        middle = {name: statistics.median(runs) for name, runs in found["converge"].items()}
        for name, seconds in middle.items():
            print(
                f"  {name:10} {seconds:7.2f}   {seconds / middle['bare loop']:.2f} × the bare loop"
            )
    if "resources" in found:
        print("\nmany WebApps with a Pod each")
        for track, values in found["resources"].items():
            print(f"  {track:10} " + ", ".join(f"{key} {value}" for key, value in values.items()))
    if "memory" in found:
        print("\nMiB resident after so many creates and deletes")
        for track, samples in found["memory"].items():
            print(f"  {track:10} " + "  ".join(f"{n}: {mib}" for n, mib in samples.items()))


if __name__ == "__main__":
    main()
