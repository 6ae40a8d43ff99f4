"""Where an operator is tried: a cluster, the operator's processes, and what was seen.

A :class:`Bench` holds what a whole run shares; each scenario works on a view of
it with a namespace and a log of its own. Scenarios that are not ``alone`` share
one operator process and run at the same time, each with WebApps of its own.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader.cluster.api import Api, ApiError
from grader.conformance import contract, diagnosis
from grader.conformance.contract import World, shortfalls
from grader.conformance.history import History
from grader.conformance.processes import Processes, Subject, wait
from grader.runner import Runner, RunningProgram
from grader.verdict import Fail, Unknown
from grader.wire.records import WRITE_VERBS, Exchange

if TYPE_CHECKING:
    from grader.cluster.interface import Cluster
    from grader.conformance.scenario import Scenario
    from grader.wire import RuleHandle

#: Seconds. Long enough for a slow operator that lists everything once a second;
#: only a wrong one waits it out.
SETTLE = 15.0
#: Scenarios that share the operator process and run at the same time.
AT_ONCE = 8


class Bench:
    """One run of the gate against one subject."""

    def __init__(
        self,
        cluster: Cluster,
        subject: Subject,
        run_dir: Path,
        *,
        seed: int = 0,
        runner: Runner | None = None,
        patience: float = 1.0,
    ) -> None:
        """``runner``: one that is there already; it is not closed with the bench.

        ``patience`` scales every wait for a world to become right.
        """
        self.cluster = cluster
        self.run_dir = run_dir
        self.seed = seed
        self.patience = patience
        self.api = Api(cluster, user_agent="phase4-conformance")
        self.history = History(self.api)
        self.measured: dict[str, Any] = {}
        self.rng = random.Random(seed)
        self.log_path = run_dir / "gate.log"
        #: Whether this view may start processes of its own, and those it did start.
        self._alone = False
        self._own: list[RunningProgram] = []
        #: Rules that this view has put on the wire of the shared process.
        self._rules: list[RuleHandle] = []
        self._processes = Processes(
            subject, runner or Runner(cluster, run_dir, seed=seed).__enter__()
        )
        self._owns_runner = runner is None
        self._aside_namespace: list[str] = []
        self._asides = itertools.count(1)
        #: Namespaces of all views, and those of this one.
        self._namespaces: list[str] = []
        self._mine: list[str] = []

    def for_scenario(self, one: Scenario) -> Bench:
        """A view with measurements, randomness and namespaces of its own."""
        return self._view(one.id, alone=one.alone)

    def for_lab(self, name: str) -> Bench:
        """The same for a lab's own work with the bench, alone with its operator."""
        return self._view(name, alone=True)

    def _view(self, name: str, alone: bool) -> Bench:
        view = object.__new__(Bench)
        view.__dict__.update(self.__dict__)
        view.measured = {}
        view.rng = random.Random(f"{self.seed}/{name}")
        view._alone = alone
        view._own, view._rules, view._mine = [], [], []
        return view

    def log(self, text: str) -> None:
        with self._processes.lock, self.log_path.open("a", encoding="utf-8") as log:
            log.write(text.rstrip() + "\n")

    def close(self) -> None:
        """End every process, and ask for the namespaces to be deleted."""
        if self._owns_runner:
            self._processes.runner.close()
        else:
            self.end_own()
            self.stop_shared()
        self.history.close()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self.let_go, self._namespaces))
        self._remove_records()

    # -- the operator ---------------------------------------------------------------

    def ready(self, resyncing: bool = False) -> None:
        """See to it that the shared process runs: start it, again where it has died."""
        self._processes.share(resyncing)

    def stop_shared(self) -> None:
        """End the shared process, so that a scenario can have one of its own."""
        self._processes.stop_shared()

    def abandon(self) -> None:
        """End every process for good: whatever waits for one of them waits no longer."""
        self._processes.abandon()

    @property
    def operator(self) -> RunningProgram:
        """The shared process, in a scenario that is not alone."""
        shared = self._processes.shared
        assert shared is not None and not self._alone
        return shared

    def rule(self, text: str) -> RuleHandle:
        """Put a rule on the shared process's wire; it goes with the scenario at the latest.

        Others work with that process at the same time: the rule must name a
        namespace or an object, or do no harm to anybody else.
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
        # With rules or an election it may have its reasons to ask for nothing.
        if not rules and "--leader-elect" not in flags:
            self._processes.wait_started(started)
        return started

    def end_own(self) -> None:
        """End what this view started and did not end itself: the next scenario is alone again."""
        for rule in self._rules:
            rule.remove()
        for program in self._own:
            if program.exited is None:
                program.kill()
            program.wire.close()

    # -- objects --------------------------------------------------------------------

    def namespace(self) -> str:
        """A fresh namespace."""
        name = self._made_namespace()
        self._mine.append(name)
        return name

    def _made_namespace(self) -> str:
        name = f"gate-{random.SystemRandom().randrange(16**8):08x}"
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self._namespaces.append(name)
        return name

    def let_go(self, namespace: str) -> None:
        """Delete a namespace although nobody may be left to remove its finalizers."""
        try:
            for item in self.api.list(contract.WEBAPPS, namespace)["items"]:
                name = item["metadata"]["name"]
                self.api.delete(contract.WEBAPPS, name, namespace)
                if self.api.find(contract.WEBAPPS, name, namespace):
                    self.api.patch(
                        contract.WEBAPPS, name, {"metadata": {"finalizers": None}}, namespace
                    )
            self.api.delete("namespaces", namespace)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _remove_records(self) -> None:
        """Delete the records of our WebApps: nobody else does, and a wrong operator did not."""
        ours = set(self._namespaces)
        for record in self.api.list("configmaps", contract.DNS_NAMESPACE)["items"]:
            owners = {value.partition("/")[0] for value in (record.get("data") or {}).values()}
            if owners & ours:
                try:
                    self.api.delete(
                        "configmaps", record["metadata"]["name"], contract.DNS_NAMESPACE
                    )
                except ApiError as error:
                    if error.status != 404:
                        raise

    def name(self) -> str:
        """A name that no operator can know beforehand."""
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
        """Delete an object and wait until the history has it going or gone."""
        uid = self.api.get(resource, name, namespace)["metadata"]["uid"]
        self.api.delete(resource, name, namespace, **call)
        self._seen(namespace, lambda: self.history.saw_delete(uid))

    def _seen(self, namespace: str, predicate: Callable[[], bool]) -> None:
        if not self.history.until(namespace, predicate, 10.0):
            raise Unknown(
                "The API server tells the grader's own watches of the grader's own writes.",
                f"Nothing came of a write in {namespace} within 10 s.",
            )

    def world(self, app: dict) -> World:
        """The world of that very WebApp, as the API server has it."""
        meta = app["metadata"]
        world = self.history.world(meta["namespace"], meta["name"])
        if world.webapp is not None and world.webapp["metadata"]["uid"] != meta["uid"]:
            return World(None)
        return world

    # -- waiting --------------------------------------------------------------------

    def settled(self, app: dict, doing: str, timeout: float = SETTLE, **fail: Any) -> World:
        """Wait until the WebApp's world is as its spec (at ``app``'s generation or later) says.

        ``doing`` completes «After …». Raises Fail with what is missing, named
        by :mod:`grader.conformance.diagnosis` where ``fail`` gives no diagnosis.
        """
        generation = app["metadata"]["generation"]

        def right() -> bool:
            world = self.world(app)
            return (
                world.webapp is not None
                and world.webapp["metadata"]["generation"] >= generation
                and not shortfalls(world)
            )

        if self.until(app["metadata"]["namespace"], right, timeout):
            return self.world(app)
        raise self._not_settled(app, doing, timeout, shortfalls(self.world(app)), fail)

    def at_rest(self, app: dict, seconds: float = 0.4, timeout: float = 10.0) -> World:
        """Wait until the operator has nothing in hand for a WebApp; its world.

        Nothing is a while without an exchange about it, once a WebApp that was made
        just now has been seen to: queues are first in, first out, so that no key of
        this one waits for a worker any more. What is seen after that, it does
        because of what happened after that, and not by the luck of something that
        was still to come.
        """
        program = self.programs()[0]
        self._one_more_seen_to(program, timeout)
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

    def _one_more_seen_to(self, program: RunningProgram, timeout: float) -> None:
        """Make a WebApp that is nobody's concern, and wait until the operator writes for it."""
        namespace = self._aside()
        made = self.create(namespace, f"aside-{next(self._asides)}", replicas=0)
        name, record = made["metadata"]["name"], contract.record_name(made)
        if not self.wait_exchange(
            program,
            lambda e: (e.namespace == namespace and e.name == name) or e.name == record,
            timeout,
        ):
            self.log(
                f"{name} was not seen to within {timeout:g} s: rest is judged by silence alone."
            )

    def _aside(self) -> str:
        """The namespace of such WebApps: none of a view's own, so that nothing counts there."""
        with self._processes.lock:
            if not self._aside_namespace:
                self._aside_namespace.append(self._made_namespace())
            return self._aside_namespace[0]

    def gone(self, app: dict, doing: str, timeout: float = SETTLE, **fail: Any) -> None:
        """Wait until the WebApp, its record and its Pods are gone."""
        uid = app["metadata"]["uid"]

        def left() -> list[str]:
            world = self.world(app)
            found = []
            if world.webapp is not None:
                finalizers = world.webapp["metadata"].get("finalizers", [])
                found.append(f"The WebApp is still there, with the finalizers {finalizers}.")
            if self.history.record(uid):
                found.append(f"The DNS record record-{uid} is still there.")
            found += [
                f"Pod {pod['metadata']['name']} is still there." for pod in self.history.pods(app)
            ]
            return found

        if not self.until(app["metadata"]["namespace"], lambda: not left(), timeout):
            raise self._not_settled(app, doing, timeout, left(), fail)

    def until(self, namespace: str, predicate: Callable[[], object], timeout: float) -> bool:
        """Wait for the predicate; False after ``timeout`` s, unless something still moves.

        While states change, a machine that is short of time is given more (up to
        four times as long): it is the operator that is judged. What it does for
        other WebApps counts as well: this one may be waiting for a worker. The
        predicate is asked when something changed in the namespace, and each second.
        """
        timeout *= self.patience
        began = moved = time.monotonic()
        seen = self.history.changes()
        while not self.history.until(namespace, predicate, min(1.0, timeout / 3)):
            now, before = time.monotonic(), seen
            seen = self.history.changes()
            if seen != before:
                moved = now
            still = now - moved > timeout / 3
            if now - began > 4 * timeout or (now - began >= timeout and still):
                return False
            programs = self.programs()
            if programs and all(program.exited for program in programs):
                # Nobody is left to do it; what was done last may still be on its way here.
                return self.history.until(namespace, predicate, 0.5)
        return True

    def _not_settled(
        self, app: dict, doing: str, timeout: float, problems: list[str], fail: dict[str, Any]
    ) -> Fail:
        shown = problems[:3] + ([f"And {len(problems) - 3} more."] if problems[3:] else [])
        found = diagnosis.of_stuck(self, app)
        fields: dict[str, Any] = {
            "why": found.why
            or "Level-triggered means: whatever happened before, the world ends as the spec says.",
            "next": found.next
            or "Read the exchanges below: which write is missing, and what was answered last?",
            "diagnosis": found.name,
            "evidence": found.evidence,
        }
        # What the exchanges say goes before what the scenario would guess.
        fields.update({key: value for key, value in fail.items() if value and not found.name})
        return Fail(
            f"After {doing}, the world of the WebApp is as its spec says within "
            f"{timeout * self.patience:g} s.",
            " ".join(shown) or "It became right and then changed again.",
            **fields,
        )

    def exchanges(self, client: str | None = None) -> list[Exchange]:
        """What the operator's processes said on their wires so far, in order of time."""
        found = [
            exchange
            for program in self.programs()
            if client in (None, program.client)
            for exchange in self._processes.record(program)
        ]
        return sorted(found, key=lambda exchange: exchange.t_request)

    def writes(self, since: float = 0.0) -> list[Exchange]:
        """The operator's writes since then for this view's WebApps, or for nobody's at all.

        Leases and events are left out, and what it does for the WebApps of
        other scenarios, or for those that were in the cluster before.
        """
        webapps = [state.object for state in self.history.states(resource="webapps")]
        webapps += self.history.webapps_before
        others = {app["metadata"]["namespace"] for app in webapps} | set(self._namespaces)
        others -= set(self._mine)
        records = {
            contract.record_name(app) for app in webapps if app["metadata"]["namespace"] in others
        }
        return [
            e
            for e in self.exchanges()
            if e.verb in WRITE_VERBS
            and e.resource not in ("leases", "events")
            and e.t_request >= since
            and e.namespace not in others
            and not (e.namespace == contract.DNS_NAMESPACE and e.name in records)
        ]

    def wait_exchange(
        self, program: RunningProgram, predicate: Callable[[Exchange], bool], timeout: float
    ) -> bool:
        """Wait until the process has had such an exchange; False after ``timeout`` s or its end."""
        return self._processes.wait_exchange(program, predicate, timeout)

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

    def programs(self) -> list[RunningProgram]:
        """The processes that this view is about: its own, or the shared one."""
        if self._alone:
            return list(self._own)
        shared = self._processes.shared
        return [shared] if shared is not None else []


_WORDS = ("shop", "blog", "wiki", "mail", "chat", "maps", "news", "bank", "zoo", "lab")
