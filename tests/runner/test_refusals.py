"""What the machine cannot do is never said to be the answer's fault."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from grader.cli import app
from grader.cluster import refusals
from grader.cluster.process import Refused, executable, records
from grader.course import ROOT
from grader.runner.build import build
from grader.runner.program import Program
from grader.verdict import Fail, NotGraded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="its mounts and its /proc")


@pytest.fixture
def noexec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is said to be a noexec mount, with a right program in it."""
    mount = tmp_path / "mnt"
    mount.mkdir()
    program = mount / "stages"
    program.write_text("#!/bin/sh\necho runs\n")
    program.chmod(0o644)  # what access(2) says of a program on such a mount
    real, partitions = os.statvfs, psutil.disk_partitions()

    def statvfs(path):
        there = real(path)
        if not Path(path).is_relative_to(mount):
            return there
        return os.statvfs_result((*there[:8], there.f_flag | os.ST_NOEXEC, there.f_namemax))

    mounted = SimpleNamespace(mountpoint=str(mount), opts="rw,nosuid,noexec")
    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [*partitions, mounted])
    return mount


def test_a_program_on_a_noexec_mount_is_not_graded(program: Callable, noexec: Path) -> None:
    with pytest.raises(NotGraded) as caught:
        program("", argv=[str(noexec / "stages")])
    message = caught.value.message
    assert f"is on {noexec}" in message.seen and "noexec" in message.seen
    assert "phase4 init DIR" in message.next and "run line" not in message.next


def test_a_build_tool_on_a_noexec_mount_is_not_graded(
    noexec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    with pytest.raises(NotGraded) as caught:
        build(Program(("x",), noexec, tmp_path / "out", ("./stages",)), tmp_path / "build.log")
    assert str(noexec) in caught.value.message.seen


def test_a_program_that_is_merely_not_executable_is_still_a_fail(program: Callable) -> None:
    with pytest.raises(Fail) as caught:
        program("", argv=["./p0.py"])
    assert "is not executable" in caught.value.message.seen


def test_a_real_noexec_mount(tmp_path: Path) -> None:
    """As the kernel has it, where this user may mount."""
    code = "from grader.cluster.process import executable; executable('{0}/true')"
    script = 'mount -t tmpfs -o noexec none "$1" && cp /bin/true "$1" && exec "$2" -c "$3" 2>&1'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", tmp_path, sys.executable]
        + [code.format(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this user may not mount")
    assert f"is on {tmp_path}, which is mounted" in done.stdout, done


def test_a_program_that_is_being_written(program: Callable, tmp_path: Path) -> None:
    busy = tmp_path / "busy"
    shutil.copy("/bin/true", busy)
    with busy.open("ab"):
        running = program("", argv=[str(busy)])
        with pytest.raises(NotGraded) as caught:
            running.until(lambda: False, 20, "prints it")
    assert "being written" in caught.value.message.seen


#: The head of a big-endian ELF file for a mainframe.
S390 = b"\x7fELF\2\2\1" + bytes(9) + b"\0\2\0\x16"


@pytest.mark.parametrize("head", [b"\xcf\xfa\xed\xfe", b"MZ\x90\x00", S390])
def test_a_program_for_another_machine(head: bytes, program: Callable, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_bytes(head + bytes(100))
    foreign.chmod(0o755)
    running = program("", argv=[str(foreign)])
    with pytest.raises(NotGraded) as caught:
        running.until(lambda: False, 20, "prints it")
    assert "another kind of processor" in caught.value.message.seen
    assert caught.value.message.next == "Build it here."


def test_a_script_that_ends_with_an_error_is_still_a_fail(program: Callable) -> None:
    running = program("import sys; print('sh: 1: x: not found', file=sys.stderr); sys.exit(127)")
    with pytest.raises(Fail):
        running.until(lambda: False, 20, "prints it")


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("/tmp/go-build1/x: no space left on device", "the disk is full"),
        ("go: fork/exec /go/compile: resource temporarily unavailable", "no more processes"),
        ("fork/exec /go/compile: too many open files", "no more files"),
        ("k8s.io/client-go/x: /go/compile: signal: killed", "no memory"),
        ('main.go:4:2: a.b/c@v1: Get "https://p": dial tcp: lookup p: no such host', "module"),
        ("sh: 1: exec: ./tool: Text file busy", "being written"),
    ],
)
def test_a_build_that_the_machine_ends(
    said: str, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    (tmp_path / "lab").mkdir()
    command = ("sh", "-c", 'echo "$1"; exit 126', "sh", said)
    with pytest.raises(NotGraded) as caught:
        build(Program(("x",), tmp_path / "lab", tmp_path / "out", command), tmp_path / "build.log")
    message = caught.value.message
    assert seen in message.seen and message.next and message.evidence == (said,)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EMFILE, "x"), "ulimit -n"),
        (BlockingIOError(errno.EAGAIN, "x"), "ulimit -u"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (MemoryError(), "no memory"),
    ],
)
def test_a_limit_is_a_sentence_in_the_command_line(
    error: BaseException, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from grader import exit_codes

    assert app.report(error) == exit_codes.ENVIRONMENT
    err = capsys.readouterr().err
    assert said in err and "fault of the course" not in err
    assert refusals.refusal(FileNotFoundError(errno.ENOENT, "x")) == ""
    assert refusals.refusal(RuntimeError("another")) == ""


@pytest.fixture
def few_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda soft: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_few_files_are_raised_where_one_may(few_files: Callable) -> None:
    few_files(128)
    app.allow_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 128


def test_no_file_left_is_the_machines_refusal(
    few_files: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    real = subprocess.Popen

    def popen(*_, **__):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(Refused, match="may open no more files"):
        records.start([executable("true")], name="x", kind="test")
    monkeypatch.setattr(subprocess, "Popen", real)
