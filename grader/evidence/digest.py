"""The normalisation that all line digests share.

A line is compared by the first 16 hex digits of the SHA-256 of its text with
runs of whitespace collapsed to one space and both ends trimmed: a quote pasted
into Markdown loses its tabs and nothing else. Sixteen digits are 64 bits, so
that two different lines of one file collide about once in 10^13 files.
"""

from __future__ import annotations

import hashlib

#: How an index file describes its digests, word for word.
DESCRIPTION = (
    "first 16 hex of sha256 over the line with runs of whitespace collapsed and ends trimmed"
)


def normalise(line: str) -> str:
    """The line as it is compared: runs of whitespace are one space, none at the ends."""
    return " ".join(line.split())


def digest(line: str) -> str:
    """The line's digest: 16 hex digits."""
    return hashlib.sha256(normalise(line).encode()).hexdigest()[:16]


def lines_of(text: str) -> list[str]:
    """A file's lines as editors number them, without their ends.

    Only ``\\n`` (or ``\\r\\n``) ends a line: ``str.splitlines`` would also break
    at form feeds and the like, and every later number would be wrong.
    """
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]
