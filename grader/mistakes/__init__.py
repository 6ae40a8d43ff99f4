"""The wrong submissions: small named changes to a reference answer.

``grader/mistakes/<lab>/<name>.toml``::

    title = "The key is cited where AddRateLimited puts it back"
    issue = "https://github.com/…"        # optional: a real project that shipped it
    track = "common"                      # or python, go: which answer is changed
    variant = "own-controller"            # optional: another right answer is changed
    fails = "4.1.2/enqueue-line"          # the check that must FAIL ...
    diagnosis = "cited-the-retry"         # ... and what it must call the fault

    [[change]]                            # any number of each
    file = "answers.md"
    find = "controller.go:336"            # is in the answer exactly once
    replace = "controller.go:234"

    [[file]]
    path = "extra.py"
    content = "…"                         # or: remove = true

For recordings there are tables ``[[record]]``: see :mod:`grader.mistakes.recorded`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from grader.course import ROOT, TRACKS
from grader.cut.tree import place
from grader.mistakes import recorded
from grader.mistakes.recorded import LineChange

MISTAKES = ROOT / "grader" / "mistakes"


class MistakeError(Exception):
    """A mistake's file is wrong, or it no longer fits the answer; ``str()`` says where and why."""


@dataclass(frozen=True)
class Change:
    """One replacement in one file; ``find`` is there exactly once."""

    file: str
    find: str
    replace: str


@dataclass(frozen=True)
class NewFile:
    """A file put in whole, or removed where ``content`` is None."""

    path: str
    content: str | None


@dataclass(frozen=True)
class Mistake:
    """One wrong submission. ``track`` is empty for one in the files that all tracks share.

    ``variant`` is the lab's right answer that it changes, empty for the reference answer.
    """

    lab: str
    name: str
    title: str
    fails: str
    diagnosis: str
    track: str = ""
    variant: str = ""
    issue: str = ""
    changes: tuple[Change, ...] = ()
    files: tuple[NewFile, ...] = ()
    records: tuple[LineChange, ...] = ()

    def apply(self, folder: Path) -> None:
        """Make the reference answer in ``folder``, its lab's, this wrong one."""
        for change in self.changes:
            path = place(folder, change.file)
            try:
                text = path.read_text(encoding="utf-8")
            except OSError:
                raise MistakeError(f"{self}: the answer has no file {change.file}") from None
            count = text.count(change.find)
            if count != 1:
                raise MistakeError(
                    f"{self}: {change.find!r} is in {change.file} {count} times, not once"
                )
            path.write_text(text.replace(change.find, change.replace), encoding="utf-8")
        for file in self.files:
            path = place(folder, file.path)
            if file.content is None:
                if not path.is_file():
                    raise MistakeError(f"{self}: the answer has no file {file.path} to remove")
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(file.content, encoding="utf-8")
        try:
            recorded.apply(self.records, folder)
        except recorded.NoSuchLine as error:
            raise MistakeError(f"{self}: {error}") from None

    def __str__(self) -> str:
        return f"mistake {self.lab}/{self.name}"


def load(lab: str, folder: Path = MISTAKES) -> list[Mistake]:
    """All mistakes of a lab, by name."""
    return [_read(lab, path) for path in sorted((folder / lab).glob("*.toml"))]


def _read(lab: str, path: Path) -> Mistake:
    where = f"{path.parent.name}/{path.name}"
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MistakeError(f"{where}: {error}") from None
    unknown = data.keys() - {
        "title", "issue", "track", "variant", "fails", "diagnosis", "change", "file", "record"
    }  # fmt: skip
    if unknown:
        raise MistakeError(f"{where}: unknown key {sorted(unknown)[0]}")
    try:
        track = data.get("track", "common")
        if track not in ("common", *TRACKS):
            raise MistakeError(f"{where}: track is common, python or go, not {track!r}")
        mistake = Mistake(
            lab=lab,
            name=path.stem,
            title=data["title"],
            fails=data["fails"],
            diagnosis=data["diagnosis"],
            track="" if track == "common" else track,
            variant=data.get("variant", ""),
            issue=data.get("issue", ""),
            changes=tuple(
                Change(_inside(entry["file"], where), entry["find"], entry["replace"])
                for entry in data.get("change", ())
            ),
            files=tuple(
                NewFile(
                    _inside(entry["path"], where),
                    None if entry.get("remove") else entry["content"],
                )
                for entry in data.get("file", ())
            ),
            records=tuple(
                LineChange(
                    _inside(entry["file"], where),
                    entry["line"],
                    entry.get("find", ""),
                    None if entry.get("drop") else entry["replace"],
                )
                for entry in data.get("record", ())
            ),
        )
    except KeyError as error:
        raise MistakeError(f"{where}: {error} is missing") from None
    if not mistake.changes and not mistake.files and not mistake.records:
        raise MistakeError(f"{where}: it changes nothing")
    if any(change.find == change.replace or not change.find for change in mistake.changes):
        raise MistakeError(f"{where}: a change must find something and change it")
    if not mistake.fails.startswith(f"{lab}/"):
        raise MistakeError(f"{where}: {mistake.fails} is not a check of {lab}")
    if not mistake.diagnosis:
        raise MistakeError(f"{where}: the diagnosis is empty")
    return mistake


def _inside(name: str, where: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise MistakeError(f"{where}: {name} is not inside the lab's folder")
    return name
