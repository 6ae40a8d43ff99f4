"""The questions that are answered in sentences: ``grader/questions/<check's id>.toml``.

::

    heading = "Why looking again is not enough"     # of answers.md
    question = "In a sentence or two: …"            # as the starter asks it
    expected = "The answer says …"
    why = "It is the difference between …"

    [words]                                         # patterns with names
    again = "looks again|re reads|reads again"

    [[point]]                                       # two or three
    id = "looks-again"
    text = "A later look at the state puts most wrong conclusions right."

    [[right]]                                       # a clause that is true as it stands
    pattern = "[the] controller {again}"
    says = ["looks-again"]

    [[wrong]]                                       # a claim that contradicts a fact
    diagnosis = "claims-resync-lists"
    name = "a resync asks the API server for the list"
    pattern = ["a resync (lists|fetches) [the list] again"]
    unless = ["cache"]                              # patterns that make it uncertain
    fact = "A resync tells the handlers again what the cache has."
    cited = "`module@version/path:line` `the line`"

How answers are judged by it is in :mod:`grader.evidence.rubric`.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader import course
from grader.evidence import answers as written
from grader.evidence import rubric
from grader.evidence.answers import Section
from grader.evidence.rubric import Claimed, Clause, Known, Point, Rubric, Unreadable, WrongClaim
from grader.verdict import Fail, NotGraded

FOLDER = course.ROOT / "grader" / "questions"
#: The diagnosis of an answer that waits for its writer's own judgement.
NOT_ASSESSED = "not-assessed"


class QuestionError(Exception):
    """A question's file is wrong; ``str()`` says where and why."""


@dataclass(frozen=True)
class Question:
    """One question, and what is known of its answers. ``id`` is its check's."""

    id: str
    heading: str
    question: str
    expected: str
    why: str
    rubric: Rubric

    @property
    def lab(self) -> str:
        return self.id.partition("/")[0]

    @property
    def points(self) -> tuple[Point, ...]:
        return self.rubric.points

    def require(self, section: Section) -> None:
        """Return for an answer that is known to be right.

        Fail where it makes a wrong claim; NotGraded where nobody can judge it, and,
        as :data:`NOT_ASSESSED`, where only the learner can.
        """
        text = rubric.prose(section.text)
        here = f"Under «{section.title}» (answers.md, line {section.line})"
        judgement = self.rubric.judge(text, self.question)
        if isinstance(judgement, Known):
            return
        if isinstance(judgement, Claimed):
            claim = judgement.claim
            raise Fail(
                self.expected,
                f"{here} it says that {claim.name}.",
                why=self.why,
                next=f"{claim.fact} See {claim.cited}." if claim.cited else claim.fact,
                diagnosis=claim.diagnosis,
                evidence=(judgement.sentence,),
            )
        if isinstance(judgement, Unreadable):
            raise NotGraded(
                self.expected,
                f"{here} {judgement.why}.",
                next=judgement.next,
                diagnosis=judgement.diagnosis,
            )
        raise NotGraded(
            self.expected,
            f"{here}: not yet assessed. The grader knows the sentence neither as right nor as "
            "wrong, so you judge it.",
            why=self.why,
            next=f"`phase4 check {self.id}` in a terminal asks which points it has, and so does "
            "the lab's page.",
            diagnosis=NOT_ASSESSED,
            evidence=tuple(text.splitlines()),
        )

    def open_answer(self, text: str) -> str | None:
        """The sentences of an ``answers.md`` that are for their writer to judge; else None."""
        section = written.parse(text).section(self.heading)
        if section is None or section.placeholder:
            return None
        said = rubric.prose(section.text)
        return said if isinstance(self.rubric.judge(said, self.question), rubric.Open) else None


@functools.cache
def of(check_id: str, folder: Path = FOLDER) -> Question:
    """The question of a check. Raises :class:`QuestionError` where it has none, or a bad one."""
    path = folder / f"{check_id}.toml"
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        question = Question(
            id=check_id,
            heading=data["heading"],
            question=data["question"],
            expected=data["expected"],
            why=data["why"],
            rubric=Rubric(
                points=tuple(Point(one["id"], one["text"]) for one in data["point"]),
                right=tuple(
                    Clause(one["pattern"], tuple(one.get("says", ())))
                    for one in data.get("right", ())
                ),
                wrong=tuple(
                    WrongClaim(
                        one["diagnosis"],
                        one["name"],
                        tuple(one["pattern"]),
                        one["fact"],
                        one.get("cited", ""),
                        tuple(one.get("unless", ())),
                    )
                    for one in data.get("wrong", ())
                ),
                words=dict(data.get("words", {})),
            ),
        )
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise QuestionError(f"{path}: {error}") from None
    if problems := rubric.check(question.rubric):
        raise QuestionError(f"{path}: {problems[0]}")
    return question


@functools.cache
def ids(lab: str = "", folder: Path = FOLDER) -> tuple[str, ...]:
    """The checks that ask such a question: a lab's, or all."""
    found = (
        path.relative_to(folder).with_suffix("").as_posix() for path in folder.glob("*/*.toml")
    )
    return tuple(sorted(one for one in found if not lab or one.startswith(f"{lab}/")))
