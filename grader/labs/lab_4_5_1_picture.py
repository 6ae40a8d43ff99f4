"""Failovers on one clock: a row each, from a little before the event to the next leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from grader.labs.lab_4_5_1_failover import DEADLINE, Failover

#: Pixels: margin, width of the clock, a row, the title above. Seconds shown before the event.
_EDGE, _WIDTH, _ROW, _TOP, _BEFORE = 16, 560, 96, 44, 2.0
_STYLE = (
    ".b{fill:#fff}text{font:13px system-ui,sans-serif;fill:#24292f}"
    ".t{font-size:15px;font-weight:600}.k{font-weight:600}.s{font-size:12px;fill:#57606a}"
    ".m{text-anchor:middle}.l{stroke:#d0d7de}.now{stroke:#57606a;stroke-dasharray:3 3}"
    ".band{fill:#ddebfa}.renew{stroke:#1a5c40;stroke-width:2}.write{fill:#1a5c40}"
    ".rel{fill:none;stroke:#1a5c40;stroke-width:2}.stop{stroke:#9a6700;stroke-width:2}"
    ".take{fill:#0b57a4}"
    "@media(prefers-color-scheme:dark){.b{fill:#161b22}text{fill:#d1d7e0}.s{fill:#9198a1}"
    ".l{stroke:#3d444d}.now{stroke:#9198a1}.band{fill:#1c3552}.renew{stroke:#9fd8b8}"
    ".write{fill:#9fd8b8}.rel{stroke:#9fd8b8}.stop{stroke:#e3b341}.take{fill:#79b8ff}}"
)
#: Marks of the legend: class and form, and what they stand for.
_LEGEND = (
    ("band", "predicted: the next leader takes the lease here"),
    ("renew", "the leader renews the Lease"),
    ("rel", "it releases the Lease"),
    ("write", "it writes something else"),
    ("stop", f"renew deadline, {DEADLINE:g} s after the last renewal: it must have stopped"),
    ("take", "the other replica takes the Lease"),
)


def failover_picture(
    title: str, failovers: Sequence[Failover], predicted: Mapping[str, tuple[float, float]]
) -> dict[str, str]:
    """An SVG and its words (``svg``, ``alt``); ``predicted`` has seconds from the event."""
    until = max(
        [2.0]
        + [predicted[f.kind][1] for f in failovers]
        + [f.seconds for f in failovers if f.seconds is not None]
    )
    scale = _Scale(until + 0.5)
    drawn = [f'<text class="t" x="{_EDGE}" y="26">{escape(title)}</text>']
    y = _TOP
    for failover in failovers:
        drawn += _row(failover, predicted[failover.kind], scale, y)
        y += _ROW
    drawn += _axis(scale, y)
    y += 46
    for kind, text in _LEGEND:
        drawn.append(_mark(kind, _EDGE + 7, y - 4))
        drawn.append(f'<text class="s" x="{_EDGE + 24}" y="{y}">{escape(text)}</text>')
        y += 20
    width, height = 2 * _EDGE + _WIDTH, y
    told = " ".join(_told(f, predicted[f.kind]) for f in failovers)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label={quoteattr(title)}>'
        f"<title>{escape(title)}</title><desc>{escape(told)}</desc>"
        f"<style>{escape(_STYLE)}</style>"
        f'<rect class="b" width="{width}" height="{height}" rx="8"/>{"".join(drawn)}</svg>'
    )
    return {"svg": svg, "alt": f"{title}. {told}"}


class _Scale:
    """Seconds from the event to pixels."""

    def __init__(self, until: float) -> None:
        self.until = until

    def x(self, seconds: float) -> float:
        share = (seconds + _BEFORE) / (self.until + _BEFORE)
        return round(_EDGE + _WIDTH * min(max(share, 0.0), 1.0), 1)

    def shows(self, seconds: float) -> bool:
        return -_BEFORE <= seconds <= self.until


def _row(failover: Failover, predicted: tuple[float, float], scale: _Scale, y: int) -> list[str]:
    low, high = (scale.x(seconds) for seconds in predicted)
    took = failover.seconds
    words = "nobody took the lease" if took is None else f"taken after {took:.1f} s"
    drawn = [
        f'<text x="{_EDGE}" y="{y + 14}"><tspan class="k">{escape(failover.kind)}</tspan> '
        f'<tspan class="s">{words}; predicted {predicted[0]:g} to {predicted[1]:g} s</tspan></text>',
        f'<rect class="band" x="{low}" y="{y + 22}" width="{max(high - low, 2):.1f}" height="56" '
        'rx="4"/>',
        f'<path class="l" d="M{_EDGE} {y + 38}H{_EDGE + _WIDTH}M{_EDGE} {y + 62}H{_EDGE + _WIDTH}"/>',
        f'<path class="now" d="M{scale.x(0)} {y + 20}V{y + 80}"/>',
    ]
    marks = [("renew", e.t_request) for e in failover.renewals]
    marks += [("write", e.t_request) for e in failover.leader_writes]
    marks += [("rel", failover.release.t_request)] if failover.release else []
    if failover.kind == "cut wire":
        marks.append(("stop", failover.last_renewal.t_request + DEADLINE))
    for kind, when in marks:
        if scale.shows(when - failover.at):
            drawn.append(_mark(kind, scale.x(when - failover.at), y + 38))
    if took is not None and scale.shows(took):
        drawn.append(_mark("take", scale.x(took), y + 62))
    return drawn


def _axis(scale: _Scale, y: int) -> list[str]:
    drawn = [f'<path class="l" d="M{_EDGE} {y}H{_EDGE + _WIDTH}"/>']
    for second in range(-int(_BEFORE), int(scale.until) + 1):
        x = scale.x(second)
        drawn.append(f'<path class="l" d="M{x} {y}v5"/>')
        drawn.append(f'<text class="s m" x="{x}" y="{y + 19}">{second}</text>')
    return drawn


def _mark(kind: str, x: float, y: float) -> str:
    """A mark around that point; kinds differ in form, not in colour alone."""
    if kind == "band":
        return f'<rect class="band" x="{x - 7}" y="{y - 7}" width="14" height="14" rx="3"/>'
    if kind == "renew":
        return f'<path class="renew" d="M{x} {y - 8}V{y + 8}"/>'
    if kind == "stop":
        return f'<path class="stop" d="M{x - 5} {y - 6}L{x + 5} {y + 6}M{x - 5} {y + 6}L{x + 5} {y - 6}"/>'
    if kind == "take":
        return f'<path class="take" d="M{x} {y - 8}L{x + 8} {y}L{x} {y + 8}L{x - 8} {y}Z"/>'
    radius = 6 if kind == "rel" else 3
    return f'<circle class="{kind}" cx="{x}" cy="{y}" r="{radius}"/>'


def _told(failover: Failover, predicted: tuple[float, float]) -> str:
    """One row in words."""
    took = failover.seconds
    end = "nobody took the lease" if took is None else f"the other took it after {took:.1f} s"
    last = failover.last_renewal.t_request - failover.at
    before = f"last renewal {abs(last):.1f} s {'before' if last < 0 else 'after'} the event"
    released = ", released" if failover.release else ""
    return (
        f"{failover.kind}: {before}{released}, {end}, "
        f"predicted {predicted[0]:g} to {predicted[1]:g} s."
    )
