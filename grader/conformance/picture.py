"""The table of kill points as a picture: a row for each write, a column for each side of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

_ROW, _TOP, _LEFT, _CELL, _GAP = 26, 74, 300, 92, 18
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}"
    ".t{font-weight:600;font-size:15px}.h{fill:#555;font-size:12px}"
    ".ok{fill:#2a7f62}.lost{fill:#b3261e}.none{fill:#9a9a9a}"
    ".m{fill:#fff;font-weight:600;text-anchor:middle}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.h{fill:#aaa}.m{fill:#fff}}"
)
_WORDS = {True: ("ok", "converged"), False: ("lost", "lost work"), None: ("none", "no such write")}


def kill_picture(title: str, columns: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, str]:
    """An SVG and its words (``svg``, ``alt``) of one or more runs of the kill table.

    ``columns`` is a name (``level``, ``edge``; or the two artifacts) to outcomes
    as :meth:`grader.conformance.parts.killpoints.Outcome.to_json` has them. Each
    name becomes two columns: killed before the write, and after it.
    """
    rows: list[tuple[str, str]] = []
    cells: dict[tuple[str, str, str, str], bool | None] = {}
    for name, outcomes in columns.items():
        for outcome in outcomes:
            write = outcome["shown"].partition(" ")[2]
            row = (outcome["step"], write)
            if row not in rows:
                rows.append(row)
            cells[(*row, name, outcome["side"])] = outcome["converged"]
    rows.sort(key=lambda row: ("create", "update", "delete").index(row[0]))
    width = _LEFT + len(columns) * (2 * _CELL + _GAP) + 16
    parts, lost = [], []
    for number, name in enumerate(columns):
        left = _LEFT + number * (2 * _CELL + _GAP)
        parts.append(f'<text class="t" x="{left}" y="46">{escape(name)}</text>')
        for offset, side in enumerate(("before", "after")):
            parts.append(f'<text class="h" x="{left + offset * _CELL}" y="64">killed {side}</text>')
    y, step = _TOP, ""
    for row in rows:
        if row[0] != step:
            step = row[0]
            y += 20
            parts.append(f'<text class="t" x="16" y="{y - 6}">{escape(step)}</text>')
        parts.append(f'<text x="28" y="{y + 17}">{escape(row[1])}</text>')
        for number, name in enumerate(columns):
            for offset, side in enumerate(("before", "after")):
                key = (*row, name, side)
                if key not in cells:
                    continue
                kind, word = _WORDS[cells[key]]
                x = _LEFT + number * (2 * _CELL + _GAP) + offset * _CELL
                parts.append(
                    f'<rect class="{kind}" x="{x}" y="{y + 2}" width="{_CELL - 4}" '
                    f'height="{_ROW - 4}" rx="3"/><text class="m" x="{x + _CELL / 2 - 2}" '
                    f'y="{y + 17}">{word}</text>'
                )
                if cells[key] is False:
                    lost.append(f"{name}, {step}: {side} {row[1]}")
        y += _ROW
    tried = sum(value is not None for value in cells.values())
    told = f"{tried} kill points were tried. " + (
        "Work was lost at: " + "; ".join(lost) + "." if lost else "No work was lost at any."
    )
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y + 12}" width="{width}" '
        f'height="{y + 12}" role="img" aria-label={quoteattr(title)}><title>{escape(title)}</title>'
        f"<desc>{escape(told)}</desc><style>{escape(_STYLE)}</style>"
        f'<text class="t" x="16" y="22">{escape(title)}</text>{"".join(parts)}</svg>'
    )
    return {"svg": svg, "alt": f"{title}. {told}"}
