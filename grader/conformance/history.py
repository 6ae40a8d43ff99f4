"""What the API server stored, state after state, while an operator worked.

Three watches (WebApps, Pods, the records in ``dns``) are kept open on the
admin's own connection, so no wire and no fault stands between. Revisions are
etcd's and rise across resources, so the states of all three have one order, and
the objects of any moment can be put together again.

Concurrency: one thread per watch appends; readers wait on one condition
variable. A watch that fails is the cluster's fault: readers then get
:class:`grader.verdict.Unknown`.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from grader.cluster.api import Api
from grader.conformance.contract import (
    DNS_NAMESPACE,
    LABEL,
    WEBAPPS,
    World,
    controller_of,
    is_terminating,
)
from grader.verdict import Unknown


@dataclass(frozen=True)
class State:
    """One state of one object. ``type`` is the watch event's: ADDED, MODIFIED, DELETED."""

    revision: int
    type: str
    resource: str
    object: dict
    #: When it reached us, seconds since the epoch.
    seen: float

    @property
    def uid(self) -> str:
        return self.object["metadata"]["uid"]

    @property
    def name(self) -> str:
        return self.object["metadata"]["name"]

    @property
    def namespace(self) -> str:
        return self.object["metadata"].get("namespace", "")


class History:
    """Watches from construction until :meth:`close`. Use it as a context manager."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._changed = threading.Condition()
        self._states: list[State] = []
        self._by_uid: dict[str, list[State]] = defaultdict(list)
        self._by_namespace: dict[str, list[State]] = defaultdict(list)
        #: (resource, namespace) → UID → object.
        self._live: dict[tuple[str, str], dict[str, dict]] = defaultdict(dict)
        #: How often something changed in a namespace; records count for all of them.
        self._changes: dict[str, int] = defaultdict(int)
        #: When something last did (monotonic).
        self._changed_at: dict[str, float] = defaultdict(float)
        self._broken: str = ""
        self._closed = False
        #: WebApps that were there before anybody here made one: somebody else's.
        self.webapps_before: list[dict] = []
        self._watches = []
        for resource, name, namespace in (
            ("webapps", WEBAPPS, None),
            ("pods", "pods", None),
            ("configmaps", "configmaps", DNS_NAMESPACE),
        ):
            listed = api.list(name, namespace)
            version = listed["metadata"]["resourceVersion"]
            if resource == "webapps":
                self.webapps_before = listed["items"]
            for item in listed["items"]:
                meta = item["metadata"]
                self._live[resource, meta["namespace"]][meta["uid"]] = item
            thread = threading.Thread(
                target=self._follow,
                args=(resource, name, namespace, version),
                name=f"history-{resource}",
                daemon=True,
            )
            self._watches.append(thread)
        for thread in self._watches:
            thread.start()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop watching; what was seen stays readable. The watches end on their next event."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _follow(self, resource: str, name: str, namespace: str | None, version: str) -> None:
        try:
            while not self._closed:
                for type, obj in self._api.watch(name, namespace, version, 240.0, bookmarks=True):
                    if self._closed:
                        return
                    if type == "ERROR":
                        raise RuntimeError(obj.get("message", "the watch ended with an error"))
                    version = obj["metadata"]["resourceVersion"]
                    if type == "BOOKMARK":
                        continue
                    state = State(int(version), type, resource, obj, time.time())
                    with self._changed:
                        bisect.insort(self._states, state, key=lambda s: s.revision)
                        self._by_uid[state.uid].append(state)
                        self._by_namespace[state.namespace].append(state)
                        there = self._live[resource, state.namespace]
                        if type == "DELETED":
                            there.pop(state.uid, None)
                        else:
                            there[state.uid] = obj
                        self._changes[state.namespace] += 1
                        self._changed_at[state.namespace] = time.monotonic()
                        self._changed.notify_all()
        except Exception as error:
            with self._changed:
                if not self._closed:
                    self._broken = f"The grader's own watch of {resource} failed: {error}"
                self._changed.notify_all()

    def _check(self) -> None:
        if self._broken:
            raise Unknown("The API server serves the grader's own watches.", self._broken)

    # -- reading ------------------------------------------------------------------

    def world(self, namespace: str, name: str) -> World:
        """The world of the WebApp of that name as it is now (as far as has been seen)."""
        with self._changed:
            self._check()
            return self._world(namespace, name)

    def world_of(self, app: dict) -> World:
        """The world of that very WebApp: one of the same name and another UID is not it."""
        meta = app["metadata"]
        world = self.world(meta["namespace"], meta["name"])
        if world.webapp is not None and world.webapp["metadata"]["uid"] != meta["uid"]:
            return World(None)
        return world

    def live(self, resource: str, name: str, namespace: str) -> dict | None:
        """The object of that name as it is now, or None."""
        with self._changed:
            self._check()
            for obj in self._live[resource, namespace].values():
                if obj["metadata"]["name"] == name:
                    return obj
        return None

    def objects(self, resource: str, namespace: str) -> list[dict]:
        """The objects of a namespace as they are now."""
        with self._changed:
            self._check()
            return list(self._live[resource, namespace].values())

    def record(self, uid: str) -> dict | None:
        """The DNS record of the WebApp with that UID, or None."""
        return self.live("configmaps", f"record-{uid}", DNS_NAMESPACE)

    def pods(self, app: dict) -> list[dict]:
        """The Pods that a WebApp controls now, whatever state they are in."""
        meta = app["metadata"]
        with self._changed:
            self._check()
            return [
                pod
                for pod in self._live["pods", meta["namespace"]].values()
                if (controller_of(pod) or {}).get("uid") == meta["uid"]
            ]

    def webapps_in(self, namespaces: Iterable[str]) -> list[dict]:
        """The WebApps that are in these namespaces now."""
        with self._changed:
            return [app for name in namespaces for app in self._live["webapps", name].values()]

    def saw(self, uid: str, revision: int) -> bool:
        """Whether that state of the object, or a newer one, has been seen."""
        return any(state.revision >= revision for state in self.states(uid=uid))

    def saw_delete(self, uid: str) -> bool:
        """Whether the object has been seen terminating (deletionTimestamp) or gone."""
        return any(s.type == "DELETED" or is_terminating(s.object) for s in self.states(uid=uid))

    def states(self, *, uid: str | None = None, resource: str | None = None) -> list[State]:
        """The states seen so far, in the order of their revisions."""
        with self._changed:
            states = self._states if uid is None else self._by_uid.get(uid, [])
            return [state for state in states if resource in (None, state.resource)]

    def within(self, namespaces: Iterable[str]) -> list[State]:
        """The states of what is in these namespaces, and of the records of WebApps there."""
        with self._changed:
            self._check()
            found = [s for name in namespaces for s in self._by_namespace.get(name, ())]
            records = {f"record-{s.uid}" for s in found if s.resource == "webapps"}
            found += [s for s in self._by_namespace.get(DNS_NAMESPACE, ()) if s.name in records]
        return sorted(found, key=lambda state: state.revision)

    def webapp_namespaces(self) -> set[str]:
        """The namespaces in which there ever was a WebApp, whoever made it."""
        with self._changed:
            found = {s.namespace for s in self._states if s.resource == "webapps"}
        return found | {app["metadata"]["namespace"] for app in self.webapps_before}

    def pods_of(self, uid: str) -> list[State]:
        """The states of all Pods that a UID controlled at that state."""
        return [
            state
            for state in self.states(resource="pods")
            if (controller_of(state.object) or {}).get("uid") == uid
        ]

    def changes(self) -> int:
        """How many states have been seen, of all objects there are."""
        with self._changed:
            return len(self._states)

    def changes_in(self, namespace: str) -> int:
        """How many states of a namespace's objects, and of records, have been seen."""
        with self._changed:
            return self._changes[namespace] + self._changes[DNS_NAMESPACE]

    def replay(self) -> Iterator[tuple[State, dict[str, dict[str, dict]]]]:
        """Every state with the live objects (resource → UID → object) right after it."""
        live: dict[str, dict[str, dict]] = {"webapps": {}, "pods": {}, "configmaps": {}}
        for state in self.states():
            if state.type == "DELETED":
                live[state.resource].pop(state.uid, None)
            else:
                live[state.resource][state.uid] = state.object
            yield state, live

    # -- waiting ------------------------------------------------------------------

    def until(self, namespace: str, predicate: Callable[[], object], timeout: float) -> bool:
        """Wait until ``predicate()`` is true, asked whenever something changed in the namespace.

        False after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                self._check()
                if predicate():
                    return True
                seen = self._changes[namespace], self._changes[DNS_NAMESPACE]
                changed = self._changed.wait_for(
                    lambda seen=seen: (
                        self._broken
                        or (self._changes[namespace], self._changes[DNS_NAMESPACE]) != seen
                    ),
                    max(0.0, deadline - time.monotonic()),
                )
                if not changed:
                    return False

    def at_rest(self, namespace: str, seconds: float, timeout: float) -> bool:
        """The same as :meth:`quiet`, but what was quiet before the call counts."""
        with self._changed:
            left = seconds - (time.monotonic() - self._changed_at[namespace])
        return left <= 0 or self.quiet(namespace, left, timeout)

    def quiet(self, namespace: str, seconds: float, timeout: float) -> bool:
        """Wait until nothing in a namespace changes for ``seconds``; False after ``timeout`` s."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                self._check()
                seen = self._changes[namespace]
                still = not self._changed.wait_for(
                    lambda seen=seen: self._broken or self._changes[namespace] != seen, seconds
                )
                if still:
                    return True
                if time.monotonic() > deadline:
                    return False

    def _world(self, namespace: str, name: str) -> World:
        app = self.live("webapps", name, namespace)
        if app is None:
            return World(None)
        uid = app["metadata"]["uid"]
        return World(
            app,
            pods=self.pods(app),
            labelled=[
                pod
                for pod in self._live["pods", namespace].values()
                if pod["metadata"].get("labels", {}).get(LABEL) == name
                and (controller_of(pod) or {}).get("uid") != uid
            ],
            record=self.record(uid),
        )
