"""The judgement of written answers, measured by sentences of many hands.

``grader/mistakes/<lab>/written/<check>.toml``::

    right = ["…", …]            # at least twelve, none of which may be failed
    wrong = ["…", …]            # at least twelve, none of which may be known as right

    [claims]                    # wrong ones that must be named, by diagnosis
    claims-live-read = ["…", …]
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from grader.evidence import questions
from grader.evidence.questions import Question
from grader.evidence.rubric import Claimed, Judgement, Known, Unreadable
from grader.verify.model import Sentences
from grader.verify.subject import Subject

#: Sentences of each kind that a measurement rests on.
LEAST = 12


def measured(subject: Subject) -> list[Sentences]:
    """Each written check of the lab, measured."""
    folder = subject.root / "grader" / "questions"
    return [
        measure(questions.of(check, folder), subject.root / "grader" / "mistakes")
        for check in questions.ids(subject.lab, folder)
    ]


def measure(question: Question, mistakes: Path) -> Sentences:
    """One written check, by the sentences that are kept for it below ``mistakes``."""
    lab, _, name = question.id.partition("/")
    found = Sentences(question.id, _none(), _none())
    path = mistakes / lab / "written" / f"{name}.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        right, wrong, claims = data["right"], data["wrong"], data["claims"]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        found.complaints.append(f"{path.name}: {error}")
        return found
    for text in right:
        judgement = question.rubric.judge(text, question.question)
        found.right[_kind(judgement)] += 1
        if isinstance(judgement, Claimed | Unreadable):
            found.false_fails.append(text)
    for text in wrong:
        judgement = question.rubric.judge(text, question.question)
        found.wrong[_kind(judgement)] += 1
        if isinstance(judgement, Known):
            found.false_passes.append(text)
    for diagnosis, texts in claims.items():
        for text in texts:
            judgement = question.rubric.judge(text, question.question)
            found.wrong[_kind(judgement)] += 1
            if isinstance(judgement, Known):
                found.false_passes.append(text)
            elif not isinstance(judgement, Claimed) or judgement.claim.diagnosis != diagnosis:
                found.complaints.append(f"{diagnosis} is not seen in: {text}")
    found.complaints += [
        f"{len(texts)} {kind} sentences; {LEAST} are the least"
        for kind, texts in (("right", right), ("wrong", wrong))
        if len(texts) < LEAST
    ]
    found.complaints += [
        f"no sentence makes the claim {claim.diagnosis}"
        for claim in question.rubric.wrong
        if not claims.get(claim.diagnosis)
    ]
    return found


def _none() -> dict[str, int]:
    return {"known": 0, "learner": 0, "claim": 0, "unreadable": 0}


def _kind(judgement: Judgement) -> str:
    if isinstance(judgement, Known):
        return "known"
    if isinstance(judgement, Claimed):
        return "claim"
    return "unreadable" if isinstance(judgement, Unreadable) else "learner"
