"""Marked regions: one source for the answer and for the stub.

In a comment of the file's own kind (``#``, ``//``, ``%%`` or ``<!-- -->``)::

    # phase4:solution
    return keys.pop(0)
    # phase4:stub
    # raise NotImplementedError("hand out the oldest key")
    # phase4:end

The answer has the first part. The stub has the second, with one comment prefix
taken off each line; it may be left out, with its marker. In an artifact the marker has
the id of the lab that asks for the region (``phase4:solution 4.2.1``). A file with
``phase4:omit`` in a comment on its first line (or its second, after ``#!``) is in the
answer alone. No marker is ever left in what is rendered.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Literal

Side = Literal["solution", "stub"]

_BY_SUFFIX = {
    "#": ".py .toml .yaml .yml .sh .cfg .ini .txt .mk".split(),
    "//": ".go .mod .js .ts .proto".split(),
    "%%": ".mmd".split(),
    "<!--": ".md .html .svg .xml".split(),
}
_PREFIXES = {suffix: prefix for prefix, suffixes in _BY_SUFFIX.items() for suffix in suffixes}
_BY_NAME = {"Makefile": "#", "Dockerfile": "#", "PROJECT": "#", ".gitignore": "#"}

_WORDS = ("solution", "stub", "end", "omit")


class CutError(Exception):
    """The markers of a file are wrong; ``str()`` says where and why."""


def prefix_of(path: PurePath) -> str | None:
    """The comment prefix of a file's kind, or None for a kind that has no comments."""
    return _BY_NAME.get(path.name) or _PREFIXES.get(path.suffix)


def _marker(line: str, prefix: str) -> tuple[str, str]:
    """The word of a marker line and the labs it is for; both empty for any other line."""
    text = line.strip()
    if not text.startswith(prefix):
        return "", ""
    text = text[len(prefix) :]
    if prefix == "<!--":
        if not text.endswith("-->"):
            return "", ""
        text = text[:-3]
    match = re.fullmatch(r"\s*phase4:(\w+)(?:\s+([\w.,-]+))?\s*", text)
    return (match[1], match[2] or "") if match else ("", "")


def _uncommented(line: str, prefix: str) -> str | None:
    """The line without its comment prefix; None where it has none."""
    if not line.strip():
        return line
    indent = line[: len(line) - len(line.lstrip())]
    text = line.strip()
    if not text.startswith(prefix):
        return None
    text = text[len(prefix) :]
    if prefix == "<!--":
        if not text.endswith("-->"):
            return None
        text = text[:-3].removesuffix(" ")
    text = text.removeprefix(" ")
    return (indent + text).rstrip()


def omitted(text: str, path: PurePath) -> bool:
    """Whether the file is in the answer alone."""
    prefix = prefix_of(path)
    if prefix is None:
        return False
    lines = text.split("\n", 2)
    first = lines[1:2] if lines[0].startswith("#!") else lines[:1]
    return any(_marker(line, prefix)[0] == "omit" for line in first)


def render(text: str, path: PurePath, side: Side) -> str | None:
    """One side of a file; None where that side does not have it.

    ``path`` tells the kind and names the file in a :class:`CutError`.
    """
    prefix = prefix_of(path)
    if prefix is None or "phase4:" not in text:
        return text
    omit = omitted(text, path)
    if omit and side == "stub":
        return None
    kept: list[str] = []
    part = "both"
    opened = 0
    for number, line in enumerate(text.split("\n"), start=1):
        word, lab = _marker(line, prefix)
        place = f"{path}:{number}"
        if not word:
            if part == "stub":
                uncommented = _uncommented(line, prefix)
                if uncommented is None:
                    raise CutError(f"{place}: a stub's line must be a comment ({prefix})")
                line = uncommented
            if part in ("both", side):
                kept.append(line)
            continue
        if word not in _WORDS:
            raise CutError(f"{place}: phase4:{word} is not one of {', '.join(_WORDS)}")
        if word == "omit":
            if not omit or number > 2:
                raise CutError(f"{place}: phase4:omit belongs on a file's first line")
            continue
        allowed = {"solution": ("both",), "stub": ("solution",), "end": ("solution", "stub")}
        if part not in allowed[word]:
            raise CutError(f"{place}: phase4:{word} cannot stand here")
        if word == "solution":
            opened = number
        elif lab:
            raise CutError(f"{place}: a lab's id belongs to phase4:solution")
        part = "both" if word == "end" else word
    if part != "both":
        raise CutError(f"{path}:{opened}: this phase4:solution has no phase4:end")
    return "\n".join(kept)
