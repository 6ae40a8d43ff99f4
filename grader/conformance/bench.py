"""What one scenario works with: WebApps of its own, an operator, and what is observed of both.

Scenarios that are not ``alone`` share one operator process and run at the same
time, each with WebApps of its own. What they share is the
:class:`~grader.conformance.trial.Trial`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from grader.cluster.api import ApiError
from grader.conformance import contract, diagnosis, pace
from grader.conformance.contract import World, shortfalls
from grader.conformance.past import Past, Said
from grader.conformance.processes import STARTING, wait
from grader.conformance.trial import Trial
from grader.runner import RunningProgram
from grader.verdict import Fail, Unknown
from grader.wire.records import WRITE_VERBS, Exchange

if TYPE_CHECKING:
    from grader.wire import RuleHandle

#: Seconds. Long enough for a slow operator that lists everything once a second;
#: only a wrong one waits it out.
SETTLE = 15.0
#: A finalizer of somebody else's.
FOREIGN = "example.com/keep"


class NotConverged(Fail):
    """The WebApp did not converge in time."""


class Bench:
    """A scenario's part of a trial; use it as a context manager.

    ``alone`` says that it starts operators of its own, and that no other scenario
    runs meanwhile; the shared one is then not its to use. Rules that it added and
    processes that it started are gone when the block is left.
    """

    def __init__(self, trial: Trial, name: str, *, alone: bool) -> None:
        self.trial = trial
        self.api, self.history, self.seed = trial.api, trial.history, trial.seed
        self.patience = trial.patience
        self.measured: dict[str, Any] = {}
        self.rng = random.Random(f"{trial.seed}/{name}")
        self._processes = trial.processes
        self._alone = alone
        #: What was started here, in order; rules on the shared process's wire; namespaces.
        self._own: list[RunningProgram] = []
        self._rules: list[RuleHandle] = []
        self._namespaces: list[str] = []
        #: What was kept by a finalizer: resource, name, namespace.
        self._kept: list[tuple[str, str, str]] = []

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_own()

    # -- the operator ---------------------------------------------------------------

    def stop_shared(self) -> None:
        """End the shared process, so that the scenario can have one of its own."""
        self._processes.stop_shared()
        self.trial.sweep()

    @property
    def operator(self) -> RunningProgram:
        """The shared process, in a scenario that is not alone."""
        shared = self._processes.shared
        assert shared is not None and not self._alone
        return shared

    def rule(self, text: str) -> RuleHandle:
        """Put a rule on the shared process's wire; it is removed when the scenario ends.

        Other scenarios use that process at the same time: the rule must name a
        namespace or an object, or do them no harm.
        """
        handle = self.operator.wire.rules.add(text)
        self._rules.append(handle)
        return handle

    def start(
        self, *flags: str, rules: Sequence[str] = (), client: str = "", **keywords: Any
    ) -> RunningProgram:
        """An operator process of the scenario's own, on a wire with ``rules``."""
        assert self._alone, "only a scenario that is alone starts operators"
        started = self._processes.start(client, *flags, rules=rules, **keywords)
        self._own.append(started)
        # With rules or an election it may rightly send no request.
        if not rules and "--leader-elect" not in flags:
            self._processes.wait_started(started)
        return started

    def end_own(self) -> None:
        """Remove the scenario's rules, and end its processes and their wires."""
        for rule in self._rules:
            rule.remove()
        for program in self._own:
            if program.exited is None:
                program.kill()
            program.wire.close()
        for kept in list(self._kept):
            self.let_go(*kept)

    def retire(self) -> None:
        """Have the scenario's WebApps deleted, without waiting: whoever starts next walks none."""
        self.trial.retire(self._namespaces)

    # -- objects --------------------------------------------------------------------

    def namespace(self) -> str:
        """A fresh namespace."""
        name = self.trial.new_namespace()
        self._namespaces.append(name)
        return name

    def namespace_without_room(self) -> str:
        """A fresh namespace whose Pods stay Pending until :meth:`make_ready`.

        A LimitRange has each ask for more than any node has.
        """
        name = self.namespace()
        much = {"cpu": "100k"}
        limit = {"type": "Container", "default": much, "defaultRequest": much}
        self.api.create(
            {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "more-than-there-is", "namespace": name},
                "spec": {"limits": [limit]},
            }
        )
        return name

    def make_ready(self, pods: list[dict]) -> None:
        """Put Pods that no scheduler places on a node, so that they become Ready."""
        nodes = self.api.list("nodes")["items"]
        node = next(
            n for n in nodes if "kwok.x-k8s.io/node" in n["metadata"].get("annotations", {})
        )
        for pod in pods:
            meta = pod["metadata"]
            self.api.raw(
                "POST",
                f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding",
                body={
                    "apiVersion": "v1",
                    "kind": "Binding",
                    "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
                    "target": {
                        "apiVersion": "v1",
                        "kind": "Node",
                        "name": node["metadata"]["name"],
                    },
                },
            )

    def name(self) -> str:
        """A name that no operator can predict."""
        return f"{self.rng.choice(_WORDS)}-{self.rng.randrange(1000)}"

    def create(self, namespace: str, name: str = "", **spec: Any) -> dict:
        """Create a WebApp and return it as the server has it."""
        return self.api.create(contract.webapp(name or self.name(), namespace, **spec))

    def change(self, app: dict, **spec: Any) -> dict:
        """Patch a WebApp's spec."""
        meta = app["metadata"]
        return self.api.patch(contract.WEBAPPS, meta["name"], {"spec": spec}, meta["namespace"])

    def patch(self, resource: str, name: str, patch: dict, namespace: str, **call: Any) -> dict:
        """Patch an object and wait until the history has it, so that what follows is newer."""
        changed = self.api.patch(resource, name, patch, namespace, **call)
        revision = int(changed["metadata"]["resourceVersion"])
        self._seen(namespace, lambda: self.history.saw(changed["metadata"]["uid"], revision))
        return changed

    def delete(self, resource: str, name: str, namespace: str, **call: Any) -> None:
        """Delete an object and wait until the history has it terminating or gone."""
        uid = self.api.get(resource, name, namespace)["metadata"]["uid"]
        self.api.delete(resource, name, namespace, **call)
        self._seen(namespace, lambda: self.history.saw_delete(uid))

    def _seen(self, namespace: str, predicate: Callable[[], bool]) -> None:
        if not self.history.until(namespace, predicate, 10.0):
            raise Unknown(
                "The grader's own watches deliver the grader's own writes.",
                f"No event of a write in {namespace} came within 10 s.",
            )

    def keep(self, resource: str, name: str, namespace: str) -> None:
        """Put somebody else's finalizer on a Pod or a record: deleted, it stays terminating."""
        self._kept.append((resource, name, namespace))
        self.patch(resource, name, {"metadata": {"finalizers": [FOREIGN]}}, namespace)

    def let_go(self, resource: str, name: str, namespace: str) -> None:
        """Remove that finalizer; no matter if it or the object is gone."""
        self._kept.remove((resource, name, namespace))
        try:
            self.api.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)
        except ApiError as error:
            if error.status != 404:
                raise

    def world(self, app: dict) -> World:
        """That very WebApp and all that belongs to it, as the API server has it."""
        return self.history.world_of(app)

    def true_status(self, app: dict, doing: str, timeout: float = SETTLE, **fail: Any) -> World:
        """Wait until the status says what there is, whether or not the WebApp has converged.

        For a state that is held open: Pods that are not Ready, or terminating.
        """
        generation, namespace = app["metadata"]["generation"], app["metadata"]["namespace"]

        def wrong() -> list[str]:
            world = self.world(app)
            if world.webapp is None or world.webapp["metadata"]["generation"] < generation:
                return ["The WebApp is gone." if world.webapp is None else "It is an older one."]
            return contract.untrue(world)

        if self.until(namespace, lambda: not wrong(), timeout):
            return self.world(app)
        fields = {
            "why": "Users, and everything that waits for Ready, rely on the status, most of all "
            "while something is wrong.",
            "next": "Compute the status from what exists now, at each reconcile, and write it "
            "also where the rest has failed or has to wait.",
            "diagnosis": "stale-status",
        }
        if any(p.exited and p.exited.by == "itself" for p in self.programs()):
            raise self._not_settled(app, doing, timeout, wrong(), fail)
        raise Fail(
            f"After {doing}, the status says what there is, within {timeout * self.patience:g} s.",
            " ".join(wrong()) or "It was true and then changed again.",
            **{**fields, **fail},
        )

    # -- waiting --------------------------------------------------------------------

    def settled(self, app: dict, doing: str, timeout: float = SETTLE, **fail: Any) -> World:
        """Wait until the WebApp has converged, at ``app``'s generation or a later one.

        ``doing`` completes «After …». Raises Fail with what is missing, named
        by :mod:`grader.conformance.diagnosis` where ``fail`` gives no diagnosis.
        """
        generation = app["metadata"]["generation"]
        namespace = app["metadata"]["namespace"]
        if self.until(
            namespace, lambda: contract.has_converged(self.world(app), generation), timeout
        ):
            return self.world(app)
        raise self._not_settled(app, doing, timeout, shortfalls(self.world(app)), fail)

    def at_rest(self, app: dict, seconds: float = 0.4, timeout: float = 10.0) -> World:
        """Wait until the operator is idle for a WebApp; returns its world.

        Idle is ``seconds`` without an exchange about it, once a WebApp created just
        now has been handled: queues are first in, first out, so no key of this one
        waits for a worker. What the operator does after that, it does because of
        what happened after that, and not because of an event that was still pending.
        """
        program = self.programs()[0]
        self._handles_one_more(program, timeout)
        deadline = time.monotonic() + timeout
        namespace, record = app["metadata"]["namespace"], contract.record_name(app)
        while program.exited is None and time.monotonic() < deadline:
            last = max(
                (
                    e.t_request
                    for e in self.exchanges()
                    if e.namespace == namespace or e.name == record
                ),
                default=0.0,
            )
            left = seconds - (time.time() - last)
            if left <= 0:
                break
            self.ended_within(program, left)
        return self.world(app)

    def _handles_one_more(self, program: RunningProgram, timeout: float) -> None:
        """Create a WebApp of no other interest, and wait until the operator writes for it."""
        made = self.trial.one_aside()
        meta, record = made["metadata"], contract.record_name(made)
        if not self.wait_exchange(
            program,
            lambda e: (
                (e.namespace == meta["namespace"] and e.name == meta["name"]) or e.name == record
            ),
            timeout,
        ):
            self.trial.log(
                f"{meta['name']} was not handled within {timeout:g} s: whether the operator is "
                "idle is judged by silence alone."
            )

    def handles_one_more(self, program: RunningProgram, timeout: float = 10.0) -> None:
        """Wait until the operator handles a WebApp made just now: it is not too busy to."""
        self._handles_one_more(program, timeout)

    def start_again(self, program: RunningProgram) -> None:
        """Start a process that has ended, and wait until it has asked for WebApps, or ended."""
        since = time.time()
        program.start()
        self.wait_exchange(
            program,
            lambda e: e.t_request >= since and e.resource == "webapps" and e.status == 200,
            STARTING,
        )

    def gone(self, app: dict, doing: str, timeout: float = SETTLE, **fail: Any) -> None:
        """Wait until the WebApp, its record and its Pods are gone."""
        uid = app["metadata"]["uid"]

        def left() -> list[str]:
            world = self.world(app)
            found = []
            if world.webapp is not None:
                finalizers = world.webapp["metadata"].get("finalizers", [])
                found.append(f"The WebApp still exists, with the finalizers {finalizers}.")
            if self.history.record(uid):
                found.append(f"The DNS record record-{uid} still exists.")
            found += [
                f"Pod {pod['metadata']['name']} still exists." for pod in self.history.pods(app)
            ]
            return found

        if not self.until(app["metadata"]["namespace"], lambda: not left(), timeout):
            raise self._not_settled(app, doing, timeout, left(), fail)

    def until(self, namespace: str, predicate: Callable[[], object], timeout: float) -> bool:
        """Wait for the predicate; False after ``timeout`` s, unless the operator is still at work.

        One that works off what it has is waited for, up to :data:`pace.LIMIT`: it is
        slow, and told so, but not wrong. It is at work while states change, of this
        WebApp or of others that come before it, and while it asks about things that it
        has not asked about since the wait began. The predicate is asked when something
        changed in the namespace, and each second.
        """
        timeout *= self.patience
        limit = max(2 * timeout, pace.LIMIT * self.patience)
        began = moved = time.monotonic()
        since = time.time()
        progress = self.history.changes(), 0
        asked: set[tuple[str, str, str]] = set()
        while not self.history.until(namespace, predicate, min(1.0, timeout / 3)):
            now, before = time.monotonic(), progress
            asked |= pace.places(self._requests_since(since))
            progress = self.history.changes(), len(asked)
            if progress != before:
                moved = now
            still = now - moved > timeout / 3
            if now - began > limit or (now - began >= timeout and still):
                return False
            programs = self.programs()
            if programs and all(program.exited for program in programs):
                # Nobody is left to do it; events of the last writes may still arrive.
                return self.history.until(namespace, predicate, 0.5)
        waited = time.monotonic() - began
        if waited > max(timeout, self.measured.get("slow", {}).get("waited", 0.0)):
            self.measured["slow"] = {"waited": round(waited, 1), "allowed": round(timeout, 1)}
        return True

    def _requests_since(self, since: float) -> list[Exchange]:
        """What the operator has asked since then (seconds since the epoch), newest first."""
        found = []
        for program in self.programs():
            for exchange in reversed(self._processes.record(program)):
                # In the order in which they ended.
                if (exchange.t_response or exchange.t_request) < since:
                    break
                found.append(exchange)
        return found

    def _not_settled(
        self, app: dict, doing: str, timeout: float, problems: list[str], fail: dict[str, Any]
    ) -> Fail:
        shown = problems[:3] + ([f"And {len(problems) - 3} more."] if problems[3:] else [])
        found = diagnosis.of_stuck(app, self.history, self.exchanges(), self.programs())
        fields: dict[str, Any] = {
            "why": found.why
            or "Level-triggered means that the WebApp converges whatever happened before.",
            "next": found.next
            or "Read the exchanges below: which write is missing, and what was the last response?",
            "diagnosis": found.name,
            "evidence": found.evidence,
        }
        # What the exchanges show goes before what the scenario assumes.
        if not found.name and diagnosis.fits(fail.get("diagnosis", ""), problems):
            fields.update({key: value for key, value in fail.items() if value})
        return NotConverged(
            f"After {doing}, the WebApp converges within {timeout * self.patience:g} s.",
            " ".join(shown) or "It converged and then changed again.",
            **fields,
        )

    def exchanges(self, client: str | None = None) -> list[Exchange]:
        """The exchanges of the operator's processes so far, in order of time."""
        found = [
            exchange
            for program in self.programs()
            if client in (None, program.client)
            for exchange in self._processes.record(program)
        ]
        return sorted(found, key=lambda exchange: exchange.t_request)

    def writes(self, since: float = 0.0) -> list[Exchange]:
        """The operator's writes since then for this scenario's WebApps, or in nobody's namespace.

        Leases and events are left out, and what it does for the WebApps of
        other scenarios, or for those that were in the cluster before.
        """
        webapps = [state.object for state in self.history.states(resource="webapps")]
        webapps += self.history.webapps_before
        others = {app["metadata"]["namespace"] for app in webapps} | set(self.trial.namespaces)
        others -= set(self._namespaces)
        records = {
            contract.record_name(app)
            for app in webapps
            if app["metadata"]["namespace"] not in others
        }
        return [
            e
            for e in self.exchanges()
            if e.verb in WRITE_VERBS
            and e.resource not in ("leases", "events")
            and e.t_request >= since
            and e.namespace not in others
            # Whose record it is may not be known yet: it is ours once that is known.
            and not (e.namespace == contract.DNS_NAMESPACE and e.name not in records)
        ]

    def wait_exchange(
        self, program: RunningProgram, predicate: Callable[[Exchange], bool], timeout: float
    ) -> bool:
        """Wait until the process has had such an exchange; False after ``timeout`` s or its end."""
        return self._processes.wait_exchange(program, predicate, timeout)

    def restart(self, program: RunningProgram) -> None:
        """Start a process that has ended again; until it has asked for WebApps, or ended."""
        since = time.time()
        program.start()
        self.wait_exchange(
            program,
            lambda e: e.t_request >= since and e.resource == "webapps" and e.status == 200,
            STARTING,
        )

    def fires(self, program: RunningProgram, rule: RuleHandle, timeout: float) -> bool:
        """Wait until a rule has acted; False after ``timeout`` s or the process's end."""
        return wait(program, timeout, lambda: rule.fired > 0)

    def ended_within(
        self,
        program: RunningProgram,
        timeout: float,
        unless: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Wait for the end of the process; False after ``timeout`` s, or once ``unless()``."""
        wait(program, timeout, unless)
        return program.exited is not None

    def past(self) -> Past:
        """What has happened to this scenario's WebApps up to now, and what of it was whose."""
        now = time.time()
        said = [
            Said(p.client, self._processes.record(p), self._processes.marks(p))
            for p in self.programs()
        ]
        elsewhere = self.history.webapp_namespaces() | set(self.trial.namespaces)
        return Past(
            self.history.within(self._namespaces),
            said,
            self._namespaces,
            elsewhere=elsewhere,
            charged=self.trial.charged,
            now=now,
            patience=self.patience,
        )

    def programs(self) -> list[RunningProgram]:
        """The processes that this scenario is about: its own, or the shared one."""
        if self._alone:
            return list(self._own)
        shared = self._processes.shared
        return [shared] if shared is not None else []


_WORDS = ("shop", "blog", "wiki", "mail", "chat", "maps", "news", "bank", "zoo", "lab")
