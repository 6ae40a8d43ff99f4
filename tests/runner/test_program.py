"""A program's build: what it says when it cannot be."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from grader.cluster.process import records
from grader.runner import build as builds
from grader.runner.program import Program
from grader.verdict import Fail, NotGraded


@pytest.fixture
def build(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    folder = tmp_path / "9.9.9"
    folder.mkdir()

    def run(*command: str) -> Program:
        program = Program(("{out}/x",), folder, tmp_path / "out", command)
        builds.build(program, tmp_path / "build.log")
        return program

    return run


def test_a_build_that_succeeds(build, tmp_path):
    program = build("python3", "-c", "open('{out}/x', 'w').write('built')")
    assert (tmp_path / "out" / "x").read_text() == "built"
    assert program.argv("K") == [str(tmp_path / "out" / "x")]
    assert records.all(kind="learner") == []


def test_a_build_that_fails(build):
    with pytest.raises(Fail) as caught:
        build("python3", "-c", "import sys; print('line 7: no'); sys.exit(2)")
    message = caught.value.message
    assert message.diagnosis == "build-failed" and "exit code 2" in message.seen
    assert message.evidence == ("line 7: no",)
    assert "python3 -c" in message.expected and sys.executable not in message.expected


def test_a_build_that_hangs(build, monkeypatch):
    monkeypatch.setattr(builds, "BUILD_SECONDS", 0.3)
    with pytest.raises(Fail) as caught:
        build("python3", "-c", "import time; time.sleep(600)")
    assert caught.value.message.diagnosis == "build-hangs"
    assert records.live(kind="learner") == []


def test_no_go_is_not_the_learners_fault(build, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotGraded) as caught:
        build("go", "build", "-o", "{out}/x", ".")
    assert "no `go`" in caught.value.message.seen and "doctor" in caught.value.message.next


def test_a_go_that_is_too_old_is_not_either(build, monkeypatch, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "go").write_text(
        "#!/bin/sh\necho 'go: go.mod requires go >= 1.99.0 (running go 1.20.1)' >&2\nexit 1\n"
    )
    (tools / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(NotGraded) as caught:
        build("go", "build", ".")
    message = caught.value.message
    assert message.diagnosis == "go-too-old" and "1.99.0" in message.evidence[0]


def test_a_build_tool_that_is_not_there(build):
    with pytest.raises(Fail) as caught:
        build("no-such-tool", "all")
    assert "no `no-such-tool`" in caught.value.message.seen
    with pytest.raises(Fail) as caught:
        build("./build.sh")
    assert "is not there" in caught.value.message.seen
