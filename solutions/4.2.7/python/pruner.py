"""A pruner: children whose owner does not exist are deleted.

In the namespace $NAMESPACE, children are Secrets with the label kind=child.
Each names its owner in the annotation «owner»: configmaps/NAME or
serviceaccounts/NAME. Owners have the label kind=owner. The pruner asks its
caches alone; that is the point, and the danger.

With --unsafe it starts at once. Without, it waits: that part is missing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from machinery.api import ApiError, Resource, Selectors, Unreachable
from machinery.client import ResourceClient, client_for
from machinery.delaying import RateLimitingQueue
from machinery.informer import SharedInformer
from machinery.listener import Handler
from machinery.objects import key_of, key_of_deleted, split_key
from machinery.rate_limiters import default_controller_rate_limiter
from machinery.workqueue import ShutDown

OWNERS = ("configmaps", "serviceaccounts")


class Pruner:
    def __init__(self, namespace: str) -> None:
        self.client = client_for(os.environ["KUBECONFIG"], "pruner")
        self.secrets = Resource("", "v1", "secrets", namespace)
        self.children = self.informer(self.secrets, "kind=child")
        #: One cache for each kind of owner.
        self.owners = {
            plural: self.informer(Resource("", "v1", plural, namespace), "kind=owner")
            for plural in OWNERS
        }
        self.queue = RateLimitingQueue(default_controller_rate_limiter())
        #: Of every informer, in no particular order.
        self.registrations = [self.children.add_handler(EnqueueChild(self.queue))]
        for informer in self.owners.values():
            self.registrations.append(informer.add_handler(EnqueueAll(self)))

    def informer(self, resource: Resource, label: str) -> SharedInformer:
        return SharedInformer(ResourceClient(self.client, resource, Selectors(label=label)))

    def start(self) -> None:
        for informer in (self.children, *self.owners.values()):
            informer.start()

    def wait_for_caches(self, stop: threading.Event) -> bool:
        """Wait until it is safe to conclude anything; False: told to stop before that."""
        # phase4:solution
        while not stop.is_set():
            if all(registration.wait_for_sync(0.2) for registration in self.registrations):
                return True
        return False
        # phase4:stub
        # return True
        # phase4:end

    def work(self) -> None:
        while True:
            try:
                key = self.queue.get()
            except ShutDown:
                return
            try:
                self.prune(key)
                self.queue.forget(key)
            except (ApiError, Unreachable) as error:
                print(f"{key}: {error}", file=sys.stderr)
                self.queue.add_rate_limited(key)
            finally:
                self.queue.done(key)

    def prune(self, key: str) -> None:
        """Delete a child if its owner is not in the cache."""
        namespace, name = split_key(key)
        child = self.children.lister.get(name, namespace)
        if child is None:
            return
        plural, _, owner = child["metadata"]["annotations"]["owner"].partition("/")
        if self.owners[plural].lister.get(owner, namespace) is None:
            self.client.delete(self.secrets, name, uid=child["metadata"]["uid"])


class EnqueueChild(Handler):
    def __init__(self, queue: RateLimitingQueue) -> None:
        self.queue = queue

    def on_add(self, obj, in_initial_list):
        self.queue.add(key_of(obj))

    def on_update(self, old, new):
        self.queue.add(key_of(new))

    def on_delete(self, obj):
        self.queue.add(key_of_deleted(obj))


class EnqueueAll(Handler):
    """An owner is gone: look at every child again."""

    def __init__(self, pruner: Pruner) -> None:
        self.pruner = pruner

    def on_delete(self, obj):
        for child in self.pruner.children.store.list():
            self.pruner.queue.add(key_of(child))


def main() -> None:
    pruner = Pruner(os.environ["NAMESPACE"])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    pruner.start()
    print("started", flush=True)
    if "--unsafe" not in sys.argv and not pruner.wait_for_caches(stop):
        return
    worker = threading.Thread(target=pruner.work, daemon=True)
    worker.start()
    stop.wait()
    pruner.queue.shut_down()
    worker.join(3)


if __name__ == "__main__":
    main()
