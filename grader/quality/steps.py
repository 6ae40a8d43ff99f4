"""The steps of ``phase4 test``: each runs to its end, whatever the others found.

A step prints as it goes. Where there is no terminal it also says once a minute that
it is still at it, so that a log that nobody watches can be told from one that hangs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from grader import cut, exit_codes
from grader.course import ROOT
from grader.quality import machine

#: Seconds after which a step is stopped and counted as failed.
LIMIT = 40 * 60
#: The cluster that the tests use, so that a learner's own is left alone.
CLUSTER = "test"


@dataclass
class Result:
    """What a step found. Counts are of tests, or of commands where a step has no tests."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, ok: bool) -> None:
        if ok:
            self.passed += 1
        else:
            self.failed += 1


@dataclass(frozen=True)
class Step:
    """A part of the tests that can be asked for by name."""

    name: str
    title: str
    run: Callable[[], Result]


def environment() -> dict[str, str]:
    """What the steps' processes get: a cluster of their own, no workspace of a learner's."""
    env = {name: value for name, value in os.environ.items() if name != "PHASE4_WORKSPACE"}
    env.setdefault("PHASE4_CLUSTER", CLUSTER)
    # Hundreds of processes import the same packages, and the installer compiles none: without
    # compiled files each would compile pytest (1 s) or mkdocs again.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env["CGO_ENABLED"] = "0"
    env["GOFLAGS"] = "-buildvcs=false -trimpath"
    return env


