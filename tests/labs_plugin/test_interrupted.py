"""However the process that grades is ended, the grader cleans up and nothing runs on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from .conftest import HEAD

ROOT = Path(__file__).resolve().parents[2]
#: How long a test waits for what will come (s): a limit, which measures nothing.
PATIENCE = 120

GRADER = """
import sys
from grader.runner.limits import inherited
from grader.runner.running import RunningProgram
from pathlib import Path

@pytest.fixture(scope="module")
def running(submission, grading):
    program = RunningProgram(
        "p", "p", lambda: [sys.executable, "-c", "import time; time.sleep(600)"],
        folder=submission.path, run_dir=grading.run_dir / "p", wire=None,
        env={{**inherited(), "PHASE4_GRADING": grading.marker}},
    ).start()
    yield program
    {teardown}

@check("9.9.9/c", title="It waits", points=1, evidence="live")
def check_c(running, grading):
    Path("{begun}.part").write_text(f"{{os.getpid()}} {{running.pid}}")
    os.rename("{begun}.part", "{begun}")
    time.sleep(600)
"""

CALLER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from grader.labs import grading
from grader.labs.grading_request import Request
grading.CLEAN_UP_SECONDS = {patience}
grading.grade(Request(Path({folder!r}), "9.9.9", Path({grader!r}), Path({run_dir!r})))
"""


@pytest.fixture
def caller(tmp_path, submission_dir):
    def start(teardown: str, patience: float = PATIENCE) -> tuple[subprocess.Popen, list[int]]:
        begun = tmp_path / "begun"
        path = tmp_path / "lab_9_9_9.py"
        path.write_text(HEAD + textwrap.dedent(GRADER).format(begun=begun, teardown=teardown))
        source = CALLER.format(
            root=str(ROOT),
            folder=str(submission_dir),
            grader=str(path),
            run_dir=str(tmp_path / "run"),
            patience=patience,
        )
        process = subprocess.Popen(
            [sys.executable, "-c", source],
            env={**os.environ, "PHASE4_HOME": str(tmp_path / "home")},
            stderr=subprocess.DEVNULL,
        )
        until(begun.exists)
        return process, [int(pid) for pid in begun.read_text().split()]

    return start


def until(condition) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_caller_is_ended(caller, tmp_path, number):
    cleaned = tmp_path / "cleaned"
    process, pids = caller(f"program.kill(); Path({str(cleaned)!r}).touch()")
    process.send_signal(number)
    process.wait(PATIENCE)
    until(lambda: all(gone(pid) for pid in pids))
    assert cleaned.exists()
    assert list((tmp_path / "home" / "state" / "processes").iterdir()) == []


def test_a_clean_up_that_does_not_come_to_an_end(caller, tmp_path):
    """Ctrl-C all the same: the session is killed after a while, and its programs with it."""
    process, pids = caller("time.sleep(600)", patience=1.0)
    process.send_signal(signal.SIGINT)
    process.wait(PATIENCE)
    assert all(gone(pid) for pid in pids)
