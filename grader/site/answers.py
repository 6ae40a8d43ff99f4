"""A lab's reference answer, and what to read in it: opened by a pass, not before."""

from __future__ import annotations

import tempfile
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

    ``notes`` is Markdown, what to read in it, empty where nobody wrote it yet.
    ``files`` are relative names and contents; a file that is not text is left out.
    """

    lab: str
    track: str
    notes: str
    files: tuple[tuple[str, str], ...]

    def to_json(self) -> dict[str, Any]:
        """As the site sends it: the notes made into HTML, in which raw HTML stays text."""
        from markdown_it import MarkdownIt

        return {
            "lab": self.lab,
            "track": self.track,
            "notes": MarkdownIt("commonmark", {"html": False}).enable("table").render(self.notes),
            "files": [{"name": name, "text": text} for name, text in self.files],
        }


def may_be_read(here: Workspace, lab: course.Lab) -> bool:
    """Whether the learner has passed the lab once.

    A later FAIL does not close what was open: a workspace remembers its passes.
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
    found: list[tuple[str, str]] = []
    if lab.id in tree.labs():
        track = track if track in tree.tracks(lab.id) else tree.tracks(lab.id)[0]
        with tempfile.TemporaryDirectory() as scratch:
            root = tree.handed_in(lab.id, track, Path(scratch))
            for path in sorted(root.rglob("*")):
                if not path.is_file():
                    continue
                try:
                    text = path.read_text(encoding="utf-8")
                except UnicodeDecodeError:
                    continue
                found.append((path.relative_to(root).as_posix(), text))
    return Answer(lab.id, track, notes(lab), tuple(found))


def notes(lab: course.Lab) -> str:
    """What to read in the answer, out of ``grader/hints/<lab>.after.md``."""
    try:
        return (NOTES / f"{lab.id}.after.md").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""
