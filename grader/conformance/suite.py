"""The conformance suite: every scenario against one operator, and the report.

>>> report = conform(cluster, Subject(("./my-operator",), cwd), run_dir)
>>> report.passed
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader import files
from grader.cluster.api import Api
from grader.conformance import contract
from grader.conformance.parts import scenarios
from grader.conformance.processes import Subject
from grader.conformance.scenario import PARTS, Result, Scenario, judge
from grader.conformance.trial import AT_ONCE, Trial
from grader.verdict import Verdict

if TYPE_CHECKING:
    from grader.cluster.interface import Cluster


#: The simplest scenario.
FIRST = "functional/create"
#: An operator that fails it like this is not tried any further.
_HOPELESS = {"never-acted", "operator-died", "program-not-started", "build-failed"}


#: Why an operator that fails :data:`FIRST` is not tried any further.
STOPPED = "They would fail for the same: nothing else can be judged before a WebApp converges."


class Ended(KeyboardInterrupt):
    """The suite was ended; ``report`` has the results so far."""

    def __init__(self, report: Report) -> None:
        super().__init__("The conformance suite was ended.")
        self.report = report


@dataclass
class Report:
    """The results of one operator.

    ``not_tried`` are scenarios that were asked for and left out, and ``why_not`` says why:
    the operator failed :data:`FIRST`, or the suite was ended. In a file that is read while
    the suite runs, they are those still to come.
    """

    command: str
    seed: int
    backend: str
    versions: dict[str, str]
    started: float
    duration: float = 0.0
    results: list[Result] = field(default_factory=list)
    not_tried: list[str] = field(default_factory=list)
    why_not: str = ""

    @property
    def verdict(self) -> Verdict:
        """FAIL if anything failed; else UNKNOWN if anything could not be judged, or was not."""
        seen = {result.verdict for result in self.results}
        if self.not_tried:
            seen.add(Verdict.UNKNOWN)
        for worst in (Verdict.FAIL, Verdict.UNKNOWN, Verdict.NOT_GRADED):
            if worst in seen:
                return worst
        return Verdict.PASS if self.results else Verdict.UNKNOWN

    @property
    def passed(self) -> bool:
        return self.verdict is Verdict.PASS

    def causes(self) -> list[tuple[Result, list[Result]]]:
        """What failed or was not judged, each cause once: its first result, and the others.

        Two results have one cause where they have one diagnosis and one verdict; a result
        without a diagnosis stands alone.
        """
        found: dict[object, tuple[Result, list[Result]]] = {}
        for result in self.results:
            if result.message is None:
                continue
            cause = result.message.diagnosis or result.id
            first, others = found.setdefault((result.verdict, cause), (result, []))
            if first is not result:
                others.append(result)
        return list(found.values())

    def of_part(self, part: str) -> list[Result]:
        return [result for result in self.results if result.id.startswith(part + "/")]

    def seconds_of(self, part: str) -> float:
        """How long any scenario of a part ran; scenarios that ran together count once."""
        total = until = 0.0
        for result in sorted(self.of_part(part), key=lambda r: r.started):
            ended = result.started + result.duration
            total += max(0.0, ended - max(until, result.started))
            until = max(until, ended)
        return total

    def to_json(self) -> dict[str, Any]:
        parts = {part: round(self.seconds_of(part), 2) for part in PARTS if self.of_part(part)}
        return {
            "command": self.command,
            "seed": self.seed,
            "backend": self.backend,
            "versions": self.versions,
            "started": self.started,
            "duration": round(self.duration, 2),
            "verdict": self.verdict.value,
            "seconds of parts": parts,
            "results": [result.to_json() for result in self.results],
            "not tried": self.not_tried,
            "why not": self.why_not,
        }

    def save(self, path: Path) -> None:
        files.write(path, json.dumps(self.to_json(), indent=1) + "\n")


def conform(
    cluster: Cluster,
    subject: Subject,
    run_dir: Path,
    *,
    only: Iterable[str] = (),
    seed: int = 0,
    walks: int | None = None,
    beside: Callable[[], Cluster] | None = None,
    on_result: Callable[[Result], None] = lambda result: None,
    on_start: Callable[[Scenario], None] = lambda one: None,
) -> Report:
    """Run the suite; ``only`` names parts or scenarios (all of them when empty).

    ``walks``: so many random walks, in place of as many as there is time for.
    ``beside`` gives a second cluster, on which scenarios that are alone run while the
    others run on the first: most of either's time is waiting.
    ``on_result`` is called with each result as it is known, from any thread.
    The report is in ``run_dir`` from the first result on, and grows with each.
    Raises :class:`Ended`, with the report so far, where Ctrl-C ends it;
    :class:`grader.cluster.errors.EnvironmentProblem` where there is no
    cluster to run on; an operator's faults are results, never exceptions.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    prepare(Api(cluster))
    report = Report(subject.shown, seed, cluster.backend, dict(cluster.versions), time.time())
    began = time.monotonic()
    chosen = select(only)
    trial = Trial(cluster, subject, run_dir, seed=seed, walks=walks)
    lanes = _Lanes(trial, beside if any(not one.alone for one in chosen) else None)
    growing = threading.Lock()

    def grow(results: Iterable[Result], why_not: str) -> None:
        found = {result.id: result for result in results}
        report.results = [found[one.id] for one in chosen if one.id in found]
        report.not_tried = [one.id for one in chosen if one.id not in found]
        report.why_not = why_not if report.not_tried else ""
        report.duration = time.monotonic() - began
        report.save(run_dir / "conformance.json")

    def run(one: Scenario) -> Result:
        on_start(one)
        result = judge(one, lanes.of(one))
        # What fails because the suite is ended is no result.
        if not trial.processes.abandoned:
            with growing:
                grow([*report.results, result], "The suite has not ended yet.")
            on_result(result)
        return result

    try:
        found = run_all(chosen, run, FIRST, lanes.abandon, stuck=True, at_once=beside is not None)
        grow(found, STOPPED)
    except KeyboardInterrupt:
        grow(report.results, "The suite was ended.")
        raise Ended(report) from None
    finally:
        lanes.close()
    return report


