"""A run's timeline as one HTML file: a lane for each client, time from left to right.

No network, no other file: style, script and data are in the page, so it can be
sent. What is drawn is also there as lines of text, for a screen reader and for
search. When the page opens it follows the object
whose view in some client lagged most.

The script draws; what it draws is decided here, so that it can be tested.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from importlib import resources
from typing import Any

from grader.report.beliefs import Beliefs, label
from grader.wire.records import Exchange, Mark, Record, WatchEnd, WatchEvent
from grader.witness import Timeline
from grader.witness.objects import Key
from grader.witness.trace import end

#: Bodies are shown up to this many characters; whole, they are in wire.jsonl.
BODY = 3000
#: More records than this are hard to look at and slow to draw: the control plane's
#: own traffic is left out first, then its reads, and the page says so.
MANY = 4000

_SHOWN_MARKS = {
    "process_started": "start",
    "process_killed": "kill",
    "process_exited": "exit",
    "rule_added": "arm",
    "rule_removed": "remove",
    "rule_fired": "fault",
    "note": "note",
}


def page(timeline: Timeline, *, title: str, facts: Iterable[str] = ()) -> str:
    """The page for a timeline. ``facts`` are short lines about the run (versions, seed)."""
    data = drawing(timeline)
    script, style = _part("timeline.js"), _part("timeline.css")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
        f"<title>{html.escape(title)}</title>\n<style>\n{style}</style></head>\n<body>\n"
        f"<header><h1>{html.escape(title)}</h1>\n"
        f"<p class=mute>{html.escape(' · '.join(facts))}</p></header>\n"
        '<main id="app"><noscript><p>The picture needs JavaScript; the lines below do not.</p>'
        "</noscript></main>\n"
        f"<details id=lines{' open' if not data['items'] else ''}><summary>The same as text "
        f"({len(data['lines'])} lines)</summary>\n<ol>\n"
        + "\n".join(
            f'<li id="line-{n}"><code>{html.escape(line)}</code></li>'
            for n, line in enumerate(data["lines"])
        )
        + f"\n</ol></details>\n<script type=application/json id=data>{_embedded(data)}</script>\n"
        f"<script>\n{script}</script>\n</body></html>\n"
    )


def drawing(timeline: Timeline) -> dict[str, Any]:
    """What the page draws, as JSON: lanes with rows, items on them, objects and beliefs.

    ``items`` have ``k`` (``x`` exchange, ``w`` open watch, ``e`` event, ``m`` mark),
    ``t`` and ``u`` (seconds from the start; ``u`` where it ended), ``lane``,
    ``row``, ``c`` (a class for its colour), ``o`` (index into ``objects``, -1 for
    none) and ``n`` (index into ``lines``).
    """
    records = [record for record in timeline if _is_shown(record)]
    kept, left_out = _kept(timeline, records)
    start = timeline.start
    finish = max((end(record) for record in kept), default=start)
    lanes = _Lanes(kept)
    beliefs = Beliefs(timeline)
    found: dict[Key, int] = {}
    ends = {
        (record.client, record.watch): record for record in timeline if isinstance(record, WatchEnd)
    }
    items, lines = [], []
    for record in kept:
        item = _item(record, timeline, ends, finish)
        key = beliefs.key_of(record)
        item["o"] = found.setdefault(key, len(found)) if key else -1
        item["lane"], item["row"] = lanes.place(record, timeline)
        item["t"], item["u"] = round(item["t"] - start, 4), round(item["u"] - start, 4)
        item["n"] = len(lines)
        lines.append(timeline.line(record))
        items.append(item)
    furthest = beliefs.furthest_behind()
    return {
        "span": round(finish - start, 4),
        "lanes": lanes.to_json(),
        "objects": [label(key) for key in found],
        "beliefs": beliefs.to_json(found, start, finish),
        "follow": found.get(furthest, -1) if furthest else -1,
        "items": items,
        "lines": lines,
        "left_out": left_out,
    }


# -- what is shown -----------------------------------------------------------


def _is_shown(record: Record) -> bool:
    if isinstance(record, Mark):
        return record.what in _SHOWN_MARKS
    if isinstance(record, WatchEvent):
        return record.type != "BOOKMARK"
    return not isinstance(record, WatchEnd)


def _kept(timeline: Timeline, records: list[Record]) -> tuple[list[Record], str]:
    """The records to draw, and a sentence on what was left out (empty: nothing)."""
    if len(records) <= MANY:
        return records, ""

    def is_theirs(record: Record) -> bool:
        return isinstance(record, Exchange) and record.source == "audit"

    for what, drop in (
        ("reads that went through no wire", lambda r: is_theirs(r) and not r.is_write),
        ("requests that went through no wire", is_theirs),
    ):
        kept = [record for record in records if not drop(record)]
        if len(kept) <= MANY:
            return kept, f"{len(records) - len(kept)} {what} are left out"
    return kept[:MANY], f"only the first {MANY} of {len(records)} records are shown"


def _item(record: Record, timeline: Timeline, ends: dict, finish: float) -> dict[str, Any]:
    if isinstance(record, Mark):
        kind = _SHOWN_MARKS[record.what]
        return {"k": "m", "c": kind, "t": record.t, "u": record.t, "d": _body(record.data)}
    if isinstance(record, WatchEvent):
        colour = record.type.lower() if record.fate == "delivered" else record.fate
        return {
            "k": "e",
            "c": colour,
            "t": record.t_received,
            "u": record.t,
            "f": record.faults,
            "d": _body(record.object),
        }
    assert isinstance(record, Exchange)
    if record.verb == "watch":
        ended = ends.get((record.client, record.seq))
        return {
            "k": "w",
            "c": ended.by if ended else "open",
            "t": record.t_request,
            "u": ended.t if ended else finish,
            "f": record.faults,
            "d": "",
        }
    return {
        "k": "x",
        "c": _colour(record),
        "w": record.is_write,
        "t": record.t_request,
        "u": record.t_end,
        "f": record.faults,
        "d": _body(record.request_body) if record.is_write else "",
        "a": _body(record.answer if record.is_write or record.name else None),
    }


def _colour(record: Exchange) -> str:
    """The outcome of a request: ``ok``, ``refused``, ``failed`` or ``silent``."""
    if record.status is None:
        return "silent"
    if record.status >= 500 or record.status == 429:
        return "failed"
    return "refused" if record.status >= 400 else "ok"


def _body(body: Any) -> str:
    """A body to look at: JSON without managedFields, cut where it is long."""
    if body is None or body == "":
        return ""
    if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
        slim = {k: v for k, v in body["metadata"].items() if k != "managedFields"}
        body = {**body, "metadata": slim}
    said = body if isinstance(body, str) else json.dumps(body, indent=1, ensure_ascii=False)
    return said if len(said) <= BODY else said[:BODY] + "\n… the rest is in wire.jsonl"


# -- lanes --------------------------------------------------------------------


class _Lanes:
    """A lane for each client; in it a row for requests, then one for each kind it watches.

    Clients with a wire come first: the run is about them.
    """

    def __init__(self, records: list[Record]) -> None:
        self._lanes: dict[str, dict[str, int]] = {}
        for record in sorted(records, key=lambda r: getattr(r, "source", "wire") == "audit"):
            self._lanes.setdefault(record.client, {"requests": 0})

    def place(self, record: Record, timeline: Timeline) -> tuple[int, int]:
        """The lane and row (numbers) where a record is drawn; a row is made where it is new."""
        rows = self._lanes[record.client]
        lane = list(self._lanes).index(record.client)
        row = "requests"
        if isinstance(record, Exchange) and record.verb == "watch":
            row = record.resource
        elif isinstance(record, WatchEvent):
            opened = timeline.opened(record)
            row = opened.resource if opened else ""
        return lane, rows.setdefault(row or "events", len(rows))

    def to_json(self) -> list[dict[str, Any]]:
        return [{"name": name, "rows": list(rows)} for name, rows in self._lanes.items()]


def _part(name: str) -> str:
    return resources.files("grader.report").joinpath(name).read_text(encoding="utf-8")


def _embedded(data: dict[str, Any]) -> str:
    """JSON that may stand in a script element, whatever strings are in it."""
    said = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return said.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
