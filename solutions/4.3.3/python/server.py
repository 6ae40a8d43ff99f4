"""A few calls to an API server, for assertions: no cache, no retries."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import urllib3
import yaml

WEBAPPS = "/apis/phase4.example.com/v1alpha1/namespaces/{namespace}/webapps"
PODS = "/api/v1/namespaces/{namespace}/pods"


class Red(Exception):
    """The assertion does not hold; ``str()`` says what was seen."""


class Server:
    """``NAMESPACE`` of the server that ``KUBECONFIG`` points to."""

    def __init__(self) -> None:
        with open(os.environ["KUBECONFIG"]) as file:
            config = yaml.safe_load(file)
        self._url = config["clusters"][0]["cluster"]["server"].rstrip("/")
        self._pool = urllib3.PoolManager()
        self._namespace = os.environ["NAMESPACE"]

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> dict:
        """One request; the answer, whatever its status code."""
        headers.setdefault("Content-Type", "application/json")
        data = None if body is None else json.dumps(body)
        url = self._url + path.format(namespace=self._namespace)
        answer = self._pool.request(method, url, body=data, headers=headers, retries=False)
        return json.loads(answer.data)

    def create(self, name: str, **spec: Any) -> dict:
        """A WebApp of that name."""
        body = {
            "apiVersion": "phase4.example.com/v1alpha1",
            "kind": "WebApp",
            "metadata": {"name": name},
            "spec": {"image": "shop:1", "host": "shop.example.com", **spec},
        }
        return self.call("POST", WEBAPPS, body)

    def change(self, name: str, **spec: Any) -> dict:
        """Patch a WebApp's spec."""
        kind = {"Content-Type": "application/merge-patch+json"}
        return self.call("PATCH", f"{WEBAPPS}/{name}", {"spec": spec}, **kind)

    def get(self, name: str) -> dict:
        return self.call("GET", f"{WEBAPPS}/{name}")

    def until(self, name: str, right: Callable[[dict], Any], what: str, timeout: float = 10.0):
        """Wait until the WebApp's status is right; Red, with ``what``, if it never is."""
        deadline = time.monotonic() + timeout
        while True:
            status = self.get(name).get("status") or {}
            if right(status):
                return
            if time.monotonic() > deadline:
                raise Red(f"{what}: the status is {status}")
            time.sleep(0.1)

    def pods_ever(self) -> set[str]:
        """The UIDs of all Pods there ever were in the namespace, from now on: it goes on growing."""
        version = self.call("GET", PODS)["metadata"]["resourceVersion"]
        path = PODS.format(namespace=self._namespace)
        answer = self._pool.request(
            "GET",
            f"{self._url}{path}?watch=true&resourceVersion={version}",
            preload_content=False,
            timeout=urllib3.Timeout(connect=5.0, read=None),
        )
        seen: set[str] = set()

        def follow() -> None:
            rest = b""
            for chunk in answer.stream(4096):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        seen.add(json.loads(line)["object"]["metadata"]["uid"])

        threading.Thread(target=follow, daemon=True).start()
        return seen
