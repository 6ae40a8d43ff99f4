"""Reports: the verdict over checks, JSON there and back, damaged files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader.report import store
from grader.report.model import (
    Assessment,
    CheckResult,
    LabReport,
    Observation,
    ReportError,
    joined,
    overall,
)
from grader.verdict import Message, Verdict

P, F, N, U = Verdict.PASS, Verdict.FAIL, Verdict.NOT_GRADED, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], U),
        ([P], P),
        ([P, P], P),
        ([P, F], F),
        ([F, U], F),
        ([U, N, P], U),
        ([N, P], N),
        ([N], N),
        ([F, N, U, P], F),
    ],
)
def test_the_lab_is_judged_by_its_worst_check(verdicts: list[Verdict], expected: Verdict) -> None:
    assert overall(verdicts) is expected


def report(lab: str = "4.1.2", verdict: Verdict = F) -> LabReport:
    told = Message("expected.", "seen.", "why.", "next.", "moved", ("line 1",))
    return LabReport(
        lab=lab,
        track="go",
        backend="embedded",
        versions={"kube-apiserver": "v1.37.2"},
        seed=7,
        started=1700000000.25,
        duration=1.5,
        checks=[
            CheckResult(
                f"{lab}/one", "One", 2, "claim", verdict, told if verdict is not P else None
            ),
            CheckResult(f"{lab}/two", "Two", 3, "live", P, None, 0.25),
        ],
        observations=[Observation(f"{lab}/two", "gap", {"predicted": 1, "measured": 2})],
        rules=["kill-before create pods"],
        run_dir=".phase4/runs/x",
    )


def test_json_there_and_back() -> None:
    one = report()
    assert LabReport.from_json(json.loads(json.dumps(one.to_json()))) == one


def judged(said: tuple[str, ...] | None, verdict: Verdict) -> CheckResult:
    points = (("a", "It is a."), ("b", "It is b."))
    about = Assessment("Why?", "Because.", "0" * 64, points, said, 1700000001.5)
    told = None if verdict is P else Message("expected.", "seen.")
    return CheckResult("4.1.2/three", "Three", 1, "written", verdict, told, 0.1, about)


def test_a_judgement_of_ones_own_is_kept_and_is_a_pass_with_a_mark() -> None:
    for said, verdict in ((None, N), (("a",), N), (("a", "b"), P)):
        one = report(verdict=P)
        one.checks.append(judged(said, verdict))
        assert LabReport.from_json(json.loads(json.dumps(one.to_json()))) == one
        assert (one.passed, one.earned) == ((True, 6) if verdict is P else (False, 5))
        assert [check.id for check in one.self_assessed] == ["4.1.2/three"] * (verdict is P)
    assert judged(("a",), N).assessment.missing == ("It is b.",)


def test_two_runs_of_one_lab_are_one_report() -> None:
    first, second = report(verdict=P), report(verdict=P)
    first.checks, second.checks = [judged(None, N)], second.checks[:]
    first.started, second.started = 10.0, 20.0
    one = joined(first, second, ["4.1.2/one", "4.1.2/three", "4.1.2/two"])
    assert [check.id for check in one.checks] == ["4.1.2/one", "4.1.2/three", "4.1.2/two"]
    assert (one.started, one.duration, len(one.observations)) == (10.0, 3.0, 2)
    assert one.verdict is N


def test_only_pass_scores() -> None:
    assert (report(verdict=U).earned, report(verdict=U).points) == (3, 5)
    assert report(verdict=P).earned == 5


def test_an_edited_summary_gains_nothing() -> None:
    data = report().to_json()
    data.update(verdict="PASS", earned=5)
    again = LabReport.from_json(data)
    assert (again.verdict, again.earned) == (F, 3)


@pytest.mark.parametrize(
    "data", [None, [], {}, {"schema": 99}, {"schema": 1}, {"schema": 1, "lab": 1}]
)
def test_a_damaged_report_says_so(data: object) -> None:
    with pytest.raises(ReportError):
        LabReport.from_json(data)


def test_the_store_keeps_the_latest(tmp_path: Path) -> None:
    store.save(tmp_path / "reports", report(verdict=F))
    store.save(tmp_path / "reports", report(verdict=P))
    found = store.load(tmp_path / "reports", "4.1.2")
    assert found is not None and found.passed
    assert [path.name for path in (tmp_path / "reports").iterdir()] == ["4.1.2.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"{}"])
def test_a_file_that_is_no_report_gets_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "4.1.2.json").write_bytes(content)
    with pytest.raises(ReportError, match=r"4\.1\.2\.json.*phase4 check"):
        store.load(tmp_path, "4.1.2")


def test_a_report_under_anothers_name_is_not_taken(tmp_path: Path) -> None:
    store.save(tmp_path, report("4.1.2", P)).rename(tmp_path / "4.1.3.json")
    found, damaged = store.all_of(tmp_path, ["4.1.2", "4.1.3"])
    assert found == {} and len(damaged) == 1
