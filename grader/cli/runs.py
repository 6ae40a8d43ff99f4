"""Run folders: where they are made, and which one a person means."""

from __future__ import annotations

import json
import math
from pathlib import Path

from grader import exit_codes, files
from grader.cluster import dirs
from grader.cluster.errors import EnvironmentProblem


class NoRun(EnvironmentProblem):
    """There is no run of that name; says which there are."""

    exit_code = exit_codes.USAGE


def places() -> list[Path]:
    """The folders that hold runs: the workspace's, and the user's for runs outside of one."""
    from grader import workspace

    found = [dirs.state() / "runs"]
    if workspace.exists():
        try:
            found.insert(0, workspace.find().runs)
        except workspace.WorkspaceError:
            pass  # of another course or version: its runs are none of ours
    return found


def new(label: str) -> Path:
    """A fresh folder for a run, named by time (UTC) and label; no other user may look into it."""
    return files.new_folder(dirs.made(places()[0]), label)


def all_runs() -> list[Path]:
    """Every run folder that has a wire's record in it, the newest last.

    By when their wires were opened: older versions named runs in local time, which a
    change of the time zone moves.
    """
    begun: dict[Path, float] = {}
    for place in places():
        for record in place.glob("**/wire.jsonl") if place.is_dir() else ():
            run = place / record.relative_to(place).parts[0]
            begun[run] = min(_begun(record), begun.get(run, math.inf))
    return sorted(begun, key=lambda run: (begun[run], run.name))


def _begun(record: Path) -> float:
    """When a wire was opened (seconds since the epoch): its record says so first."""
    try:
        with record.open("rb") as file:
            return float(json.loads(file.readline())["t"])
    except (OSError, ValueError, KeyError, TypeError):
        # Killed before the first line was whole, or of no version of ours.
        return record.parent.stat().st_mtime if record.parent.exists() else 0.0


def find(name: str) -> Path:
    """The run that ``name`` means: a path, a folder's name or its beginning, ``last``."""
    if name != "last" and Path(name).is_dir():
        return Path(name)
    runs = all_runs()
    matching = runs[-1:] if name == "last" else [r for r in runs if r.name.startswith(name)]
    exact = [r for r in matching if r.name == name]
    if len(exact or matching) == 1:
        return (exact or matching)[0]
    if not runs:
        raise NoRun("There are no runs yet: `phase4 run -- COMMAND` makes one.")
    shown = ", ".join(r.name for r in (matching or runs)[-5:])
    what = f"more than one run begins with “{name}”" if matching else f"there is no run “{name}”"
    raise NoRun(f"{what[0].upper()}{what[1:]}; the latest are: {shown}.")
