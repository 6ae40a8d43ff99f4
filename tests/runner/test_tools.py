"""Programs of the course's own that a learner's program finds in its PATH."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from grader.runner import sandbox
from grader.runner.program import Program
from grader.runner.runner import made_ready

PATIENCE = 60


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """A program that says its name, with another one beside it."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for name in ("real-name", "neighbour"):
        (folder / name).write_text(f"#!/bin/sh\necho this is {name}\n")
        (folder / name).chmod(0o755)
    return folder / "real-name"


def test_a_tool_is_found_by_its_name_and_nothing_beside_it(tmp_path, tool, monkeypatch):
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    (tmp_path / "p.sh").write_text("helper\ncommand -v neighbour || echo no neighbour\n")
    program = Program(("sh", "p.sh"), tmp_path, tmp_path / "out")
    for _ in range(2):  # a second run finds what the first one has linked
        running = made_ready(
            program,
            "p",
            tmp_path / "run",
            wire=None,
            env={},
            isolation="none",
            marker="",
            building=lambda what: nullcontext(),
            tools={"helper": tool},
        ).start()
        assert running.wait_exit(PATIENCE).code == 0, running.stderr_tail()
        assert running.stdout_lines == ["this is real-name", "no neighbour"]


def test_the_sandbox_shows_the_tool_alone(tmp_path, tool):
    program = Program(("sh", "p.sh"), tmp_path, tmp_path / "out")
    argv = sandbox.run_argv(program, tmp_path, tmp_path / "wire.sock", {"helper": tool})
    place = argv.index(f"{sandbox.TOOLS}/helper")
    assert argv[place - 2 : place] == ["--ro-bind", str(tool)]
    assert str(tool.parent) not in argv
