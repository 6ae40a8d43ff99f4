"""``main.py crd`` prints the CRD; ``copies`` and ``client`` show the type at work.

``copies``: for each WebApp of the JSON list in OBJECTS one line: the object as it
was read (``round_trip``), then, after a deep copy was changed in every part, the
original and the copy. ``client``: creates a WebApp NAME in NAMESPACE, writes its
status and deletes it; after each, one line with what the lister shows.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable

import yaml
from machinery.client import client_for
from webapp_operator.typed import WebAppLister, WebApps, informer_of
from webapp_operator.webapp_types import WebApp, WebAppSpec, crd, from_json


def tell(**line) -> None:
    print(json.dumps(line), flush=True)


def copies() -> None:
    for data in json.loads(os.environ["OBJECTS"]):
        original = from_json(data)
        before = original.to_json()
        before = json.loads(json.dumps(before))
        changed = original.deep_copy()
        change(changed)
        tell(round_trip=before, original=original.to_json(), copy=changed.to_json())


def change(webapp: WebApp) -> None:
    webapp.metadata["labels"]["team"] = "changed"
    webapp.metadata["annotations"]["note"] = "changed"
    webapp.metadata["finalizers"][0] = "changed"
    webapp.spec.image = "changed"
    webapp.spec.replicas = 49
    webapp.status.conditions[0].message = "changed"


def client() -> None:
    namespace, name = os.environ["NAMESPACE"], os.environ["NAME"]
    machinery = client_for(os.environ["KUBECONFIG"], "typed")
    webapps = WebApps(machinery, namespace)
    news = threading.Condition()

    def heard() -> None:
        with news:
            news.notify_all()

    informer = informer_of(machinery, webapps, heard)
    lister = WebAppLister(informer.store, namespace)

    def until(condition: Callable[[WebApp | None], bool]) -> WebApp | None:
        with news:
            if not news.wait_for(lambda: condition(lister.get(name)), 20):
                raise SystemExit(f"the lister still shows {lister.get(name)}")
        return lister.get(name)

    made = webapps.create(WebApp({"name": name}, WebAppSpec("shop:1", "shop.example.com")))
    seen = until(lambda webapp: webapp is not None)
    assert seen is not None
    tell(stage="created", replicas=seen.spec.replicas)
    made.status.readyReplicas = 1
    webapps.update_status(made)
    until(lambda webapp: webapp is not None and webapp.status.readyReplicas == 1)
    tell(stage="ready")
    webapps.delete(name)
    until(lambda webapp: webapp is None)
    tell(stage="gone")
    informer.stop()


if __name__ == "__main__":
    if sys.argv[1] == "crd":
        print(yaml.safe_dump(crd(), sort_keys=False), end="")
    else:
        {"copies": copies, "client": client}[sys.argv[1]]()
