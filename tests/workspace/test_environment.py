"""The workspace's own virtual environment: editors and debuggers find the packages in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from grader import workspace
from grader.workspace import environment


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return workspace.init(tmp_path / "w", "python")[0].root


def run(root: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    python = root / ".venv/bin/python"
    return subprocess.run([python, *words], cwd=cwd or root, capture_output=True, text=True)


def test_the_operator_and_the_labs_programs_start_in_it(root: Path, tmp_path: Path) -> None:
    assert run(root, "-m", "webapp_operator", "--help", cwd=tmp_path).returncode == 0
    asked = run(root, "-c", "import machinery.workqueue as m; print(m.__file__)", cwd=tmp_path)
    assert asked.stdout.strip() == str(root / "machinery/workqueue.py")


def test_it_is_made_anew_where_it_no_longer_works(root: Path) -> None:
    (root / ".venv/bin/python").unlink()
    assert environment.ensure(root)
    assert run(root, "-c", "import machinery").returncode == 0


def test_another_s_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/mine").write_text("x")
    assert not environment.ensure(tmp_path)
    assert (tmp_path / ".venv/mine").exists()
    assert sys.version_info >= (3, 11)
