"""Every sentence with which the course stops somebody, read out of the code.

The troubleshooting page explains the ones that need more than they say, and lists
all of them, so that a message pasted into the search always leads somewhere.
"""

from __future__ import annotations

import ast
import html
import re
from dataclasses import dataclass
from pathlib import Path

GRADER = Path(__file__).resolve().parents[1] / "grader"

#: Errors whose text is a sentence for a person, and what group of the list they are in.
ERRORS = {
    "EnvironmentProblem": "This machine",
    "BuildFailed": "This machine",
    "DownloadFailed": "This machine",
    "ClusterLost": "The cluster",
    "Untrusted": "The cluster",
    "WorkspaceError": "Your folder",
    "BadRequest": "Your folder",
    "ReportError": "Your folder",
    "CourseError": "What you typed",
    "RuleError": "What you typed",
    "CiteError": "What you typed",
    "SourceError": "Sources",
    "BuildError": "The site",
    "ServeError": "The site",
    "MermaidError": "Diagrams",
}
#: Outcomes of a check: their first sentence says what was expected, the second what was seen.
OUTCOMES = {"NotGraded", "Fail", "Unknown"}
#: Those of the machinery around the labs; a lab's own fails are explained on its page.
HANDED_IN = ("labs/fixtures.py", "runner/", "evidence/answers.py")


@dataclass(frozen=True)
class Told:
    """One message: ``…`` stands for what differs from time to time."""

    group: str
    text: str
    source: str


def flat(node: ast.expr | None) -> str:
    """A string expression with ``…`` for each part that isn't written there."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "…"
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "…" for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return flat(node.left) + flat(node.right)
    return "…"


def everything() -> list[Told]:
    """All messages in the code, by group, each once."""
    found: dict[str, Told] = {}
    for path in sorted(GRADER.rglob("*.py")):
        name = path.relative_to(GRADER).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            kind = ast.unparse(node.exc.func).rpartition(".")[2]
            arguments = [flat(argument) for argument in node.exc.args]
            if kind in ERRORS:
                text, group = " ".join(arguments), ERRORS[kind]
            elif kind in OUTCOMES and name.startswith(HANDED_IN):
                text, group = " ".join(arguments), "What you handed in"
            else:
                continue
            text = re.sub(r"(…\W*)+…", "…", re.sub(r"\s+", " ", text)).strip()
            if len(re.sub(r"[\W\d_]", "", text)) >= 12:
                found.setdefault(text, Told(group, text, name))
    return list(found.values())


def listed() -> str:
    """The list for the page: a heading for each group, an anchor for each message."""
    out: list[str] = []
    order = list(dict.fromkeys([*ERRORS.values(), "What you handed in"]))
    used: set[str] = set()
    every = everything()
    for group in order:
        told = [one for one in every if one.group == group]
        if not told:
            continue
        out += ["", f"### {group} {{ #all-{group.lower().replace(' ', '-')} }}", ""]
        for one in told:
            anchor = _anchor(one.text, used)
            out.append(f'- <span id="{anchor}"></span>{_shown(one.text)}')
    return "\n".join(out)


def _anchor(text: str, used: set[str]) -> str:
    words = re.findall(r"[a-z0-9]+", text.lower())[:7]
    base = "m-" + "-".join(words)
    anchor, number = base, 2
    while anchor in used:
        anchor, number = f"{base}-{number}", number + 1
    used.add(anchor)
    return anchor


def _shown(text: str) -> str:
    escaped = html.escape(text, quote=False).replace("*", "\\*").replace("_", "\\_")
    return re.sub(r"`([^`]*)`", lambda m: f"`{html.unescape(m[1])}`".replace("\\", ""), escaped)
