"""Whose part a lab runs on, and how a run is put together; with the course's own parts and labs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader import course, workspace
from grader.runner.submission import Submission
from grader.report import ownership
from grader.verdict import Outcome, Verdict
from grader.workspace import Workspace, lending, parts

QUEUE, REFLECTOR = "machinery/workqueue.py", "machinery/reflector.py"
OPERATOR = "operator_handwired/webapp_operator"


@pytest.fixture
def here(tmp_path: Path) -> Workspace:
    made, _ = workspace.init(tmp_path / "w", "python")
    return made


def lab(name: str) -> course.Lab:
    return course.load().lab(name)


def passes(here: Workspace, name: str, verdict: Verdict = Verdict.PASS) -> None:
    """What a check of a lab leaves behind."""
    digests = parts.digests(here.root, lab(name), parts.track_of(here, lab(name)))
    parts.judged(here, lab(name), verdict, digests)


def whose(uses: list[parts.Use]) -> dict[str, bool]:
    return {use.part.id: use.own for use in uses}


def test_a_part_is_lent_until_its_lab_is_passed(here: Workspace, tmp_path: Path) -> None:
    (here.root / QUEUE).write_text("MINE = True\n")
    used = parts.assemble(here, lab("4.2.2"), tmp_path / "one")
    assert whose(used) == {
        "work-queue": False, "retries": True, "informer": False, "reflector": False,
        "listeners": False,
    }  # fmt: skip
    assert used[0].why == "4.2.1 is not passed"
    assert "MINE" not in (tmp_path / "one" / QUEUE).read_text()
    assert "NotImplementedError" in (tmp_path / "one/machinery/delaying.py").read_text()
    assert "NotImplementedError" not in (tmp_path / "one" / REFLECTOR).read_text()
    passes(here, "4.2.1")
    assert parts.assemble(here, lab("4.2.2"), tmp_path / "two")[0].own
    assert (tmp_path / "two" / QUEUE).read_text() == "MINE = True\n"
    # Nothing is lent into the learner's folder.
    assert (here.root / QUEUE).read_text() == "MINE = True\n"


def test_a_lab_that_fails_lends_its_part_again(here: Workspace) -> None:
    passes(here, "4.2.1")
    assert parts.uses(here, lab("4.2.2"))[0].own
    passes(here, "4.2.1", Verdict.FAIL)
    assert not parts.uses(here, lab("4.2.2"))[0].own


def test_a_check_without_a_verdict_takes_no_pass_away(here: Workspace) -> None:
    passes(here, "4.2.1")
    for verdict in (Verdict.UNKNOWN, Verdict.NOT_GRADED):
        passes(here, "4.2.1", verdict)
        assert parts.uses(here, lab("4.2.2"))[0].own


def test_another_lab_s_check_takes_no_pass_away(here: Workspace) -> None:
    passes(here, "4.3.2")
    passes(here, "4.3.5", Verdict.FAIL)
    assert whose(parts.uses(here, lab("4.3.4")))["operator"]


def test_both_extremes_can_be_asked_for(here: Workspace) -> None:
    passes(here, "4.2.1")
    assert all(use.own for use in parts.uses(here, lab("4.2.2"), "own"))
    course_s = parts.uses(here, lab("4.2.2"), "course")
    assert [use.part.id for use in course_s if use.own] == ["retries"]


def test_a_part_that_changed_since_is_the_learner_s_and_said_to_be(here: Workspace) -> None:
    passes(here, "4.2.1")
    (here.root / QUEUE).write_text("CHANGED = True\n")
    (use,) = [one for one in parts.uses(here, lab("4.2.2")) if one.part.id == "work-queue"]
    assert use.own and use.changed


def test_parts_of_another_track_are_not_passed_by_this_one(here: Workspace) -> None:
    passes(here, "4.3.2")
    here.change_track(lab("4.3.4"), "go")
    assert not whose(parts.uses(here, lab("4.3.4")))["operator"]
    # Both tracks are there, side by side.
    assert (here.root / "operator_handwired/controller.go").exists()
    assert (here.root / OPERATOR / "controller.py").exists()


def test_what_a_lab_does_not_run_on_cannot_break_it(here: Workspace, tmp_path: Path) -> None:
    (here.root / REFLECTOR).write_text("def half(\n")
    parts.assemble(here, lab("4.2.1"), tmp_path / "run")
    compile((tmp_path / "run" / REFLECTOR).read_text(), "reflector.py", "exec")


def test_a_part_of_the_learner_s_that_is_gone_is_gone(here: Workspace, tmp_path: Path) -> None:
    (here.root / QUEUE).unlink()
    parts.assemble(here, lab("4.2.1"), tmp_path / "run")
    assert not (tmp_path / "run" / QUEUE).exists()


def test_a_passed_part_that_is_gone_is_lent(here: Workspace, tmp_path: Path) -> None:
    passes(here, "4.2.1")
    (here.root / QUEUE).unlink()
    (use,) = [
        one
        for one in parts.assemble(here, lab("4.2.2"), tmp_path / "run")
        if one.part.id == "work-queue"
    ]
    assert not use.own and "not there" in use.why
    assert (tmp_path / "run" / QUEUE).exists()


def test_files_of_one_s_own_go_along_with_one_s_own_parts(here: Workspace, tmp_path: Path) -> None:
    (here.root / OPERATOR / "noted.py").write_text("mine\n")
    parts.assemble(here, lab("4.3.2"), tmp_path / "own")
    assert (tmp_path / "own" / OPERATOR / "noted.py").exists()
    parts.assemble(here, lab("4.3.6"), tmp_path / "lent")
    assert not (tmp_path / "lent" / OPERATOR / "noted.py").exists()


def test_what_is_no_file_is_copied_as_what_it_is(here: Workspace, tmp_path: Path) -> None:
    folder = here.folder(lab("4.2.1"))
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("/etc/hostname")
    (folder / ".venv").mkdir()
    parts.assemble(here, lab("4.2.1"), tmp_path / "run")
    copied = tmp_path / "run" / "4.2.1"
    assert (copied / "pipe").is_fifo() and (copied / "link").is_symlink()
    assert not (copied / ".venv").exists()


def test_too_much_is_a_sentence(here: Workspace, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(parts, "FILES", 10)
    for number in range(12):
        (here.folder(lab("4.2.1")) / f"{number}.txt").write_text("x")
    with pytest.raises(parts.TooMuch, match="that is no answer"):
        parts.assemble(here, lab("4.2.1"), tmp_path / "run")
    assert parts.digest(here, lab("4.2.1")) == ""


def test_the_digest_is_of_what_the_lab_takes(here: Workspace) -> None:
    before = parts.digest(here, lab("4.3.2"))
    (here.root / "machinery/delta_fifo.py").write_text("x")
    assert parts.digest(here, lab("4.3.2")) == before
    (here.root / OPERATOR / "__main__.py").write_text("x")
    assert parts.digest(here, lab("4.3.2")) != before


def test_a_run_says_whose_parts_it_ran_on() -> None:
    own = {"part": "work-queue", "title": "work queue", "lab": "4.2.1", "own": True, "why": "",
           "changed": True, "asked_for": False}  # fmt: skip
    lent = {**own, "part": "reflector", "title": "reflector", "lab": "4.2.5", "own": False,
            "why": "4.2.5 is not passed", "changed": False}  # fmt: skip
    both = [lent, {**lent, "title": "informer", "lab": "4.2.4", "why": "4.2.4 is not passed"}]
    assert ownership.sentences(both) == [
        "Runs on the course's reflector (4.2.5) and informer (4.2.4): these labs are not passed."
    ]
    asked = {**own, "part": "retries", "title": "retries", "asked_for": True}
    assert ownership.sentences([own, lent, asked]) == [
        "Runs on your own work queue (changed since 4.2.1).",
        "Runs on the course's reflector: 4.2.5 is not passed.",
    ]


# -- commands typed by hand -------------------------------------------------


def test_a_command_finds_the_packages(here: Workspace, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(here.root)
    for name in ("4.2.1", "4.2.4", "4.2.5", "4.2.6"):
        passes(here, name)
    found = lending.for_command(here, ["python3", "4.2.7/pruner.py"], tmp_path / "lent")
    assert all(use.own for use in found.uses)
    assert found.environment["PYTHONPATH"].split(os.pathsep)[0] == str(here.root)
    assert not (tmp_path / "lent").exists()


def test_a_command_is_lent_what_is_not_passed(here: Workspace, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(here.root)
    found = lending.for_command(here, ["python3", "-m", "webapp_operator"], tmp_path / "lent")
    mine = whose(list(found.uses))
    assert mine["operator"] and mine["resume"] and mine["api-types"]
    assert not mine["work-queue"] and not mine["reflector"]
    assert found.environment["PYTHONSAFEPATH"] == "1"
    laid = tmp_path / "lent"
    assert not (laid / QUEUE).is_symlink()
    assert (laid / OPERATOR / "controller.py").resolve() == here.root / OPERATOR / "controller.py"


def test_another_command_is_left_alone(here: Workspace, tmp_path: Path) -> None:
    found = lending.for_command(here, ["go", "run", "./elsewhere"], tmp_path / "lent")
    assert (found.environment, found.uses) == ({}, ())
    script = "x = 1\n" * 2000
    assert lending.for_command(here, ["python3", "-c", script], tmp_path / "lent").uses == ()


# -- a part that is none ------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "diagnosis", "says"),
    [
        (None, "nothing-handed-in", "`phase4 reset 4.2.1`"),
        ("def half(\n", "not-python", "Line 1 of machinery/workqueue.py"),
        ("x = '\0'\n", "binary-file", "binary"),
        ("x = (\n\n", "not-python", "never closed"),
    ],
)
def test_a_part_that_is_none_is_a_sentence(
    here: Workspace, tmp_path: Path, text: str | None, diagnosis: str, says: str
) -> None:
    if text is None:
        (here.root / QUEUE).unlink()
    else:
        (here.root / QUEUE).write_text(text)
    parts.assemble(here, lab("4.2.1"), tmp_path / "run")
    with pytest.raises(Outcome) as caught:
        _ = Submission(tmp_path / "run" / "4.2.1", "4.2.1", "python").program
    message = caught.value.message
    assert message.diagnosis == diagnosis
    assert says in f"{message.seen} {message.next}"
