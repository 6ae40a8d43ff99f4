"""Written answers: what is known for certain, what is not, and what nobody can judge."""

from __future__ import annotations

import time

import pytest

from grader.evidence import rubric
from grader.evidence.rubric import (
    Claimed,
    Clause,
    Known,
    Open,
    Point,
    Rubric,
    Unreadable,
    WrongClaim,
    prose,
    sentences,
)

QUESTION = "One sentence: why does the queue hold a key, and what does a worker do with it?"
RUBRIC = Rubric(
    points=(
        Point("stale", "An object would be old by the time a worker takes it."),
        Point("reads", "The worker reads the object again."),
    ),
    words={"worker": "(the|a) worker|workers"},
    right=(
        Clause("an object would be (old|out of date|stale) [by then]", ("stale",)),
        Clause("{worker} (reads|re reads) [the] object [again]", ("reads",)),
        Clause("the queue holds [only] keys"),
    ),
    wrong=(
        WrongClaim(
            "claims-object",
            "the queue holds the object",
            ("the queue holds (the object|objects)",),
            "It holds a name.",
            "`a@v1/b.go:1` `c`",
            ("key|keys",),
        ),
        WrongClaim(
            "turns-false", "it turns false", ("hassynced (turns|is) false [again]",), "Never."
        ),
    ),
)


def judged(text: str):
    return RUBRIC.judge(text, QUESTION)


@pytest.mark.parametrize(
    "text",
    [
        "An object would be out of date by then, and the worker re-reads the object.",
        "The worker reads the object again because an object would be stale.",
        "The queue holds only keys: an object would be old. A worker re-reads the object.",
        "- the worker reads the object\n- an object would be **stale** by then",
        "AN OBJECT WOULD BE OUT-OF-DATE; THE WORKER RE-READS THE OBJECT!",
    ],
)
def test_known_where_every_word_is_part_of_a_true_clause(text: str) -> None:
    assert judged(text) == Known()


@pytest.mark.parametrize(
    "text",
    [
        "An object would be stale by then.",  # one point of two
        "An object would not be stale by then, and the worker reads the object.",
        "It is wrong that an object would be stale, and the worker reads the object.",
        "An object would be stale by then, and the worker reads the object twice a day.",
        "Would be: an object stale, the worker the object reads.",
        "An object would be stale, and the worker reads the object?",
        "An object would be stale != fresh, and the worker reads the object.",
        "An object would be «stale», and the worker reads the object.",
        "An object would be stale, and the worker reads ~ the object.",
        "Never: an object would be stale by then and the worker reads the object",
        "In the end it does what it has to do with what it finds there.",
    ],
)
def test_one_word_that_is_not_accounted_for_and_it_is_not_known(text: str) -> None:
    assert judged(text) == Open()


@pytest.mark.parametrize(
    ("text", "diagnosis"),
    [
        ("The queue holds the object.", "claims-object"),
        ("It is simple: the queue holds objects, and workers take them.", "claims-object"),
        ("Workers are slow. The queue holds the object and a worker takes it.", "claims-object"),
        ("HasSynced turns false again.", "turns-false"),
    ],
)
def test_a_wrong_claim_that_is_made_for_certain(text: str, diagnosis: str) -> None:
    judgement = judged(text)
    assert isinstance(judgement, Claimed) and judgement.claim.diagnosis == diagnosis


@pytest.mark.parametrize(
    "text",
    [
        "It is a myth that the queue holds the object.",
        "The queue holds the object: that is wrong.",
        "The queue holds the object. That is a common mistake, it has a name only.",
        "If the queue holds the object, the worker sees an old one.",
        "Many people think the queue holds the object.",
        "You may say: the queue holds the object.",
        "The old diagrams say so: the queue holds the object.",
        "«The queue holds the object» is what one reads everywhere.",
        'They call it "the queue holds the object".',
        "Does it matter that the queue holds the object?",
        "The queue holds the object \u2717",
        "The queue holds the object -> stale.",
        "The queue holds the objects' names.",
        "The queue holds the object, or rather its key.",
        "The queue holds the object as a key.",
        "The queue holds objects of one word each: keys.",
        "Nobody says so, but the queue holds the object.",
        "The queue holds the object only in bad designs.",
        "HasSynced turns false? It never does, it is a one-way flag.",
    ],
)
def test_what_may_be_denied_doubted_supposed_or_reported_fails_nobody(text: str) -> None:
    assert not isinstance(judged(text), Claimed | Known)


