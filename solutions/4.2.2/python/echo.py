"""A controller that copies: each ConfigMap's data.seen becomes its data.wanted.

It watches the ConfigMaps of one namespace ($NAMESPACE). The limiter's two
numbers come from $BASE and $MAX, in seconds. One thing is missing: what happens
to a key after its reconcile.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from machinery.api import ApiError, Resource, Unreachable
from machinery.client import ResourceClient, client_for
from machinery.delaying import RateLimitingQueue
from machinery.informer import SharedInformer
from machinery.listener import Handler
from machinery.objects import key_of, key_of_deleted, split_key
from machinery.rate_limiters import ItemExponentialFailureRateLimiter
from machinery.workqueue import ShutDown

WORKERS = 2


class Echo(Handler):
    def __init__(self, namespace: str, base: float, maximum: float) -> None:
        self.configmaps = Resource("", "v1", "configmaps", namespace)
        self.client = client_for(os.environ["KUBECONFIG"], "echo")
        self.informer = SharedInformer(ResourceClient(self.client, self.configmaps))
        self.lister = self.informer.lister
        self.queue = RateLimitingQueue(ItemExponentialFailureRateLimiter(base, maximum))

    # What the informer tells goes into the queue, as a key.

    def on_add(self, obj, in_initial_list):
        self.queue.add(key_of(obj))

    def on_update(self, old, new):
        self.queue.add(key_of(new))

    def on_delete(self, obj):
        self.queue.add(key_of_deleted(obj))

    def work(self) -> None:
        while self.process_next():
            pass

    def process_next(self) -> bool:
        """Get a key, reconcile it, and say to the queue how it went; False when it is over."""
        try:
            key = self.queue.get()
        except ShutDown:
            return False
        # phase4:solution
        try:
            self.reconcile(key)
        except (ApiError, Unreachable) as error:
            print(f"{key}: {error}", file=sys.stderr)
            self.queue.add_rate_limited(key)
        else:
            self.queue.forget(key)
        finally:
            self.queue.done(key)
        # phase4:stub
        # # What if it fails? What if it does not? What in both cases?
        # self.reconcile(key)
        # phase4:end
        return True

    def reconcile(self, key: str) -> None:
        """Make one ConfigMap as it is wanted. Raises ApiError or Unreachable."""
        namespace, name = split_key(key)
        obj = self.lister.get(name, namespace)
        data = (obj or {}).get("data") or {}
        if "wanted" in data and data.get("seen") != data["wanted"]:
            patch = {"data": {"seen": data["wanted"]}}
            self.client.patch(self.configmaps, name, patch, namespace=namespace)


def main() -> None:
    echo = Echo(os.environ["NAMESPACE"], float(os.environ["BASE"]), float(os.environ["MAX"]))
    registration = echo.informer.add_handler(echo)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    echo.informer.start()
    if not registration.wait_for_sync(60):
        sys.exit("the cache did not fill within a minute")
    workers = [threading.Thread(target=echo.work, daemon=True) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    print("synced", flush=True)
    stop.wait()
    echo.queue.shut_down()
    for worker in workers:
        worker.join(3)
    echo.informer.stop(1)


if __name__ == "__main__":
    main()
