"""Progress and the gate, out of reports alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grader import course
from grader.course import Check, Condition, Course, Lab, Module
from grader.report import artifact, progress, store
from grader.report.model import CheckResult, LabReport
from grader.verdict import Verdict


def lab(id: str, gate: tuple[int, ...] = (), built: bool = True) -> Lab:
    return Lab(id, f"lab-{id}", f"Lab {id}", "9", ("live", "written"), gate=gate, built=built)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Course:
    """A course of three labs, the last not built, with two checks in each of the others."""
    labs = (lab("9.1", gate=(1,)), lab("9.2"), lab("9.3", gate=(1, 2), built=False))
    checks = {
        one.id: (
            Check(f"{one.id}/a", "A", 2, "live", "check_a"),
            Check(f"{one.id}/b", "B", 1, "written", "check_b"),
        )
        for one in labs
        if one.built
    }
    monkeypatch.setattr(course, "checks", lambda one: checks.get(one.id, ()))
    conditions = (Condition(1, "First"), Condition(2, "Second"), Condition(3, "Third"))
    return Course("x", "1", "X", (Module("9", "Nine"),), labs, conditions)


def passed(folder: Path, id: str, *checks: str, failed: tuple[str, ...] = ()) -> None:
    results = [
        CheckResult(f"{id}/{name}", name, 1, "live", verdict)
        for names, verdict in ((checks, Verdict.PASS), (failed, Verdict.FAIL))
        for name in names
    ]
    store.save(folder, LabReport(id, checks=results))


def test_nothing_checked_yet(small: Course, tmp_path: Path) -> None:
    standing = progress.progress(tmp_path, small)
    assert [one.standing for one in standing.labs] == ["not checked", "not checked", "not built"]
    assert (standing.earned, standing.points) == (0, 6)
    assert standing.next() == small.labs[0]


def test_next_is_the_first_not_passed(small: Course, tmp_path: Path) -> None:
    passed(tmp_path, "9.1", "a", "b")
    passed(tmp_path, "9.2", "a", failed=("b",))
    standing = progress.progress(tmp_path, small)
    assert [one.standing for one in standing.labs] == ["PASS", "FAIL", "not built"]
    assert standing.next() == small.labs[1]
    assert standing.earned == 5


def test_all_that_is_built_is_passed(small: Course, tmp_path: Path) -> None:
    passed(tmp_path, "9.1", "a", "b")
    passed(tmp_path, "9.2", "a", "b")
    assert progress.progress(tmp_path, small).next() is None


def test_a_check_that_came_later_takes_the_pass_back(small: Course, tmp_path: Path) -> None:
    passed(tmp_path, "9.1", "a")
    standing = progress.progress(tmp_path, small).of("9.1")
    assert (standing.standing, standing.outdated, standing.earned) == ("not checked", ("9.1/b",), 2)


def test_a_damaged_report_is_said_and_counts_nothing(small: Course, tmp_path: Path) -> None:
    (tmp_path / "9.1.json").write_text("{", encoding="utf-8")
    standing = progress.progress(tmp_path, small)
    assert standing.of("9.1").standing == "not checked" and len(standing.damaged) == 1


def test_the_gate_names_what_is_missing_by_evidence(small: Course, tmp_path: Path) -> None:
    passed(tmp_path, "9.1", "a", failed=("b",))
    first, second, third = progress.gate(progress.progress(tmp_path, small), small)
    assert not first.met and not second.met
    assert [one.what for one in first.missing["written"]] == [
        "9.1/b FAIL: B",
        "this version of the course cannot grade it yet",
    ]
    assert [one.lab.id for one in first.missing["live"]] == ["9.3"]
    assert not third.met, "a condition that no lab gives evidence for is never met"


def test_the_real_gate_has_its_three_conditions(tmp_path: Path) -> None:
    conditions = progress.gate(progress.progress(tmp_path))
    assert [one.condition.number for one in conditions] == [1, 2, 3]
    assert all(one.labs and not one.met for one in conditions)


def test_an_artifact_is_judged_as_it_is_now(small: Course, tmp_path: Path) -> None:
    """The condition asks more of the program of 9.1 than 9.1 does, and of the program of today."""
    labs = (small.labs[0],)
    course_ = replace(small, labs=labs, gate=(Condition(1, "First", artifact="9.1"),))
    reports, program = tmp_path / ".phase4" / "reports", tmp_path / "9.1" / "program.py"
    program.parent.mkdir()
    program.write_text("print(1)")
    version = course.load().version
    (tmp_path / "phase4.toml").write_text(
        f'course = "phase-4"\nversion = "{version}"\ntrack = "python"\n'
    )

    def lacking() -> list[str]:
        (condition,) = progress.gate(progress.progress(reports, course_), course_)
        return [one.what for one in condition.missing["live"]]

    assert lacking() == ["not checked yet"]
    passed(reports, "9.1", "a", "b")
    assert "not been judged for this condition yet: `phase4 gate 1 --live`" in lacking()[0]
    digest = artifact.digest(reports, labs[0])
    checks = [CheckResult("gate-1/k", "Killed, it goes on", 0, "live", Verdict.FAIL)]
    store.save(reports, LabReport("gate-1", digest=digest, checks=checks))
    assert lacking() == ["Killed, it goes on: FAIL"]
    checks = [CheckResult("gate-1/k", "Killed, it goes on", 0, "live", Verdict.PASS)]
    store.save(reports, LabReport("gate-1", digest=digest, checks=checks))
    assert lacking() == []
    program.write_text("print(2)")
    assert "changed since" in lacking()[0]