@pytest.mark.parametrize(
    ("text", "diagnosis"),
    [
        ("ok", "no-sentence"),
        ("key key key key key key key key", "no-sentence"),
        ("x" * 10_000, "answer-too-long"),
        ("the worker reads " * 600, "answer-too-long"),
        ("The worker\x07 reads the object again.", "control-character"),
        ("The worker \x1b[31mreads\x1b[0m the object again.", "control-character"),
        ("The worker \u202ereads the object again.", "control-character"),
        (
            "Weil das Objekt veraltet wäre, bis ein Worker es aus der Queue nimmt, und er liest es neu.",
            "answer-in-another-language",
        ),
        (
            "Parce que l'objet serait périmé quand le worker le prend dans la file.",
            "answer-in-another-language",
        ),
        (
            "Porque el objeto estaría obsoleto cuando el worker lo toma de la cola.",
            "answer-in-another-language",
        ),
        ("Потому что объект к тому времени устареет.", "answer-in-another-language"),
        ("因为等到处理时对象已经过时了,所以只放键。", "answer-in-another-language"),
        (QUESTION, "question-repeated"),
        (QUESTION.upper().replace("?", "!"), "question-repeated"),
        ("why does the queue hold a key", "question-repeated"),
    ],
    ids=lambda value: value[:20],
)
def test_what_nobody_can_judge_gets_one_sentence(text: str, diagnosis: str) -> None:
    judgement = judged(text)
    assert isinstance(judgement, Unreadable) and judgement.diagnosis == diagnosis
    assert judgement.why and judgement.next.endswith(".")


@pytest.mark.parametrize(
    "text",
    [
        "key = name; obj stale -> reread",
        "If you put object in queue, then worker will use old object, so only key is put.",
        "The queue holds a key, since what it names may change until a worker looks.",
        "Un worker lit l'objet: the worker reads it, the object of the event is not the one it "
        "wants.",
        "naïve café résumé: the worker reads what is there",
        "`DeletedFinalStateUnknown`, `MetaNamespaceKeyFunc`, `AddRateLimited`",
    ],
)
def test_bad_english_and_telegrams_are_for_the_learner_to_judge(text: str) -> None:
    assert judged(text) == Open()


def test_no_answer_takes_long_to_judge() -> None:
    begun = time.process_time()
    for text in ("the worker reads the object " * 4, "an object would be " * 100, "and " * 490):
        judged(text)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("pattern", ["{nowhere} a", "a.b", "a (b", "{loop}"])
def test_a_bad_pattern_is_found_at_once(pattern: str) -> None:
    points = (Point("a", "A."), Point("b", "B."))
    bad = Rubric(points, right=(Clause(pattern),), words={"loop": "{loop} x"})
    assert rubric.check(bad)
    assert rubric.check(Rubric(points[:1])) and rubric.check(
        Rubric(points, right=(Clause("a", ("c",)),))
    )


def test_citations_code_and_tables_are_no_prose() -> None:
    text = (
        "`m.com/q@v1/a.go:1` `the queue holds a key` It is so.\n\n```go\nlister.Get(key)\n```\n\n"
        "| a | b |\n|---|---|\n| c | d |\n\nThe `workqueue` has keys. ~~The queue holds all.~~"
    )
    kept = prose(text)
    assert "holds a key" not in kept and "lister" not in kept and "| c" not in kept
    assert "It is so." in kept and "The workqueue has keys." in kept and "holds all" not in kept


def test_backticks_without_end_are_read_in_one_pass() -> None:
    assert prose("`" * 200_000) == ""  # a fence that is never closed
    assert prose("a " + "`" * 100_000) == "a " + "`" * 100_000


def test_sentences() -> None:
    assert sentences("One. Two!\n\nThree\n- four\n- five; six") == [
        "One.", "Two!", "Three", "four", "five;", "six",
    ]  # fmt: skip


def test_a_digest_is_of_the_words_and_not_of_how_they_are_broken_into_lines() -> None:
    assert rubric.digest("a b\nc") == rubric.digest(" a  b c\n") != rubric.digest("a b d")
