"""Each client's view of an object over time, next to the API server's.

Versions are resourceVersions as numbers; None stands for «is not there». A client
that was never told of an object has no view of it, which is not the same; nor has a
process that has ended, and the next one of its name begins without one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grader.wire.records import Exchange, Mark, Record, WatchEvent
from grader.witness import Timeline, objects
from grader.witness.knowledge import Knowledge
from grader.witness.objects import Key

#: A step of a view: from this time on (epoch seconds), this version.
Step = tuple[float, int | None]

#: In place of a version: the process has ended, there is no view.
NO_VIEW = -1
_ENDINGS = {"process_killed", "process_exited", "wire_closed"}


def label(key: Key) -> str:
    """An object's name for people: ``pods default/shop-1``."""
    kind = f"{key.resource}.{key.group}" if key.group else key.resource
    return f"{kind} {key.namespace}/{key.name}" if key.namespace else f"{kind} {key.name}"


class Beliefs:
    """Views of every object in a timeline, computed once."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        #: Client ("" for the truth) to object to the steps of its view.
        self._views: dict[str, dict[Key, list[Step]]] = {"": {}}
        told: dict[str, Knowledge] = {}
        truth = Knowledge()
        moments: list[tuple[float, int, bool, Record]] = []
        for order, record in enumerate(timeline):
            if isinstance(record, Exchange):
                moments.append((record.t_end, order, True, record))
                if record.source == "wire":
                    moments.append((record.t_end, order, False, record))
            elif isinstance(record, WatchEvent):
                moments.append((record.t_received, order, True, record))
                if record.t_delivered is not None:
                    moments.append((record.t_delivered, order, False, record))
            elif isinstance(record, Mark) and record.what in _ENDINGS:
                moments.append((record.t, order, False, record))
        for t, _, is_truth, record in sorted(moments, key=lambda m: (m[0], m[1], not m[2])):
            if isinstance(record, Mark):
                told.pop(record.client, None)
                for steps in self._views.get(record.client, {}).values():
                    steps.append((t, NO_VIEW))
                continue
            name = "" if is_truth else record.client
            knowledge = truth if is_truth else told.setdefault(record.client, Knowledge())
            opened = timeline.opened(record) if isinstance(record, WatchEvent) else None
            knowledge.learn(record, opened, told=not is_truth)
            self._step(name, t, knowledge, self._touched(record, name))

    def _step(self, name: str, t: float, knowledge: Knowledge, keys: Iterable[Key]) -> None:
        views = self._views.setdefault(name, {})
        for key in keys:
            known = knowledge.known(key.resource, key.name, key.namespace, key.group)
            version = known.version if known else None
            steps = views.get(key)
            if steps is None:
                if known is None and name == "":
                    continue
                views[key] = [(t, version)]
            elif steps[-1][1] != version:
                steps.append((t, version))

    def _touched(self, record: Record, name: str) -> set[Key]:
        """The objects that a record may change in this view."""
        if isinstance(record, Exchange) and record.verb in ("list", "deletecollection"):
            known = self._views.get(name, {})
            mine = {
                key
                for key in known
                if key.resource == record.resource and record.namespace in ("", key.namespace)
            }
            listed = (self._key(record, item) for item in objects.items(record.answer))
            return mine | {key for key in listed if key.name}
        key = self.key_of(record)
        return {key} if key else set()

    def key_of(self, record: Record) -> Key | None:
        """The one object that a record is about, None for a list, a watch or a mark."""
        if isinstance(record, WatchEvent):
            opened = self._timeline.opened(record)
            if opened is None or record.type in ("BOOKMARK", "ERROR"):
                return None
            return self._key(opened, record.object)
        if isinstance(record, Exchange) and record.verb not in ("list", "watch"):
            if record.subresource_is_view and record.subresource != "scale":
                return None
            key = self._key(record, self._timeline.object_of(record))
            return key if key.name else None
        return None

    @staticmethod
    def _key(exchange: Exchange, obj: dict | None) -> Key:
        return Key(
            exchange.group,
            exchange.resource,
            objects.namespace(obj) or exchange.namespace,
            objects.name(obj) or exchange.name,
        )

    def behind(self, client: str, key: Key, finish: float) -> list[tuple[float, float]]:
        """When (from, to) a client's view of an object differed from the API server's."""
        mine, truth = self._views.get(client, {}).get(key), self._views[""].get(key)
        if not mine or not truth:
            return []
        times = sorted({t for t, _ in (*mine, *truth) if t >= mine[0][0]} | {finish})
        spans: list[tuple[float, float]] = []
        for begin, end in zip(times, times[1:], strict=False):
            view = _at(mine, begin)
            if view != NO_VIEW and view != _at(truth, begin) and end > begin:
                if spans and spans[-1][1] == begin:
                    spans[-1] = (spans[-1][0], end)
                else:
                    spans.append((begin, end))
        return spans

    def furthest_behind(self, least: float = 0.25) -> Key | None:
        """The object whose view was stale for longest, in any client (``least`` seconds or more)."""
        longest, found = least, None
        finish = max(
            (steps[-1][0] for v in self._views.values() for steps in v.values()), default=0
        )
        for client, views in self._views.items():
            for key in views if client else ():
                total = sum(end - begin for begin, end in self.behind(client, key, finish))
                if total > longest:
                    longest, found = total, key
        return found

    def to_json(self, wanted: dict[Key, int], start: float, finish: float) -> list[dict[str, Any]]:
        """For each wanted object, by its number: who was behind, and when (seconds from start)."""
        out: list[dict[str, Any]] = [{} for _ in wanted]
        for client in self._views:
            for key in self._views[client] if client else ():
                if key in wanted and (spans := self.behind(client, key, finish)):
                    out[wanted[key]][client] = [
                        [
                            round(begin - start, 4),
                            round(end - start, 4),
                            _at(self._views[client][key], begin),
                            _at(self._views[""][key], begin),
                        ]
                        for begin, end in spans
                        if end - begin > 0.001
                    ]
        return out


def _at(steps: list[Step], t: float) -> int | None:
    """The version in force at a time."""
    version = None
    for since, value in steps:
        if since > t:
            break
        version = value
    return version
