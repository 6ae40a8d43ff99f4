"""A WebApp operator without informer, cache, queue or event: it lists everything, again and again.

One thread. Each turn lists WebApps, Pods and records from etcd (no
resourceVersion: never from a cache), brings each WebApp one turn nearer to what
it wants, and sleeps. Pods have generated names: whoever looks before each turn
needs no expectations. Slow, wasteful, and level-triggered; it shares no line
with the course's operators.
"""

import argparse
import datetime
import json
import os
import signal
import socket
import sys
import time
import uuid

import urllib3
import yaml

GROUP = "phase4.example.com"
WEBAPPS = f"/apis/{GROUP}/v1alpha1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/phase4-system/leases"
LABEL, FINALIZER = f"{GROUP}/webapp", f"{GROUP}/dns-record"
TURN = 0.3


class Failed(Exception):
    def __init__(self, status, text):
        super().__init__(f"{status} {text}")
        self.status = status


class LostLease(Exception):
    pass


def duration(text):
    for unit, factor in (("ms", 0.001), ("s", 1), ("m", 60), ("h", 3600)):
        if text.endswith(unit) and text[: -len(unit)].replace(".", "").isdigit():
            return float(text[: -len(unit)]) * factor
    return float(text)


def flags():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", default=os.environ.get("KUBECONFIG"))
    parser.add_argument("--leader-elect", action="store_true")
    parser.add_argument("--lease-duration", type=duration, default=15.0)
    parser.add_argument("--renew-deadline", type=duration, default=10.0)
    parser.add_argument("--retry-period", type=duration, default=2.0)
    return parser.parse_known_args()[0]


