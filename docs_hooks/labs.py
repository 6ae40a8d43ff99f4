"""A lab's page: its head, what is checked, its hints, and the page of a lab not built yet."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from docs_hooks.text import cell, code_and, inline
from grader import course
from grader.evidence import questions

EVIDENCE = {
    "live": "seen at the API server",
    "build": "what your program is or prints",
    "written": "a drawing, a prediction or an answer",
    "claim": "a claim checked against the source",
}


def of_page(src_uri: str) -> course.Lab | None:
    """The lab whose page this is, or None for any other page."""
    path = PurePosixPath(src_uri)
    for lab in course.load().labs:
        if path == PurePosixPath(f"{lab.module}/{lab.id}.md"):
            return lab
    return None


def heading(lab: course.Lab) -> str:
    """What the page and every list call the lab: ``4.1.2 · The line that …``."""
    return f"{lab.id} · {lab.title}" if lab.id[0].isdigit() else lab.title


def with_head(lab: course.Lab, markdown: str) -> str:
    """The page's text under the manifest's title and a head of facts.

    The title is the manifest's, so that page, command line and report can't
    call a lab by different names.
    """
    meta = re.match(r"\A\s*---\n.*?\n---\n", markdown, flags=re.S)
    body = markdown[meta.end() :] if meta else markdown
    body = re.sub(r"\A\s*# [^\n]*\n", "", body)
    return f"{meta[0] if meta else ''}# {heading(lab)}\n\n{_head(lab)}\n\n{body.lstrip()}"


def _head(lab: course.Lab) -> str:
    rows = [("In short", lab.data["summary"])]
    questions = [r for r in course.load().data["reading"] if r["id"] in lab.data["reading"]]
    for item in questions:
        rows.append(
            ("Answers", f"{item['question']} ([{_plain(item['what'])}]({_reading(lab, item)}))")
        )
    checks = course.checks(lab)
    if checks:
        total = sum(check.points for check in checks)
        rows.append(("Worth", f"{total} points in {len(checks)} checks"))
    rows.append(("Evidence", "; ".join(f"*{kind}*, {EVIDENCE[kind]}" for kind in lab.evidence)))
    if lab.tracks:
        rows.append(("Tracks", " or ".join(track.capitalize() for track in lab.tracks)))
    rows.append(
        (
            "Needs",
            "a cluster; `phase4 check` starts one where none runs"
            if lab.needs
            else "an editor; no cluster",
        )
    )
    if lab.runs_on:
        rows.append(("Runs on", _runs_on(lab)))
    if lab.drill:
        rows.append(("Drill", f"[{lab.drill}](../drills/{lab.drill}.md), the same by hand"))
    if lab.gate:
        rows.append(("Gate", f"[condition {lab.gate[0]}](../gate.md#condition-{lab.gate[0]})"))
    facts = "\n\n".join(f"{name}\n: {text}" for name, text in rows)
    verdict = (
        f"`phase4 check {lab.id}` grades it."
        if lab.built
        else "Not built yet: `phase4 check` says NOT GRADED, and nothing is lost by it."
    )
    return (
        f'<div class="p4-verdict" data-lab="{lab.id}" markdown>\n\n{verdict}\n\n</div>\n\n'
        f'<div class="p4-facts" markdown>\n\n{facts}\n\n</div>'
    )


def _runs_on(lab: course.Lab) -> str:
    """The parts that other labs ask for, with those labs, and which track has them."""
    by_tracks: dict[tuple[str, ...], list[str]] = {}
    for part in course.load().parts:
        if part.id in lab.runs_on:
            asks = course.load().lab(part.lab)
            tracks = tuple(track for track in lab.tracks if part.files.get(track))
            by_tracks.setdefault(tracks, []).append(
                f"{part.title} ([{asks.id}](../{asks.module}/{asks.id}.md))"
            )
    groups = [
        ", ".join(names)
        if tracks == lab.tracks
        else f"{' and '.join(track.capitalize() for track in tracks)}: {', '.join(names)}"
        for tracks, names in sorted(by_tracks.items(), key=lambda one: -len(one[0]))
    ]
    return f"{'; '.join(groups)}. [Yours once passed](../guide/workspace.md#whose), lent until then"


def _plain(markdown: str) -> str:
    """What a reading item is called, up to its first colon or comma."""
    return re.split(r"[:,]", markdown)[0]


def _reading(lab: course.Lab, item: dict) -> str:
    """From a lab's page to its reading item on the module's page."""
    return f"../{item['module']}/index.md#reading-{item['id']}"


def checks(lab_id: str) -> str:
    """«What is checked» as a table, a row for each marker in the lab's grader."""
    found = course.checks(course.load().lab(lab_id))
    if not found:
        return (
            '!!! note "Not graded yet"\n\n    This lab has no grader yet. '
            "Nothing you hand in for it can fail."
        )
    rows = [
        "| What is checked | Evidence | Points |",
        "|---|---|--:|",
    ]
    for check in found:
        short = check.id.partition("/")[2]
        rows.append(
            f'| <span class="p4-check" id="check-{short}" data-check="{check.id}">'
            f"{inline(check.title)}</span><br><small>`{check.id}`</small> | {check.evidence} | {check.points} |"
        )
    return "\n".join([*rows, *_sentences(lab_id)])


