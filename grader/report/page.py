"""Reports as one HTML file that can be sent: no script, nothing loaded from anywhere."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from grader.report import predictions
from grader.report.model import CheckResult, LabReport, Observation
from grader.report.progress import ConditionProgress, LabProgress, Progress, gate
from grader.verdict import Message

GROUPS = {"live": "Live", "build": "Build", "written": "Written", "claim": "Claims"}
_SIGNS = {"PASS": "✓", "FAIL": "✗", "NOT GRADED": "–", "UNKNOWN": "?"}

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1d2330;--mute:#565d6b;--line:#cfd4de;--card:#f7f8fb;
--pass:#17693f;--fail:#b02a20;--warn:#805400}
@media(prefers-color-scheme:dark){:root{--bg:#181c26;--fg:#e4e8f1;--mute:#b4bccb;--line:#434b5e;
--card:#212735;--pass:#7fd6a4;--fail:#ff9d94;--warn:#f0c36b}}
*{box-sizing:border-box}body{margin:0 auto;padding:1.5rem 1rem 4rem;max-width:52rem;background:var(--bg);
color:var(--fg);font:1rem/1.6 system-ui,"Segoe UI","Noto Sans",sans-serif}
h1{font-size:1.7rem;line-height:1.25;margin:.2rem 0}h2{margin:2.2rem 0 .4rem;font-size:1.2rem}
h3{margin:1.6rem 0 .3rem;font-size:1.02rem}p{margin:.4rem 0}.mute,dt{color:var(--mute)}
table{border-collapse:collapse;width:100%;font-size:.92rem}th,td{text-align:left;padding:.3rem .5rem;
border-bottom:1px solid var(--line);vertical-align:top}.scroll{overflow-x:auto}
code,pre{font-family:ui-monospace,"Noto Sans Mono","DejaVu Sans Mono",monospace;font-size:.88em}
pre{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.6rem}
section.finding{border:1px solid var(--line);border-radius:6px;padding:.5rem .9rem;margin:.6rem 0;
background:var(--card)}dl{display:grid;grid-template-columns:5.5rem 1fr;gap:.15rem .7rem;margin:.3rem 0}
dt{font-weight:600}dd{margin:0;overflow-wrap:anywhere}b.v{white-space:nowrap}.PASS{color:var(--pass)}
.FAIL{color:var(--fail)}.UNKNOWN{color:var(--warn)}.NOT{color:var(--mute)}img{max-width:100%;background:#fff}
:focus-visible{outline:2px solid currentColor;outline-offset:2px}
@media print{body{max-width:none;padding:0}pre{white-space:pre-wrap}section{break-inside:avoid}}
"""


