"""What the wire records: one JSON object per line, in ``wire.jsonl``.

Times are seconds since the epoch (float, from one clock, so that they can be
compared across the wires of a run). ``seq`` numbers are unique in a file and
rise in the order of recording; a line is on disk before
the process at the other end of the wire can act on what it says.

Each line has a ``kind`` (``exchange``, ``event``, ``watch_end``, ``mark``) and
the fields of the class below of that kind. :func:`parse_line` reads one.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

#: The verb as Kubernetes' own audit log names it.
Verb = Literal[
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "other"
]

#: Verbs that can change something.
WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(eq=False)
class Exchange:
    """One request and its answer. For a watch, the request that opened it.

    ``status`` and ``response_body`` are what the process was told: None where
    it got no answer (it was killed, the connection was cut, or the answer was
    dropped). ``server_status`` is what the API server answered, None where it
    was never asked or its answer never came. Where the two differ, the API
    server's answer is ``withheld_body``. ``forwarded`` says whether the API
    server was asked at all: False for an answer that a rule made up or a kill
    before forwarding.

    >>> exchange.applied      # True / False / None when nobody can know
    >>> exchange.answer       # the API server's answer, told or withheld
    """

    seq: int
    client: str
    verb: Verb
    method: str
    path: str
    query: dict[str, str]
    group: str
    version: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user_agent: str
    content_type: str
    request_body: Any
    status: int | None
    response_body: Any
    t_request: float
    t_response: float | None
    forwarded: bool = True
    #: Ids of the rules that acted on it, in order.
    faults: list[str] = field(default_factory=list)
    #: Equal to ``auditID`` in the API server's audit log.
    audit_id: str = ""
    server_status: int | None = None
    withheld_body: Any = None
    #: Why there was no answer, in words; empty where there was one.
    error: str = ""
    #: ``wire``, or ``audit`` for a request that went through no wire and is
    #: known from the audit log alone (``client`` is then the user's name).
    source: Literal["wire", "audit"] = "wire"
    #: The user the API server took it for; "" where the wire did not see it.
    user: str = ""

    kind = "exchange"

    @property
    def is_write(self) -> bool:
        """Whether it could change something (dry runs cannot)."""
        return self.verb in WRITE_VERBS and not self.query.get("dryRun")

    @property
    def applied(self) -> bool | None:
        """Whether the API server carried a write out; None when nobody can know.

        False for reads, for refused writes and for those never forwarded. None
        for a write that was forwarded and whose answer never came back.
        """
        if not self.is_write or not self.forwarded:
            return False
        if self.server_status is None:
            return None
        return 200 <= self.server_status < 300

    @property
    def answer(self) -> Any:
        """The API server's own answer, whether the process was told or not."""
        if self.withheld_body is not None:
            return self.withheld_body
        return self.response_body if self.forwarded else None

    @property
    def target(self) -> str:
        """``resource/subresource`` or ``resource``, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

    @property
    def subresource_is_view(self) -> bool:
        """Whether the subresource answers with something else than the object itself.

        ``status`` and ``finalize`` are written with and answer with the object;
        ``scale``, ``log``, ``eviction``, ... do not.
        """
        return self.subresource not in ("", "status", "finalize")

    @property
    def t(self) -> float:
        """When the request arrived."""
        return self.t_request

    @property
    def t_end(self) -> float:
        """When it was answered; when it arrived, where it never was."""
        return self.t_request if self.t_response is None else self.t_response


@dataclass(eq=False)
class WatchEvent:
    """One event of a watch, as the API server sent it.

    ``watch`` is the ``seq`` of the exchange that opened the watch. ``fate`` is
    ``delivered``, ``hidden`` (a rule withheld it for good), ``lost`` (the watch
    ended while it was held) and ``t_delivered`` is None unless delivered.
    """

    seq: int
    watch: int
    client: str
    type: str
    object: dict
    t_received: float
    t_delivered: float | None
    fate: Literal["delivered", "hidden", "lost"] = "delivered"
    faults: list[str] = field(default_factory=list)

    kind = "event"

    @property
    def t(self) -> float:
        """When the process could first know of it; when it arrived, if it never could."""
        return self.t_received if self.t_delivered is None else self.t_delivered


@dataclass(eq=False)
class WatchEnd:
    """A watch ended: by the server, the client, a rule, or the wire closing."""

    seq: int
    watch: int
    client: str
    by: Literal["server", "client", "rule", "wire"]
    t: float

    kind = "watch_end"


@dataclass(eq=False)
class Mark:
    """Something that is not traffic: a fault armed, a process killed or started, a note.

    ``what`` is a stable word (``wire_opened``, ``wire_closed``,
    ``process_started``, ``process_killed``, ``process_exited``, ``rule_added``,
    ``rule_removed``, ``rule_fired``, ``request_refused`` (of
    another client, so no exchange of the process), ``note``); ``data`` holds
    its particulars (JSON). A ``rule_fired`` mark has ``rule`` (id), ``text`` and,
    for requests, ``audit_id``; for events, ``watch``.
    """

    seq: int
    client: str
    what: str
    t: float
    data: dict = field(default_factory=dict)

    kind = "mark"


Record = Exchange | WatchEvent | WatchEnd | Mark

_KINDS: dict[str, type] = {c.kind: c for c in (Exchange, WatchEvent, WatchEnd, Mark)}
_FIELDS = {kind: frozenset(f.name for f in fields(c)) for kind, c in _KINDS.items()}


_CLIENT = re.compile(r"[a-z0-9]([a-z0-9.-]{0,40}[a-z0-9])?")


def is_client_name(name: str) -> bool:
    """Whether a process can be called so: small letters, digits, hyphens; it names a folder too."""
    return bool(_CLIENT.fullmatch(name))


class RecordError(ValueError):
    """A line of a wire's record that cannot be read."""


def parse_line(line: bytes | str) -> Record:
    """Read one line of ``wire.jsonl``; raises :class:`RecordError`.

    Fields that this version does not know are left out, so that an older
    course can read a newer record.
    """
    try:
        data = json.loads(line)
        kind = data.pop("kind")
        known = _FIELDS[kind]
        return _KINDS[kind](**{k: v for k, v in data.items() if k in known})
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise RecordError(f"not a line of a wire's record: {e}") from None


def to_json(record: Record) -> dict:
    """The record as it stands on its line."""
    return {"kind": record.kind, **asdict(record)}
