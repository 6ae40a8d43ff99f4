"""Bad input in a learner's folder gets a sentence, never a traceback and never a PASS."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.runner.submission import Submission
from grader.verdict import Fail, NotGraded, Verdict

from .conftest import checks


@pytest.fixture
def submission(submission_dir: Path, tmp_path: Path) -> Submission:
    return Submission(submission_dir, "9.9.9", "python", out=tmp_path / "out")


def fails(submission: Submission, name: str = "answers.md") -> Fail:
    with pytest.raises(Fail) as caught:
        submission.text(name)
    message = caught.value.message
    assert message.expected and message.seen and message.next and message.diagnosis
    assert name in message.expected + message.seen
    return caught.value


def test_text_has_one_kind_of_line_end(submission):
    (submission.path / "answers.md").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n")
    assert submission.text("answers.md") == "one\ntwo\nthree\n"


def test_a_missing_file_is_not_graded(submission):
    with pytest.raises(NotGraded) as caught:
        submission.text("nothing.md")
    assert "9.9.9/nothing.md" in caught.value.message.expected
    assert not submission.has("nothing.md")


def test_a_missing_folder_is_not_graded(graded, submission_dir):
    (submission_dir / "answers.md").unlink()
    submission_dir.rmdir()
    report = graded(checks("submission.text('answers.md')"))
    assert report.verdict is Verdict.NOT_GRADED
    assert "phase4 init" in report.checks[0].message.next


def test_a_file_in_the_folders_place_is_not_graded(graded, submission_dir):
    (submission_dir / "answers.md").unlink()
    submission_dir.rmdir()
    submission_dir.write_text("")
    report = graded(checks("submission.text('answers.md')"))
    assert report.verdict is Verdict.NOT_GRADED
    assert "not a folder" in report.checks[0].message.seen


def test_binary(submission):
    (submission.path / "answers.md").write_bytes(b"PK\x03\x04\0\0")
    assert fails(submission).message.diagnosis == "binary-file"


def test_not_utf_8_names_the_line(submission):
    (submission.path / "answers.md").write_bytes("fine\nna\u00efve\n".encode("latin-1"))
    error = fails(submission)
    assert error.message.diagnosis == "not-utf-8"
    assert "Line 2" in error.message.seen and "0xef" in error.message.seen


def test_utf_16_is_named(submission):
    (submission.path / "answers.md").write_bytes("text".encode("utf-16"))
    assert "UTF-16" in fails(submission).message.seen


def test_100_mb_is_not_read(submission):
    with (submission.path / "answers.md").open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    error = fails(submission)
    assert error.message.diagnosis == "file-too-large"
    assert "100 MiB" in error.message.seen and "2 MiB" in error.message.expected.replace("2.0", "2")


def test_links_out_of_the_folder_are_refused(submission, tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("the answer of somebody else")
    path = submission.path / "answers.md"
    path.unlink()
    path.symlink_to(secret)
    assert fails(submission).message.diagnosis == "link-outside"
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    assert fails(submission).message.diagnosis == "link-outside"
    path.unlink()
    path.symlink_to(path)
    assert fails(submission).message.diagnosis == "link-outside"


def test_a_folder_that_is_a_link_is_refused_too(submission, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.md").write_text("x")
    (submission.path / "sub").symlink_to(tmp_path / "elsewhere")
    assert fails(submission, "sub/x.md").message.diagnosis == "link-outside"
    assert fails(submission, "../../elsewhere/x.md").message.diagnosis == "link-outside"


def test_a_link_within_the_folder_is_fine(submission):
    (submission.path / "other.md").symlink_to("answers.md")
    assert submission.text("other.md") == "an answer\n"


def test_a_folder_and_a_pipe_are_no_files(submission):
    (submission.path / "folder.md").mkdir()
    assert fails(submission, "folder.md").message.diagnosis == "not-a-file"
    os.mkfifo(submission.path / "pipe.md")
    assert fails(submission, "pipe.md").message.diagnosis == "not-a-file"


def test_an_unreadable_file(submission, monkeypatch):
    path = submission.path / "answers.md"
    path.chmod(0)
    if os.access(path, os.R_OK):
        # The superuser reads everything: have the kernel's answer all the same.
        real = os.open

        def refuse(name, *arguments, **options):
            if os.fspath(name) == str(path):
                raise PermissionError(13, "Permission denied", str(path))
            return real(name, *arguments, **options)

        monkeypatch.setattr(os, "open", refuse)
    error = fails(submission)
    assert error.message.diagnosis == "unreadable-file"
    assert "Permission denied" in error.message.seen and "chmod" in error.message.next


def test_untouched_is_what_the_starter_has(tmp_path, monkeypatch):
    import grader.course

    monkeypatch.setattr(grader.course, "ROOT", tmp_path)
    starter = tmp_path / "exercises" / "9.9.9" / "common"
    starter.mkdir(parents=True)
    (starter / "answers.md").write_text("TODO\n")
    folder = tmp_path / "9.9.9"
    folder.mkdir()
    submission = Submission(folder, "9.9.9")
    assert submission.untouched("answers.md")
    (folder / "answers.md").write_text("TODO\n")
    assert submission.untouched("answers.md")
    (folder / "answers.md").write_text("done\n")
    assert not submission.untouched("answers.md")


PROGRAMS = {
    "": "no `run`",
    "run = 'python3 x.py'": "something else",
    "run = ['python3', 7]": "something else",
    "run = [": "cannot be read",
    "run = []": "no `run`",
    "build = 'go'\nrun = ['x']": "something else",
}


@pytest.mark.parametrize("text", PROGRAMS)
def test_a_wrong_declaration_of_a_program(submission, text):
    (submission.path / "program.toml").write_text(text)
    with pytest.raises(Fail) as caught:
        _ = submission.program
    assert PROGRAMS[text] in caught.value.message.seen
    assert caught.value.message.diagnosis == "bad-program-toml"


def test_no_program_is_not_graded(submission):
    with pytest.raises(NotGraded):
        _ = submission.program


def test_programs_by_name(submission):
    text = "run = ['a']\n[program.two]\nbuild = ['b']\nrun = ['c', '{kubeconfig}', '{out}/d']\n"
    (submission.path / "program.toml").write_text(text)
    assert submission.program.run == ("a",)
    two = submission.program_named("two")
    assert two.build == ("b",) and two.argv("K") == ["c", "K", f"{submission.out}/d"]
    with pytest.raises(NotGraded):
        submission.program_named("three")
