"""The text of one line: which shortened quotes are close to it, and whether it is evidence."""

from __future__ import annotations

import re

from grader.evidence.digest import normalise


def variants(quote: str) -> list[tuple[str, str]]:
    """The quote changed in the ways in which people shorten a line, each with how the line differs."""
    text = normalise(quote)
    found: list[tuple[str, str]] = []
    for end in (" {", "{", ",", ";", ")", "(", ":", " (", "."):
        found.append((f"ends in `{end.strip()}` as well", text + end))
        if text.endswith(end):
            found.append((f"has no `{end.strip()}` at its end", text[: -len(end)].rstrip()))
    for start in ("return ", "defer ", "go ", "} ", "if ", "// ", "- "):
        found.append((f"begins with `{start.strip()}`", start + text))
        if text.startswith(start):
            found.append((f"does not begin with `{start.strip()}`", text[len(start) :]))
    if (cut := text.find(" //")) > 0:
        found.append(("has no comment at its end", text[:cut]))
    straight = text.translate(str.maketrans("“”‘’–—\u00a0", "\"\"''-- "))
    if straight != text:
        found.append(("has plain quotation marks and dashes", straight))
    return found


def substance(quote: str, path: str = "") -> str:
    """Why a line is no evidence by itself: ``blank``, ``only brackets``, ``a comment``; else empty."""
    text = normalise(quote)
    if not text:
        return "blank"
    suffix = path.rsplit(".", 1)[-1]
    if suffix == "md":
        return ""
    if not re.search(r"\w", text) or re.fullmatch(r"\W*else\W*", text):
        return "only brackets"
    marks = {
        "py": ("#",),
        "yaml": ("#",),
        "yml": ("#",),
        "toml": ("#",),
        "mmd": ("%%",),
    }
    if text.startswith(marks.get(suffix, ("//", "/*"))) or (
        suffix == "go" and text.startswith("* ")
    ):
        return "a comment"
    return ""
