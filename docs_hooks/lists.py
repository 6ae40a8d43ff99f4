"""The lists that the manifest holds, as Markdown: modules, reading, drills, talks, gate, links."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from docs_hooks import labs
from docs_hooks.text import code_and
from grader import course
from grader.course import Lab

LINKS = Path(__file__).with_name("external_links.toml")

GROUPS = {
    "live": (
        "Live, against a running cluster",
        "Seen at a real API server, by the wire and the audit log.",
    ),
    "build": ("Build artifacts", "Programs of yours that exist and do their job."),
    "written": ("Written artifacts", "What each module leaves you with on paper."),
    "claim": ("Falsifiable claims", "Written first, then checked against the source."),
}

#: What a place says until the served site fills it.
STATIC = {
    "progress": "This page fills itself where the site is served by `phase4 start`: it then shows "
    "your own verdicts, from the reports in your workspace. Opened from a file or another web "
    "server it can't reach them. The same in a terminal: `phase4 progress`.",
    "gate": "Where the site is served by `phase4 start`, your own evidence for each condition "
    "appears below. In a terminal: `phase4 gate`, and `phase4 gate --live` to have "
    "the labs behind it graded again as they are now.",
    "checklist": "Where the site is served by `phase4 start`, the lines that your labs have ticked "
    "are marked.",
    "next": "`phase4 start` serves this site with your own progress in it, and shows here what to do next.",
}


def modules() -> str:
    """The modules as a table with their days and how many labs each has."""
    rows = ["| Module | Days | Labs | Mine |", "|---|--:|--:|---|"]
    loaded = course.load()
    for module_ in loaded.modules:
        if not module_.id[0].isdigit():
            continue
        found = loaded.labs_of(module_.id)
        dots = "".join(f'<span class="p4-dot" data-lab="{lab.id}"></span>' for lab in found)
        rows.append(
            f"| [{module_.id} {module_.title}]({module_.id}/index.md) | {module_.days} | {len(found)} | {dots} |"
        )
    for key in ("ecosystem", "capstone"):
        part = loaded.data[key]
        rows.append(
            f"| [{part['title']}]({key}/index.md) | | 1 | "
            f'<span class="p4-dot" data-lab="{part["lab"]}"></span> |'
        )
    return "\n".join(rows)


def graded() -> str:
    """Which labs this version grades, in the one wording that README, home and modules have."""
    labs_ = course.load().labs
    built = [lab for lab in labs_ if lab.built]
    if len(built) == len(labs_):
        return f"All {len(labs_)} labs are graded."
    return (
        f"This version grades {len(built)} of the {len(labs_)} labs: {_spans(labs_)}. The others "
        "are in the curriculum and come with later versions."
    )


def _spans(labs_: Sequence[Lab]) -> str:
    """The labs that are graded, as spans without a gap: ``4.1.1 to 4.3.6, 4.4.3``."""
    spans: list[list[str]] = []
    before = False
    for lab in labs_:
        if lab.built and before:
            spans[-1][1:] = [lab.id]
        elif lab.built:
            spans.append([lab.id])
        before = lab.built
    return ", ".join(" to ".join(span) for span in spans)


def objectives() -> str:
    """The eight objectives, each with the labs that show it."""
    out = []
    for item in course.load().data["objective"]:
        shown = [lab for lab in course.load().labs if item["number"] in lab.data["objectives"]]
        links = ", ".join(f"[{lab.id}]({lab.module}/{lab.id}.md)" for lab in shown)
        out.append(f"{item['number']}. {item['text']}<br><small>Shown in {links}.</small>")
    return "\n".join(out)


def module(module_id: str) -> str:
    """A module's reading, with the question of each item and what has changed, and its labs."""
    loaded = course.load()
    out = []
    reading = [item for item in loaded.data["reading"] if item["module"] == module_id]
    if reading:
        out += ["## Reading", ""]
    for item in reading:
        answered = [lab for lab in loaded.labs if item["id"] in lab.data["reading"]]
        links = code_and([f"[{lab.id}](../{lab.module}/{lab.id}.md)" for lab in answered])
        out += [
            f"### {item['what'].split(':')[0]} {{ #reading-{item['id']} }}",
            "",
            f'<p class="p4-source" markdown>Item {item["item"]} · {_sources(item)}</p>',
            "",
            f"**{item['question']}**",
            "",
            f"What has changed: {item['changed']}",
            "",
            f"You answer it in {links}.",
            "",
        ]
    out += ["## Labs", ""]
    out += [f"- {labs.line(lab)}" for lab in loaded.labs_of(module_id)]
    return "\n".join(out)


