"""One walk against an operator: burst after burst, at rest after each, to a finding or none."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from grader.conformance.contract import DNS_NAMESPACE
from grader.conformance.walks import kinds  # noqa: F401  Registers the kinds of operations.
from grader.conformance.walks.hand import KINDS, Hand
from grader.conformance.walks.model import Difference, Model, View
from grader.conformance.walks.walk import Burst, Walk
from grader.conformance.walks.wirefaults import FAULTS, Fault
from grader.verdict import Unknown

if TYPE_CHECKING:
    from grader.conformance.bench import Bench
    from grader.conformance.walks.traffic import Traffic
    from grader.runner import RunningProgram
    from grader.wire import RuleHandle

#: Seconds in which an operator that is idle has brought everything to rest.
LIMIT = 15.0
#: The same for one that is seen to work on it all the time.
WORKING = 60.0
#: Seconds of silence about a walk's objects after which it is at rest.
SILENCE = 0.35
#: Seconds after which one that is silent and not where it must be is suspected.
SUSPECT = 3.5
#: Seconds after which what an operator sent is in its wire's record.
RECORDED = 1.0
#: Seconds for an operation to show on the wire, so that a fault acts before the next one.
ACTS = 1.5


@dataclass
class Finding:
    """What a walk showed. ``walk`` ends with the burst after which it was seen.

    ``died`` says that the process ended by itself. ``lines`` are the commands up to there.
    """

    walk: Walk
    differences: list[Difference]
    lines: list[str]
    namespace: str
    died: bool = False
    #: The fault that was in force at that moment, "" for none.
    under: str = ""
    evidence: list[str] = field(default_factory=list)

    @property
    def final(self) -> bool:
        return self.died or any(one.final for one in self.differences)


class Abandoned(Exception):
    """The walk was called off: nothing is concluded."""


class Try:
    """A walk to be tried once, in a namespace of its own, on a process that runs.

    ``called_off`` ends it between two looks. ``suspected`` is called, once, when it seems to
    have failed. ``patience``: seconds after which that is a finding, 0 for at once. ``until``
    (monotonic): no burst begins after that.
    """

    def __init__(
        self,
        bench: Bench,
        program: RunningProgram,
        traffic: Traffic,
        walk: Walk,
        *,
        called_off: Callable[[], bool] = lambda: False,
        suspected: Callable[[Finding], None] = lambda finding: None,
        patience: float = LIMIT,
        until: float | None = None,
    ) -> None:
        self.bench, self.program, self.traffic, self.walk = bench, program, traffic, walk
        self.namespace = bench.namespace()
        self.model = Model()
        self.hand = Hand(bench.api, self.namespace, self.model, self._wait_for)
        self.bursts = self.operations = 0
        self._called_off = called_off
        self._suspected, self._patience, self._until = suspected, patience, until
        self._under = ""
        self._told = False
        #: Since when (monotonic) somebody else's Pod is gone, by its UID.
        self._lost: dict[str, float] = {}

    def run(self) -> Finding | None:
        """The finding, or None where everything was as it must be."""
        self.hand.begin(self.walk.replicas)
        finding = self._rest(-1)
        for place, burst in enumerate(self.walk.bursts):
            if finding or (self._until is not None and time.monotonic() > self._until):
                break
            finding = self._burst(place, burst)
            self.bursts += 1
        return finding or self._end()

    def _end(self) -> Finding | None:
        """Every hold is removed and everything deleted: nothing of it may stay."""
        self.hand.say("# At the end every hold is removed, and everything is deleted.")
        self.hand.let_go()
        self.hand.delete_all()
        return self._rest(len(self.walk.bursts) - 1)

    def about(self) -> set[str]:
        """Its namespace and its records: what an exchange is about that is about it."""
        return {self.namespace, *self._records()}

    # -- a burst ----------------------------------------------------------------------

    def _burst(self, place: int, burst: Burst) -> Finding | None:
        fault = FAULTS[burst.fault]
        began = time.monotonic()
        rules = self._arm(fault, burst)
        if rules or fault.process:
            self._under = burst.fault
            self.hand.say(f"# {burst.fault[0].upper()}{burst.fault[1:]}.")
        for rule in rules:
            self.hand.say(self._fault("add", rule.text))
        if fault.process:
            self._end_process(fault.process)
        for number, op in enumerate(burst.ops):
            apart = KINDS[op.kind].apart
            if apart and (finding := self._remove(fault, rules) or self._rest(place, began)):
                return finding
            self.operations += self.hand.do(op)
            if number == 0 and rules and fault.causes and not apart:
                self._acts(fault, rules)
            if apart and (finding := self._rest(place, began)):
                return finding
        if fault.hinders and rules:
            if finding := self._rest(place, hindered=fault.hinders):
                return finding
        return self._remove(fault, rules) or self._rest(place, began)

    def _fault(self, verb: str, rule: str) -> str:
        """The command that adds or removes a rule, for a person's namespace and records."""
        for name, uid in self.model.uids.items():
            rule = rule.replace(f"record-{uid}", f"$(record {name})")
        return f'./phase4 fault {verb} "{rule.replace(self.namespace, "walk")}"'

    def _arm(self, fault: Fault, burst: Burst) -> list[RuleHandle]:
        uid = self.model.uids.get(self.hand.name(burst.ops[0]), "none")
        self._names = {"ns": self.namespace, "record": f"record-{uid}"}
        return [self.program.wire.rules.add(rule.format(**self._names)) for rule in fault.rules]

    def _acts(self, fault: Fault, rules: list[RuleHandle]) -> None:
        """Wait until the fault acts, as far as the operator gives it reason to."""
        self.bench.ended_within(
            self.program, ACTS, unless=lambda: all(rule.fired for rule in rules)
        )
        if fault.kills and any(rule.fired for rule in rules):
            self.program.wait_exit(5.0, "is killed at its write")

    def _remove(self, fault: Fault, rules: list[RuleHandle]) -> None:
        """Remove a fault's rules, and start the operator again where it is down."""
        if rules:
            for text in fault.last:
                self.program.wire.rules.add(text.format(**self._names))
                self.hand.say(self._fault("add", text.format(**self._names)))
        for rule in rules:
            self.hand.say(self._fault("remove", rule.text))
            rule.remove()
        rules.clear()
        self._under = ""
        ended = self.program.exited
        if ended is not None and ended.by != "itself":
            self.hand.say("# Start the operator again.")
            self.bench.start_again(self.program)

    def _end_process(self, how: str) -> None:
        if how == "kill":
            self.program.kill()
            self.hand.say("# kill -9 the operator.")
        else:
            self.program.terminate(grace=5.0)
            self.hand.say("# End the operator with SIGTERM.")

    def _wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for what an operator has to do; False once it is down."""
        deadline = time.monotonic() + seconds
        while self.program.exited is None:
            if condition():
                return True
            if time.monotonic() > deadline:
                return False
            self._pause(0.1)
        return False

    # -- at rest ----------------------------------------------------------------------

    def view(self) -> View:
        history = self.bench.history
        uids = {*self.model.uids.values(), *self.model.deleted}
        return View(
            {app["metadata"]["name"]: app for app in history.objects("webapps", self.namespace)},
            history.objects("pods", self.namespace),
            {
                record["metadata"]["name"]: record
                for record in history.objects("configmaps", DNS_NAMESPACE)
                if record["metadata"]["name"].removeprefix("record-") in uids
            },
        )

    def _rest(
        self, place: int, fault_since: float | None = None, hindered: frozenset[str] = frozenset()
    ) -> Finding | None:
        """Wait until all is as it must be, and the operator has nothing more to do.

        ``fault_since``: since when (monotonic) a fault may have been in force. Pauses between
        retries may have grown to as long as that, or as writes have been failing.
        """
        self._see_own_writes()
        began = time.monotonic()
        # A name that is taken makes writes fail without a fault of ours.
        failing = self.traffic.failing_since(self.namespace, self._records())
        trouble = min((since for since in (fault_since, failing) if since), default=began)
        limit = self._patience + min(30.0, 2 * (began - trouble))
        limit *= self.bench.patience
        probed: float | None = None
        while True:
            differences = self._differences(hindered)
            now = time.monotonic()
            silent = now - max(began, self.traffic.last(self.namespace, self._records()))
            if not differences and silent >= SILENCE:
                # What was said since the view was taken may have changed it.
                return None
            if self._has_died():
                return self._finding(place, differences, died=True)
            if any(one.final for one in differences):
                return self._finding(place, differences)
            if differences and not self._told and now - began > SUSPECT and silent > SUSPECT - 0.5:
                finding = self._finding(place, differences)
                if not all(one.cluster for one in differences):
                    self._told = True
                    self._suspected(finding)
                    if not self._patience:
                        return finding
            if differences and now - began > limit:
                if now - began > WORKING and all(one.cluster for one in differences):
                    raise Unknown(
                        "The cluster makes Pods Ready, and takes away what has no owner.",
                        " ".join(one.text for one in differences[:3]),
                    )
                if probed is None and silent > min(5.0, limit / 2) or now - began > WORKING:
                    # It is idle, or so busy that nobody is served: another one tells.
                    self.bench.handles_one_more(self.program)
                    probed = time.monotonic()
                elif probed is not None and now - probed > 2.0:
                    if not all(one.cluster for one in differences):
                        return self._finding(place, differences)
            self._pause(SILENCE - silent if not differences else 0.25)

    def _differences(self, hindered: frozenset[str]) -> list[Difference]:
        """Where the walk differs from the model, but for Pods that the cluster took away."""
        found = []
        for one in self.model.differences(self.view(), hindered):
            if not one.lost or self.traffic.deleted(one.lost):
                found.append(one)
            elif time.monotonic() - self._lost.setdefault(one.lost, time.monotonic()) < RECORDED:
                found.append(replace(one, final=False, cluster=True))
            else:
                self.model.not_there(one.lost)
        return found

    def _records(self) -> set[str]:
        return {f"record-{uid}" for uid in (*self.model.uids.values(), *self.model.deleted)}

    def _has_died(self) -> bool:
        ended = self.program.exited
        return ended is not None and ended.by == "itself"

    def _see_own_writes(self) -> None:
        history = self.bench.history

        def seen() -> bool:
            return all(
                history.saw_delete(uid) if revision is None else history.saw(uid, revision)
                for uid, revision in self.hand.written.items()
            )

        if not history.until(self.namespace, seen, 10.0):
            raise Unknown(
                "The grader's own watches deliver the grader's own writes.",
                f"No event of a write in {self.namespace} came within 10 s.",
            )
        self.hand.written.clear()

    def _pause(self, seconds: float) -> None:
        """Wait for a change in the walk's namespace, no longer than that."""
        if self._called_off():
            raise Abandoned
        seen = self.bench.history.changes_in(self.namespace)
        self.bench.history.until(
            self.namespace,
            lambda: self.bench.history.changes_in(self.namespace) != seen,
            max(0.02, seconds),
        )
        if self._called_off():
            raise Abandoned

    def _finding(self, place: int, differences: list[Difference], died: bool = False) -> Finding:
        worst = [one for one in differences if one.final] or differences
        evidence = self.traffic.shown(self.namespace, self._records())
        if died:
            evidence += self.program.stderr_tail(6)
        walk = self.walk.up_to(max(place, 0))
        return Finding(
            walk,
            sorted(worst, key=lambda one: one.cluster),
            list(self.hand.lines),
            self.namespace,
            died,
            self._under,
            evidence,
        )