class Server:
    def __init__(self, kubeconfig):
        with open(kubeconfig) as file:
            config = yaml.safe_load(file)
        cluster = config["clusters"][0]["cluster"]
        self.url = cluster["server"].rstrip("/")
        self.pool = urllib3.PoolManager(ca_certs=cluster.get("certificate-authority"))
        self.timeout = 10.0
        self.may_write = lambda: True

    def call(self, method, path, body=None, kind="application/json", timeout=None):
        if method != "GET" and "/leases" not in path and not self.may_write():
            raise LostLease
        try:
            answer = self.pool.request(
                method,
                self.url + path,
                body=None if body is None else json.dumps(body),
                headers={"Content-Type": kind, "User-Agent": "relist-loop"},
                timeout=timeout or self.timeout,
                retries=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise Failed(0, f"no answer to {method} {path}: {error}") from None
        if answer.status >= 400:
            raise Failed(answer.status, answer.data[:200])
        return json.loads(answer.data)

    def list(self, path):
        return self.call("GET", path)["items"]


def controller(obj):
    for reference in obj["metadata"].get("ownerReferences", []):
        if reference.get("controller"):
            return reference["uid"]
    return None


def going(obj):
    return "deletionTimestamp" in obj["metadata"]


def ended(pod):
    return pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


def ready(pod):
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def reference(app):
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "WebApp",
        "name": app["metadata"]["name"],
        "uid": app["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


class Operator:
    def __init__(self, server):
        self.server = server

    def turn(self, stopping):
        apps = self.server.list(f"{WEBAPPS}/webapps")
        pods = self.server.list("/api/v1/pods")
        records = {r["metadata"]["name"]: r for r in self.server.list(self.records())}
        for app in apps:
            if stopping:
                return
            try:
                self.one(app, pods, records)
            except Failed as error:
                # Somebody else was quicker, or the server is in trouble: the next turn sees.
                print(f"{app['metadata']['name']}: {error}", file=sys.stderr, flush=True)

    @staticmethod
    def records(name=""):
        return "/api/v1/namespaces/dns/configmaps" + (f"/{name}" if name else "")

    def one(self, app, pods, records):
        meta = app["metadata"]
        path = f"{WEBAPPS}/namespaces/{meta['namespace']}/webapps/{meta['name']}"
        record = f"record-{meta['uid']}"
        finalizers = meta.get("finalizers", [])
        if going(app):
            if FINALIZER not in finalizers:
                return
            if record in records:
                self.server.call("DELETE", self.records(record))
                return  # Gone or not, the next turn sees.
            app["metadata"]["finalizers"] = [f for f in finalizers if f != FINALIZER]
            self.server.call("PUT", path, app)
            return
        if FINALIZER not in finalizers:
            meta["finalizers"] = [*finalizers, FINALIZER]
            app = self.server.call("PUT", path, app)
            meta = app["metadata"]
        wanted = {"host": app["spec"]["host"], "owner": f"{meta['namespace']}/{meta['name']}"}
        there = records.get(record)
        if there is None:
            body = {"metadata": {"name": record}, "data": wanted}
            self.server.call("POST", self.records(), body)
        elif not wanted.items() <= (there.get("data") or {}).items() and not going(there):
            data = {**(there.get("data") or {}), **wanted}
            self.server.call("PUT", self.records(record), {**there, "data": data})
        standing, failed = [], None
        try:
            self.pods(app, pods, path, standing)
        except Failed as error:
            failed = error
        # What is, is told whether or not the rest went well.
        self.status(app, standing, there is not None and not going(there), path)
        if failed:
            raise failed

    def pods(self, app, pods, path, standing):
        """Bring the Pods one turn nearer; ``standing`` is filled with those that stay."""
        meta, spec = app["metadata"], app["spec"]
        wanted = spec.get("replicas", 1)
        base = f"/api/v1/namespaces/{meta['namespace']}/pods"
        ours, waiting = [], False
        for pod in pods:
            labels = pod["metadata"].get("labels", {})
            if pod["metadata"]["namespace"] != meta["namespace"]:
                continue
            mine = controller(pod) == meta["uid"]
            if going(pod):
                waiting = waiting or mine
                continue
            at = f"{base}/{pod['metadata']['name']}"
            guard = {"uid": pod["metadata"]["uid"]}
            if mine and labels.get(LABEL) != meta["name"]:
                change = {"metadata": {**guard, "labels": {LABEL: meta["name"]}}}
                self.server.call("PATCH", at, change, "application/merge-patch+json")
            elif controller(pod) is None and labels.get(LABEL) == meta["name"]:
                guard["resourceVersion"] = pod["metadata"]["resourceVersion"]
                owners = [*pod["metadata"].get("ownerReferences", []), reference(app)]
                change = {"metadata": {**guard, "ownerReferences": owners}}
                self.server.call("PATCH", at, change, "application/merge-patch+json")
                mine = True
            if mine:
                ours.append(pod)

        def right(pod):
            return not ended(pod) and pod["spec"]["containers"][0]["image"] == spec["image"]

        keep = sorted(filter(right, ours), key=lambda pod: not ready(pod))
        extra = [p for p in ours if not right(p)] + keep[wanted:]
        standing += [pod for pod in ours if not ended(pod)]
        if extra:
            live = self.server.call("GET", path)["metadata"]
            if live["uid"] != meta["uid"] or live["generation"] != meta["generation"]:
                raise Failed(409, "the WebApp has changed")
        for pod in extra:
            body = {"preconditions": {"uid": pod["metadata"]["uid"]}}
            self.server.call("DELETE", f"{base}/{pod['metadata']['name']}", body)
            standing[:] = [one for one in standing if one is not pod]
        if not extra and not waiting:
            for _ in range(wanted - len(keep)):
                standing.append(self.server.call("POST", base, self.pod(app)))

    @staticmethod
    def pod(app):
        return {
            "metadata": {
                "generateName": app["metadata"]["name"][:40] + "-",
                "labels": {LABEL: app["metadata"]["name"]},
                "ownerReferences": [reference(app)],
            },
            "spec": {"containers": [{"name": "web", "image": app["spec"]["image"]}]},
        }

    def status(self, app, standing, record, path):
        before = app.get("status", {})
        image, wanted = app["spec"]["image"], app["spec"].get("replicas", 1)
        current = [p for p in standing if p["spec"]["containers"][0]["image"] == image]
        good = record and sum(map(ready, current)) == wanted == len(standing)
        ready_condition = {
            "type": "Ready",
            "status": "True" if good else "False",
            "reason": "AllThere" if good else "NotAllThere",
            "message": "",
        }
        others = [c for c in before.get("conditions", []) if c["type"] != "Ready"]
        old = next((c for c in before.get("conditions", []) if c["type"] == "Ready"), {})
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        same = old.get("status") == ready_condition["status"]
        ready_condition["lastTransitionTime"] = old["lastTransitionTime"] if same else now
        status = {
            "observedGeneration": app["metadata"]["generation"],
            "replicas": len(standing),
            "readyReplicas": sum(map(ready, standing)),
            "conditions": [*others, ready_condition],
        }
        if status != before:
            self.server.call("PUT", f"{path}/status", {**app, "status": status})


class Lease:
    """Held, or not; asked once a turn, renewed when it is time to."""

    def __init__(self, server, options):
        self.server, self.options = server, options
        self.me = f"{socket.gethostname()}-{uuid.uuid4()}"
        self.until = 0.0
        self.seen, self.seen_at, self.next = None, 0.0, 0.0

    def held(self):
        return time.monotonic() < self.until

    def attend(self):
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + self.options.retry_period
            try:
                self.attempt(time.monotonic())
            except Failed as error:
                print(f"lease: {error}", file=sys.stderr, flush=True)

    def attempt(self, began):
        # A SIGTERM waits for it: there is but one thread.
        limit = min(self.options.renew_deadline / 4, 1.5)
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": self.me,
            "leaseDurationSeconds": round(self.options.lease_duration),
            "renewTime": now,
        }
        try:
            lease = self.server.call("GET", f"{LEASES}/webapp-operator", timeout=limit)
        except Failed as error:
            if error.status != 404:
                raise
            body = {"metadata": {"name": "webapp-operator"}, "spec": {**spec, "acquireTime": now}}
            self.server.call("POST", LEASES, body, timeout=limit)
        else:
            if lease["spec"] != self.seen:
                self.seen, self.seen_at = lease["spec"], time.monotonic()
            holder = lease["spec"].get("holderIdentity")
            duration = lease["spec"].get("leaseDurationSeconds", 0)
            if holder not in (None, "", self.me) and time.monotonic() < self.seen_at + duration:
                return
            if holder != self.me:
                changes = lease["spec"].get("leaseTransitions", 0)
                spec |= {"acquireTime": now, "leaseTransitions": changes + 1}
            lease["spec"] |= spec
            self.server.call("PUT", f"{LEASES}/webapp-operator", lease, timeout=limit)
        self.until = began + self.options.renew_deadline

    def release(self):
        if not self.held():
            return
        try:
            lease = self.server.call("GET", f"{LEASES}/webapp-operator", timeout=1.0)
            if lease["spec"].get("holderIdentity") == self.me:
                lease["spec"]["holderIdentity"] = ""
                self.server.call("PUT", f"{LEASES}/webapp-operator", lease, timeout=1.0)
        except Failed as error:
            print(f"lease not released: {error}", file=sys.stderr, flush=True)


def main():
    options = flags()
    stopping = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.append(True))
    server = Server(options.kubeconfig)
    operator = Operator(server)
    lease = Lease(server, options) if options.leader_elect else None
    led = False
    if lease:
        server.may_write = lease.held
    while not stopping:
        try:
            if lease:
                lease.attend()
            if lease is None or lease.held():
                led = True
                operator.turn(stopping)
            elif led:
                raise LostLease
        except Failed as error:
            print(f"waiting: {error}", file=sys.stderr, flush=True)
        except LostLease:
            print("the lease is lost", file=sys.stderr, flush=True)
            return 1
        time.sleep(TURN)
    if lease:
        lease.release()
    return 0


if __name__ == "__main__":
    sys.exit(main())
