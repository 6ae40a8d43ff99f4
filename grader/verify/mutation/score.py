"""What was found out about mutants, kept from run to run, and what is published of it."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from grader import files
from grader.course import ROOT
from grader.verdict import Verdict
from grader.verify.mutation.edits import Edit

#: ``<target>.json``: the score of the last whole run. ``survivors.toml``: why one may live.
PUBLISHED = ROOT / "grader" / "mistakes" / "mutants"

#: Outcomes besides FAIL (killed), PASS (survived), UNKNOWN.
DOES_NOT_BUILD = "DOES NOT BUILD"


@dataclass(frozen=True)
class Outcome:
    """What came of one mutant; see :class:`grader.verify.mutation.targets.Judgement`."""

    id: str
    verdict: str
    by: str = ""
    called: str = ""
    seconds: float = 0.0
    shown: str = ""


class Ledger:
    """The outcomes of a target so far, a line of JSON each: a run that is killed loses none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, Outcome] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    outcome = Outcome(**json.loads(line))
                except (ValueError, TypeError):
                    continue  # the line in which it was killed
                self.outcomes[outcome.id] = outcome

    def add(self, outcome: Outcome) -> None:
        self.outcomes[outcome.id] = outcome
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")

    def open(self, edits: Iterable[Edit]) -> list[Edit]:
        """The mutants that have no outcome, or an UNKNOWN one."""
        known = self.outcomes
        return [
            edit
            for edit in edits
            if edit.id not in known or known[edit.id].verdict == Verdict.UNKNOWN.value
        ]

    def likeliest(self, edit: Edit, many: int = 4) -> list[str]:
        """The scenarios that killed most mutants: of this function first, then of this file."""
        places = (f"{edit.file}:{edit.function}:", f"{edit.file}:")
        found: dict[str, None] = {}
        for place in places:
            killers = Counter(
                outcome.by
                for outcome in self.outcomes.values()
                if outcome.id.startswith(place) and outcome.verdict == Verdict.FAIL.value
            )
            found.update(dict.fromkeys(name for name, _ in killers.most_common(many)))
        return [*found][:many]


@dataclass(frozen=True)
class Score:
    """``mutants`` that build; ``killed`` of them; ``excused``: survivors with a reason;
    ``open``: survivors without one, as :attr:`Edit.shown`."""

    target: str
    mutants: int
    killed: int
    excused: int
    open: list[str] = field(default_factory=list)
    by: dict[str, int] = field(default_factory=dict)


def reasons(folder: Path = PUBLISHED) -> dict[str, str]:
    """Id of a mutant to the reason why it is no fault."""
    path = folder / "survivors.toml"
    if not path.exists():
        return {}
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {one["id"]: one["reason"] for one in table.get("survivor", ())}


def score(target: str, edits: Sequence[Edit], ledger: Ledger) -> Score:
    """The score over the mutants that have an outcome."""
    excused = reasons()
    known = [ledger.outcomes[edit.id] for edit in edits if edit.id in ledger.outcomes]
    known = [outcome for outcome in known if outcome.verdict != DOES_NOT_BUILD]
    killed = [outcome for outcome in known if outcome.verdict == Verdict.FAIL.value]
    lives = [outcome for outcome in known if outcome.verdict == Verdict.PASS.value]
    return Score(
        target,
        len(killed) + len(lives),
        len(killed),
        sum(outcome.id in excused for outcome in lives),
        [f"{outcome.id}  {outcome.shown}" for outcome in lives if outcome.id not in excused],
        dict(Counter(outcome.by for outcome in killed).most_common()),
    )


def publish(result: Score, folder: Path = PUBLISHED) -> None:
    """Write the score where the site reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    files.write(folder / f"{result.target}.json", json.dumps(asdict(result), indent=1) + "\n")
