"""The measurement of the graders notices whatever would make it worthless."""

from __future__ import annotations

import pytest

from grader import verify
from grader.mistakes import MistakeError, load
from grader.verify import VerifyError


def measured(repository, **options):
    report = verify.measure(
        verify.subjects([], repository.root), jobs=2, keep=repository.root / "keep", **options
    )
    return report


def complaints(repository, **options) -> str:
    report = measured(repository, **options)
    assert not report.ok
    return "\n".join(report.complaints)


def test_a_lab_in_order(repository):
    report = measured(repository)
    assert report.complaints == [] and report.ok
    (lab,) = report.labs
    assert [(row.case.title, row.right, row.seen) for row in lab.rows] == [
        ("answer", 1, ["PASS 3/3"]),
        ("variant spaced", 1, ["PASS 3/3"]),
        ("starter", 1, ["NOT GRADED 0/3"]),
        ("mistake eight", 1, ["FAIL, wrong-number"]),
        ("mistake green", 1, ["FAIL, colour-green"]),
        ("mistake red", 1, ["FAIL, colour-red"]),
    ]
    assert lab.checks == {"9.9.9/colour": ["green", "red"], "9.9.9/number": ["eight"]}
    # Nothing is left of runs that were as wanted.
    assert list((repository.root / "keep").iterdir()) == []
    assert report.to_json()["ok"] is True


def test_repeated_runs_are_counted(repository):
    report = measured(repository, repeat=3, only="answer")
    (row,) = report.labs[0].rows
    assert (row.runs, row.right) == (3, 3)


def test_a_verdict_that_changes_is_a_complaint(repository):
    runs = repository.root / "runs"
    repository.edit(
        "grader/labs/lab_9_9_9.py",
        "def check_colour(submission):",
        "def check_colour(submission):\n"
        f"    with open({str(runs)!r}, 'a') as file:\n        file.write('x')\n"
        f"    if len(open({str(runs)!r}).read()) % 2 == 0:\n"
        "        raise Fail('E.', 'S.', diagnosis='odd')",
    )
    report = measured(repository, repeat=4, only="answer")
    (row,) = report.labs[0].rows
    assert (row.runs, row.right) == (4, 2)
    assert set(row.seen) == {"PASS 3/3", "FAIL 1/3"}
    assert "seed" in row.complaints[0] and "odd" in row.complaints[0]


def test_a_starter_that_passes(repository):
    repository.edit("solutions/9.9.9/common/answers.md", "<!-- colour: TODO -->", "")
    repository.edit("grader/labs/lab_9_9_9.py", 'if seen != "blue"', "if seen == 'red'")
    repository.edit("grader/labs/lab_9_9_9.py", "if int(seen) != 7", "if seen == '8'")
    assert "the starter passes" in complaints(repository, only="starter")


def test_a_starter_that_ends_in_unknown(repository):
    """The number's check crashes on a starter without a number."""
    repository.edit("solutions/9.9.9/common/answers.md", "<!-- colour: TODO -->", "")
    assert "9.9.9/number is UNKNOWN" in complaints(repository, only="starter")


def test_a_starter_that_does_not_build(repository):
    repository.edit(
        "grader/labs/lab_9_9_9.py",
        'raise NotGraded("An answer.", "It',
        (
            'raise Fail("It builds.", "No.", diagnosis="build-failed")\n        raise NotGraded("A", "It'
        ),
    )
    assert "the starter is build-failed" in complaints(repository, only="starter")


def test_a_right_answer_that_fails(repository):
    repository.write("solutions/9.9.9/variants/capital/answers.md", "colour: Blue\nnumber: 7\n")
    assert "a right answer gets FAIL at 9.9.9/colour (colour-Blue" in complaints(repository)


def test_a_check_that_no_mistake_fails(repository):
    repository.edit(
        "grader/mistakes/9.9.9/eight.toml", 'fails = "9.9.9/number"', 'fails = "9.9.9/colour"'
    )
    text = complaints(repository)
    assert "no mistake fails 9.9.9/number" in text
    assert "9.9.9/colour is PASS instead of FAIL" in text


def test_a_mistake_that_passes(repository):
    repository.mistake("blue", "9.9.9/colour", "colour-x", "number: 7", "number: 07")
    assert "9.9.9/colour is PASS instead of FAIL" in complaints(repository, only="blue")


def test_a_mistake_called_by_another_name(repository):
    repository.mistake("pink", "9.9.9/colour", "colour-red", "colour: blue", "colour: pink")
    text = complaints(repository, only="pink")
    assert "9.9.9/colour calls it 'colour-pink', not 'colour-red'" in text


def test_a_mistake_that_crashes_the_grader(repository):
    repository.mistake("word", "9.9.9/number", "wrong-number", "number: 7", "number: seven")
    assert "9.9.9/number is UNKNOWN" in complaints(repository, only="word")


def test_checks_that_stand_alone_are_tried_alone(repository):
    """The check after the one that a mistake is to fail would be UNKNOWN here."""
    repository.mistake("both", "9.9.9/colour", "colour-red", "blue\\nnumber: 7", "red\\nnumber: x")
    assert "9.9.9/number is UNKNOWN" in complaints(repository, only="both")
    repository.edit(
        "grader/labs/lab_9_9_9.py", "def lines", "CHECKS_STAND_ALONE = True\n\n\ndef lines"
    )
    assert measured(repository, only="both").ok


def test_a_mistake_whose_find_matches_twice(repository):
    repository.mistake("twice", "9.9.9/colour", "colour-red", "e", "x")
    text = complaints(repository, only="twice")
    assert "mistake 9.9.9/twice: 'e' is in answers.md" in text and "times, not once" in text


