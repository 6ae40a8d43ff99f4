"""What happened to the WebApps of one scenario, and what of it was the operator's doing.

Two records are laid side by side: the states that the API server stored
(:mod:`grader.conformance.history`) and the exchanges on the wires of the
operator's processes. A state whose revision is the answer to one of their writes
is theirs; every other one is somebody else's: the suite's, the kubelet's, the
garbage collector's. Nothing of another scenario's WebApps is in it.

Times are seconds since the epoch, all of one machine's clock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from grader.conformance.contract import DNS_NAMESPACE, World, controller_of, is_terminating
from grader.conformance.leaves import explains
from grader.wire.records import Exchange, Mark
from grader.wire.rules import READ_VERBS, Rule, RuleError, parse_rule

if TYPE_CHECKING:
    from grader.conformance.history import State

_FOREVER = float("inf")


@dataclass(frozen=True)
class Said:
    """One process's wire: what it asked, in order of time, and what was noted meanwhile."""

    client: str
    exchanges: list[Exchange]
    marks: list[Mark] = field(default_factory=list)

    @cached_property
    def rules(self) -> list[tuple[Rule, float, float]]:
        """Each rule that was armed on the wire, from when to when."""
        armed: dict[str, tuple[Rule, float]] = {}
        found = []
        for mark in self.marks:
            id = mark.data.get("rule", "")
            if mark.what == "rule_added":
                try:
                    armed[id] = (parse_rule(mark.data["text"]), mark.t)
                except RuleError:
                    continue
            elif mark.what == "rule_removed" and id in armed:
                rule, since = armed.pop(id)
                found.append((rule, since, mark.t))
        return found + [(rule, since, _FOREVER) for rule, since in armed.values()]

    def ran(self, start: float, end: float) -> bool:
        """Whether the process ran all the time from ``start`` to ``end``."""
        since = None
        for mark in self.marks:
            if mark.what == "process_started":
                since = mark.t
            elif mark.what in ("process_exited", "process_killed") and since is not None:
                if since <= start and end <= mark.t:
                    return True
                since = None
        return since is not None and since <= start


@dataclass(frozen=True)
class Change:
    """A write of the operator that was carried out, and what it did to one object.

    ``before`` is None for a create. ``after`` is the answer to the write: the object
    as it was stored, or, where the last finalizer went, as it was when it went.
    """

    exchange: Exchange
    before: dict | None
    after: dict

    @property
    def uid(self) -> str:
        return self.after["metadata"]["uid"]


@dataclass(frozen=True)
class Moment:
    """The world of one WebApp right after a state; ``uid`` is the WebApp's."""

    state: State
    uid: str
    world: World


