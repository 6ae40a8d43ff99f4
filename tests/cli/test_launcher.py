"""The launcher: a first use, one that was killed, two at once, no Python, no network."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from grader.course import ROOT

#: Small enough to install in a second; everything else is as in the course.
ONE_PACKAGE = """colorama==0.4.6 \\
    --hash=sha256:08695f5cb7ed6e0531a20572697297273c47b8cae5a63ffc6d6ed5c201be6e44 \\
    --hash=sha256:4f1d9991f5acc0ca119f9d443620b77f9d6b33703e51011c16baf57afb285fc6
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose command line only says that it runs, with one package to install."""
    root = tmp_path / "a clone"
    (root / "grader").mkdir(parents=True)
    for name in ("phase4", "grader/bootstrap.py", "requirements-uv.lock"):
        shutil.copy(ROOT / name, root / name)
    (root / "requirements.lock").write_text(ONE_PACKAGE)
    (root / "requirements-dev.lock").write_text("")
    (root / "grader" / "__main__.py").write_text(
        "import sys, colorama\nprint('runs', *sys.argv[1:])\n"
    )
    return root


def environment(**changes: str) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith("PHASE4_")}, **changes}


def launch(clone: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [clone / "phase4", *arguments],
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.network
def test_first_use_then_a_warm_one_then_a_changed_lock_file(clone: Path) -> None:
    first = launch(clone, "a b", "c")
    assert (first.returncode, first.stdout) == (0, "runs a b c\n"), first.stderr
    assert "first use" in first.stderr
    assert launch(clone, "x").stderr == ""
    link = clone.parent / "bin" / "phase4"
    link.parent.mkdir()
    link.symlink_to("../a clone/phase4")
    done = subprocess.run([link, "y"], env=environment(), capture_output=True, text=True)
    assert done.stdout == "runs y\n"
    (clone / "requirements.lock").write_text("# changed\n" + ONE_PACKAGE)
    again = launch(clone)
    assert again.returncode == 0 and "has changed" in again.stderr


@pytest.mark.network
@pytest.mark.slow
def test_a_killed_first_use_is_mended_by_the_next(clone: Path) -> None:
    rng = random.Random(4)
    for _ in range(4):
        process = subprocess.Popen(
            [clone / "phase4"], env=environment(), stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(rng.uniform(0.05, 4.0))
        # Only the launcher dies: its installer goes on for a while, holding the lock.
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = launch(clone)
    assert (done.returncode, done.stdout) == (0, "runs\n"), done.stderr


@pytest.mark.network
def test_two_first_uses_at_once(clone: Path) -> None:
    both = [
        subprocess.Popen(
            [clone / "phase4"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sorted("first use" in err for _, err in said) == [False, True]
    assert any("another phase4 is setting up" in err for _, err in said)


def test_no_python_is_said_with_what_to_do(clone: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cmp", "readlink"):
        (tools / name).symlink_to(shutil.which(name) or "")
    old = tools / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = launch(clone, PATH=str(tools))
    assert done.returncode == 5
    assert "needs Python 3.11 or newer" in done.stderr and "apt install" in done.stderr


def test_no_network_is_a_sentence(clone: Path) -> None:
    nowhere = "http://127.0.0.1:9/simple"
    done = launch(
        clone,
        PIP_INDEX_URL=nowhere,
        UV_DEFAULT_INDEX=nowhere,
        PIP_FIND_LINKS="",
        PIP_RETRIES="0",
        PIP_NO_CACHE_DIR="1",
    )
    assert done.returncode == 5
    assert "could not reach the Python package index" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_package_that_was_changed_is_not_installed(clone: Path) -> None:
    (clone / "requirements-uv.lock").write_text(
        f"uv==0.13.9 --hash=sha256:{'0' * 64}\n", encoding="utf-8"
    )
    done = launch(clone)
    assert done.returncode == 5
    assert "its hash differs" in done.stderr or "could not reach" in done.stderr
    assert not (clone / ".venv" / "phase4.lock").exists()


def test_a_read_only_clone_is_a_sentence(clone: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    clone.chmod(0o555)
    try:
        done = launch(clone)
    finally:
        clone.chmod(0o755)
    assert done.returncode == 5 and "cannot write" in done.stderr
