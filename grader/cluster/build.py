"""The third source of binaries: a build from pinned Go modules, verified by the Go checksum database."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from grader.cluster import dirs, go_settings, pins
from grader.cluster.errors import EnvironmentProblem
from grader.cluster.process import NotStarted, Recorded, records

Progress = Callable[[str], None]

MODULES = Path(__file__).parent / "modules"

PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}

GET_GO = "Install Go from https://go.dev/dl/ (or with your package manager)"


class BuildFailed(EnvironmentProblem):
    """The build is unavailable; the sentence says why and what to do."""


def go() -> Path | None:
    """The go command: on the PATH, or where its installer puts it."""
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    return Path(found) if found else None


def go_version(command: Path) -> tuple[int, ...] | None:
    """The version of a go command itself (not of a toolchain it would fetch): (1, 26, 8)."""
    try:
        done = subprocess.run(
            [command, "env", "GOVERSION"],
            env={**os.environ, "GOTOOLCHAIN": "local"},
            cwd=tempfile.gettempdir(),
            capture_output=True,
            text=True,
            timeout=20,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(part or 0) for part in found.groups()) if found else None


def needed_go() -> tuple[int, int]:
    """The oldest Go that builds the control plane: what go.mod asks for."""
    found = re.search(
        r"^go (\d+)\.(\d+)", (MODULES / "go.mod").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert found is not None
    return int(found[1]), int(found[2])


def usable_go() -> Path:
    """A go command that can build the control plane.

    Raises :class:`BuildFailed` where there is none or it is too old.
    """
    wanted = "{}.{}".format(*needed_go())
    command = go()
    if command is None:
        raise BuildFailed(f"Go is not installed. {GET_GO}, version {wanted} or newer.")
    version = go_version(command)
    if version is None:
        raise BuildFailed(f"{command} does not say its version. {GET_GO} again.")
    # From 1.21 on, a go command fetches the toolchain that go.mod asks for, unless told not to.
    fetches = version >= (1, 21) and _setting(command, "GOTOOLCHAIN") != "local"
    if version[:2] < needed_go() and not fetches:
        have = ".".join(str(part) for part in version)
        raise BuildFailed(
            f"Go {have} ({command}) is too old: {wanted} or newer is needed. {GET_GO}."
        )
    return command


def build(names: Iterable[str], target: Callable[[str], Path], progress: Progress) -> None:
    """Build binaries and put each at ``target(name)``, complete or not at all.

    One command builds them all, so that what they share is compiled once. A build
    that was interrupted continues from Go's own cache. Raises :class:`BuildFailed`,
    or :class:`EnvironmentProblem` for a cache that cannot be written to.
    """
    chosen = list(names)
    command = usable_go()
    # A build whose command has ended would only compete with this one.
    records.reap("build", orphans=True)
    parent = dirs.made(dirs.cache() / "bin")
    _sweep(parent)
    log = dirs.made(dirs.cache() / "logs") / "build.log"
    with dirs.writing(parent):
        staging = Path(tempfile.mkdtemp(dir=parent, prefix=".build-"))
    try:
        _run(command, chosen, staging, log, progress)
        for name in chosen:
            built = staging / PACKAGES[name].rpartition("/")[2]
            if name == "etcd":
                built = staging / "server"
            path = target(name)
            dirs.made(path.parent)
            with dirs.writing(path.parent):
                os.replace(built, path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _run(command: Path, names: list[str], staging: Path, log: Path, progress: Progress) -> None:
    major, minor, _ = pins.KUBERNETES.removeprefix("v").split(".")
    version = "k8s.io/component-base/version"
    # Without them the binaries call themselves v0.0.0-master, which kubectl does not parse.
    defined = (
        f"-s -w -X {version}.gitVersion={pins.KUBERNETES} "
        f"-X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    )
    flags = ["-trimpath", "-ldflags", defined]
    packages = [PACKAGES[name] for name in names]
    # Which packages Go's cache does not have: seconds, and it fetches the modules.
    stale = ["list", "-deps", *flags, "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", *packages]
    compile_ = ["build", "-v", *flags, "-o", f"{staging}/", *packages]
    what = ", ".join(names)
    listed = staging / "packages.txt"
    follow = _Following(what, log, progress)
    with dirs.writing(log.parent), open(log, "wb") as said, open(listed, "wb") as answer:
        if _go([command, *stale], answer, said, follow) == 0:
            follow.packages = len(listed.read_text().split())
            listed.unlink()
            if _go([command, *compile_], said, said, follow) == 0:
                return
    raise BuildFailed(_why(log, what))


def _go(argv: list[str | Path], stdout: IO, stderr: IO, follow: _Following) -> int | None:
    """Run a go command to its end; returns its exit code."""
    try:
        running = records.start(
            argv,
            name="go-build",
            kind="build",
            cwd=MODULES,
            env=go_settings.environment(),
            stdout=stdout,
            stderr=stderr,
        )
    except NotStarted as error:
        raise BuildFailed(str(error)) from error
    try:
        follow.until_ended(running)
    finally:
        # The compilers are its children and in its group: they end with it.
        running.end()
    return running.returncode


class _Following:
    """Tells how far a build is, by what its go commands say."""

    def __init__(self, what: str, log: Path, progress: Progress) -> None:
        #: How many there are to compile; None while that is not known.
        self.packages: int | None = None
        self._what, self._log, self._progress = what, log, progress
        self._started = time.monotonic()

    def until_ended(self, running: Recorded) -> None:
        ended = False
        while not ended:
            try:
                running.wait(0.25)
                ended = True
            except TimeoutError:
                pass
            self._progress(f"building {self._what} with Go: {self._so_far()}")

    def _so_far(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        seconds = int(time.monotonic() - self._started)
        spent = f"{seconds // 60}:{seconds % 60:02} min (5 to 10 on two cores, once)"
        if self.packages is None:
            fetched = sum(line.startswith("go: downloading") for line in lines)
            return f"{fetched} modules fetched, {spent}"
        compiled = sum(not line.startswith("go: ") for line in lines)
        return f"{compiled:,} of {self.packages:,} packages compiled, {spent}"


def _why(log: Path, what: str) -> str:
    """What a failed build says, as a sentence for a person."""
    text = log.read_text(errors="replace")
    if "no space left on device" in text:
        return (
            f"Building {what} filled the disk: it takes 6 GB in Go's build cache "
            "(`go env GOCACHE`) and 0.5 GB in the course's. Free some space, or set GOCACHE and "
            "PHASE4_HOME to another disk."
        )
    offline = ("dial tcp", "no such host", "i/o timeout", "connection refused", "proxyconnect")
    if any(sign in text for sign in offline) and "go: " in text:
        return (
            f"Building {what} needs Go modules that could not be fetched (no network?). The first "
            "line that says so: "
            + next(line for line in text.splitlines() if any(sign in line for sign in offline))
        )
    said = [line for line in text.splitlines() if ":" in line and not line.startswith("go: down")]
    return f"Building {what} failed: {' / '.join(said[-2:])} (all of its output: {log})"


def _setting(command: Path, name: str) -> str:
    done = subprocess.run(
        [command, "env", name], capture_output=True, text=True, cwd=tempfile.gettempdir()
    )
    return done.stdout.strip()


def _sweep(parent: Path) -> None:
    """Remove what builds left that were killed. Under the lock: no other build runs."""
    for left in parent.glob(".build-*"):
        shutil.rmtree(left, ignore_errors=True)
