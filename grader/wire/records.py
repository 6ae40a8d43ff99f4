"""What the wire writes down: one JSON object a line, in ``wire.jsonl``.

Times are seconds since the epoch (float, from one clock, so that they can be
compared across the wires of a run). ``seq`` numbers are unique in a file and
rise in the order in which things happened on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

#: The verb as Kubernetes' own audit log names it.
Verb = Literal[
    "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "other"
]


@dataclass
class Exchange:
    """One request and its answer. For a watch, the request that opened it.

    ``status`` is None where the process got no answer (it was killed, the
    connection was cut, or the answer was dropped). ``applied`` says whether the
    API server was asked at all: False for an answer that a rule made up or a
    kill before forwarding.
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

    kind = "exchange"


@dataclass
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


@dataclass
class WatchEnd:
    """A watch ended: by the server, the client, a rule, or the wire closing."""

    seq: int
    watch: int
    client: str
    by: Literal["server", "client", "rule", "wire"]
    t: float

    kind = "watch_end"


@dataclass
class Mark:
    """Something that is not traffic: a fault armed, a process killed or started, a note.

    ``what`` is a stable word (``process_started``, ``process_killed``,
    ``process_exited``, ``rule_added``, ``rule_removed``, ``rule_fired``,
    ``note``); ``data`` holds its particulars (JSON).
    """

    seq: int
    client: str
    what: str
    t: float
    data: dict = field(default_factory=dict)

    kind = "mark"
