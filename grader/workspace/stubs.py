"""What a learner starts a lab from: the files of ``exercises/``, by lab and track."""

from __future__ import annotations

from pathlib import Path

from grader.course import ROOT, Lab

EXERCISES = ROOT / "exercises"
#: One Go module for all labs; laid beside the labs' folders.
GO_MODULE = ("go.mod", "go.sum")


def of(lab: Lab, track: str, exercises: Path = EXERCISES) -> dict[str, Path]:
    """Path within the lab's folder to the stub: what both tracks share, overlaid by the track's."""
    files: dict[str, Path] = {}
    for part in ("common", track):
        root = exercises / lab.id / part
        if part and root.is_dir():
            files |= {
                path.relative_to(root).as_posix(): path
                for path in sorted(root.rglob("*"))
                if path.is_file() and "__pycache__" not in path.parts
            }
    return files


def only_of_track(lab: Lab, track: str, exercises: Path = EXERCISES) -> dict[str, Path]:
    """The stubs that the lab has for this track alone."""
    root = exercises / lab.id / track
    return {
        name: path for name, path in of(lab, track, exercises).items() if path.is_relative_to(root)
    }
