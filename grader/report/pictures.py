"""Small pictures of what was measured, as SVG: a chart of lines, and lanes over time.

Each function returns ``{"svg": "<svg …>", "alt": "…"}``, which is how a report
holds a picture (see :class:`grader.report.model.Observation`)::

    observe("retry gaps", pictures.chart(
        "Gaps between retries", "The measured gaps follow the formula up to the cap.",
        [Series("formula", [(1, 0.005), (2, 0.01)], form="line"),
         Series("measured", [(1, 0.0061), (2, 0.0112)], form="points")],
        x="retry", y="seconds", log=True))

A picture carries its own title and description for screen readers, distinguishes its
series by form and dash as well as by colour, and adapts to a dark page.
The words of a picture are its maker's: they are escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

WIDTH = 720
#: Where the drawing is within the picture: left and right margin, and the top.
_LEFT, _RIGHT, _TOP = 72, 16, 52
_PLOT_HEIGHT = 240
_LANE_HEIGHT = 40

#: Blue, vermilion, green, purple, orange: told apart with any common colour blindness.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#b8860b")
_DASHES = ("", "6 4", "2 3", "8 3 2 3", "1 4")
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#24292f}.t{font-size:14px;font-weight:600}"
    ".g{stroke:#d0d7de;stroke-width:1}.a{stroke:#57606a;stroke-width:1}"
    "@media(prefers-color-scheme:dark){text{fill:#d1d7e0}.g{stroke:#3d444d}.a{stroke:#9198a1}}"
)


@dataclass(frozen=True)
class Series:
    """Points (x, y) of one name, joined by a line, by steps, or not at all."""

    name: str
    points: Sequence[tuple[float, float]]
    form: Literal["line", "steps", "points"] = "line"


@dataclass(frozen=True)
class Span:
    """A stretch of a lane, in seconds: ``label`` is written on it if there is room.

    ``kind`` picks the colour: spans of one kind look alike in all lanes.
    """

    start: float
    end: float
    kind: str
    label: str = ""


@dataclass(frozen=True)
class Moment:
    """A moment of a lane, in seconds, drawn as a tick with its label above."""

    at: float
    label: str = ""


@dataclass(frozen=True)
class Lane:
    """One process, object or cache over time."""

    name: str
    spans: Sequence[Span] = ()
    moments: Sequence[Moment] = ()


def chart(
    title: str,
    description: str,
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    log: bool = False,
) -> dict[str, str]:
    """A chart of one or more series; ``x`` and ``y`` name the axes, units included.

    ``log`` gives a logarithmic y axis, on which values of 0 or less are left
    out. Values that are not finite are left out. Raises ``ValueError`` where
    nothing is left to draw.
    """
    kept = [Series(s.name, [p for p in s.points if _drawable(p, log)], s.form) for s in series]
    xs = [p[0] for s in kept for p in s.points]
    ys = [p[1] for s in kept for p in s.points]
    if not xs:
        raise ValueError(f"the picture «{title}» has no points to draw")
    x_ticks = axis_ticks(min(xs), max(xs))
    y_ticks = _decades(min(ys), max(ys)) if log else axis_ticks(min(0.0, min(ys)), max(ys))
    across = _scale(x_ticks[0], x_ticks[-1], _LEFT, WIDTH - _RIGHT)
    bottom = _TOP + _PLOT_HEIGHT
    if log:
        up = _scale(math.log10(y_ticks[0]), math.log10(y_ticks[-1]), bottom, _TOP)
        height = lambda v: up(math.log10(v))  # noqa: E731
    else:
        height = _scale(y_ticks[0], y_ticks[-1], bottom, _TOP)
    parts = _axis(x_ticks, across, _TOP, bottom)
    for tick in y_ticks:
        at = height(tick)
        parts.append(
            f'<line class="g" x1="{_LEFT}" y1="{at:.1f}" x2="{WIDTH - _RIGHT}" y2="{at:.1f}"/>'
        )
        parts.append(_text(_LEFT - 8, at + 4, _number(tick), anchor="end"))
    parts.append(_text(WIDTH - _RIGHT, bottom + 36, x, anchor="end"))
    parts.append(_text(_LEFT - 56, _TOP - 10, y))
    legend = _LEFT
    for number, each in enumerate(kept):
        colour = _COLOURS[number % len(_COLOURS)]
        dash = _DASHES[number % len(_DASHES)]
        parts += _drawn(each, number, colour, dash, across, height)
        key_y = bottom + 58
        key = Series("", [(legend, key_y - 4), (legend + 24, key_y - 4)], each.form)
        parts += _drawn(key, number, colour, dash, float, float)
        parts.append(_text(legend + 32, key_y, each.name))
        legend += 60 + 7 * len(each.name)
    return _picture(title, description, bottom + 70, parts)


def lanes(
    title: str, description: str, rows: Sequence[Lane], *, unit: str = "seconds"
) -> dict[str, str]:
    """Lanes one above the other over one time axis, with spans and moments in them.

    Times are in ``unit`` from any common zero. Raises ``ValueError`` where there
    is nothing to draw.
    """
    times = [t for r in rows for s in r.spans for t in (s.start, s.end)]
    times += [m.at for r in rows for m in r.moments]
    times = [t for t in times if math.isfinite(t)]
    if not times:
        raise ValueError(f"the picture «{title}» has nothing in its lanes")
    left = max(_LEFT, 16 + 7 * max(len(r.name) for r in rows))
    ticks = axis_ticks(min(times), max(times))
    across = _scale(ticks[0], ticks[-1], left, WIDTH - _RIGHT)
    bottom = _TOP + _LANE_HEIGHT * len(rows) + 6
    kinds = list(dict.fromkeys(s.kind for r in rows for s in r.spans))
    parts = _axis(ticks, across, _TOP, bottom)
    for number, row in enumerate(rows):
        top = _TOP + _LANE_HEIGHT * number + 16
        parts.append(_text(left - 8, top + 15, row.name, anchor="end"))
        for span in row.spans:
            parts += _box(span, kinds.index(span.kind), across, top)
        for moment in row.moments:
            at = across(moment.at)
            parts.append(
                f'<line class="a" x1="{at:.1f}" y1="{top - 6}" x2="{at:.1f}" y2="{top + 23}" '
                f'stroke-width="2"><title>{escape(_told(row.name, moment))}</title></line>'
            )
            if moment.label:
                side = "end" if at > WIDTH - 120 else "start"
                parts.append(
                    _text(at + (-4 if side == "end" else 4), top - 4, moment.label, anchor=side)
                )
    parts.append(_text(WIDTH - _RIGHT, bottom + 36, unit, anchor="end"))
    legend = left
    for number, kind in enumerate(kinds):
        key = Span(legend, legend + 24, kind)
        parts += _box(key, number, float, bottom + 46)
        parts.append(_text(legend + 32, bottom + 61, kind))
        legend += 60 + 7 * len(kind)
    return _picture(title, description, bottom + 76, parts)


def _drawable(point: tuple[float, float], log: bool) -> bool:
    return all(math.isfinite(v) for v in point) and (point[1] > 0 or not log)


def _drawn(series: Series, number: int, colour: str, dash: str, across, height) -> list[str]:
    at = [(across(px), height(py)) for px, py in series.points]
    if series.form == "points":
        return [_point(number, px, py, colour) for px, py in at]
    path = [f"M{at[0][0]:.1f} {at[0][1]:.1f}"] if at else []
    for px, py in at[1:]:
        path.append(f"H{px:.1f}V{py:.1f}" if series.form == "steps" else f"L{px:.1f} {py:.1f}")
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    line = f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>'
    # A line of one point would be invisible.
    return [line] if len(at) > 1 else [_point(number, px, py, colour) for px, py in at]


def _point(number: int, px: float, py: float, colour: str) -> str:
    """A circle, a square or a diamond: the form tells series apart without colour."""
    if number % 3 == 0:
        return f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{colour}"/>'
    turn = f' transform="rotate(45 {px:.1f} {py:.1f})"' if number % 3 == 2 else ""
    return (
        f'<rect x="{px - 3.5:.1f}" y="{py - 3.5:.1f}" width="7" height="7" fill="{colour}"{turn}/>'
    )


def _box(span: Span, number: int, across, top: float) -> list[str]:
    begin, end = across(span.start), across(span.end)
    colour = _COLOURS[number % len(_COLOURS)]
    dash = _DASHES[number % len(_DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    parts = [
        f'<rect x="{begin:.1f}" y="{top}" width="{max(end - begin, 1):.1f}" height="20" rx="2" '
        f'fill="{colour}" fill-opacity="0.3" stroke="{colour}" stroke-width="1.5"{dashed}>'
        f"<title>{escape(span.label or span.kind)}</title></rect>"
    ]
    if span.label and 7 * len(span.label) < end - begin:
        parts.append(_text(begin + 5, top + 14, span.label))
    return parts


def _told(lane: str, moment: Moment) -> str:
    return f"{lane}, {_number(moment.at)}: {moment.label}" if moment.label else lane


def _axis(ticks: Sequence[float], across, top: float, bottom: float) -> list[str]:
    parts = []
    for tick in ticks:
        at = across(tick)
        parts.append(f'<line class="g" x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{bottom}"/>')
        parts.append(_text(at, bottom + 18, _number(tick), anchor="middle"))
    begin, end = across(ticks[0]), across(ticks[-1])
    parts.append(f'<line class="a" x1="{begin:.1f}" y1="{bottom}" x2="{end:.1f}" y2="{bottom}"/>')
    return parts


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{where}>{escape(text)}</text>'


def _picture(title: str, description: str, height: float, parts: Iterable[str]) -> dict[str, str]:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" role="img" aria-label={quoteattr(title)}>'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
        f"<style>{escape(_STYLE)}</style>"
        f'<text class="t" x="16" y="18">{escape(title)}</text>'
    )
    return {"svg": head + "".join(parts) + "</svg>", "alt": f"{title}. {description}"}


def _scale(low: float, high: float, at_low: float, at_high: float):
    width = (high - low) or 1.0
    return lambda value: at_low + (value - low) / width * (at_high - at_low)


def axis_ticks(low: float, high: float) -> list[float]:
    """Round numbers (1, 2, 5 times a power of ten) from at or below ``low`` to at or above ``high``."""
    if high - low <= max(abs(high) * 1e-9, 1e-12):
        high = low + (abs(low) if abs(low) > 1e-12 else 1.0)
    rough = (high - low) / 7
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [n * step for n in range(first, max(last, first + 1) + 1)]


def _decades(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    return [10.0**n for n in range(first, max(last, first + 1) + 1)]


def _number(value: float) -> str:
    return f"{value:.6g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.0e}"
