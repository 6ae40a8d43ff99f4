"""A lab's reference answer, and what to read in it: available after a pass."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader import course
from grader.cut import tree
from grader.report import store
from grader.report.model import ReportError
from grader.workspace import Workspace

NOTES = course.ROOT / "grader" / "hints"


@dataclass(frozen=True)
class Answer:
    """A reference answer as it would be handed in.

    ``notes`` is Markdown, what to read in it, empty where there is none yet.
    ``files`` are relative names and contents; a file that is not text is left out.
    ``given`` names those of them that the starter has unchanged: they need no reading.
    """

    lab: str
    track: str
    notes: str
    files: tuple[tuple[str, str], ...]
    given: frozenset[str] = frozenset()

    @property
    def written(self) -> tuple[tuple[str, str], ...]:
        """The files that a learner had something to do in."""
        return tuple((name, text) for name, text in self.files if name not in self.given)

    @property
    def rest(self) -> str:
        """A sentence, in Markdown, that says which files are not shown; "" where all are."""
        named = [f"`{name}`" for name, _ in self.files if name in self.given]
        return f"As you were given them: {', '.join(named)}." if named else ""

    def to_json(self) -> dict[str, Any]:
        """As the site sends it: the notes made into HTML, in which raw HTML stays text."""
        from markdown_it import MarkdownIt

        return {
            "lab": self.lab,
            "track": self.track,
            "notes": MarkdownIt("commonmark", {"html": False})
            .enable("table")
            .render(f"{self.notes}\n\n{self.rest}".strip()),
            "files": [{"name": name, "text": text} for name, text in self.written],
        }


def may_be_read(here: Workspace, lab: course.Lab) -> bool:
    """Whether the learner has passed the lab once.

    A later FAIL does not lock it again: a workspace remembers its passes.
    """
    if lab.id in here.record("passed"):
        return True
    try:
        report = store.load(here.reports, lab.id)
    except ReportError:
        return False
    return report is not None and report.passed


def of(lab: course.Lab, track: str) -> Answer:
    """The lab's reference answer in a track; no files where there is none."""
    found: dict[str, str] = {}
    given: set[str] = set()
    if lab.id in tree.labs():
        track = track if track in tree.tracks(lab.id) else tree.tracks(lab.id)[0]
        mine = [part for part in course.load().parts if part.id in lab.writes]

        def written(path: str) -> bool:
            return any(part.has(path, track or "python") for part in mine)

        with tempfile.TemporaryDirectory() as scratch:
            answer, start = Path(scratch, "answer"), Path(scratch, "starter")
            tree.handed_in(lab.id, track, answer)
            tree.starter(lab.id, track, start, writes=written)
            found = _texts(answer / lab.id) | _artifacts(answer, written)
            begun = _texts(start / lab.id) | _artifacts(start, written)
            given = {name for name, text in found.items() if begun.get(name) == text}
    return Answer(lab.id, track, notes(lab), tuple(found.items()), frozenset(given))


def _artifacts(root: Path, written: Callable[[str], bool]) -> dict[str, str]:
    """The files of the parts that the lab asks for, by their paths from the workspace's root."""
    return {name: text for name, text in _texts(root).items() if written(name)}


def _texts(root: Path) -> dict[str, str]:
    """The text files of a folder by their relative names, in order."""
    found = {}
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        try:
            found[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


def notes(lab: course.Lab) -> str:
    """What to read in the answer, out of ``grader/hints/<lab>.after.md``."""
    try:
        return (NOTES / f"{lab.id}.after.md").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
