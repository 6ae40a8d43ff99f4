"""The measurement of written answers: what it counts, and what it complains of."""

from __future__ import annotations

import json
from pathlib import Path

from grader.evidence.questions import Question
from grader.evidence.rubric import Clause, Point, Rubric, WrongClaim
from grader.verify.model import LabResult, VerifyReport
from grader.verify.written import LEAST, measure

QUESTION = Question(
    id="9.9.9/why",
    heading="Why",
    question="Why is it so?",
    expected="A sentence says why.",
    why="It matters.",
    rubric=Rubric(
        points=(Point("a", "It is a."), Point("b", "It is b.")),
        right=(Clause("it is a and it is b", ("a", "b")),),
        wrong=(
            WrongClaim("claims-c", "it is c", ("it is c [and] [d]",), "It is not c."),
            WrongClaim("claims-e", "it is e", ("it is e",), "It is not e."),
        ),
    ),
)
RIGHT = [f"What it has to be is a and b, number {n}." for n in range(LEAST)]
WRONG = [f"What it has to be is f and g, number {n}." for n in range(LEAST)]


def measured(tmp_path: Path, right: list[str], wrong: list[str], claims: dict[str, list[str]]):
    folder = tmp_path / "9.9.9" / "written"
    folder.mkdir(parents=True)
    lines = [f"right = {json.dumps(right)}", f"wrong = {json.dumps(wrong)}", "[claims]"]
    lines += [f"{name} = {json.dumps(texts)}" for name, texts in claims.items()]
    (folder / "why.toml").write_text("\n".join(lines))
    return measure(QUESTION, tmp_path)


CLAIMS = {"claims-c": ["It is c and d."], "claims-e": ["Well, it is e."]}


def test_each_outcome_is_counted(tmp_path: Path) -> None:
    found = measured(tmp_path, [*RIGHT, "It is a, and it is b."], WRONG, CLAIMS)
    assert found.ok and LabResult("9.9.9", written=[found]).ok
    assert found.right == {"known": 1, "learner": LEAST, "claim": 0, "unreadable": 0}
    assert found.wrong == {"known": 0, "learner": LEAST, "claim": 2, "unreadable": 0}


def test_a_false_fail_and_a_false_pass_fail_the_measurement(tmp_path: Path) -> None:
    false_fail, unread, false_pass = "It is c.", "no", "It is a and it is b."
    found = measured(tmp_path, [*RIGHT, false_fail, unread], [*WRONG, false_pass], CLAIMS)
    assert found.false_fails == [false_fail, unread] and found.false_passes == [false_pass]
    report = VerifyReport([LabResult("9.9.9", written=[found])])
    assert not report.ok
    assert any(false_fail in complaint for complaint in report.complaints)
    assert any(false_pass in complaint for complaint in report.complaints)
    assert report.to_json()["labs"][0]["written"][0]["false_passes"] == [false_pass]


def test_too_few_sentences_and_claims_that_are_not_seen_are_complaints(tmp_path: Path) -> None:
    found = measured(tmp_path, RIGHT[1:], WRONG, {"claims-c": ["If it is c, then d."]})
    assert not found.ok and not found.false_fails and not found.false_passes
    assert any("11 right sentences" in complaint for complaint in found.complaints)
    assert "claims-c is not seen in: If it is c, then d." in found.complaints
    assert "no sentence makes the claim claims-e" in found.complaints


def test_a_claim_that_is_called_another_is_a_complaint(tmp_path: Path) -> None:
    found = measured(tmp_path, RIGHT, WRONG, {**CLAIMS, "claims-e": ["It is c."]})
    assert found.complaints == ["claims-e is not seen in: It is c."]


def test_without_sentences_nothing_was_measured(tmp_path: Path) -> None:
    assert not measure(QUESTION, tmp_path).ok
