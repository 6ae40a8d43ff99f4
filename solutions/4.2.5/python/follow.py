"""Follows the objects of a kind ($RESOURCE: configmaps or events) in the namespace $NAMESPACE.

Prints its cache when it changes, one JSON object a line: each object's name and its
resourceVersion. Nothing to write here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from machinery.api import Resource, Selectors
from machinery.client import ResourceClient, client_for
from machinery.informer import SharedInformer
from machinery.listener import Handler
from machinery.objects import resource_version


class Printer(Handler):
    def __init__(self) -> None:
        client = client_for(os.environ["KUBECONFIG"], "follow")
        objects = Resource("", "v1", os.environ["RESOURCE"], os.environ["NAMESPACE"])
        mine = Selectors(label="kind=lab")
        self.informer = SharedInformer(ResourceClient(client, objects, mine))

    def on_add(self, obj, in_initial_list):
        self.print_cache()

    def on_update(self, old, new):
        self.print_cache()

    def on_delete(self, obj):
        self.print_cache()

    def print_cache(self) -> None:
        cache = self.informer.store.list()
        versions = {obj["metadata"]["name"]: resource_version(obj) for obj in cache}
        print(json.dumps({"cache": versions}), flush=True)


def main() -> None:
    printer = Printer()
    registration = printer.informer.add_handler(printer)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    printer.informer.start()
    if not registration.wait_for_sync(10):
        sys.exit("the cache did not fill within ten seconds")
    print("synced", flush=True)
    stop.wait()
    printer.informer.stop(2)


if __name__ == "__main__":
    main()