def test_a_mistake_that_no_longer_fits(repository):
    repository.mistake("gone", "9.9.9/colour", "colour-red", "colour: azure", "colour: red")
    assert "is in answers.md 0 times, not once" in complaints(repository, only="gone")


def test_a_mistake_of_a_check_that_is_not_there(repository):
    repository.mistake("shape", "9.9.9/shape", "round", "colour: blue", "colour: red")
    assert "there is no such check" in complaints(repository, only="shape")


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("grader/hints/9.9.9.md", "0 hints instead of three"),
        ("docs/9.9/9.9.9.md", "its page docs/9.9/9.9.9.md is missing"),
        ("solutions/9.9.9/variants/spaced/answers.md", "it has one right answer"),
        ("grader/mistakes/9.9.9/red.toml", "it has 2 mistakes, and three are the least"),
        ("grader/labs/lab_9_9_9.py", "declares no check"),
    ],
)
def test_what_is_missing(repository, path, complaint):
    (repository.root / path).unlink()
    if "variants" in path:
        (repository.root / path).parent.rmdir()
    assert complaint in complaints(repository, only="nothing of this name")


def test_a_track_that_the_manifest_promises(repository):
    repository.edit("grader/course.toml", "built = true", 'built = true\ntracks = ["go"]')
    assert "there is no answer in the go track" in complaints(repository, only="nothing")


def test_no_lab_at_all(repository):
    repository.edit("grader/course.toml", "built = true", "built = false")
    with pytest.raises(VerifyError, match="no lab that is built"):
        verify.subjects([], repository.root)
    with pytest.raises(VerifyError, match="no lab 1.2.3"):
        verify.subjects(["1.2.3"], repository.root)
    # By name it can be measured before it is called built.
    (subject,) = verify.subjects(["nines"], repository.root)
    assert subject.lab == "9.9.9"


WRONG = {
    'title = "t"': "'fails' is missing",
    'title = "t"\nfails = "9.9.9/colour"\ndiagnosis = "d"': "it changes nothing",
    'title = "t"\nfails = "9.9.8/x"\ndiagnosis = "d"\n[[file]]\npath = "a"\ncontent = ""': (
        "is not a check of 9.9.9"
    ),
    'title = "t"\nfails = "9.9.9/x"\ndiagnosis = ""\n[[file]]\npath = "a"\ncontent = ""': (
        "the diagnosis is empty"
    ),
    'title = "t"\nfails = "9.9.9/x"\ndiagnosis = "d"\n[[file]]\npath = "../a"\ncontent = ""': (
        "not inside"
    ),
    'title = "t"\nfails = "9.9.9/x"\ndiagnosis = "d"\n[[file]]\npath = "a"': "'content' is missing",
    'title = "t"\nfails = "9.9.9/x"\ndiagnosis = "d"\ntrack = "rust"': "python or go",
    'title = "t"\nfail = "9.9.9/x"': "unknown key fail",
    'title = "t"\nfails = "9.9.9/x"\ndiagnosis = "d"\n'
    '[[change]]\nfile = "a"\nfind = "x"\nreplace = "x"': "must find something",
    "title = ": "9.9.9/wrong.toml",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_mistakes_file_that_is_wrong(repository, text):
    repository.write("grader/mistakes/9.9.9/wrong.toml", text)
    with pytest.raises(MistakeError) as caught:
        load("9.9.9", repository.root / "grader" / "mistakes")
    assert WRONG[text] in str(caught.value) and "9.9.9/wrong.toml" in str(caught.value)


def test_files_put_in_and_removed(repository, tmp_path):
    repository.write(
        "grader/mistakes/9.9.9/files.toml",
        """
        title = "t"
        fails = "9.9.9/colour"
        diagnosis = "d"
        [[file]]
        path = "sub/new.py"
        content = "new"
        [[file]]
        path = "answers.md"
        remove = true
        """,
    )
    (mistake,) = [
        one for one in load("9.9.9", repository.root / "grader" / "mistakes") if one.name == "files"
    ]
    (tmp_path / "answers.md").write_text("x")
    mistake.apply(tmp_path)
    assert (tmp_path / "sub/new.py").read_text() == "new"
    assert not (tmp_path / "answers.md").exists()
    with pytest.raises(MistakeError, match="to remove"):
        mistake.apply(tmp_path)


def test_a_mistake_may_change_another_right_answer(repository, tmp_path):
    repository.write("solutions/9.9.9/variants/other/notes.md", "right")
    repository.write(
        "grader/mistakes/9.9.9/other.toml",
        """
        title = "t"
        variant = "other"
        fails = "9.9.9/colour"
        diagnosis = "d"
        [[change]]
        file = "notes.md"
        find = "right"
        replace = "wrong"
        """,
    )
    subject = verify.find("9.9.9", repository.root)
    (case,) = [case for case in subject.cases() if case.name == "other" and case.kind == "mistake"]
    folder = subject.lay_out(case, tmp_path)
    assert (folder / "notes.md").read_text() == "wrong"
    assert (folder / "answers.md").exists()


def test_the_commands_exit_code_and_json(repository, monkeypatch, capsys):
    import json

    import typer

    from grader.cli import dev

    subjects = verify.subjects
    monkeypatch.setattr(verify, "subjects", lambda names: subjects(names, repository.root))
    dev.verify([], repeat=1, jobs=2, only="answer", seed=None, as_json=True)
    assert json.loads(capsys.readouterr().out)["ok"] is True
    (repository.root / "grader/hints/9.9.9.md").unlink()
    with pytest.raises(typer.Exit) as caught:
        dev.verify([], repeat=1, jobs=2, only="answer", seed=None, keep=None, as_json=False)
    assert caught.value.exit_code == 1
    assert "0 hints instead of three" in capsys.readouterr().out
