"""What a person has set for other work decides nothing about an answer."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.cluster import go_settings
from grader.runner import limits
from grader.runner.build import build
from grader.runner.offline import offline
from grader.runner.program import Program
from grader.verdict import Fail

needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go here")


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """A right Go answer: builds it, runs it and returns what it prints."""
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    workspace = tmp_path / "learner" / "workspace"
    folder = workspace / "9.9.9"
    folder.mkdir(parents=True)
    (workspace / "go.mod").write_text(
        "module phase4/workspace\n\ngo 1.21\n\nrequire example.com/x v0.0.0\n"
        "replace example.com/x => ./x\n"
    )
    (folder / "main.go").write_text(
        'package main\n\nimport "example.com/x"\n\nfunc main() { print(x.Right) }\n'
    )
    (workspace / "x").mkdir()
    (workspace / "x" / "go.mod").write_text("module example.com/x\n\ngo 1.21\n")
    (workspace / "x" / "x.go").write_text('package x\n\nconst Right = "right"\n')
    program = Program(("{out}/x",), folder, tmp_path / "out", ("go", "build", "-o", "{out}/x", "."))

    def run() -> str:
        build(program, tmp_path / "build.log")
        return subprocess.run(program.argv(""), capture_output=True, text=True).stderr

    return run


@needs_go
@pytest.mark.parametrize(
    "setting",
    [
        "GOFLAGS=-mod=vendor",
        "GOFLAGS=-buildvcs=true",
        "GOOS=darwin",
        "GOARCH=mips",
        "GOAMD64=v9",
        "CGO_ENABLED=1",
        "CC=/no/such/compiler",
        "GOEXPERIMENT=nosuchexperiment",
        "GO111MODULE=off",
        "GOROOT=/no/such/folder",
        "GOBIN=relative",
        "GOTMPDIR=/no/such/folder",
        "TMPDIR=/no/such/folder",
        "GOWORK=/no/such/go.work",
    ],
)
def test_a_users_go_settings_do_not_reach_the_build(
    setting: str, answer: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, value = setting.partition("=")
    monkeypatch.setenv(name, value)
    assert answer() == "right"


@needs_go
def test_what_go_env_w_has_written_does_not_either(
    answer: Callable[[], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written = tmp_path / "goenv"
    written.write_text("GOOS=plan9\nGOFLAGS=-mod=vendor\n")
    monkeypatch.setenv("GOENV", str(written))
    assert answer() == "right"


@needs_go
def test_a_go_work_above_the_workspace_is_not_ours(
    answer: Callable[[], str], tmp_path: Path
) -> None:
    (tmp_path / "learner" / "go.work").write_text("go 1.21\n\nuse ./elsewhere\n")
    assert answer() == "right"


@needs_go
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_a_git_repository_that_git_refuses_to_read(
    answer: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go asks git for the commit; git refuses where the repository is another user's, or broken."""
    monkeypatch.delenv("GOFLAGS", raising=False)
    repository = tmp_path / "learner" / ".git"
    repository.mkdir()
    (repository / "HEAD").write_text("nonsense\n")
    assert answer() == "right"


def test_the_network_and_the_caches_are_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written = tmp_path / "goenv"
    written.write_text(
        "GOPROXY=https://written\nGOPRIVATE=written.example\nGOOS=plan9\nnot a line\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("GOENV", str(written))
    monkeypatch.setenv("GOPROXY", "https://set")
    monkeypatch.setenv("GOMODCACHE", "/caches/mod")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "theirs")
    env = go_settings.environment()
    assert env["GOPROXY"] == "https://set", "the environment is stronger than the file"
    assert (env["GOPRIVATE"], env["GOMODCACHE"]) == ("written.example", "/caches/mod")
    assert "GOOS" not in env and env["GOENV"] == "off"
    assert env["GOOGLE_APPLICATION_CREDENTIALS"] == "theirs"
    assert "GOOGLE_APPLICATION_CREDENTIALS" not in limits.inherited()
    monkeypatch.setenv("GOENV", "off")
    assert "GOPRIVATE" not in go_settings.environment()


@pytest.mark.parametrize(
    ("users", "ours"),
    [
        ("local", "local"),
        ("path", "path"),
        ("go1.21.0", "auto"),
        ("go1.21.0+path", "path"),
        ("go1.21.0+auto", "auto"),
    ],
)
def test_which_tool_chain_is_the_courses_to_say(
    users: str, ours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOTOOLCHAIN", users)
    assert go_settings.environment()["GOTOOLCHAIN"] == ours


@needs_go
def test_a_build_with_the_race_detector_may_use_a_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    (tmp_path / "lab").mkdir()
    say = ("sh", "-c", 'echo "cgo=${CGO_ENABLED-left to Go}" > {out}/said')
    for option, said in (("-v", "0"), ("-race", "left to Go")):
        program = Program(("x",), tmp_path / "lab", tmp_path / "out", (*say, option))
        build(program, tmp_path / "build.log")
        assert (tmp_path / "out" / "said").read_text() == f"cgo={said}\n"


PYTHON = """
import os, sys
print(sys.prefix)
print(sorted(name for name in os.environ if name.startswith(("PYTHON", "VIRTUAL_ENV"))))
print(sys.flags.optimize, sys.flags.safe_path, "\\u2014")
"""


@pytest.mark.parametrize("called", ["python3", "a script"])
def test_a_python_answer_gets_the_courses_interpreter_and_no_settings(
    called: str, program: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    theirs = tmp_path / "venv" / "bin"
    theirs.mkdir(parents=True)
    (theirs / "python3").write_text("#!/bin/sh\necho the wrong one\n")
    (theirs / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{theirs}{os.pathsep}{os.environ['PATH']}")
    for name, value in {
        "VIRTUAL_ENV": str(theirs.parent),
        "PYTHONHOME": "/no/such/folder",
        "PYTHONPATH": str(tmp_path),
        "PYTHONSTARTUP": "x.py",
        "PYTHONSAFEPATH": "1",
        "PYTHONOPTIMIZE": "2",
        "PYTHONWARNINGS": "error",
        "PYTHONIOENCODING": "latin-1",
        "LC_ALL": "en_US.ISO-8859-1",
    }.items():
        monkeypatch.setenv(name, value)
    argv = None
    if called == "a script":
        script = tmp_path / "script.py"
        script.write_text(f"#!/usr/bin/env python3\n{PYTHON}")
        script.chmod(0o755)
        argv = [str(script)]
    running = program(PYTHON, argv=argv)
    assert running.wait_exit(20).code == 0, running.stderr_tail()
    assert running.stdout_lines == [sys.prefix, "[]", "0 False \u2014"]


def test_the_advice_for_a_built_program_can_be_followed(tmp_path: Path, monkeypatch) -> None:
    """`{out}` is the grader's word: a shell, and `phase4 run`, need the file."""
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    (tmp_path / "lab").mkdir()
    script = "printf '#!/bin/sh\\nexit 3\\n' > '{out}/x' && chmod +x '{out}/x'"
    program = Program(("{out}/x",), tmp_path / "lab", tmp_path / "my out", ("sh", "-c", script))
    with offline(program, tmp_path / "run") as running:
        with pytest.raises(Fail) as caught:
            running.until(lambda: False, 20, "prints it")
    advised = caught.value.message.next.split("`")[1]
    assert subprocess.run(shlex.split(advised)[3:]).returncode == 3, advised
