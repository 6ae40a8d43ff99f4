"""One small change of a source file."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """Replace the bytes ``start`` to ``end`` of a file by ``after``.

    ``file`` is relative to the program's root; ``function`` names what it stands
    in, ``kind`` what is changed (``drop``, ``always``, ``never``,
    ``compare``, ``operand``, ``constant``, ``swallow``, ``entry``, ``old-new``).
    ``line`` counts from 1.
    """

    file: str
    function: str
    kind: str
    line: int
    start: int
    end: int
    before: str
    after: str
    #: Which of several that are otherwise alike in one function.
    nth: int = 1

    @property
    def id(self) -> str:
        """A name that stays when lines move: place, kind, and a digest of the change."""
        change = hashlib.sha256(f"{self.before}\0{self.after}".encode()).hexdigest()[:8]
        times = f"#{self.nth}" if self.nth > 1 else ""
        return f"{self.file}:{self.function}:{self.kind}:{change}{times}"

    @property
    def shown(self) -> str:
        """The change in one line."""
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.file}:{self.line}  {before[:60]}  ->  {after[:60] or '(nothing)'}"

    def apply(self, root: Path) -> None:
        """Change the file below ``root``. Raises ValueError where it holds another text there."""
        path = root / self.file
        text = path.read_bytes()
        if text[self.start : self.end] != self.before.encode():
            raise ValueError(f"{path} does not have «{self.before}» at byte {self.start}")
        path.write_bytes(text[: self.start] + self.after.encode() + text[self.end :])


def numbered(edits: Iterable[Edit]) -> list[Edit]:
    """The edits in the order of the file, each with an id of its own; a change to nothing is left out."""
    seen: Counter[str] = Counter()
    found = []
    for edit in sorted(edits, key=lambda e: (e.file, e.start, e.kind, e.after)):
        if edit.before == edit.after:
            continue
        seen[edit.id] += 1
        found.append(replace(edit, nth=seen[edit.id]))
    return found
