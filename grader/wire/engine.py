"""Rules in force, and what each has done. Everything here runs on the wire's own loop."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable

from grader.wire.recorder import Recorder
from grader.wire.requests import RequestInfo
from grader.wire.rules import ALWAYS, Rule


class Armed:
    """A rule in force: how often it matched, how often it fired, whether it is still there."""

    def __init__(self, id: str, rule: Rule, seed: int) -> None:
        self.id = id
        self.rule = rule
        self.seen = 0
        self.fired = 0
        self.removed = asyncio.Event()
        self._random = random.Random(f"{seed}/{id}")

    @property
    def spent(self) -> bool:
        return self.rule.times != ALWAYS and self.fired >= (self.rule.times or 1)

    def take(self) -> bool:
        """Count one match; whether the rule acts on it."""
        if self.removed.is_set() or self.spent:
            return False
        self.seen += 1
        if self.seen < self.rule.nth:
            return False
        if self.rule.chance < 1 and self._random.random() >= self.rule.chance:
            return False
        self.fired += 1
        return True

    def to_json(self) -> dict:
        return {
            "id": self.id,
            "rule": str(self.rule),
            "seen": self.seen,
            "fired": self.fired,
            "spent": self.spent,
        }


class Engine:
    """The rules of one wire, in the order in which they were added."""

    def __init__(self, client: str, recorder: Recorder, seed: int) -> None:
        self.client = client
        self._recorder = recorder
        self._seed = seed
        self._ids = itertools.count(1)
        self.armed: list[Armed] = []
        #: Called with a rule that was just added: for those that act at once.
        self.on_added: Callable[[Armed], None] = lambda armed: None
        #: Called at each firing, on the loop.
        self.on_fired: Callable[[Armed], None] = lambda armed: None

    def add(self, rule: Rule) -> Armed:
        armed = Armed(f"r{next(self._ids)}", rule, self._seed)
        self.armed.append(armed)
        self._recorder.mark("rule_added", rule=armed.id, text=str(rule))
        self.on_added(armed)
        return armed

    def remove(self, id: str) -> bool:
        """Remove a rule; what it held back goes on. False if there is none of that id."""
        for armed in self.armed:
            if armed.id == id:
                self.armed.remove(armed)
                self._recorder.mark("rule_removed", rule=id, text=str(armed.rule))
                armed.removed.set()
                return True
        return False

    def find(self, text: str) -> list[str]:
        """The ids of the rules that ``text`` names: one by its id, those of that text, or ``all``."""
        text = " ".join(text.split())
        return [armed.id for armed in self.armed if text in ("all", armed.id, str(armed.rule))]

    def fired(self, armed: Armed, **data) -> None:
        """Record that a rule acts."""
        self._recorder.mark("rule_fired", rule=armed.id, text=str(armed.rule), **data)
        self.on_fired(armed)

    def for_request(self, info: RequestInfo) -> list[Armed]:
        """The rules that may act on a request when it arrives; names are checked later."""
        return [
            armed
            for armed in self.armed
            if armed.rule.on_requests
            and armed.rule.selects(info, self.client)
            and (armed.rule.action != "refuse-watchlist" or info.watch_list)
        ]

    def for_answer(self, info: RequestInfo) -> list[Armed]:
        """The rules that act once the API server has applied a write."""
        return [
            armed
            for armed in self.armed
            if armed.rule.on_answers and armed.rule.selects(info, self.client)
        ]

    def for_events(self, info: RequestInfo) -> list[Armed]:
        """The rules that may act on what the watch ``info`` delivers."""
        return [
            armed
            for armed in self.armed
            if armed.rule.on_events and self.watch_matches(armed.rule, info)
        ]

    def watch_matches(self, rule: Rule, info: RequestInfo) -> bool:
        """Whether a rule on events has to do with a watch; a watch of all namespaces may be."""
        if rule.client and rule.client != self.client or info.resource in rule.excepted:
            return False
        if rule.path and not info.path.startswith(rule.path):
            return False
        if rule.namespace and info.namespace and info.namespace != rule.namespace:
            return False
        if rule.name and info.name and info.name != rule.name:
            return False
        return not rule.resources or any(r.matches(info) for r in rule.resources)


def event_matches(rule: Rule, type: str, namespace: str, name: str) -> bool:
    """Whether a rule on events acts on this one. Bookmarks are meant only where named."""
    if rule.events:
        if type not in rule.events:
            return False
    elif rule.action == "hide" and type in ("BOOKMARK", "ERROR"):
        return False
    elif rule.action in ("cut", "error"):
        return False  # acts on the watch as a whole, when it opens or at once
    if rule.namespace and namespace and rule.namespace != namespace:
        return False
    return not rule.name or not name or rule.name == name


def now() -> float:
    """Seconds since the epoch: the one clock of every record."""
    return time.time()
