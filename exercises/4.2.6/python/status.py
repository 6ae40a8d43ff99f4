"""Says ten times a second what HasSynced says, and what is true of the cache.

One JSON object a line: whether the informer has synced, whether the handler has
(its registration), how many objects the handler has seen, and the cache: each
ConfigMap's name in the namespace $NAMESPACE and its resourceVersion.

The handler is slow: it takes $SLOW seconds for each object. ``empty`` is what the
registration with a second informer says, for whose label there is no object; ``waited``
whether a thread that waits for the first registration has been told. Nothing to write here.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time

from machinery.api import Resource, Selectors
from machinery.client import ResourceClient, client_for
from machinery.informer import SharedInformer
from machinery.listener import Handler
from machinery.objects import resource_version


class Slow(Handler):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.seen = self.updated = 0

    def on_add(self, obj, in_initial_list):
        time.sleep(self.seconds)
        self.seen += 1

    def on_update(self, old, new):
        self.updated += 1


def main() -> None:
    client = client_for(os.environ["KUBECONFIG"], "status")
    configmaps = Resource("", "v1", "configmaps", os.environ["NAMESPACE"])
    informer = SharedInformer(ResourceClient(client, configmaps, Selectors(label="kind=lab")))
    handler = Slow(float(os.environ["SLOW"]))
    registration = informer.add_handler(handler)
    nothing = SharedInformer(ResourceClient(client, configmaps, Selectors(label="kind=nothing")))
    empty = nothing.add_handler(Handler())
    waiting = threading.Thread(target=registration.wait_for_sync, daemon=True)
    waiting.start()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    informer.start()
    nothing.start()
    while not stop.wait(0.1):
        # The order matters: what is asked last may be newer, never older.
        status = {"handler": registration.has_synced(), "informer": informer.has_synced()}
        status["waited"] = not waiting.is_alive()
        status["empty"] = empty.has_synced()
        status["seen"], status["updated"] = handler.seen, handler.updated
        cache = informer.store.list()
        status["cache"] = {obj["metadata"]["name"]: resource_version(obj) for obj in cache}
        print(json.dumps(status), flush=True)
    informer.stop(2)
    nothing.stop(2)


if __name__ == "__main__":
    main()
