"""Random walks: what is done to WebApps at random, and what must have come of it at rest."""

from __future__ import annotations

from grader.conformance.bench import Bench
from grader.conformance.scenario import scenario
from grader.conformance.walks.explore import Budget, Expedition

#: Seconds in which bursts begin.
TOGETHER = 12.0
ALONE = 8.0
#: Of so many walks that are asked for, one has the process alone.
ONE_IN = 10


@scenario(
    "walks/together",
    "Whatever is done to WebApps side by side, it comes to rest as the contract has it",
    alone=True,
)
def together(bench: Bench) -> None:
    Expedition(bench, Budget(TOGETHER, bench.trial.walks), alone=False).go()


@scenario(
    "walks/alone",
    "So it does when it is killed, or its watches are late, cut and refused",
    alone=True,
)
def alone(bench: Bench) -> None:
    walks = bench.trial.walks
    count = walks and -(-walks // ONE_IN)
    Expedition(bench, Budget(ALONE, count), alone=True).go()
