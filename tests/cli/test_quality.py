"""``phase4 test`` itself: what it counts, and that nothing broken is counted as passed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from grader.cli import test as command
from grader.quality import machine, steps
from grader.quality.steps import Result, Step


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "<testsuites><testsuite tests='5' failures='1' errors='1' skipped='1'/></testsuites>",
            (2, 2, 1),
        ),
        ("<testsuites><testsuite tests='0'/></testsuites>", (0, 0, 0)),
        ("<testsuites", (0, 0, 0)),
    ],
)
def test_counts_come_from_the_report(tmp_path: Path, text: str, expected: tuple) -> None:
    report = tmp_path / "junit.xml"
    report.write_text(text)
    result = steps.counted(report)
    assert (result.passed, result.failed, result.skipped) == expected


def test_a_crashed_pytest_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "command", lambda *_, **__: False)
    assert steps.pytest("live").failed == 1


def test_a_command_that_hangs_is_ended_with_its_children(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(steps, "LIMIT", 1.0)
    mark = tmp_path / "pid"
    script = (
        "import subprocess, sys, time, pathlib; "
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        f"pathlib.Path({str(mark)!r}).write_text(str(p.pid)); time.sleep(60)"
    )
    assert steps.command([sys.executable, "-c", script]) is False
    from grader.cluster.process import birth, wait_gone

    if mark.exists():
        pid = int(mark.read_text())
        assert wait_gone([(pid, birth(pid) or "")], 60)


def test_the_closing_line_and_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    good = Step("unit", "units", lambda: Result(passed=3, skipped=1, notes=["x: not here"]))
    bad = Step("lint", "lint", lambda: Result(passed=1, failed=1))

    def broken() -> Result:
        raise OSError(28, "No space left on device", "/x")

    assert command.run([good]) == 0
    said = capsys.readouterr().out
    assert said.rstrip().endswith("3 passed, 0 failed, 1 skipped")
    assert "Not tested: x: not here" in said
    assert command.run([good, bad]) == 1
    assert command.run([Step("go", "go", broken), good]) == 1
    assert capsys.readouterr().out.rstrip().endswith("3 passed, 1 failed, 1 skipped")
    assert command.run([Step("go", "go", lambda: Result())]) == 1, "nothing ran: not a success"


def test_go_is_read_from_what_it_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go = tmp_path / "go"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for said, expected in (("go1.26.8", (1, 26, 8)), ("go1.21", (1, 21, 0)), ("devel x", None)):
        go.write_text(f"#!/bin/sh\necho {said}\n")
        go.chmod(0o755)
        assert machine.go_version() == expected
    assert machine.go_wanted() >= (1, 26, 0)


def test_nothing_is_installed_where_it_was_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.os, "geteuid", lambda: 1000)
    assert not machine.may_install()
