"""What the conformance suite tries, and the wrong operators that it must catch."""

from __future__ import annotations

import re
from collections.abc import Iterable

from docs_hooks.text import cell
from grader.conformance.invariants import AT_REST, WATCHED
from grader.conformance.measure import scenario_of, wrong_operators
from grader.conformance.parts import scenarios
from grader.conformance.scenario import PARTS
from grader.conformance.sentences import KINDS, sentences

#: What a part is about, in the words of somebody who has not read its code.
ABOUT = {
    "functional": "whatever is changed, everything ends as the spec says",
    "held": "a state that usually passes in a moment, kept for seconds",
    "restart": "what it knows, it knows from the cluster",
    "faults": "errors, lost events and an old cache are everyday things",
    "killpoints": "it may die between any two writes, and before it hears of one",
    "replicas": "two processes, and never two that write",
    "quiet": "once all is well, nothing is written",
    "walks": "what nobody wrote a scenario for",
}


def tried() -> str:
    """A table of all scenarios, part by part."""
    rows = ["| | |", "|---|---|"]
    for part in PARTS:
        rows.append(f"| **{part}** | *{ABOUT[part]}* |")
        for one in scenarios(part):
            name = one.id.partition("/")[2]
            rows.append(f"| `{name}` | {cell(one.title)} |")
    return "\n".join(rows)


def contract() -> str:
    """A table of the contract's sentences for each kind, with what judges each."""
    parts = []
    for letter, head in KINDS.items():
        these = [one for one in sentences() if one.id.startswith(letter)]
        parts.append(f"## {head}\n")
        if all(one.open for one in these):
            parts += [
                "| | |",
                "|---|---|",
                *(f"| **{o.id}** | {cell(o.text)} |" for o in these),
                "",
            ]
            continue
        parts += ["| | | Judged by | Always watched by | Shown by |", "|---|---|---|---|---|"]
        for one in these:
            columns = [_each(one.scenarios), _each(one.watched), _each(one.wrong)]
            parts.append(f"| **{one.id}** | {cell(one.text)} | {' | '.join(columns)} |")
        parts.append("")
    parts += ["## What is always watched\n", "| | |", "|---|---|"]
    parts += [f"| `{id}` | {cell(title)} |" for id, title in (*AT_REST.items(), *_watched())]
    return "\n".join(parts)


def _watched() -> list[tuple[str, str]]:
    return [(one.id, one.title) for one in WATCHED]


def _each(names: Iterable[str]) -> str:
    return "<br>".join(f"`{name}`" for name in names)


def wrong() -> str:
    """A table of the catalogue: what is wrong, who sees it, what it is called, where it shipped."""
    rows = ["| What is wrong with it | Caught by, and called | Shipped in |", "|---|---|---|"]
    order = [one.id for part in PARTS for one in scenarios(part)]
    for one in sorted(wrong_operators(), key=lambda m: (order.index(scenario_of(m)), m.title)):
        rows.append(
            f"| {cell(one.title)} | `{scenario_of(one)}`<br>`{one.diagnosis}` | {_shipped(one.issue)} |"
        )
    return "\n".join(rows)


def _shipped(issue: str) -> str:
    """``owner/name#5`` of an issue's or a pull request's address; empty where there is none."""
    found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)", issue)
    return f"{found[1]}#{found[2]}" if found else ""
