"""A controller of another make: no watch at all, it looks at everything twenty times a second.

Wasteful, and right all the same: it compares what should be with what is, and
applies the fields it owns.
"""

import json
import os
import time

import urllib3
import yaml

with open(os.environ["KUBECONFIG"], encoding="utf-8") as file:
    SERVER = yaml.safe_load(file)["clusters"][0]["cluster"]["server"]
FOOS = "/apis/samplecontroller.k8s.io/v1alpha1"
http = urllib3.PoolManager(retries=False)


class Refused(Exception):
    """The API server said no (a namespace is going away, it is too busy), or nothing at all."""


def call(method, path, body=None, kind="json"):
    headers = {"Content-Type": f"application/{kind}"}
    body = body and json.dumps(body)
    try:
        answer = http.request(method, SERVER + path, body=body, headers=headers, timeout=30)
    except urllib3.exceptions.HTTPError as error:
        raise Refused(error) from error
    if answer.status >= 400:
        raise Refused(answer.data)
    return json.loads(answer.data)


def wanted(foo):
    labels = {"controller": foo["metadata"]["name"]}
    owner = {"apiVersion": foo["apiVersion"], "kind": "Foo", "name": foo["metadata"]["name"]}
    owner |= {"uid": foo["metadata"]["uid"], "controller": True}
    container = {"name": "nginx", "image": "nginx:latest"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": foo["spec"]["deploymentName"], "ownerReferences": [owner]},
        "spec": {
            "replicas": foo["spec"].get("replicas", 1),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def write(path, deployment, live):
    query = "?fieldManager=own&force=true"
    return call("PATCH", path + query, deployment, "apply-patch+yaml")


def keep_deployment(foo, path, live):
    asked = wanted(foo)
    spec = live and live["spec"]
    if (
        live is None
        or spec["replicas"] != asked["spec"]["replicas"]
        or spec["template"]["spec"]["containers"][0]["image"] != "nginx:latest"
    ):
        live = write(path, asked, live)
    return live


def keep_status(foo, live):
    available = live.get("status", {}).get("availableReplicas", 0)
    if foo.get("status", {}).get("availableReplicas") != available:
        meta = foo["metadata"]
        path = f"{FOOS}/namespaces/{meta['namespace']}/foos/{meta['name']}/status"
        call("PATCH", path, {"status": {"availableReplicas": available}}, "merge-patch+json")


def one_pass():
    deployments = call("GET", "/apis/apps/v1/deployments")["items"]
    by_key = {(d["metadata"]["namespace"], d["metadata"]["name"]): d for d in deployments}
    for foo in call("GET", f"{FOOS}/foos")["items"]:
        if "deletionTimestamp" in foo["metadata"]:
            continue
        key = foo["metadata"]["namespace"], foo["spec"]["deploymentName"]
        path = "/apis/apps/v1/namespaces/{}/deployments/{}".format(*key)
        try:
            keep_status(foo, keep_deployment(foo, path, by_key.get(key)))
        except Refused:
            continue  # the others are not to wait for this one


while True:
    try:
        one_pass()
    except Refused:
        pass  # everything is looked at again in a moment
    time.sleep(0.05)
