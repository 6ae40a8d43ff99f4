"""One line for a record, as messages and the text timeline show it."""

from __future__ import annotations

from grader.wire.records import Exchange, Mark, Record, WatchEnd, WatchEvent
from grader.witness import objects

_APPLIED = {True: "yes", False: "no", None: "unknown"}
_MARKS = {
    "rule_added": "rule {rule} armed: {text}",
    "rule_removed": "rule {rule} removed: {text}",
    "rule_fired": "rule {rule} acted: {text}",
    "process_started": "process started",
    "process_killed": "process killed ({when} {verb} {resource} {name})",
    "process_exited": "process exited ({code})",
    "request_refused": "{method} refused ({code}): not from the wire's own program",
    "wire_opened": "wire opened",
    "wire_closed": "wire closed",
}


class _Blank(dict):
    def __missing__(self, key: str) -> str:
        return "?"


def describe(record: Record, start: float = 0.0, resource: str = "") -> str:
    """One line for a record, its time in seconds since ``start``.

    ``resource`` names what a watch event's object is (an event does not say).

    >>> describe(exchange, start=t0)
    '12.412s  operator  PUT /apis/.../foos/a  409 Conflict (applied: no)'
    """
    return f"{record.t - start:7.3f}s  {record.client}  {what(record, resource)}"


def what(record: Record, resource: str = "") -> str:
    """The same without time and client."""
    if isinstance(record, Exchange):
        return _exchange(record)
    if isinstance(record, WatchEvent):
        return _event(record, resource)
    if isinstance(record, WatchEnd):
        return f"watch {record.watch} ended by the {record.by}"
    return _mark(record)


def _exchange(exchange: Exchange) -> str:
    path = exchange.path
    if exchange.verb == "watch":
        path += " (watch"
        if version := exchange.query.get("resourceVersion"):
            path += f" from {version}"
        path += ", sendInitialEvents)" if exchange.query.get("sendInitialEvents") else ")"
    elif exchange.verb == "create" and exchange.name and not path.endswith("/" + exchange.name):
        path += f" ({exchange.name})"
    line = f"{exchange.method} {path}  {_status(exchange)}"
    details = []
    if exchange.is_write:
        details.append(f"applied: {_APPLIED[exchange.applied]}")
    if exchange.faults:
        details.append(f"by rule {', '.join(exchange.faults)}")
    if exchange.error:
        details.append(exchange.error)
    return line + (f" ({'; '.join(details)})" if details else "")


def _status(exchange: Exchange) -> str:
    if exchange.status is None:
        return "no answer"
    body = exchange.response_body
    reason = body.get("reason") if isinstance(body, dict) and body.get("kind") == "Status" else ""
    return f"{exchange.status} {reason or ''}".strip()


def _event(event: WatchEvent, resource: str) -> str:
    where = "/".join(p for p in (objects.namespace(event.object), objects.name(event.object)) if p)
    kind = resource or (event.object or {}).get("kind", "")
    line = f"<- {event.type} {kind} {where} rv={objects.resource_version(event.object)}"
    if event.type == "ERROR":
        line = f"<- ERROR {event.object.get('code')} {event.object.get('reason')}"
    details = [] if event.fate == "delivered" else [event.fate]
    if event.faults:
        details.append(f"by rule {', '.join(event.faults)}")
    if event.t_delivered is not None and event.t_delivered - event.t_received > 0.05:
        details.append(f"{event.t_delivered - event.t_received:.3f}s late")
    return line + (f" ({'; '.join(details)})" if details else "")


def _mark(mark: Mark) -> str:
    text = _MARKS.get(mark.what)
    if text is None:
        details = " ".join(f"{k}={v}" for k, v in mark.data.items())
        return f"-- {mark.what} {details}".rstrip()
    line = text.format_map(_Blank(mark.data))
    if mark.what == "rule_fired" and mark.data.get("name"):
        line += f" (on {mark.data.get('namespace') or '-'}/{mark.data['name']})"
    return f"-- {line}"
