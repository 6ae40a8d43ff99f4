"""The commands as a shell sees them: words, JSON, exit codes, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader import course
from grader import workspace as folders
from grader.course import ROOT


def phase4(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "grader"), *arguments],
        env={**os.environ, "NO_COLOR": "1", **env},
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )


def test_version() -> None:
    done = phase4("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("phase4 ")


def test_help_has_every_command_that_is_there() -> None:
    from grader.cli.app import FILES

    done = phase4("--help")
    assert done.returncode == 0
    for file, commands in FILES.items():
        if (ROOT / (file.replace(".", "/") + ".py")).exists():
            for command in commands:
                assert f" {command} " in done.stdout, command


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("check", "--nonsense"),
        ("show",),
        ("show", "4.1.99"),
        ("check", "x"),
        ("test", "x"),
    ],
)
def test_a_wrong_command_line_is_exit_2_and_one_sentence(
    arguments: tuple[str, ...], workspace_dir: Path
) -> None:
    folders.init(workspace_dir, "python")
    done = phase4(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stderr and "Traceback" not in done.stderr


def test_a_mistyped_lab_gets_the_nearest_names() -> None:
    done = phase4("show", "the-line-that-enqueues-the-key")
    assert "did you mean the-line-that-enqueues-a-key" in done.stderr


def test_init_twice_then_another_folder(workspace_dir: Path) -> None:
    assert "is ready" in phase4("init", "--track", "go").stdout
    assert (workspace_dir / "phase4.toml").exists()
    assert "nothing was changed" in phase4("init").stdout


@pytest.mark.parametrize("command", [("progress",), ("list",), ("list", "4.1"), ("gate",)])
def test_what_reads_reports_works_before_init(
    command: tuple[str, ...], workspace_dir: Path
) -> None:
    done = phase4(*command)
    assert done.returncode == (1 if command == ("gate",) else 0), done.stderr
    data = json.loads(phase4(*command, "--json").stdout)
    assert data


def test_one_condition_of_the_gate(workspace_dir: Path) -> None:
    (condition,) = json.loads(phase4("gate", "2", "--json").stdout)["conditions"]
    assert condition["number"] == 2 and not condition["met"]
    done = phase4("gate", "7")
    assert done.returncode == 2 and "one of 1, 2, 3" in done.stderr


def test_the_gate_grades_what_is_in_the_folder_now(workspace_dir: Path) -> None:
    done = phase4("gate", "1", "--live")
    assert done.returncode == 5 and "phase4 init" in done.stderr


def test_check_without_a_workspace_is_the_environments_fault(workspace_dir: Path) -> None:
    done = phase4("check", "4.1.1")
    assert done.returncode == 5
    assert "phase4 init" in done.stderr


def test_a_workspace_of_another_version(workspace_dir: Path) -> None:
    folders.init(workspace_dir, "python")
    marker = workspace_dir / "phase4.toml"
    version = course.load().version
    marker.write_text(marker.read_text().replace(f'version = "{version}"', 'version = "0.9"'))
    for command in (("check",), ("progress",), ("hint",)):
        done = phase4(*command)
        assert done.returncode == 5 and "version 0.9" in done.stderr
    assert phase4("init").returncode == 0
    assert phase4("progress").returncode == 0


def test_a_lab_that_is_not_built_is_not_graded(workspace_dir: Path) -> None:
    from grader import course

    later = next((lab.id for lab in course.load().labs if not lab.built), None)
    if later is None:
        pytest.skip("every lab is built")
    folders.init(workspace_dir, "python")
    done = phase4("check", later, "--json")
    assert done.returncode == 3
    assert json.loads(done.stdout)[0]["verdict"] == "NOT GRADED"
    assert not (workspace_dir / ".phase4" / "reports" / f"{later}.json").exists()


def test_hints_come_one_at_a_time(workspace_dir: Path) -> None:
    from grader import course

    lab = next((lab for lab in course.load().labs if course.hints(lab)), None)
    if lab is None:
        pytest.skip("no lab has hints yet")
    folders.init(workspace_dir, "python")
    total = len(course.hints(lab))
    for number in range(1, total + 1):
        assert f"Hint {number} of {total}" in phase4("hint", lab.id).stdout
    assert "last one" in phase4("hint", lab.id).stdout
    assert phase4("hint", lab.id, "--again").stdout.count("Hint ") == total


def test_reset_asks_and_leaves_all_when_not_answered(workspace_dir: Path) -> None:
    from grader import course

    made, laid = folders.init(workspace_dir, "python")
    if not laid:
        pytest.skip("no lab has stubs yet")
    lab = course.load().lab(laid[0].id)
    mine = made.folder(lab) / "mine.txt"
    mine.write_text("mine")
    phase4("reset", lab.id)
    assert mine.exists()
    assert phase4("reset", lab.id, "--yes").returncode == 0
    assert not mine.exists()
    assert list((made.state / "backups").rglob("mine.txt"))


def test_completion_offers_commands_and_labs() -> None:
    def complete(words: str, index: int) -> list[str]:
        done = phase4(_PHASE4_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(index))
        return done.stdout.split()

    assert complete("phase4 che", 1) == ["check"]
    assert "4.1.2" in complete("phase4 show 4.1", 2)
    for shell in ("bash", "zsh", "fish"):
        assert "_PHASE4_COMPLETE" in phase4("completion", shell).stdout
    assert phase4("completion", "tcsh").returncode == 2


def test_an_error_of_ours_is_said_to_be_ours(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    from grader import exit_codes
    from grader.cli import app

    assert app.report(RuntimeError("boom")) == exit_codes.UNKNOWN
    said = capsys.readouterr().err
    assert "a fault of the course, not of your work" in said and "Traceback" not in said
    path = Path(said.split("What happened is in ")[1].split(";")[0])
    assert "RuntimeError: boom" in path.read_text()
    path.unlink()


def test_a_full_disk_is_named_and_not_called_our_fault(capsys) -> None:
    from grader import exit_codes
    from grader.cli import app

    assert app.report(OSError(28, "No space left on device", "/cache/x")) == exit_codes.ENVIRONMENT
    assert "The disk that holds /cache/x is full. Free" in capsys.readouterr().err
    refused = PermissionError(13, "Permission denied", "/w/phase4.toml")
    assert app.report(refused) == exit_codes.ENVIRONMENT
    assert (
        "/w/phase4.toml cannot be read or written (Permission denied). If"
        in capsys.readouterr().err
    )


def test_every_lab_and_exit_code_is_reachable() -> None:
    from grader import exit_codes
    from grader.verdict import Verdict

    assert [exit_codes.of(verdict) for verdict in Verdict] == [0, 1, 3, 4]