def command(argv: Sequence[str], cwd: Path = ROOT, *, ok: Sequence[int] = (0,)) -> bool:
    """Run one command with its output shown; whether it succeeded within the limit."""
    print(f"$ {' '.join(_shown(word) for word in argv)}", flush=True)
    # A group of its own, so that a step that hangs is ended with all it started;
    # Ctrl-C then has to be passed on by us.
    process = subprocess.Popen(
        argv, cwd=cwd, env=environment(), stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        with _heartbeat(_shown(argv[0])):
            code = process.wait(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        print(f"stopped: it took more than {LIMIT // 60} minutes", flush=True)
        code = -1
    finally:
        if process.poll() is None:
            _end(process)
    return code in ok


def _end(process: subprocess.Popen) -> None:
    """Ask the group to end, and after five seconds end it."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=5)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _shown(word: str) -> str:
    try:
        return str(Path(word).relative_to(ROOT)) if word.startswith("/") else word
    except ValueError:
        return word


@contextmanager
def _heartbeat(what: str, seconds: float = 60.0) -> Iterator[None]:
    if sys.stdout.isatty():
        yield
        return
    ended = threading.Event()

    def beat() -> None:
        began = time.monotonic()
        while not ended.wait(seconds):
            print(f"… still running {what}, {(time.monotonic() - began) / 60:.0f} min", flush=True)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def phase4(*arguments: str) -> bool:
    """Run one of our own commands."""
    return command([sys.executable, "-m", "grader", *arguments])


# -- the steps ---------------------------------------------------------------


def prepare() -> Result:
    """The developers' packages, and tools of the system where they may be installed."""
    result = Result()
    result.add(command([sys.executable, str(ROOT / "grader" / "bootstrap.py"), "--developer"]))
    missing = [tool for tool in machine.TOOLS if not machine.has(tool)]
    if missing and machine.may_install():
        names = ", ".join(tool.package for tool in missing)
        print(f"installing {names} with apt", flush=True)
        with _heartbeat("apt"):
            machine.install(missing, Path(tempfile.gettempdir()) / "phase4-apt.log")
    for tool in missing:
        if not machine.has(tool):
            result.notes.append(f"{tool.needed_for}: {tool.name} is not installed here")
    return result


def lint() -> Result:
    result = Result()
    ruff = [sys.executable, "-m", "ruff"]
    result.add(command([*ruff, "check", "."]))
    result.add(command([*ruff, "format", "--check", "."]))
    result.add(command([str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]))
    result.add(command(["sh", "-n", str(ROOT / "phase4")]))
    return result


def generated() -> Result:
    """What is made from something else is what that makes now."""
    result = Result()
    result.add(phase4("dev", "cut", "--check"))
    result.add(phase4("dev", "pins"))
    if missing := _go_missing():
        result.notes.append(
            f"the index of cited sources, and the code of the WebApp type: {missing}"
        )
    else:
        result.add(phase4("dev", "generate", "--check"))
        # A source that cannot be had here is said, and is no failure: some proxies
        # serve not every module.
        check = [sys.executable, "-m", "grader", "dev", "index", "--check"]
        result.add(command(check, ok=(exit_codes.OK, exit_codes.ENVIRONMENT)))
    return result


def unit() -> Result:
    # One more than there are cores: many of them wait for a process or a time.
    workers = str(min(4, (os.cpu_count() or 1) + 1))
    # A worker that has nothing left takes tests over from one that has.
    return pytest("not live and not browser", "-n", workers, "--dist", "worksteal")


def control_plane() -> Result:
    """Have the control plane before the tests that need it, its progress shown."""
    result = Result()
    result.add(phase4("up"))
    return result


def live() -> Result:
    return pytest("live and not browser")


def browser() -> Result:
    chromium = next(tool for tool in machine.TOOLS if tool.name == "chromium")
    if not machine.has(chromium) and "CI" not in os.environ:
        return Result(notes=["browser tests: chromium is not installed here"])
    return pytest("browser")


def _go_missing() -> str:
    """Why Go's part cannot be tested here; empty where it can."""
    wanted, found = machine.go_wanted(), machine.go_version()
    if found is not None and found >= wanted:
        return ""
    have = "no Go" if found is None else f"Go {'.'.join(map(str, found))}"
    return f"{have} here, {'.'.join(map(str, wanted))} is needed"


def go() -> Result:
    """Vet, build and test the Go that is not a learner's."""
    if missing := _go_missing():
        return Result(notes=[f"Go code: {missing}"])
    result = Result()
    with tempfile.TemporaryDirectory(prefix="phase4-go-") as folder:
        # The answers are a module only as they are handed in: every lab beside the artifacts.
        answers = Path(folder, "workspace")
        for lab in cut.labs():
            if "go" in cut.tracks(lab):
                cut.handed_in(lab, "go", answers)
        for module in (answers, ROOT / "oracle"):
            result.add(command(["go", "vet", "./..."], module))
            result.add(command(["go", "test", "./..."], module))
    return result


def verify() -> Result:
    """Measure every grader: right answers pass, each mistake fails its check by name."""
    result = Result()
    result.add(phase4("dev", "verify"))
    return result


def pytest(marks: str, *options: str) -> Result:
    """Run the project's tests that these marks choose, and count them."""
    with tempfile.TemporaryDirectory(prefix="phase4-test-") as folder:
        report = Path(folder) / "junit.xml"
        ok = command(
            # 5: no test has these marks, which is not a failure of theirs.
            [sys.executable, "-m", "pytest", "-m", marks, *options, f"--junitxml={report}"],
            ok=(0, 5),
        )
        result = counted(report)
    if not ok and result.failed == 0:
        result.failed = 1  # it crashed, or was stopped, before it could count
    return result


def counted(report: Path) -> Result:
    """What a JUnit report counts; nothing for one that is missing or broken off."""
    try:
        suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    except (OSError, ElementTree.ParseError):
        return Result()
    total = failed = skipped = 0
    for suite in suites:
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return Result(passed=max(0, total - failed - skipped), failed=failed, skipped=skipped)


STEPS = (
    Step("prepare", "packages for the tests", prepare),
    Step("lint", "style and mistakes that a reader of the code would see", lint),
    Step("generated", "what is generated is current", generated),
    Step("unit", "tests without a cluster", unit),
    Step("cluster", "a control plane for the tests", control_plane),
    Step("go", "the Go code", go),
    Step("live", "tests against the control plane", live),
    Step("browser", "the site in a browser", browser),
    Step("verify", "the graders, measured", verify),
)
