"""Written answers: concepts by any of their phrases, wrong claims, and what is no sentence."""

from __future__ import annotations

import pytest

from grader.evidence.answers import parse
from grader.evidence.rubric import Concept, Rubric, WrongClaim, prose, sentences
from grader.verdict import Fail

RUBRIC = Rubric(
    concepts=(
        Concept("the queue holds keys", ("queue … key*", ("key*", "not the object")), "no-keys"),
        Concept(
            "the worker reads again", ("re-read*", "read* … again", ("lister", "get*")), "no-read"
        ),
    ),
    wrong_claims=(
        WrongClaim(
            "the event carries the state",
            ("event … carries … state", "trust* the event"),
            "What an event carries may be out of date.",
            "trusts-event",
        ),
        WrongClaim("it is not read again", ("not re-read*",), "It is read again.", "no-re-read"),
    ),
)


def judge(text):
    section = parse(f"## Why\n\n{text}\n").section("Why")
    RUBRIC.require(section, expected="One sentence says why.")


@pytest.mark.parametrize(
    "text",
    [
        "The queue only ever holds a key, and so the worker re-reads the object from the cache.",
        "It's keys that are queued, not the object; a worker then rereads what it needs.",
        "We put keys in, not the object. The lister is what syncHandler gets its copy from.",
        "The queue has keys.\nThe worker must read it again because it never trusts the event.",
        "- The queue's element is a key, not more.\n- The worker reads again from the lister.",
    ],
)
def test_right_answers_in_different_words(text):
    judge(text)


@pytest.mark.parametrize(
    ("text", "diagnosis"),
    [
        ("The worker re-reads the object from the lister because it may be old.", "no-keys"),
        ("The queue holds a key and that is why it is small and quick to compare.", "no-read"),
        ("The queue holds keys but the worker can trust the event and re-reads.", "trusts-event"),
        ("The queue holds keys, and the worker does not re-read the object.", "no-re-read"),
        ("queue key re-read", "no-sentence"),
        ("queue key lister get worker cache reread handler informer deltas", "no-sentence"),
        ("key key key key key key queue key re-read key key key", "no-sentence"),
    ],
)
def test_wrong_answers_are_told_apart(text, diagnosis):
    with pytest.raises(Fail) as failed:
        judge(text)
    assert failed.value.message.diagnosis == diagnosis


def test_a_wrong_claim_comes_with_its_correction():
    with pytest.raises(Fail) as failed:
        judge(
            "The queue holds keys, re-reads are cheap, and workers trust the event they are given."
        )
    message = failed.value.message
    assert message.diagnosis == "trusts-event" and message.next.startswith("What an event carries")


def test_a_missing_concept_is_named_with_its_line():
    with pytest.raises(Fail) as failed:
        judge("The worker re-reads the object from the lister because it may be old.")
    assert "the queue holds keys" in failed.value.message.seen
    assert "line 1" in failed.value.message.seen


def test_citations_code_and_tables_are_no_prose():
    text = (
        "`m.com/q@v1/a.go:1` `the queue holds a key` It is so.\n\n```go\nlister.Get(key)\n```\n\n"
        "| a | b |\n|---|---|\n| c | d |\n\nThe `workqueue` has keys."
    )
    kept = prose(text)
    assert "holds a key" not in kept and "lister" not in kept and "| c" not in kept
    assert "It is so." in kept and "The workqueue has keys." in kept


def test_backticks_without_end_are_read_in_one_pass():
    assert prose("`" * 200_000) == ""  # a fence that is never closed
    assert prose("a " + "`" * 100_000) == "a " + "`" * 100_000


def test_sentences():
    assert sentences("One. Two!\n\nThree\n- four\n- five; six") == [
        "One.", "Two!", "Three", "four", "five;", "six",
    ]  # fmt: skip
