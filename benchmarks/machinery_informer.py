"""Whether the informer keeps up: 1,000 events a second over 10,000 objects, and a relist.

Prints: how long the first list took, how far behind the handler was while
events came at that rate, the longest time no handler was called during a
relist of 10,000 objects, and the memory for each object. client-go's informer
is on the same server in the same run where the oracle is built. Asserts no
times: it is for looking at.

    python benchmarks/machinery_informer.py [path of the oracle's binary]
"""

from __future__ import annotations

import sys
import threading
import time
import tracemalloc
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "solutions" / "artifacts" / "python")]

from machinery.listener import Handler  # noqa: E402
from machinery.objects import Object  # noqa: E402
from machinery.store import NAMESPACE_INDEX, Store, index_by_namespace  # noqa: E402

from tests.machinery.clients import ClientGo, Ours  # noqa: E402
from tests.machinery.http_server import ApiServer  # noqa: E402

OBJECTS = 10_000
EVENTS_A_SECOND = 1_000
SECONDS = 5


class Lag(Handler):
    """How long after its making each event reached the handler."""

    def __init__(self) -> None:
        self.made: dict[str, float] = {}
        self.lags: list[float] = []

    def _heard(self, obj: Object) -> None:
        made = self.made.get(obj["metadata"]["resourceVersion"])
        if made is not None:
            self.lags.append(time.perf_counter() - made)

    def on_add(self, obj, in_initial_list):
        self._heard(obj)

    def on_update(self, old, new):
        self._heard(new)

    def on_delete(self, obj):
        pass


def stream(server: ApiServer, made: dict[str, float], seconds: float) -> int:
    """Change objects at the rate; how many."""
    start = time.perf_counter()
    count = 0
    while (elapsed := time.perf_counter() - start) < seconds:
        due = int(elapsed * EVENTS_A_SECOND)
        while count < due:
            obj = server.put(f"object-{count % OBJECTS:05}", data={"n": str(count)})
            made[obj["metadata"]["resourceVersion"]] = time.perf_counter()
            count += 1
        time.sleep(0.002)
    return count


def ours() -> None:
    with ApiServer() as server:
        for i in range(OBJECTS):
            server.put(f"object-{i:05}")
        started = time.perf_counter()
        client = Ours(server.url, watch_list=False)
        client.wait(("synced",), timeout=120)
        print(f"Python: {OBJECTS:,} objects listed in {time.perf_counter() - started:.2f} s")
        lag = Lag()
        client.informer.add_handler(lag).wait_for_sync(60)
        lag.lags.clear()
        count = stream(server, lag.made, SECONDS)
        until = time.perf_counter() + 60
        while len(lag.lags) < count and time.perf_counter() < until:
            time.sleep(0.01)
        lags = sorted(lag.lags)
        print(
            f"Python: {len(lags):,} of {count:,} events at {EVENTS_A_SECOND:,}/s; behind by "
            f"{lags[len(lags) // 2] * 1000:.0f} ms (median), {lags[-1] * 1000:.0f} ms (worst)"
        )
        # A relist while a handler has a stream of work: how long does it stand still?
        ticks: list[float] = []
        stop = threading.Event()

        def tick() -> None:
            # Stands for any handler or worker thread of the process.
            while not stop.wait(0.001):
                ticks.append(time.perf_counter())

        thread = threading.Thread(target=tick)
        thread.start()
        lists = server.kinds().count("list")
        server.compact()
        server.cut()
        server.wait_for_requests("list", lists + 1, timeout=60)
        server.wait_for_requests("watch", server.kinds().count("watch") + 1, timeout=60)
        stop.set()
        thread.join()
        gaps = [b - a for a, b in zip(ticks, ticks[1:], strict=False)]
        print(
            f"Python: longest stand-still of other threads in a relist: {max(gaps) * 1000:.0f} ms"
        )
        client.close()


def client_go(oracle: str) -> None:
    with ApiServer() as server:
        for i in range(OBJECTS):
            server.put(f"object-{i:05}")
        started = time.perf_counter()
        client = ClientGo(Path(oracle), server.url, watch_list=False)
        client.wait(("synced",), timeout=120)
        print(f"client-go: {OBJECTS:,} objects listed in {time.perf_counter() - started:.2f} s")
        made: dict[str, float] = {}
        count = stream(server, made, SECONDS)
        done = time.perf_counter()
        last = f"default/object-{(count - 1) % OBJECTS:05}@{server.version}/"
        until = done + 60
        while not any(n[0] == "update" and n[2].startswith(last) for n in client.notes()[-5:]):
            if time.perf_counter() > until:
                raise TimeoutError(f"client-go was not told of {last} within a minute")
            time.sleep(0.01)
        print(
            f"client-go: the last of {count:,} events {1000 * (time.perf_counter() - done):.0f} ms late"
        )
        client.close()


def memory() -> None:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    store = Store({NAMESPACE_INDEX: index_by_namespace})
    store.replace(
        [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": f"object-{i}",
                    "namespace": "default",
                    "uid": f"{i:032}",
                    "resourceVersion": str(i),
                },
                "data": {"key": f"value {i}"},
            }
            for i in range(OBJECTS)
        ]
    )
    bytes_ = (tracemalloc.get_traced_memory()[0] - before) / OBJECTS
    print(f"Python: {bytes_:,.0f} bytes for a small object, its place in the cache and one index")


def main() -> None:
    oracle = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "oracle" / "bin" / "oracle")
    ours()
    memory()
    if Path(oracle).exists():
        client_go(oracle)


if __name__ == "__main__":
    main()