def whole(standing: Progress, only: set[str] | None = None) -> str:
    """The page: where the learner stands, the gate, and each lab that was checked.

    ``only`` narrows the labs that are shown in full down to these ids.
    """
    shown = [e for e in standing.labs if e.report and (only is None or e.lab.id in only)]
    made = time.strftime("%Y-%m-%d %H:%M %Z")
    body = [
        "<h1>Phase 4: Controllers &amp; reconciliation</h1>",
        f'<p class="mute">Report of {made}</p>',
        f"<p><b>{standing.passed} of {len(standing.labs)} labs passed, "
        f"{standing.earned} of {standing.points} points.</b></p>",
        *(f"<p>{_prose(sentence)}</p>" for sentence in standing.damaged),
        "<h2>The gate</h2>",
        *(_condition(condition) for condition in gate(standing)),
        "<h2>Labs</h2>",
        _table(standing.labs),
        *_for_the_instructor(shown),
        *(_lab(entry) for entry in shown),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">"
        f"<title>Phase 4, report of {made}</title><style>{STYLE}</style></head><body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def _prose(text: str) -> str:
    """A sentence: escaped, `code` as code, the reader's home folder not named."""
    text = html.escape(_anonymous(text), quote=False)
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", text)


def _anonymous(text: str) -> str:
    home = str(Path.home())
    return text.replace(home, "~") if len(home) > 1 else text


def _badge(standing: str) -> str:
    sign = _SIGNS.get(standing, "·")
    return f'<b class="v {standing.split()[0]}">{sign} {html.escape(standing)}</b>'


def _condition(entry: ConditionProgress) -> str:
    word = "met" if entry.met else "not met yet"
    lacks = "".join(
        f"<li>{GROUPS[group]}: {html.escape(one.lab.id)}: {_prose(one.what)}</li>"
        for group, missing in entry.missing.items()
        for one in missing
    )
    return (
        f"<h3>{entry.condition.number}. {_prose(entry.condition.title)}: {word}</h3>"
        f"<p>{_prose(entry.condition.text)}</p>"
        + (
            f"<p>Self-assessed: {html.escape(', '.join(entry.self_assessed))}</p>"
            if entry.self_assessed
            else ""
        )
        + (f"<ul>{lacks}</ul>" if lacks else "")
    )


def _for_the_instructor(entries: Iterable[LabProgress]) -> list[str]:
    """What was judged by the learner alone: the question, the sentence, the points, a place for a mark."""
    own = [check for entry in entries if entry.report for check in entry.report.self_assessed]
    if not own:
        return []
    parts = [
        "<h2>For the instructor: self-assessed answers</h2>",
        "<p>The grader knows these sentences neither as right nor as wrong. The learner found "
        "each point in them; the mark is yours.</p>",
    ]
    for check in own:
        said = check.assessment
        assert said is not None
        points = "".join(f"<li>☑ {_prose(text)}</li>" for _, text in said.points)
        parts.append(
            f'<section class="finding" aria-label="{html.escape(check.id)}, to be marked">'
            f"<b>{html.escape(check.id)}</b> {_prose(check.title)}"
            f"<dl><dt>question</dt><dd>{_prose(said.question)}</dd><dt>answer</dt>"
            f'<dd><pre tabindex="0">{html.escape(_anonymous(said.text))}</pre></dd>'
            f"<dt>points</dt><dd><ul>{points}</ul></dd>"
            f"<dt>mark</dt><dd>____ of {check.points}</dd></dl></section>"
        )
    return parts


def _table(entries: Iterable[LabProgress]) -> str:
    rows = "".join(
        f"<tr><td>{_badge(e.standing)}</td><td>{html.escape(e.lab.id)}</td>"
        f"<td>{_prose(e.lab.title)}</td><td>{e.earned}/{e.points}</td></tr>"
        for e in entries
        if e.lab.built
    )
    return (
        '<div class="scroll" tabindex="0" role="group" aria-label="Labs"><table><thead><tr>'
        '<th scope="col">Verdict</th><th scope="col">Lab</th><th scope="col">Title</th>'
        f'<th scope="col">Points</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _lab(entry: LabProgress) -> str:
    report = entry.report
    assert report is not None
    rows = "".join(
        f"<tr><td>{_badge(c.verdict.value)}</td><td>{_prose(c.title)}<br>"
        f'<code class="mute">{html.escape(c.id)}</code>{_own_judgement(c)}</td><td>{c.evidence}</td>'
        f"<td>{c.earned}/{c.points}</td></tr>"
        for c in report.checks
    )
    parts = [
        f"<h2>{html.escape(entry.lab.id)} {_prose(entry.lab.title)}</h2>",
        f'<p>{_badge(report.verdict.value)} <span class="mute">{_facts(report)}</span></p>',
        f'<div class="scroll" tabindex="0" role="group" aria-label="Checks of {entry.lab.id}">'
        f"<table><tbody>{rows}</tbody></table></div>",
        *(_finding(check) for check in report.checks if check.message and check.earned == 0),
        *(_observation(seen) for seen in report.observations),
    ]
    return "\n".join(parts)


def _own_judgement(check: CheckResult) -> str:
    return '<br><span class="mute">self-assessed</span>' if check.self_assessed else ""


def _facts(report: LabReport) -> str:
    facts = [
        f"{report.earned} of {report.points} points",
        time.strftime("%Y-%m-%d %H:%M", time.localtime(report.started)),
        f"{report.duration:.1f} s",
    ]
    if report.track:
        facts.append(f"{report.track} track")
    if report.backend:
        facts.append(f"{report.backend} cluster")
    facts += [f"{name} {version}" for name, version in sorted(report.versions.items())]
    facts += [f"seed {report.seed}", f"isolation: {report.isolation}"]
    return html.escape(" · ".join(facts))


def _finding(check: CheckResult) -> str:
    assert check.message is not None
    return (
        f'<section class="finding" aria-label="{html.escape(check.id)}">'
        f"{_badge(check.verdict.value)} {_prose(check.title)}{_message(check.message)}</section>"
    )


def _message(told: Message) -> str:
    rows = []
    for name, text in (("expected", told.expected), ("seen", told.seen)):
        if text:
            rows.append(f"<dt>{name}</dt><dd>{_prose(text)}</dd>")
    if told.evidence:
        lines = html.escape(_anonymous("\n".join(told.evidence)))
        rows.append(f'<dt></dt><dd><pre tabindex="0">{lines}</pre></dd>')
    for name, text in (("why", told.why), ("next", told.next), ("known as", told.diagnosis)):
        if text:
            rows.append(f"<dt>{name}</dt><dd>{_prose(text)}</dd>")
    return f"<dl>{''.join(rows)}</dl>"


def _observation(seen: Observation) -> str:
    value = seen.value
    if isinstance(value, dict) and isinstance(value.get("svg"), str):
        # As an image, so that a picture made from a learner's run can't run anything.
        source = "data:image/svg+xml;charset=utf-8," + quote(value["svg"])
        return f'<p><img src="{source}" alt="{html.escape(value.get("alt", seen.name))}"></p>'
    if predictions.is_one(value):
        said = predictions.said(value)
    else:
        return f"<div><b>{html.escape(seen.name)}</b>: {_plain(value)}</div>"
    return f"<p><b>{html.escape(seen.name)}</b>: {html.escape(_anonymous(said))}</p>"


def _plain(value: object) -> str:
    """A measured value as a reader wants it: a table as lines, a list in a row."""
    if isinstance(value, dict):
        rows = (f"<li>{html.escape(str(name))}: {_plain(one)}</li>" for name, one in value.items())
        return f"<ul>{''.join(rows)}</ul>"
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return html.escape(_anonymous(str(value)))
