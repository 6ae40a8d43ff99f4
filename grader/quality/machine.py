"""What the machine has for the project's tests, and what can be put there without asking.

Packages of the system are installed only where that is plainly in order: as root, on
Debian or a relative of it. Everywhere else what is missing is said, and what is
therefore not tested.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from grader.course import ROOT


@dataclass(frozen=True)
class Tool:
    """A program of the system: what to look for, what Debian calls it, what needs it."""

    name: str
    programs: tuple[str, ...]
    package: str
    needed_for: str


TOOLS = (
    Tool("bubblewrap", ("bwrap",), "bubblewrap", "the sandbox's tests"),
    Tool(
        "chromium", ("chromium", "chromium-browser", "google-chrome"), "chromium", "browser tests"
    ),
)


def has(tool: Tool) -> bool:
    """Whether one of the tool's programs is on the PATH."""
    return any(shutil.which(program) for program in tool.programs)


def may_install() -> bool:
    """Whether installing packages of the system is in order here."""
    return (
        os.geteuid() == 0 and Path("/etc/debian_version").exists() and bool(shutil.which("apt-get"))
    )


def install(tools: list[Tool], log: Path) -> None:
    """Install with apt; a failure only means that the tool is still missing."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    packages = [tool.package for tool in tools]
    with log.open("wb") as output:
        for arguments in (
            ["update", "-q"],
            ["install", "-q", "-y", "--no-install-recommends", *packages],
        ):
            code = subprocess.run(
                ["apt-get", *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            ).returncode
            if code != 0:
                return


def go_version() -> tuple[int, int, int] | None:
    """The version of the Go on the PATH, None where there is none.

    ``go env GOVERSION`` is asked outside of any module, where no toolchain is fetched.
    """
    if not shutil.which("go"):
        return None
    try:
        said = subprocess.run(
            ["go", "env", "GOVERSION"],
            capture_output=True,
            text=True,
            timeout=30,
            cwd="/",
            env={**os.environ, "GOTOOLCHAIN": "local"},
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"go(\d+)\.(\d+)(?:\.(\d+))?", said)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def go_wanted() -> tuple[int, int, int]:
    """The least version of Go that the control plane's module names."""
    text = (ROOT / "grader" / "cluster" / "modules" / "go.mod").read_text(encoding="utf-8")
    found = re.search(r"^go (\d+)\.(\d+)(?:\.(\d+))?$", text, re.MULTILINE)
    assert found, "grader/cluster/modules/go.mod names no Go version"
    return int(found[1]), int(found[2]), int(found[3] or 0)