def _sentences(lab_id: str) -> list[str]:
    """How the lab's answers in sentences are judged; nothing for a lab without any."""
    asked = questions.ids(lab_id)
    if not asked:
        return []
    alone = " or ".join(f"`phase4 check {check}`" for check in asked)
    return [
        "",
        "Your own words are judged [in three ways](../guide/written.md): known to be right, wrong "
        f"by a fact, or for you to judge. They come first, and alone with {alone}.",
    ]


def hints(lab_id: str) -> str:
    """The lab's hints, folded, each opened by itself."""
    found = course.hints(course.load().lab(lab_id))
    if not found:
        return "*No hints yet.*"
    parts = []
    for number, text in enumerate(found, start=1):
        body = "\n".join("    " + line if line else "" for line in text.splitlines())
        parts.append(f'??? tip "Hint {number} of {len(found)}"\n\n{body}')
    parts.append(f"Or one at a time in the terminal: `phase4 hint {lab_id}`.")
    return "\n\n".join(parts)


def answer(lab_id: str) -> str:
    """Where the reference answer is. The text itself is only sent after a pass."""
    lab = course.load().lab(lab_id)
    return (
        f'<div class="p4-answer" data-lab="{lab.id}" markdown>\n\n'
        f"Once the lab passes, `phase4 solution {lab.id}` prints the reference answer and what to "
        "read in it. On the site that `phase4 start` serves it opens here.\n\n</div>"
    )


def unwritten(lab: course.Lab) -> str:
    """The page of a lab that is in the curriculum and not in this version yet."""
    course_ = course.load()
    reading = [r for r in course_.data["reading"] if r["id"] in lab.data["reading"]]
    lines = [f"# {lab.title}", ""]
    if lab.built:
        lines += [
            f"This lab is graded. Its page is being written; `phase4 show {lab.id}` has the task.",
            "",
            "## What is checked", "", f"<!-- checks: {lab.id} -->", "",
            "## Hints", "", f"<!-- hints: {lab.id} -->", "",
            "## After it passes", "", f"<!-- reference: {lab.id} -->",
        ]  # fmt: skip
        return "\n".join(lines)
    lines += [
        '!!! note "This lab is not built yet"',
        "",
        "    It is in the curriculum and comes with a later version. Until then "
        f"`phase4 check {lab.id}` answers NOT GRADED, which costs nothing and counts for nothing.",
        "",
        "## What it will ask of you",
        "",
        lab.data["summary"],
        "",
    ]
    if reading:
        lines += ["## What you can do today", "", "Read, and write your answer down:", ""]
        lines += [f"- {item['what']}: {item['question']}" for item in reading]
        lines.append("")
    if lab.drill:
        lines += [f"Do the drill by hand: [{lab.drill}](../drills/{lab.drill}.md).", ""]
    lines += [
        "## What it counts for",
        "",
        f"Objective{'s' if len(lab.objectives) > 1 else ''} {code_and(lab.objectives)} "
        "of [the course](../modules.md#objectives).",
    ]
    ticked = [c for c in course_.data["checklist"] if c["id"] in lab.data["checklist"]]
    if ticked:
        lines += ["", "On the [checklist](../checklist.md):", ""]
        lines += [f"- {line['text']}" for line in ticked]
    return "\n".join(lines)


def line(lab: course.Lab, *, up: str = "../") -> str:
    """A lab in a list: its link, what is handed in, and where its verdict goes."""
    state = "" if lab.built else ' <span class="p4-soon">not built yet</span>'
    return (
        f'<span class="p4-dot" data-lab="{lab.id}"></span>'
        f"[{heading(lab)}]({up}{lab.module}/{lab.id}.md){state}<br>{cell(lab.data['summary'])}"
    )
