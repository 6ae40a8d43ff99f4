"""What `phase4 init` does: make a workspace, complete one, upgrade an old one."""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from grader import course
from grader.course import TRACKS, Lab
from grader.workspace import environment, files, stubs, takeover
from grader.workspace.folder import (
    DEFAULT,
    MARKER,
    BadRequest,
    Workspace,
    WorkspaceError,
    open_folder,
)


def init_folder(
    folder: Path | None, track: str | None, say: Callable[[str], None] = lambda line: None
) -> tuple[Workspace, list[Lab]]:
    """:func:`init` at ``folder``, at the one named by the user, or at ``workspace/``."""
    named = os.environ.get("PHASE4_WORKSPACE")
    return init(folder or (Path(named) if named else DEFAULT), track, say)


def init(
    root: Path, track: str | None, say: Callable[[str], None] = lambda line: None
) -> tuple[Workspace, list[Lab]]:
    """Make a workspace, or complete one; returns it and the labs whose stubs were added.

    In an existing workspace only labs without a folder get one. Work in one of an older
    version moves to where it belongs now, and ``say`` is called with what was moved. ``track`` None
    keeps the one it has (python in a new one).
    """
    if track is not None and track not in TRACKS:
        raise BadRequest(f"there is no track {track!r}: choose python or go.")
    root = root.expanduser().absolute()
    if root.is_symlink() or root.exists():
        if not root.is_dir():
            raise WorkspaceError(f"{root} is a file; a workspace is a folder.")
        _refuse_strangers(root)
    workspace = _taken_up(root)
    if track is not None:
        workspace.track = track
    workspace.root.mkdir(parents=True, exist_ok=True)
    old = _version(root) == "1"
    if old:
        takeover.take_over(workspace, say)
    workspace.save()
    shutil.rmtree(workspace.state / "staging", ignore_errors=True)
    _ignore_state(workspace)
    laid = [lab for lab in course.load().labs if workspace.lay(lab)]
    workspace.lay_artifacts()
    if old:
        takeover.keep_passes(workspace)
    if "python" in workspace.tracks_in_use():
        environment.ensure(root)
    return workspace, laid


def _version(root: Path) -> str:
    """The version of the course that a workspace was made for; empty in a new one."""
    try:
        return str(tomllib.loads((root / MARKER).read_text(encoding="utf-8")).get("version", ""))
    except (OSError, ValueError):
        return ""


def _taken_up(root: Path) -> Workspace:
    """The workspace at ``root`` whatever its version; a new one where there is none."""
    path = root / MARKER
    if not path.exists():
        return Workspace(root)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return open_folder(root)
    if data.get("course") != course.load().id or data.get("track") not in TRACKS:
        return open_folder(root)
    return Workspace(root, data["track"], dict(data.get("tracks", {})))


def _refuse_strangers(root: Path) -> None:
    """Refuse a folder that is plainly something else."""
    if root == course.ROOT or (root / "grader" / "course.toml").exists():
        raise BadRequest("that is the course itself; name a folder of your own, or none.")
    if (root / MARKER).exists():
        return
    others = [entry.name for entry in root.iterdir() if not entry.name.startswith(".")]
    labs = {lab.id for lab in course.load().labs}
    if others and not set(others) <= labs | {*course.load().artifacts, *stubs.artifacts("go")}:
        print(
            f"phase4: {root} has other files in it; they are not touched.",
            file=sys.stderr,
        )


def _ignore_state(workspace: Workspace) -> None:
    """Runs and backups are not for the learner's own git repository."""
    ignore = workspace.state / ".gitignore"
    if not ignore.exists():
        files.write(ignore, "*\n")