def _sources(item: dict) -> str:
    """The item's source with its link, and those that are read beside it."""
    return " · ".join(f"[`{one['source']}`]({one['url']})" for one in (item, *item.get("also", ())))


def drills() -> str:
    """The drills: what each must leave behind, and the lab that grades it."""
    rows = ["| Drill | What you must produce afterwards | Graded in |", "|---|---|---|"]
    for item in course.load().data["drill"]:
        lab = course.load().lab(item["lab"])
        rows.append(
            f"| [{item['id']} {item['title']}]({item['id']}.md) | {item['produce']} | "
            f"[{lab.id}](../{lab.module}/{lab.id}.md) |"
        )
    return "\n".join(rows)


def drill(drill_id: str) -> str:
    """What a drill must leave behind, as a box."""
    item = next(d for d in course.load().data["drill"] if d["id"] == drill_id)
    lab = course.load().lab(item["lab"])
    return (
        '!!! abstract "What you must have in your hands afterwards"\n\n'
        f"    {item['produce']}\n\n"
        f"    Graded in [{lab.id}](../{lab.module}/{lab.id}.md)."
    )


def talks() -> str:
    """The talks, with when to watch each."""
    out = []
    for talk in course.load().data["talk"]:
        out += [
            f"## {talk['title']} {{ #{talk['id']} }}",
            "",
            f"{talk['speakers']} · {talk['where']} · {talk['minutes']} minutes · [video]({talk['url']})",
            "",
            f"**{talk['when']}** {talk['why']}",
            "",
        ]
    return "\n".join(out)


def cite() -> str:
    """The capstone's four citations."""
    return "\n".join(f"1. {line};" for line in course.load().data["capstone"]["cite"])[:-1] + "."


def checklist() -> str:
    """The checklist in its four groups, each line with the labs that tick it."""
    out = []
    loaded = course.load()
    for group, (title, note) in GROUPS.items():
        out += [f"## {title} {{ #{group} }}", "", note, ""]
        for line in loaded.data["checklist"]:
            if line["group"] != group:
                continue
            links = code_and([_link(loaded.lab(name)) for name in line["labs"]])
            out.append(
                f'- <span class="p4-line" id="{line["id"]}" data-labs="{" ".join(line["labs"])}"></span>'
                f"{line['text']} ({links})"
            )
        out.append("")
    return "\n".join(out)


def gate() -> str:
    """The gate's conditions, each with the labs that prove it."""
    out = []
    loaded = course.load()
    for condition in loaded.data["gate"]:
        number = condition["number"]
        out += [
            f"## {number}. {condition['title']} {{ #condition-{number} }}",
            "",
            condition["text"],
            "",
            f'<div class="p4-gate" data-condition="{number}" data-labs="{" ".join(condition["labs"])}"></div>',
            "",
            "Proved by:",
            "",
        ]
        out += [f"- {labs.line(loaded.lab(name), up='')}" for name in condition["labs"]]
        if name := condition.get("artifact"):
            out += [
                f"- the program in `workspace/{loaded.lab(name).program or name}` itself, killed "
                f"before and after each of its writes: `./phase4 gate {number} --live`",
            ]
        out += ["", condition["otherwise"], ""]
    return "\n".join(out)


def _link(lab: course.Lab) -> str:
    return f"[{lab.id}]({lab.module}/{lab.id}.md)"


def live(what: str) -> str:
    """A place that the served site fills; its text is what is read anywhere else."""
    return f'<div class="p4-live" data-what="{what}" markdown>\n\n{STATIC[what]}\n\n</div>'


def links() -> str:
    """Every other site that the course points at, and when it was last looked up."""
    data = tomllib.loads(LINKS.read_text(encoding="utf-8"))
    out = [
        "# External links",
        "",
        "The course works without the network. These are the places outside of it that it points "
        "at, each with the day it was last looked up and how. A build with a link that is not in "
        "this list fails its tests.",
        "",
        "| Where | What | Looked up | How |",
        "|---|---|---|---|",
    ]
    for link in data["link"]:
        out.append(
            f"| <{link['url']}> | {link['what']} | {link['date']} | {data['how'][link['how']]} |"
        )
    return "\n".join(out)


def wrap_tables(html: str) -> str:
    """A table scrolls inside a box that the keyboard can reach."""
    return re.sub(
        r"<table>(.*?)</table>",
        r'<div class="p4-table" tabindex="0" role="group" aria-label="Table"><table>\1</table></div>',
        html,
        flags=re.S,
    )
