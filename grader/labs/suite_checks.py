"""The conformance suite inside a lab: its scenarios against what was handed in, as checks.

A lab runs the scenarios it needs once, in a fixture; each check then asks for
those of its theme with :func:`require`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from grader.conformance.processes import Subject
from grader.conformance.scenario import Result, judge
from grader.conformance.suite import prepare, run_all, select
from grader.conformance.trial import Trial
from grader.verdict import Fail, NotGraded, Unknown, Verdict

if TYPE_CHECKING:
    from grader.cluster.api import Api
    from grader.cluster.interface import Cluster
    from grader.labs.grading_request import Request
    from grader.runner import Runner
    from grader.runner.submission import Submission

_OUTCOMES = {Verdict.FAIL: Fail, Verdict.NOT_GRADED: NotGraded, Verdict.UNKNOWN: Unknown}


@contextmanager
def trial(
    submission: Submission, run: Runner, cluster: Cluster, api: Api, grading: Request
) -> Iterator[Trial]:
    """A trial of the operator that was handed in; a lab's fixtures are its parameters."""
    prepare(api)
    made = Trial(
        cluster,
        Subject.of(submission.program),
        grading.run_dir,
        seed=grading.seed,
        runner=run,
        patience=grading.patience,
    )
    try:
        yield made
    finally:
        made.close()


def asked_for(grading: Request, scenarios: Mapping[str, Iterable[str]]) -> list[str]:
    """The scenarios of those checks that are to be run, out of all (check id to scenarios)."""
    return [id for check, ids in scenarios.items() if grading.asks_for(check) for id in ids]


def results(trial: Trial, only: Iterable[str], first: str = "") -> dict[str, Result]:
    """Run parts or scenarios, together where they can be; results by id.

    ``first`` is run before the others. An operator that does nothing there, or
    dies, raises at once: nothing else is worth the wait.
    """
    chosen = select(only)
    found = run_all(chosen, lambda one: judge(one, trial), first, trial.processes.abandon)
    if len(found) < len(chosen):
        raise_for(found[0])
    return {result.id: result for result in found}


def require(results: Mapping[str, Result], *ids: str) -> None:
    """Raise what the first of these scenarios, in this order, ended with, other than PASS.

    What failed goes before what could not be judged.
    """
    mine = [results[id] for id in ids]
    for verdict in _OUTCOMES:
        for result in mine:
            if result.verdict is verdict:
                raise_for(result)


def raise_for(result: Result) -> None:
    """Raise the outcome of a result that is not PASS."""
    message = result.message
    if message is None:
        return
    fields: dict[str, Any] = message.to_json()
    expected, seen = fields.pop("expected"), fields.pop("seen")
    raise _OUTCOMES[result.verdict](expected, seen, **fields)
