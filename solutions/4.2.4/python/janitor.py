"""A janitor: when an app is gone, its record is removed.

An app is a ConfigMap with the label kind=app in the namespace $NAMESPACE. Its
record is the ConfigMap record-UID beside it, with the app's UID in its name; it
stands for something that no owner reference can clean up. (A real controller
would use a finalizer. This one shows what the cache alone can tell.)

After everything its handler is told it prints the cache, as one JSON object a
line: keys to UIDs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from machinery.api import ApiError, Resource, Selectors
from machinery.client import ResourceClient, client_for
from machinery.informer import SharedInformer
from machinery.listener import Handler
from machinery.objects import DeletedFinalStateUnknown, Object, key_of, last_known_state, uid


class Janitor(Handler):
    def __init__(self, namespace: str) -> None:
        self.configmaps = Resource("", "v1", "configmaps", namespace)
        self.client = client_for(os.environ["KUBECONFIG"], "janitor")
        apps = ResourceClient(self.client, self.configmaps, Selectors(label="kind=app"))
        self.informer = SharedInformer(apps)

    def on_add(self, obj: Object, in_initial_list: bool) -> None:
        self.print_cache()

    def on_update(self, old: Object, new: Object) -> None:
        # phase4:solution
        if uid(old) != uid(new):
            # Deleted and made again between two looks: the old one is gone.
            self.remove_record(uid(old))
        # phase4:end
        self.print_cache()

    def on_delete(self, obj: Object | DeletedFinalStateUnknown) -> None:
        # phase4:solution
        last = last_known_state(obj)
        if last is not None:
            self.remove_record(uid(last))
        # phase4:stub
        # # What is obj here? See machinery/listener.py, Handler.on_delete.
        # self.remove_record(obj["metadata"]["uid"])
        # phase4:end
        self.print_cache()

    def remove_record(self, uid: str) -> None:
        """Remove the record of the app with this UID. Fine if there is none."""
        try:
            self.client.delete(self.configmaps, f"record-{uid}")
        except ApiError as error:
            if not error.is_not_found:
                raise

    def print_cache(self) -> None:
        cache = {key_of(obj): uid(obj) for obj in self.informer.store.list()}
        print(json.dumps({"cache": cache}), flush=True)


def main() -> None:
    janitor = Janitor(os.environ["NAMESPACE"])
    registration = janitor.informer.add_handler(janitor)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    janitor.informer.start()
    if not registration.wait_for_sync(60):
        sys.exit("the cache did not fill within a minute")
    print("synced", flush=True)
    stop.wait()
    janitor.informer.stop(2)


if __name__ == "__main__":
    main()
