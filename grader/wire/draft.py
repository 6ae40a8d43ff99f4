"""An exchange in progress: what its line in the record will be."""

from __future__ import annotations

import json
import time

from aiohttp import web

from grader.wire import protobuf, redaction
from grader.wire.engine import Armed
from grader.wire.recorder import Raw, Recorder, embed, embed_answer
from grader.wire.records import WRITE_VERBS
from grader.wire.requests import RequestInfo


class Draft:
    """Collects what is known of a request until :meth:`write`, which happens once."""

    def __init__(
        self,
        request: web.BaseRequest,
        target: str,
        t: float,
        audit_id: str,
        user: str,
        recorder: Recorder,
    ) -> None:
        self._request = request
        self._recorder = recorder
        self._t = t
        self._user = user
        self._info = RequestInfo("other")
        self._path = target
        self._query: dict[str, str] = {}
        self._seq: int | None = None
        self.audit_id = audit_id
        self.body = b""
        self.forwarded = False
        self.faults: list[str] = []
        self.server_status: int | None = None
        self.response_type = ""
        #: The API server's answer, in the pieces in which it came.
        self.answer: list[bytes] = []
        self.error = ""
        #: Delays of the answer, to be waited out once it is there.
        self.delays: list[Armed] = []
        self.time_out_after = False

    def read(self, info: RequestInfo, path: str, query: dict[str, str]) -> None:
        """What the request was understood to ask."""
        self._info, self._path, self._query = info, path, query

    @property
    def query(self) -> dict[str, str]:
        return self._query

    @property
    def applied(self) -> bool:
        """Whether the API server has answered that it applied a write."""
        return (
            self._info.verb in WRITE_VERBS
            and not self._query.get("dryRun")
            and self.server_status is not None
            and 200 <= self.server_status < 300
        )

    def name_asked(self) -> str:
        """The object's name as the request has it: in the path, or of a new object in its body."""
        return self._info.name or _name(self.body)

    def name_known(self) -> str:
        """The same; where the API server chose the name (generateName), from its answer."""
        return self.name_asked() or _name(b"".join(self.answer))

    def summary(self) -> dict[str, str]:
        """What it is about, for the marks of rules."""
        info = self._info
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        return {
            "verb": info.verb,
            "resource": resource,
            "namespace": info.namespace,
            "name": self.name_known() if info.verb == "create" else info.name,
        }

    def write(self, *, status: int | None, told: bytes | None = None) -> int:
        """Write the exchange down; returns its ``seq``.

        ``status`` is what the process is told, ``told`` the body where that is not
        the API server's. A second call does nothing: the first says what happened.
        """
        if self._seq is not None:
            return self._seq
        info, request = self._info, self._request
        content_type = request.headers.get("Content-Type", "")
        raw: dict[str, Raw] = {"request_body": embed(self.body, content_type)}
        if self.error:
            # It may have broken off in the middle.
            answer: Raw = embed(b"".join(self.answer), self.response_type)
        else:
            answer = embed_answer(self.answer, self.response_type)
        if status is not None and told is None:
            raw["response_body"] = answer
        else:
            raw["response_body"] = told or b"null"
            raw["withheld_body"] = answer
        if redaction.is_secret(info.resource, info.subresource):
            raw = {key: redaction.body(value) for key, value in raw.items()}
        fields = {
            "kind": "exchange",
            "verb": info.verb,
            "method": request.method,
            "path": self._path,
            "query": self._query,
            "group": info.group,
            "version": info.version,
            "resource": info.resource,
            "subresource": info.subresource,
            "namespace": info.namespace,
            "name": self.name_known() if info.verb == "create" else info.name,
            "user_agent": request.headers.get("User-Agent", ""),
            "content_type": content_type,
            "status": status,
            "t_request": self._t,
            "t_response": None if status is None else time.time(),
            "forwarded": self.forwarded,
            "faults": self.faults,
            "audit_id": self.audit_id,
            "server_status": self.server_status,
            "error": self.error,
            "user": self._user,
        }
        self._seq = self._recorder.line(fields, **raw)
        return self._seq


def _name(body: bytes) -> str:
    if name := protobuf.object_name(body):
        return name
    try:
        data = json.loads(body)
        # A refused create names the object in its Status.
        about = data.get("details" if data.get("kind") == "Status" else "metadata")
        return str((about or {}).get("name") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
