"""``doctor``: what this machine has, what is missing and how to get it; ``completion``."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from grader import exit_codes


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``state`` is ``ok``, ``missing`` (something needs it) or ``optional``."""

    name: str
    state: str
    detail: str
    remedy: str = ""


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    app.command(rich_help_panel="Cluster")(doctor)
    app.command(rich_help_panel="Work on the course")(completion)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Say what is installed, in which version, what is missing and how to get it."""
    findings = look()
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        _print(findings)
    broken = any(finding.state == "missing" for finding in findings)
    raise typer.Exit(exit_codes.ENVIRONMENT if broken else exit_codes.OK)


def look() -> list[Finding]:
    """Look at everything that the course uses."""
    return [
        _course(),
        _python(),
        *_binaries(),
        _go(),
        _sandbox(),
        _disk(),
        _workspace(),
        _cluster(),
        _site(),
    ]


def _course() -> Finding:
    from grader import __version__, course

    loaded = course.load()
    built = sum(lab.built for lab in loaded.labs)
    detail = f"phase4 {__version__}, {built} of {len(loaded.labs)} labs can be graded"
    return Finding("course", "ok", f"{detail}, in {course.ROOT}")


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", "ok", f"{version}, packages in {sys.prefix}")


def _binaries() -> list[Finding]:
    """The control plane's programs: where each is, and its version."""
    from grader.cluster import binaries, pins

    findings = []
    absent = []
    for name, pinned in pins.VERSIONS.items():
        path = binaries.find(name)
        if path is None:
            absent.append(name)
            continue
        version = binaries.version_of(path)
        if version is None:
            state, remedy = "missing", f"{path} does not run here; remove it and run `phase4 up`"
        else:
            state, remedy = "ok", ""
        note = "" if version == pinned else f" (the course is tested with {pinned})"
        findings.append(Finding(name, state, f"{version or '?'}{note}  {path}", remedy))
    if absent:
        findings.append(
            Finding(
                ", ".join(absent),
                "optional",
                "not here yet",
                "`phase4 up` downloads or builds them, once",
            )
        )
    return findings


def _go() -> Finding:
    from grader.quality import machine

    wanted, found = machine.go_wanted(), machine.go_version()
    need = ".".join(map(str, wanted))
    uses = f"the Go track, and building the control plane; {need} or newer"
    remedy = "https://go.dev/dl/ has it; without it the Python track works if the control plane can be downloaded"
    if found is None:
        return Finding("go", "optional", f"none on the PATH ({uses})", remedy)
    have = ".".join(map(str, found))
    if found < wanted:
        return Finding("go", "optional", f"{have} is too old ({uses})", remedy)
    return Finding("go", "ok", f"{have}  {shutil.which('go')}")


def _sandbox() -> Finding:
    path = shutil.which("bwrap")
    if path:
        return Finding("bubblewrap", "ok", path)
    remedy = "sudo apt install bubblewrap" if sys.platform == "linux" else "there is none here"
    return Finding("bubblewrap", "optional", "only for `check --isolation bwrap`", remedy)


def _disk() -> Finding:
    from grader.cluster import dirs

    folder = dirs.cache()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free / 1e9
    if not os.access(there, os.W_OK):
        remedy = "set PHASE4_HOME to a folder that can be written"
        return Finding("disk", "missing", f"cannot write to {there}", remedy)
    if free < 3:
        remedy = "free some space, or set PHASE4_HOME to a folder on another disk"
        return Finding("disk", "missing", f"{free:.1f} GB free at {there}", remedy)
    return Finding("disk", "ok", f"{free:.0f} GB free at {folder}")


def _workspace() -> Finding:
    from grader import workspace

    try:
        here = workspace.find()
    except workspace.WorkspaceError as error:
        state = "missing" if workspace.exists() else "optional"
        return Finding("workspace", state, str(error), "`phase4 start` makes one")
    return Finding("workspace", "ok", f"{here.root} ({here.track} track)")


def _cluster() -> Finding:
    from grader import cluster
    from grader.cluster.errors import EnvironmentProblem

    try:
        found = cluster.find()
    except EnvironmentProblem as problem:
        return Finding("cluster", "missing", str(problem))
    if found is None:
        return Finding("cluster", "optional", "none is running", "`phase4 up` starts one")
    version = found.versions.get("kube-apiserver", "")
    return Finding("cluster", "ok", f"{found.name}: {found.backend} {version}".rstrip())


def _site() -> Finding:
    from grader.site import server

    address = server.address()
    if address:
        return Finding("site", "ok", address)
    return Finding("site", "optional", "not served", "`phase4 site` serves it")


def _print(findings: list[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from grader.report.terminal import console

    style = {"ok": "green", "missing": "red", "optional": "yellow"}
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(max_width=26)
    table.add_column(ratio=1, overflow="fold")
    for finding in findings:
        detail = Text(finding.detail)
        if finding.remedy:
            detail.append(f"\n{finding.remedy}", "dim")
        table.add_row(Text(finding.state, style[finding.state]), finding.name, detail)
    console().print(table)


def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish")] = "",
) -> None:
    """Print the completion script of a shell: phase4 completion bash >> ~/.bashrc"""
    chosen = shell or Path(os.environ.get("SHELL", "")).name
    if chosen not in ("bash", "zsh", "fish"):
        raise typer.BadParameter("name one of bash, zsh, fish", param_hint="SHELL")
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name="phase4", complete_var="_PHASE4_COMPLETE", shell=chosen))
