"""Every question of the course that is answered in sentences, and what is known of its answers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader import course, cut
from grader.evidence import answers, citations, questions
from grader.evidence.answers import parse
from grader.verdict import Fail, NotGraded
from grader.verify.written import measure

IDS = questions.ids()
MISTAKES = course.ROOT / "grader" / "mistakes"


def test_there_are_questions_and_each_is_a_check() -> None:
    checks = {check.id: check for lab in course.load().labs for check in course.checks(lab)}
    assert len(IDS) >= 8
    assert all(checks[check].evidence == "written" for check in IDS)


@pytest.mark.parametrize("check", IDS)
def test_no_right_sentence_is_failed_and_no_wrong_one_is_known_as_right(check: str) -> None:
    found = measure(questions.of(check), MISTAKES)
    assert found.all_complaints == []
    assert found.right["known"] and found.wrong["claim"]


@pytest.mark.parametrize("check", IDS)
def test_the_starter_asks_this_question_under_this_heading(check: str, tmp_path: Path) -> None:
    question = questions.of(check)
    for track in cut.tracks(question.lab, course.ROOT / "solutions"):
        folder = cut.handed_in(
            question.lab, track, tmp_path / track, solutions=course.ROOT / "solutions"
        )
        section = parse((folder / "answers.md").read_text()).section(question.heading)
        quoted = " ".join(
            line.lstrip("> ") for line in section.source.splitlines() if line.startswith(">")
        )
        assert " ".join(quoted.split()) == question.question


@pytest.mark.parametrize("check", IDS)
def test_what_a_wrong_claim_is_held_against_is_where_it_says(check: str) -> None:
    wrong = questions.of(check).rubric.wrong
    assert len(wrong) >= 3
    for claim in wrong:
        assert claim.fact.endswith(".") and not claim.name.endswith(".")
        found = citations.find(claim.cited)
        assert len(found) == (1 if claim.cited else 0)
        for each in found:
            assert citations.check(each).exact, claim.cited


def asked(text: str, check: str = "4.2.7/recovery") -> Fail | NotGraded | None:
    question = questions.of(check)
    section = parse(f"# Title\n\n## {question.heading}\n\n{text}\n").section(question.heading)
    try:
        question.require(section)
    except (Fail, NotGraded) as outcome:
        return outcome
    return None


def test_a_wrong_claim_comes_with_the_fact_and_its_place() -> None:
    outcome = asked("A resync fetches the list anew.")
    assert isinstance(outcome, Fail)
    message = outcome.message
    assert message.diagnosis == "claims-resync-lists"
    assert "no request is made" in message.next and "reflector.go:" in message.next
    assert message.evidence == ("A resync fetches the list anew.",)


def test_what_is_not_known_is_for_the_learner_and_no_words_are_asked_for() -> None:
    outcome = asked("Later it is seen to and mended, but what has been taken away is away.")
    assert isinstance(outcome, NotGraded)
    message = outcome.message
    assert message.diagnosis == questions.NOT_ASSESSED and "not yet assessed" in message.seen
    assert "`phase4 check 4.2.7/recovery`" in message.next
    assert "looked for" not in message.seen + message.next


def test_what_is_open_is_what_stands_in_the_file() -> None:
    question = questions.of("4.2.7/recovery")
    head = f"# Title\n\n## {question.heading}\n\n> {question.question}\n\n"
    assert question.open_answer(head + "Some day it is all made good again.\n") == (
        "Some day it is all made good again."
    )
    for closed in ("TODO", "", "<!-- x -->", "A resync relists.", "no", question.question):
        assert question.open_answer(head + closed + "\n") is None
    assert question.open_answer("nothing") is None


def test_a_question_with_a_fault_says_which(tmp_path: Path) -> None:
    shutil.copytree(questions.FOLDER / "4.2.7", tmp_path / "4.2.7")
    file = tmp_path / "4.2.7" / "recovery.toml"
    good = file.read_text()
    for change, wanted in (
        (("[[point]]", "[[pint]]"), "point"),
        (('says = ["no-undo"]', 'says = ["nothing"]'), "nothing"),
        (("{object}", "{objekt}"), "objekt"),
    ):
        file.write_text(good.replace(*change))
        questions.of.cache_clear()
        with pytest.raises(questions.QuestionError, match=wanted):
            questions.of("4.2.7/recovery", tmp_path)
    questions.of.cache_clear()
    with pytest.raises(questions.QuestionError):
        questions.of("4.2.7/nothing", tmp_path)


def test_the_placeholder_untouched_is_not_graded() -> None:
    text = (course.ROOT / "exercises" / "4.2.7" / "common" / "answers.md").read_text()
    with pytest.raises(NotGraded) as outcome:
        answers.parse(text).require_section(questions.of("4.2.7/recovery").heading)
    assert outcome.value.message.diagnosis == "answer-missing"
