"""The table of kill points as a picture: a row for each write, a column for each side of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

#: Pixels: the name of a write, a cell, the space between two runs, a row.
_NAME, _CELL, _GAP, _ROW = 240, 108, 20, 28
_EDGE, _TOP = 14, 86
_SIDES = ("before", "after")
_STEPS = {
    "create": "a WebApp is created",
    "update": "image and replicas change",
    "delete": "the WebApp is deleted",
}
#: What was lost stands out by form and by words, not by colour alone.
_STYLE = (
    ".b{fill:#fff}text{font:13px system-ui,sans-serif;fill:#24292f}"
    ".t{font-size:15px;font-weight:600}.k{font-weight:600}.s{font-size:12px;fill:#57606a}"
    ".m{text-anchor:middle}.l{stroke:#d0d7de}"
    ".ok{fill:#dcefe4}.okt{fill:#1a5c40}.lost{fill:#b3261e}.lostt{fill:#fff;font-weight:600}"
    ".none{fill:none;stroke:#8c959f;stroke-dasharray:3 3}"
    "@media(prefers-color-scheme:dark){.b{fill:#161b22}text{fill:#d1d7e0}.s{fill:#9198a1}.l{stroke:#3d444d}"
    ".ok{fill:#1d3b2d}.okt{fill:#9fd8b8}.lost{fill:#c93c37}.lostt{fill:#fff}}"
)


def kill_picture(title: str, columns: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, str]:
    """An SVG and its words (``svg``, ``alt``) of one or more runs of the kill table.

    ``columns`` is a name to outcomes as
    :meth:`grader.conformance.parts.killpoints.Outcome.to_json` has them; what
    follows a colon in the name («level: lists at start») is written below it.
    Each name becomes two columns: killed before the write, and after it.
    """
    table = _Table(columns)
    drawn = [f'<text class="t" x="{_EDGE}" y="26">{escape(title)}</text>']
    for number, name in enumerate(columns):
        left = _left(number)
        head, _, below = name.partition(": ")
        drawn.append(
            f'<text x="{left}" y="54"><tspan class="k">{escape(head)}</tspan> '
            f'<tspan class="s">{escape(below)}</tspan></text>'
        )
        for offset, side in enumerate(_SIDES):
            middle = left + offset * _CELL + _CELL / 2 - 2
            drawn.append(f'<text class="s m" x="{middle}" y="76">killed {side}</text>')
    y, step = _TOP, ""
    for row in table.rows:
        if row[0] != step:
            step = row[0]
            drawn.append(_line(y + 4, len(columns)))
            drawn.append(f'<text class="s" x="{_EDGE}" y="{y + 22}">{_STEPS[step]}</text>')
            y += _ROW
        drawn.append(f'<text x="{_EDGE + 12}" y="{y + 18}">{escape(row[1])}</text>')
        for number, name in enumerate(columns):
            for offset, side in enumerate(_SIDES):
                if (outcome := table.cells.get((*row, name, side))) is not None:
                    drawn.append(_cell(outcome, _left(number) + offset * _CELL, y))
        y += _ROW
    drawn.append(_line(y + 6, len(columns)))
    y += 28
    drawn.append(f'<text class="k" x="{_EDGE}" y="{y}">work was lost at</text>')
    for number, name in enumerate(columns):
        lost, tried = table.count(name)
        drawn.append(f'<text class="k" x="{_left(number)}" y="{y}">{lost} of {tried}</text>')
    y += 26
    for kind, text in (
        ("ok", "converges as without the kill"),
        ("lost", "does not converge, and what is missing"),
        ("none", "the write did not happen this time, and nothing was lost"),
    ):
        if kind == "none" and not table.has_none:
            continue
        drawn.append(
            f'<rect class="{kind}" x="{_EDGE}" y="{y - 11}" width="14" height="14" rx="3"/>'
            f'<text class="s" x="{_EDGE + 22}" y="{y}">{text}</text>'
        )
        y += 20
    y -= 20
    width, height = _left(len(columns)) - _GAP + _EDGE, y + 14
    told = table.told()
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label={quoteattr(title)}>'
        f"<title>{escape(title)}</title><desc>{escape(told)}</desc>"
        f"<style>{escape(_STYLE)}</style>"
        f'<rect class="b" width="{width}" height="{height}" rx="8"/>{"".join(drawn)}</svg>'
    )
    return {"svg": svg, "alt": f"{title}. {told}"}


class _Table:
    """The outcomes by row (step and write), run and side."""

    def __init__(self, columns: Mapping[str, Sequence[dict[str, Any]]]) -> None:
        self.rows: list[tuple[str, str]] = []
        self.cells: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        for name, outcomes in columns.items():
            for outcome in outcomes:
                row = (outcome["step"], outcome["shown"].partition(" ")[2])
                if row not in self.rows:
                    self.rows.append(row)
                self.cells[(*row, name, outcome["side"])] = outcome
        self.rows.sort(key=lambda row: list(_STEPS).index(row[0]))

    def count(self, name: str) -> tuple[int, int]:
        """At how many kill points work was lost, and how many were tried."""
        ended = [o["converged"] for key, o in self.cells.items() if key[2] == name]
        return ended.count(False), len(ended) - ended.count(None)

    @property
    def has_none(self) -> bool:
        """Whether a write did not happen when its kill point was tried."""
        return any(outcome["converged"] is None for outcome in self.cells.values())

    def told(self) -> str:
        """The picture in words."""
        tried = sum(outcome["converged"] is not None for outcome in self.cells.values())
        lost = [
            f"{name.partition(':')[0]}, {step}: {side} {write}"
            + (f" ({outcome['missing']})" if outcome.get("missing") else "")
            for (step, write, name, side), outcome in self.cells.items()
            if outcome["converged"] is False
        ]
        said = f"Work was lost at: {'; '.join(lost)}." if lost else "No work was lost."
        return f"{tried} kill points were tried. {said}"


def _left(number: int) -> int:
    return _EDGE + _NAME + number * (2 * _CELL + _GAP)


def _line(y: int, runs: int) -> str:
    return f'<path class="l" d="M{_EDGE} {y}H{_left(runs) - _GAP}"/>'


def _cell(outcome: Mapping[str, Any], x: int, y: int) -> str:
    kind = {True: "ok", False: "lost", None: "none"}[outcome["converged"]]
    word = {"ok": "✓", "lost": outcome.get("missing") or "lost", "none": "no such write"}[kind]
    return (
        f'<rect class="{kind}" x="{x}" y="{y + 2}" width="{_CELL - 4}" height="{_ROW - 4}" rx="4"/>'
        f'<text class="m {kind}t" x="{x + _CELL / 2 - 2}" y="{y + 18.5}">{escape(word)}</text>'
    )
