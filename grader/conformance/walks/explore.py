"""Many walks within a budget, and the failure that came of them: shrunk, shown, repeatable."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grader.conformance.walks.generate import draw
from grader.conformance.walks.script import failure, script
from grader.conformance.walks.shrink import shrink
from grader.conformance.walks.traffic import Traffic
from grader.conformance.walks.tries import LIMIT, Abandoned, Finding, Try

if TYPE_CHECKING:
    from grader.conformance.bench import Bench
    from grader.conformance.walks.walk import Walk
    from grader.runner import RunningProgram

#: Walks that run beside each other on one process.
ABREAST = 6
#: Seconds after which no shorter walk is tried any more.
SHRINKING = 15.0
#: Seconds that the shortest one is given, once the first has been given all of them.
ONCE_MORE = 6.0


@dataclass
class Budget:
    """``seconds`` in which bursts begin, or ``walks``: so many, however long they take."""

    seconds: float
    walks: int | None = None

    def over(self, began: float, begun: int) -> bool:
        if self.walks is not None:
            return begun >= self.walks
        return time.monotonic() - began > self.seconds


class Expedition:
    """Walks against one operator. The scenario must be alone: the process is its own.

    ``alone``: one walk at a time, with what concerns the whole process: kills, and faults of
    watches. Else several beside each other.
    """

    def __init__(self, bench: Bench, budget: Budget, *, alone: bool) -> None:
        self.bench, self.budget, self.alone = bench, budget, alone
        self._done: Counter[str] = Counter()
        self._program: RunningProgram | None = None
        self._traffic = Traffic(lambda: self.bench.exchanges())
        self._began = time.monotonic()
        self._lock = threading.RLock()
        self._seeds = itertools.count(bench.seed)
        #: Set while one walk is looked at closely: the others end.
        self._called_off = threading.Event()
        #: The walk that is looked at, once there is one: its seed, and what it showed so far.
        self._suspect: tuple[int, Finding] | None = None
        #: Which of the lanes has it.
        self._lane_of_it = 0
        #: The walks that are under way, by their seeds.
        self._under_way: dict[int, Try] = {}
        #: Those that were under way when the operator ended by itself.
        self._witnesses: list[tuple[int, Try]] = []

    def go(self) -> None:
        """Walk until the budget is used up. Raises Fail for a walk that failed."""
        self.bench.stop_shared()
        while not self._over():
            self._called_off.clear()
            self._suspect = None
            self._process()
            found = self._some()
            self.bench.measured |= dict(self._done) | {"first seed": self.bench.seed}
            if found is not None:
                raise failure(**found, alone=self.alone, command=self.bench.trial.command)

    def _over(self) -> bool:
        return self.budget.over(self._began, self._done["walks"])

    def _process(self) -> RunningProgram:
        """The operator, running: started again where it has ended."""
        with self._lock:
            if self._program is None:
                # Enough of them: a fault that keeps one waiting keeps no other walk waiting.
                workers = () if self.alone else ("--workers", str(ABREAST + 2))
                self._program = self.bench.start(*workers)
            elif self._program.exited is not None:
                self.bench.start_again(self._program)
            return self._program

    # -- walks ------------------------------------------------------------------------

    def _some(self) -> dict | None:
        """Walk until the budget is used up or one fails; what :func:`failure` needs of that."""
        abreast = 1 if self.alone else ABREAST
        with ThreadPoolExecutor(abreast) as pool:
            lanes = [pool.submit(self._lane, place) for place in range(abreast)]
            waiting = set(lanes)
            while waiting:
                done, waiting = wait(waiting, 0.2, FIRST_COMPLETED)
                for lane in done:
                    lane.result()
                if self._suspect is not None and waiting == {lanes[self._lane_of_it]}:
                    break
            # The suspect goes on waiting for the operator; meanwhile shorter ones are tried.
            return self._looked_at(waiting.pop() if waiting else None, lanes)

    def _lane(self, place: int) -> tuple[int, Finding] | None:
        """One walk after the other; returns the one that failed."""
        while not self._called_off.is_set():
            with self._lock:
                if self._over():
                    return None
                number = next(self._seeds)
                self._done["walks"] += 1
            try:
                if (finding := self._walk(number, place)) is not None:
                    return number, finding
            except Abandoned:
                return None
            except BaseException:
                # A fault of ours or the cluster's: nobody goes on.
                self._called_off.set()
                raise
        return None

    def _walk(self, number: int, place: int) -> Finding | None:
        mine = threading.Event()

        def suspected(finding: Finding) -> None:
            with self._lock:
                if self._suspect is None:
                    self._suspect, self._lane_of_it = (number, finding), place
                    self._witnesses = list(self._under_way.items()) if finding.died else []
                    mine.set()
                    self._called_off.set()

        attempt = Try(
            self.bench,
            self._process(),
            self._traffic,
            draw(number, alone=self.alone),
            called_off=lambda: self._called_off.is_set() and not mine.is_set(),
            suspected=suspected,
            until=None if self.budget.walks else self._began + self.budget.seconds,
        )
        with self._lock:
            self._under_way[number] = attempt
        try:
            finding = attempt.run()
        finally:
            with self._lock:
                self._under_way.pop(number)
                self._done.update(bursts=attempt.bursts, operations=attempt.operations)
        if finding is not None:
            suspected(finding)
            if not mine.is_set():
                raise Abandoned  # Another one was first, and is looked at.
        return finding

    # -- a failure --------------------------------------------------------------------

    def _looked_at(self, running: Future | None, lanes: Sequence[Future]) -> dict | None:
        if self._suspect is None:
            return None
        number, seen = self._suspect
        shortest, tries = seen.walk, 0
        together = not (self.alone or seen.died)
        if running is not None and together:
            # It may still come to rest: then the operator was slow, and nothing has failed.
            shortest, tries = self._shortest(seen, lambda: running.done() and not running.result())
        results = [lane.result() for lane in lanes]
        first = next((result for result in results if result is not None), None)
        if first is None:
            self._done["slow"] += 1
            return None
        number, finding = first
        if not together or running is None:
            self._clear()
            if finding.died:
                number, finding = self._killed_by(number, finding)
            shortest, tries = self._shortest(finding, lambda: False)
        again = self._try_one(shortest, ONCE_MORE)
        if again is None and shortest != finding.walk:
            # Given its time a shorter one passes: what was seen at first is what counts.
            again = self._try_one(finding.walk, LIMIT)
        self.bench.measured |= {"seed": number, "shorter walks tried": tries}
        shown = again or finding
        path = self.bench.trial.run_dir / "walk.sh"
        path.write_text("\n".join(script(shown.lines)) + "\n", encoding="utf-8")
        return {
            "finding": shown,
            "seed": number,
            "came_again": again is not None,
            "file": str(path),
        }

    def _shortest(self, finding: Finding, is_over: object) -> tuple[Walk, int]:
        """The shortest walk with such a finding, and how many were tried."""
        abreast = 1 if self.alone or finding.died else ABREAST
        tries = 0

        def try_all(walks: list[Walk]) -> list[Walk | None]:
            nonlocal tries
            if is_over():  # type: ignore[operator]
                return [None] * len(walks)
            tries += len(walks)
            with ThreadPoolExecutor(len(walks)) as pool:
                findings = list(pool.map(lambda walk: self._try_one(walk, 0.0), walks))
            return [f.walk if f is not None and _alike(f, finding) else None for f in findings]

        return shrink(finding.walk, try_all, abreast=abreast, seconds=SHRINKING), tries

    def _try_one(self, walk: Walk, patience: float) -> Finding | None:
        attempt = Try(self.bench, self._process(), self._traffic, walk, patience=patience)
        found = attempt.run()
        if found is not None and (self.alone or found.died):
            self._clear()
        return found

    def _killed_by(self, number: int, finding: Finding) -> tuple[int, Finding]:
        """Of walks beside each other, the one that the operator dies of, and what it then shows."""
        last = self._traffic.busiest()

        def spoken_of(witness: tuple[int, Try]) -> int:
            about = witness[1].about()
            return min((last.index(key) for key in about if key in last), default=len(last))

        for other, witness in sorted(self._witnesses, key=spoken_of):
            walk = witness.walk.up_to(witness.bursts)
            again = self._try_one(walk, LIMIT)
            if again is not None and again.died:
                return other, again
        return number, finding

    def _clear(self) -> None:
        """End the operator, and take away what it would meet again when it is started."""
        if self._program is not None:
            self._program.kill()
        self.bench.trial.clear()


def _alike(one: Finding, other: Finding) -> bool:
    """Whether two findings are of one kind: a death, a loss for ever, or neither."""
    return (one.died, one.final) == (other.died, other.final)
