"""`phase4 solution` and `phase4 report`, as a learner types them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from grader import course
from grader import workspace as folders
from grader import exit_codes
from grader.cli.app import build
from grader.report import store
from grader.report.model import LabReport
from grader.site import answers
from tests.site.test_live import passing


def phase4(*arguments: str):
    return CliRunner().invoke(build(), list(arguments))


@pytest.fixture
def passed(workspace: Path) -> Path:
    store.save(folders.open_folder(workspace).reports, passing("4.1.2"))
    return workspace


def test_the_answer_is_not_shown_before_a_pass(workspace: Path) -> None:
    said = phase4("solution", "4.1.2")
    assert said.exit_code == exit_codes.NOT_GRADED
    assert "opens once the lab has passed" in said.output and "phase4 hint 4.1.2" in said.output


def test_the_answer_is_shown_after_a_pass_with_its_notes(passed: Path) -> None:
    said = phase4("solution", "4.1.2")
    assert said.exit_code == exit_codes.OK
    assert "What to read in it" in said.output and "── answers.md" in said.output
    assert "phase4:solution" not in said.output


def test_the_answer_can_be_laid_into_a_new_folder_only(passed: Path, tmp_path: Path) -> None:
    target = tmp_path / "answer"
    assert phase4("solution", "4.1.2", "--to", str(target)).exit_code == exit_codes.OK
    assert (target / "answers.md").is_file()
    again = phase4("solution", "4.1.2", "--to", str(passed / "4.1.2"))
    assert again.exit_code == exit_codes.USAGE


def test_a_track_that_a_lab_has_not_is_said(passed: Path) -> None:
    assert phase4("solution", "4.1.2", "--track", "go").exit_code == exit_codes.USAGE


def test_a_report_is_one_file_and_counts_what_it_shows(passed: Path, tmp_path: Path) -> None:
    store.save(folders.open_folder(passed).reports, LabReport(lab="4.1.1"))
    target = tmp_path / "report.html"
    said = phase4("report", "--to", str(target))
    assert said.exit_code == exit_codes.OK and "2 labs that were checked" in said.output
    text = target.read_text(encoding="utf-8")
    assert "<h2>4.1.1" in text and "<h2>4.1.2" in text
    phase4("report", "4.1.2", "--to", str(target))
    assert "<h2>4.1.1" not in target.read_text(encoding="utf-8")


def test_what_was_given_is_named_and_not_shown() -> None:
    answer = answers.of(course.load().lab("4.2.6"), "python")
    assert [name for name, _ in answer.written] == ["answers.md", "machinery/listener.py"]
    assert "status.py" in answer.given and "`status.py`" in answer.rest
    sent = answer.to_json()
    assert [file["name"] for file in sent["files"]] == ["answers.md", "machinery/listener.py"]
    assert "status.py" in sent["notes"]
