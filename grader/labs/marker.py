"""The marker that makes a function a check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

F = TypeVar("F", bound=Callable)

#: live: seen on the wire or at the API server. build: what a learner's program
#: is or prints. written: a sentence, a drawing or a prediction. claim: checked against source.
Evidence = Literal["live", "build", "written", "claim"]


def check(id: str, *, title: str, points: int, evidence: Evidence) -> Callable[[F], F]:
    """Declare a function as the check ``id``.

    ``id`` is the lab's id, a slash and a stable name (``4.2.1/dedup``); it is
    what reports, mistakes and nbgrader's points refer to, and never changes.
    ``title`` is a sentence in the present tense, shown in «What is checked».
    ``points`` is a whole number. All four must be literals: the site and
    the command line's table read them from the source without importing it.
    """

    def mark(function: F) -> F:
        import pytest

        function.phase4_check = {  # type: ignore[attr-defined]
            "id": id,
            "title": title,
            "points": points,
            "evidence": evidence,
        }
        return pytest.mark.phase4(function)

    return mark