class _Lanes:
    """The trial of scenarios that share an operator, and that of those that are alone.

    They are one without a second cluster. The second is started when it is first needed.
    """

    def __init__(self, trial: Trial, beside: Callable[[], Cluster] | None) -> None:
        self._first, self._beside = trial, beside
        self._second: Trial | None = None
        self._abandoned = False

    def of(self, one: Scenario) -> Trial:
        if not one.alone or self._beside is None:
            return self._first
        if self._second is None:
            cluster = self._beside()
            prepare(Api(cluster))
            first = self._first
            folder = first.run_dir / "alone"
            folder.mkdir(exist_ok=True)
            self._second = Trial(
                cluster, first.processes.subject, folder, seed=first.seed, walks=first.walks
            )
            if self._abandoned:
                # The suite was ended while this cluster was started.
                self._second.processes.abandon()
        return self._second

    def _both(self) -> list[Trial]:
        return [self._first, *([self._second] if self._second else [])]

    def abandon(self) -> None:
        self._abandoned = True
        for trial in self._both():
            trial.processes.abandon()

    def close(self) -> None:
        for trial in self._both():
            trial.close()


def run_all(
    chosen: Sequence[Scenario],
    run: Callable[[Scenario], Result],
    first: str = "",
    stop: Callable[[], None] = lambda: None,
    *,
    stuck: bool = False,
    at_once: bool = False,
) -> list[Result]:
    """Run scenarios, concurrently where possible; the results are in the order of ``chosen``.

    Part by part those that share a process; then those that share a resyncing
    one, the scenarios of a part one after the other; then the rest, or with
    ``at_once`` the rest meanwhile. ``first``,
    where it is chosen, goes before them all: for an operator that does nothing
    there or dies, with ``stuck`` also where its WebApp does not converge, it is the only
    result. ``stop`` is called on Ctrl-C, to end the scenarios that run.
    """
    found: dict[str, Result] = {}
    ended = threading.Event()

    def in_turn(these: Iterable[Scenario]) -> None:
        for one in these:
            if ended.is_set():
                return
            found[one.id] = run(one)

    in_turn(s for s in chosen if s.id == first)
    if any(_is_hopeless(result, stuck) for result in found.values()):
        return list(found.values())
    rest = [s for s in chosen if s.id not in found]
    sharing = [s for s in rest if not s.alone and not s.resyncing]
    resyncing = [s for s in rest if s.resyncing]
    alone = [s for s in rest if s.alone]
    with ThreadPoolExecutor(AT_ONCE) as pool, ThreadPoolExecutor(1) as lane:
        try:
            meanwhile = lane.submit(in_turn, alone) if at_once else None
            for part in PARTS:
                list(pool.map(in_turn, ([s] for s in sharing if s.part == part)))
            list(pool.map(in_turn, ([s for s in resyncing if s.part == part] for part in PARTS)))
            if meanwhile is None:
                in_turn(alone)
            else:
                meanwhile.result()
        except BaseException:
            ended.set()
            for each in (pool, lane):
                each.shutdown(wait=False, cancel_futures=True)
            stop()
            raise
    return [found[one.id] for one in chosen]


def _is_hopeless(result: Result, stuck: bool) -> bool:
    """Whether everything else would fail for the same."""
    diagnosis = result.message and result.message.diagnosis
    return (stuck and result.stuck) or diagnosis in _HOPELESS


def select(only: Iterable[str] = ()) -> list[Scenario]:
    """The scenarios that parts or ids name. Raises ValueError for a name that is neither."""
    names = list(only)
    known = scenarios()
    if not names:
        return known
    for name in names:
        if name not in PARTS and all(s.id != name for s in known):
            raise ValueError(
                f"{name} is neither a part nor a scenario of the conformance suite. The parts are: "
                f"{', '.join(PARTS)}."
            )
    return [s for s in known if s.part in names or s.id in names]


def prepare(api: Api) -> None:
    """The namespaces that the contract promises to an operator."""
    for name in (contract.DNS_NAMESPACE, contract.LEASE_NAMESPACE):
        if api.find("namespaces", name) is None:
            api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
