"""What a learner starts a lab from: the files of ``exercises/``, by lab and track."""

from __future__ import annotations

from pathlib import Path

from grader.course import ROOT, Lab

EXERCISES = ROOT / "exercises"
#: What is put at the root: the artifacts, and the files that make it a project of either language.
ARTIFACTS = "artifacts"


def of(lab: Lab, track: str, exercises: Path = EXERCISES) -> dict[str, Path]:
    """Path within the lab's folder to the stub: what both tracks share, overlaid by the track's."""
    return _overlaid(exercises / lab.id, track)


def artifacts(track: str, exercises: Path = EXERCISES) -> dict[str, Path]:
    """Path from the workspace's root to what a track starts its artifacts from."""
    return _overlaid(exercises / ARTIFACTS, track)


def _overlaid(folder: Path, track: str) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for part in ("common", track):
        root = folder / part
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
