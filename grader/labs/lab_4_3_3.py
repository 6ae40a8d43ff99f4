"""4.3.3 The gate: four assertions a fake client would pass and a real API server fails you on.

Each of the four programs is run against the fake server and against the real one,
with a right operator at work and with each planted wrong one that it is for. It has to
be red for those on the real server, and green everywhere else. `schema` is for two: the
server refuses what the schema does not have, and fills in what was left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grader import mistakes
from grader.conformance import contract, measure
from grader.conformance.suite import prepare
from grader.labs import check
from grader.labs.fake import server as fake_server
from grader.runner import Runner, RunningProgram
from grader.runner.program import Program
from grader.verdict import Fail

#: Check, and planted wrong operator of the same name → the learner's program that is for it.
PROGRAMS = {
    "stale": "stale",
    "status": "status",
    "schema": "schema",
    "defaults": "schema",
    "visible": "visible",
}
GREEN, RED = 0, 1
#: One check runs its own program, and no others.
CHECKS_STAND_ALONE = True
#: Seconds for one program. A red one may wait for what never comes.
PATIENCE = 40.0
#: For the real server: what others did is heard of a little later. A fake has no later.
LATER = "delay 1s watch pods"


@dataclass
class Outcome:
    """One run of one program: green, red, or neither (it is broken)."""

    code: int
    tail: list[str]

    @property
    def word(self) -> str:
        return {GREEN: "green", RED: "red"}.get(self.code, f"broken (exit code {self.code})")


class Stage:
    """A server with room for one operator and one program at a time."""

    def __init__(self, runner: Runner, kind: str, folder: Path, submission: Any) -> None:
        self.runner, self.kind, self.folder, self.submission = runner, kind, folder, submission
        self.built: dict[str, Program] = {}

    def play(self, operator: str, names: Sequence[str], namespaces: Any) -> dict[str, Outcome]:
        """Run the programs, at the same time, while an operator works.

        It is the ``right`` one, or a planted one's name.
        """
        planted = {one.name: one for one in mistakes.load("planted")}
        source = self.folder / f"{self.kind}-{operator}"
        source.mkdir(parents=True)
        subject = measure.operator("python", source, planted.get(operator))
        running = self.runner(
            subject.argv,
            f"{self.kind}-{operator}",
            cwd=subject.cwd,
            env=subject.env,
            rules=[LATER] if self.kind == "real" else [],
            args=("--workers", "1"),
        )
        running.until(lambda: self._watches(running), 60.0, "watches WebApps")
        started = {name: self._start(name, namespaces()) for name in names}
        found = {name: self._outcome(program) for name, program in started.items()}
        running.kill()
        return found

    @staticmethod
    def _watches(running: Any) -> bool:
        return bool(running.timeline.exchanges(resource="webapps", status=200))

    def _start(self, name: str, namespace: str) -> RunningProgram:
        program = self.built.get(name) or self.submission.program_named(name)
        # Built once: what was built stays where it is.
        self.built[name] = replace(program, build=())
        return self.runner(program, f"{self.kind}-{name}", env={"NAMESPACE": namespace})

    @staticmethod
    def _outcome(running: RunningProgram) -> Outcome:
        ended = running.wait_exit(PATIENCE, "ends with 0 for green or 1 for red")
        code = ended.code if ended.code is not None else 255
        return Outcome(code, [*running.stdout_lines[-3:], *running.stderr_tail(5)])


@pytest.fixture(scope="module")
def outcomes(submission, cluster, api, run, new_namespace, grading, observe, phase4):
    """(check, server, operator) → outcome; operator is ``right`` or ``wrong``."""
    asked = [name for name in PROGRAMS if grading.asks_for(f"4.3.3/{name}")]
    programs = list(dict.fromkeys(PROGRAMS[name] for name in asked))
    for program in programs:
        submission.program_named(program)
    prepare(api)
    folder = grading.run_dir / "stages"
    folder.mkdir()
    kubeconfig = folder / "fake.kubeconfig"
    server = fake_server.start(kubeconfig)
    obliging = SimpleNamespace(
        name="fake", backend="fake", kubeconfig=kubeconfig, versions={}, capabilities=frozenset()
    )
    numbers = itertools.count()

    def on(stage: Stage) -> dict[tuple[str, str, str], Outcome]:
        """All that one server is needed for. The two have nothing to do with each other."""
        spaces = new_namespace if stage.kind == "real" else lambda: f"fake-{next(numbers)}"
        played = stage.play("right", programs, spaces)
        found = {(name, stage.kind, "right"): played[PROGRAMS[name]] for name in asked}
        for name in asked:
            program = PROGRAMS[name]
            # Without that it is judged already, and a wrong operator has nothing to add.
            if played[program].code == GREEN:
                found[name, stage.kind, "wrong"] = stage.play(name, [program], spaces)[program]
        return found

    try:
        with (
            # Every wait has a limit of its own.
            phase4.untimed("four assertions, two servers, right and wrong operators"),
            Runner(
                obliging,  # type: ignore[arg-type]
                folder / "fake",
                seed=grading.seed,
                isolation=grading.isolation,
            ) as beside,
        ):
            stages = [
                Stage(beside, "fake", folder, submission),
                Stage(run, "real", folder, submission),
            ]
            with ThreadPoolExecutor() as pool:
                fake, real = pool.map(on, stages)
            found = fake | real
    finally:
        server.shutdown()
    observe(
        "green and red",
        {f"{n}: {s} server, {o} operator": one.word for (n, s, o), one in found.items()},
    )
    return found


def _require(outcomes: dict, name: str, what: str, hint: str) -> None:
    def fail(seen: str, diagnosis: str, one: Outcome, *, why: str = "", next: str = "") -> Fail:
        return Fail(
            f"`{PROGRAMS[name]}` is red for {what} on the real server, and green with a right "
            "operator and on the fake.",
            seen,
            why=why,
            next=next or hint,
            diagnosis=diagnosis,
            evidence=one.tail,
        )

    mine = {(server, operator): one for (n, server, operator), one in outcomes.items() if n == name}
    for (server, operator), one in mine.items():
        if one.code not in (GREEN, RED):
            raise fail(
                f"With the {operator} operator on the {server} server it is {one.word}.",
                "assertion-broken",
                one,
                next="0 is green, 1 is red; anything else is a fault of the program.",
            )
    for (server, operator), one in mine.items():
        if server == "fake" and one.code == RED:
            raise fail(
                f"It is red for the {operator} operator on the fake server.",
                "red-against-the-fake",
                one,
                why="The point of the lab is what a fake cannot show: this one shows it."
                if operator == "wrong"
                else "A test that is red for a right operator is switched off within a week.",
            )
    one = mine["real", "right"]
    if one.code == RED:
        raise fail(
            "It is red for the right operator on the real server.",
            "red-for-the-right",
            one,
            why="A test that is red for a right operator is switched off within a week.",
        )
    one = mine["real", "wrong"]
    if one.code == GREEN:
        raise fail(
            f"It is green for {what} on the real server.",
            "blind",
            one,
            why="It would have missed the fault, as the fake did.",
        )


@check(
    "4.3.3/stale",
    title="Red for the operator that writes with a stale version and treats a 409 as success",
    points=3,
    evidence="live",
)
def check_stale(outcomes):
    _require(
        outcomes,
        "stale",
        "the operator that writes every status with the version it saw first",
        "Its first status gets through. Make it write a second one, and look at that.",
    )


@check(
    "4.3.3/status",
    title="Red for the operator that writes the status through the main resource",
    points=3,
    evidence="live",
)
def check_status(outcomes):
    _require(
        outcomes,
        "status",
        "the operator that writes the status through the main resource",
        "The server answers 200 and drops it. Read the status, not the answer.",
    )


@check(
    "4.3.3/schema",
    title="Red for the operator whose status the schema refuses",
    points=3,
    evidence="live",
)
def check_schema(outcomes):
    _require(
        outcomes,
        "schema",
        "the operator whose condition has a status that the schema does not allow",
        f"Is there a condition of type Ready at all? On the fake there is. {contract.KIND}s have a "
        "schema on the real server alone.",
    )


@check(
    "4.3.3/defaults",
    title="Red for the operator that takes what the server filled in for a difference",
    points=2,
    evidence="live",
)
def check_defaults(outcomes):
    _require(
        outcomes,
        "defaults",
        "the operator that compares a Pod with what it sent, and replaces it",
        "A real server fills in some twenty fields of a Pod. To this operator no Pod is ever the "
        "one it wants. What does its status say then, and for how long? `schema` is for this too.",
    )


@check(
    "4.3.3/visible",
    title="Red for the operator that creates again what its cache does not have yet",
    points=3,
    evidence="live",
)
def check_visible(outcomes):
    _require(
        outcomes,
        "visible",
        "the operator that creates again what its cache does not have yet",
        "The Pods that were too many are deleted soon. Count every Pod there ever was: watch from "
        "the beginning, and remember UIDs.",
    )
