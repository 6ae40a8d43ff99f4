"""A clone and a workspace in folders with names that other programs read as something else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.course import ROOT


@pytest.mark.parametrize(
    "name",
    ["a [clone]", "c::d]", "-100% ü %s", "$HOME {out},b=c*?"],
)
def test_a_check_reaches_its_verdict_whatever_the_folders_are_called(
    name: str, tmp_path: Path
) -> None:
    clone = tmp_path / name
    for part in ("grader", "exercises"):
        shutil.copytree(ROOT / part, clone / part, ignore=shutil.ignore_patterns("__pycache__"))
    env = {**os.environ, "PHASE4_HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("PHASE4_WORKSPACE", None)

    def phase4(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", str(clone / "grader"), *words],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )

    made = phase4("init")
    assert made.returncode == 0, made.stderr
    assert (clone / "workspace" / "4.1.1").is_dir()
    checked = phase4("check", "4.1.1", "--json")
    verdicts = {check["verdict"] for check in json.loads(checked.stdout)[0]["checks"]}
    assert verdicts and "UNKNOWN" not in verdicts, checked.stdout
