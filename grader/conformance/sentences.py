"""The operator's contract, sentence by sentence: ``contract.toml`` beside this file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: The first letter of an id, and what it says of the sentence.
KINDS = {
    "S": "At rest",
    "N": "Never, at any moment",
    "R": "Within a time, and after something went wrong",
    "O": "Left open on purpose",
}


@dataclass(frozen=True)
class Sentence:
    """One sentence. ``scenarios`` judge it, ``watched`` are the invariants that watch it always,
    ``wrong`` the wrong operators that show that it is judged."""

    id: str
    text: str
    scenarios: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether it says what is left open: nothing judges it."""
        return self.id.startswith("O")

    def __str__(self) -> str:
        return f"{self.id}: {self.text}"


@cache
def sentences() -> tuple[Sentence, ...]:
    """All of them, in the order of the file. Raises TypeError for a key that means nothing."""
    path = Path(__file__).with_name("contract.toml")
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return tuple(
        Sentence(**{k: tuple(v) if isinstance(v, list) else v for k, v in one.items()})
        for one in data["sentence"]
    )


def judged_by(scenario: str) -> list[Sentence]:
    """The sentences that a scenario judges."""
    return [one for one in sentences() if scenario in one.scenarios]


def watched_by(invariant: str) -> list[Sentence]:
    """The sentences that an invariant watches."""
    return [one for one in sentences() if invariant in one.watched]


def shown(these: Iterable[Sentence]) -> tuple[str, ...]:
    """A line for each, to stand below a message."""
    return tuple(f"contract {one}" for one in these)
