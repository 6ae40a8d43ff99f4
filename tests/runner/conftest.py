"""Programs made up on the spot, run without a cluster."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.runner.limits import inherited
from grader.runner.running import RunningProgram


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable]:
    """``program(source)`` makes a Python program ready; all of them are ended afterwards."""
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    made: list[RunningProgram] = []

    def make(
        source: str, *, argv: list[str] | None = None, start: bool = True, **env: str
    ) -> RunningProgram:
        folder = tmp_path / "lab"
        folder.mkdir(exist_ok=True)
        file = folder / f"p{len(made)}.py"
        file.write_text(textwrap.dedent(source))
        running = RunningProgram(
            f"p{len(made)}",
            f"python3 {file.name}",
            lambda: argv or [sys.executable, file.name],
            folder=folder,
            run_dir=tmp_path / "run" / file.stem,
            env={**inherited(), **env},
            wire=None,
        )
        made.append(running)
        return running.start() if start else running

    yield make
    for running in made:
        if running.starts:
            running.kill()