class Past:
    """The states and exchanges that concern the WebApps in ``namespaces``, up to ``now``.

    ``elsewhere``: the namespaces in which somebody else's WebApps are. ``charged``:
    the writes outside all of these that a scenario has been failed for, by client
    and number; whoever is failed for one adds it.
    """

    def __init__(
        self,
        states: Iterable[State],
        said: Iterable[Said],
        namespaces: Iterable[str],
        *,
        elsewhere: Iterable[str] = (),
        charged: set[tuple[str, int]] | None = None,
        now: float = _FOREVER,
        patience: float = 1.0,
    ) -> None:
        self.said = list(said)
        self.namespaces = frozenset(namespaces)
        self.elsewhere = frozenset(elsewhere)
        self.charged = set() if charged is None else charged
        self.now = now
        self.patience = patience
        self._states = sorted(states, key=lambda state: state.revision)
        self._by: dict[tuple[str, int], Exchange | None] = {}
        self._by_uid: dict[str, list[State]] = defaultdict(list)
        for state in self._states:
            self._by_uid[state.uid].append(state)

    # -- states -------------------------------------------------------------------

    def states(self, *, uid: str | None = None, resource: str | None = None) -> list[State]:
        """The states in the order of their revisions."""
        states = self._states if uid is None else self._by_uid.get(uid, [])
        return [state for state in states if resource in (None, state.resource)]

    def pods_of(self, uid: str) -> list[State]:
        """The states of all Pods that a UID controlled at that state."""
        return [
            state
            for state in self.states(resource="pods")
            if (controller_of(state.object) or {}).get("uid") == uid
        ]

    @cached_property
    def webapps(self) -> dict[str, dict]:
        """UID to the last state of each WebApp that there was."""
        return {state.uid: state.object for state in self.states(resource="webapps")}

    def marked(self, uid: str) -> State | None:
        """The state with which a WebApp began to go: its deletionTimestamp, or its end."""
        for state in self.states(uid=uid):
            if state.type == "DELETED" or is_terminating(state.object):
                return state
        return None

    def gone(self, uid: str) -> State | None:
        """The end of a WebApp."""
        return next((s for s in self.states(uid=uid) if s.type == "DELETED"), None)

    def moments(self) -> Iterator[Moment]:
        """The world of each WebApp, after each state that changed it."""
        apps: dict[str, dict] = {}
        pods: dict[str, dict[str, dict]] = defaultdict(dict)
        owner: dict[str, str] = {}
        records: dict[str, dict] = {}
        for state in self._states:
            there = state.type != "DELETED"
            concerned: list[str] = []
            if state.resource == "webapps":
                concerned = [state.uid]
                if there:
                    apps[state.uid] = state.object
                else:
                    apps.pop(state.uid, None)
            elif state.resource == "configmaps":
                concerned = [state.name.removeprefix("record-")]
                if there:
                    records[concerned[0]] = state.object
                else:
                    records.pop(concerned[0], None)
            else:
                before = owner.get(state.uid, "")
                now = (controller_of(state.object) or {}).get("uid", "")
                pods[before].pop(state.uid, None)
                if there:
                    pods[now][state.uid] = state.object
                    owner[state.uid] = now
                concerned = [uid for uid in {before, now} if uid]
            for uid in concerned:
                world = World(apps.get(uid), list(pods[uid].values()), [], records.get(uid))
                yield Moment(state, uid, world)

    # -- exchanges ------------------------------------------------------------------

    @cached_property
    def exchanges(self) -> list[Exchange]:
        """What the processes asked about these WebApps by name, in order of time."""
        records = {f"record-{uid}" for uid in self.webapps}
        return sorted(
            (
                e
                for said in self.said
                for e in said.exchanges
                if e.namespace in self.namespaces
                or (e.namespace == DNS_NAMESPACE and e.name in records)
            ),
            key=lambda e: e.t_request,
        )

    @cached_property
    def writes(self) -> list[Exchange]:
        """The writes among them, carried out or not; leases and events are none."""
        return [e for e in self.exchanges if e.is_write and e.resource not in ("leases", "events")]

    @cached_property
    def _theirs(self) -> dict[tuple[str, int], Exchange]:
        """(UID, revision) of each state that was the operator's doing."""
        found: dict[tuple[str, int], Exchange] = {}
        for e in self.writes:
            if not e.applied or not isinstance(e.answer, dict):
                continue
            meta = e.answer.get("metadata") or {}
            version = str(meta.get("resourceVersion", ""))
            if meta.get("uid") and version.isdigit():
                # The first: a later one that changed nothing has the same answer.
                found.setdefault((meta["uid"], int(version)), e)
        return found

    def by(self, state: State) -> Exchange | None:
        """The operator's write that made this state; None where it was somebody else's.

        A write that changed nothing is answered with an older state, which is not its own.
        """
        key = state.uid, state.revision
        if key not in self._by:
            self._by[key] = self._made_by(state)
        return self._by[key]

    def _made_by(self, state: State) -> Exchange | None:
        exchange = self._theirs.get((state.uid, state.revision))
        if exchange is None or state.seen < exchange.t_request:
            return None
        before = self._before.get((state.uid, state.revision))
        if before is None or state.type != "MODIFIED" or exchange.verb not in ("update", "patch"):
            return exchange
        apply = "apply-patch" in exchange.content_type
        sent = exchange.request_body
        made = explains(sent, exchange.method, apply, before.object, state.object)
        return exchange if made else None

    @cached_property
    def _before(self) -> dict[tuple[str, int], State]:
        """The state before each, by UID and revision."""
        return {
            (uid, later.revision): earlier
            for uid, states in self._by_uid.items()
            for earlier, later in zip(states, states[1:], strict=False)
        }

    @cached_property
    def changes(self) -> list[Change]:
        """What the operator's creates, updates and patches did, in the order of the states."""
        found: list[Change] = []
        known: set[int] = set()
        for states in self._by_uid.values():
            for number, state in enumerate(states):
                e = self.by(state)
                if e is None or state.type == "DELETED" or e.verb.startswith("delete"):
                    continue
                known.add(id(e))
                before = states[number - 1].object if number else None
                if state.type != "ADDED" and before is None:
                    continue
                found.append(Change(e, before, e.answer))
        for (uid, _), e in self._theirs.items():
            # The write that took the last finalizer away is stored as the end of the object.
            states = self._by_uid.get(uid, [])
            if id(e) in known or e.verb not in ("update", "patch") or len(states) < 2:
                continue
            last = states[-1]
            if last.type == "DELETED" and last.seen >= e.t_request and is_terminating(e.answer):
                before = next(s.object for s in reversed(states) if s.type != "DELETED")
                version = int(before["metadata"]["resourceVersion"])
                if before["metadata"].get("finalizers") and last.revision > version:
                    found.append(Change(e, before, e.answer))
        return sorted(found, key=lambda change: change.exchange.t_request)

    def deleted(self) -> Iterator[tuple[Exchange, str]]:
        """Each DELETE of the operator that was carried out, with the UID of what it hit."""
        for e in self.writes:
            if e.verb not in ("delete", "deletecollection") or not e.applied:
                continue
            answer = e.answer if isinstance(e.answer, dict) else {}
            for item in answer.get("items") or [answer]:
                uid = (item.get("metadata") or {}).get("uid")
                uid = uid or (item.get("details") or {}).get("uid")
                if uid:
                    yield e, uid

    def taken_by_others(self, uid: str) -> set[str]:
        """UIDs of Pods of a WebApp whose end no DELETE of the operator's explains.

        kwok deletes a Pod by name, sometimes twice, and may hit one that was created
        under that name in between.
        """
        asked = {pod for _, pod in self.deleted()}
        # A DELETE without an answer may have hit any Pod of its name.
        unanswered = Counter(
            e.name
            for e in self.writes
            if e.resource == "pods" and e.verb.startswith("delete") and e.answer is None
        )
        taken = set()
        for state in self.pods_of(uid):
            if state.type != "DELETED" or state.uid in asked:
                continue
            if unanswered[state.name]:
                unanswered[state.name] -= 1
            elif not unanswered[""]:
                taken.add(state.uid)
        return taken

    # -- what was done to the processes -----------------------------------------------

    def blinded(self, start: float, end: float) -> bool:
        """Whether a rule kept from a process, in that time, what it reads or watches."""
        return any(_blinds(rule) for rule in self._rules(start, end))

    def hindered(self, start: float, end: float) -> bool:
        """Whether a rule kept a process, in that time, from reading, or from writing a status."""
        return any(
            _blinds(rule)
            or rule.action in ("hold", "delay", "freeze", "kill-before", "kill-after")
            or not rule.resources
            or any(r.resource == "webapps" for r in rule.resources)
            for rule in self._rules(start, end)
        )

    def _rules(self, start: float, end: float) -> Iterator[Rule]:
        records = {f"record-{uid}" for uid in self.webapps}
        for said in self.said:
            for rule, since, until in said.rules:
                if since > end or until < start:
                    continue
                others = rule.namespace and rule.namespace not in self.namespaces
                if others or (rule.name.startswith("record-") and rule.name not in records):
                    continue
                yield rule

    def served(self, start: float, end: float) -> Said | None:
        """A process that ran all that time, if there was one."""
        return next((said for said in self.said if said.ran(start, end)), None)


def _blinds(rule: Rule) -> bool:
    return rule.on_events or not rule.verbs or bool(rule.verbs & READ_VERBS)
