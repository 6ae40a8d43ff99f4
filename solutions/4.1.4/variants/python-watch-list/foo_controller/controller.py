"""Another right answer: one watch that begins with what is there, and a queue that merges nothing.

No LIST is ever sent (``sendInitialEvents``), keys are printed as two fields,
the only worker takes every key as often as it was queued, and the Deployment is
applied without a look at it. What has to hold is the order, and it does.
"""

import json
import os
import queue
import threading
import time

import urllib3
import yaml

FOOS = "/apis/samplecontroller.k8s.io/v1alpha1/foos"
with open(os.environ["KUBECONFIG"], encoding="utf-8") as file:
    SERVER = yaml.safe_load(file)["clusters"][0]["cluster"]["server"]
http = urllib3.PoolManager(retries=False)

deltas: queue.Queue = queue.Queue()
cache: dict = {}
keys: queue.Queue = queue.Queue()
printing = threading.Lock()


def say(stage, key, version=None, **more):
    namespace, name = key
    line = {"t": time.time(), "stage": stage, "key": {"namespace": namespace, "name": name}}
    if version:
        line["resourceVersion"] = version
    with printing:
        print(json.dumps(line | more), flush=True)


def key_of(foo):
    return foo["metadata"]["namespace"], foo["metadata"]["name"]


def version_of(foo):
    return foo and foo["metadata"]["resourceVersion"]


def reflect():
    while True:
        url = f"{SERVER}{FOOS}?watch=1&allowWatchBookmarks=1&timeoutSeconds=300"
        url += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        try:
            for line in http.request("GET", url, preload_content=False, timeout=310):
                event = json.loads(line)
                if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                    foo = event["object"]
                    say("reflector", key_of(foo), version_of(foo))
                    say("queue", key_of(foo), version_of(foo))
                    deltas.put((event["type"], foo))
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            time.sleep(1)


def inform():
    while True:
        kind, foo = deltas.get()
        key = key_of(foo)
        if kind == "DELETED":
            cache.pop(key, None)
        else:
            cache[key] = foo
        say("indexer", key, version_of(foo))
        say("handler", key, version_of(foo), cached=version_of(cache.get(key)))
        say("enqueue", key)
        keys.put(key)


def work():
    while True:
        key = keys.get()
        say("dequeue", key)
        foo = cache.get(key)
        say("reconcile", key, version_of(foo))
        if foo:
            apply(foo)


def apply(foo):
    namespace, name = key_of(foo)
    labels = {"controller": name}
    container = {"name": "nginx", "image": "nginx:latest"}
    owner = {"apiVersion": foo["apiVersion"], "kind": "Foo", "name": name, "controller": True}
    owner["uid"] = foo["metadata"]["uid"]
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    child = foo["spec"]["deploymentName"]
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": child, "ownerReferences": [owner]},
        "spec": {
            "replicas": foo["spec"]["replicas"],
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }
    url = f"{SERVER}/apis/apps/v1/namespaces/{namespace}/deployments/{child}"
    http.request(
        "PATCH",
        f"{url}?fieldManager=stages&force=true",
        body=json.dumps(body),
        headers={"Content-Type": "application/apply-patch+yaml"},
    )


for part in (reflect, inform):
    threading.Thread(target=part, daemon=True).start()
work()
