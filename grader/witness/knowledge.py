"""What a client could know: the objects as its lists, responses and watch events had them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grader.wire.records import Exchange, Record, WatchEvent
from grader.witness import objects
from grader.witness.objects import Key


@dataclass(frozen=True)
class Known:
    """One object as it was known, and the record that it was known from."""

    object: dict
    told_by: Record

    @property
    def version(self) -> int:
        """Its resourceVersion as a number."""
        return objects.resource_version(self.object)


class Knowledge:
    """Objects by key; :meth:`learn` takes in records in the order in which they became known.

    A newer state is never replaced by an older one of the same UID: a client that
    is told twice can tell which is newer.
    """

    def __init__(self) -> None:
        self._objects: dict[Key, Known] = {}
        #: Highest version seen of what is gone, so that a late event does not revive it.
        self._gone: dict[str, int] = {}

    def get(
        self, resource: str, name: str, namespace: str = "", group: str | None = None
    ) -> dict | None:
        """The object as known, None where it was not known to exist."""
        known = self.known(resource, name, namespace, group)
        return known.object if known else None

    def known(
        self, resource: str, name: str, namespace: str = "", group: str | None = None
    ) -> Known | None:
        """The same with the record that it was known from."""
        for key, known in self._objects.items():
            if key.resource == resource and key.name == name and key.namespace == namespace:
                if group is None or key.group == group:
                    return known
        return None

    def all(self, resource: str, namespace: str | None = None) -> list[dict]:
        """The objects of a kind that were known, of one namespace or of all."""
        return [
            known.object
            for key, known in self._objects.items()
            if key.resource == resource and (namespace is None or key.namespace == namespace)
        ]

    def __len__(self) -> int:
        return len(self._objects)

    def learn(self, record: Record, opened: Exchange | None = None, *, told: bool = True) -> None:
        """Take in what a record tells. ``opened`` is the exchange that opened an event's watch.

        ``told`` False takes the API server's answers even where they were withheld
        and events that were never delivered: the truth rather than what was heard.
        """
        if isinstance(record, WatchEvent):
            if opened is not None and (record.t_delivered is not None or not told):
                self._learn_event(record, opened)
        elif isinstance(record, Exchange) and record.resource and not record.subresource_is_view:
            body = record.response_body if told else record.answer
            status = record.status if told else record.server_status
            self._learn_answer(record, body, status)

    def _learn_event(self, event: WatchEvent, opened: Exchange) -> None:
        key = _key(opened, event.object)
        if event.type in ("ADDED", "MODIFIED"):
            self._put(key, event.object, event)
        elif event.type == "DELETED":
            self._drop(key, event.object)

    def _learn_answer(self, exchange: Exchange, body: object, status: int | None) -> None:
        if status is None:
            return
        if status == 404 and exchange.name and exchange.verb == "get":
            self._objects.pop(_key(exchange, None), None)
        if not 200 <= status < 300:
            return
        if exchange.verb == "list" and isinstance(body, dict) and "items" in body:
            self._learn_list(exchange, body)
        elif exchange.verb == "delete" and not objects.being_deleted(body):
            key = _key(exchange, None)
            known = self._objects.get(key)
            # Answered with a Status, or with the last state of what is gone now. One
            # that waits for finalizers is answered with its deletionTimestamp.
            if known is not None and not objects.metadata(known.object).get("finalizers"):
                self._drop(key, body if objects.is_object(body) else known.object)
        elif objects.is_object(body):
            self._put(_key(exchange, body), body, exchange)  # type: ignore[arg-type]

    def _learn_list(self, exchange: Exchange, body: dict) -> None:
        found = {_key(exchange, item): item for item in objects.items(body)}
        selective = any(
            exchange.query.get(p) for p in ("labelSelector", "fieldSelector", "limit", "continue")
        )
        if not selective:
            for key in [k for k in self._objects if self._in_scope(k, exchange)]:
                if key not in found:
                    del self._objects[key]
        for key, item in found.items():
            self._put(key, item, exchange)

    @staticmethod
    def _in_scope(key: Key, exchange: Exchange) -> bool:
        return (
            key.resource == exchange.resource
            and key.group == exchange.group
            and exchange.namespace in ("", key.namespace)
        )

    def _put(self, key: Key, obj: dict, told_by: Record) -> None:
        version = objects.resource_version(obj)
        known = self._objects.get(key)
        if known is not None and version and version < known.version:
            return
        if version and version <= self._gone.get(objects.uid(obj), 0):
            return
        self._objects[key] = Known(obj, told_by)

    def _drop(self, key: Key, obj: dict) -> None:
        known = self._objects.get(key)
        uid = objects.uid(obj)
        if known is not None and (not uid or objects.uid(known.object) == uid):
            del self._objects[key]
        if uid:
            self._gone[uid] = max(self._gone.get(uid, 0), objects.resource_version(obj))


def _key(exchange: Exchange, obj: dict | None) -> Key:
    return Key(
        exchange.group,
        exchange.resource,
        objects.namespace(obj) or exchange.namespace,
        objects.name(obj) or exchange.name,
    )


def gather(records: Iterable[tuple[Record, Exchange | None]], *, told: bool = True) -> Knowledge:
    """The knowledge from records, each with the exchange that opened its watch."""
    knowledge = Knowledge()
    for record, opened in records:
        knowledge.learn(record, opened, told=told)
    return knowledge
