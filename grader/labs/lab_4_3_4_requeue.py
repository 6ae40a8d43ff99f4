"""Which line of an operator puts the key of a failed reconcile back: the one without which it is lost.

The operator runs as it is, and without the statement that is cited. Each time every write
for a new WebApp is refused, until the operator has tried, and then no more. Nothing else
happens to that WebApp, so that only a key that was put back can bring the work about. That
it is the key of a *failed* reconcile, and that nothing else is missing, is seen as well:
without the statement the operator still tries, tries no other writes than before, and does
the work once the WebApp is touched.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from grader.conformance import contract
from grader.conformance.bench import Bench
from grader.labs import suite_checks
from grader.labs.taken_out import TakenOut
from grader.runner.submission import Submission
from grader.verdict import Fail, Unknown

if TYPE_CHECKING:
    from grader.cluster.api import Api
    from grader.cluster.interface import Cluster
    from grader.labs.grading_request import Request
    from grader.runner import Runner, RunningProgram

#: What a write is refused with: some operators put a key back at one place for each.
REFUSALS = (500, 409)
#: Seconds until a first attempt, and until the same is tried again after a pause.
ATTEMPT, AGAIN = 15.0, 15.0
#: Seconds without an attempt after which there will be none, at least.
SILENCE = 2.5
#: What a workspace may hold beside what is built and run.
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "reports", "runs")

Write = tuple[str, str]


@dataclass
class Attempt:
    """What an operator did for one WebApp whose writes were refused with ``code``.

    ``writes`` are (verb, resource), as they were sent while they were refused. ``gap`` is the
    longest time in s between the first attempt and the next, 0 where there was none.
    """

    code: int
    writes: set[Write] = field(default_factory=set)
    gap: float = 0.0
    converged: bool = False
    after_touch: bool = False


class Comparison:
    """The operator that was handed in, as it is, and without one of its statements."""

    def __init__(
        self, submission: Submission, run: Runner, cluster: Cluster, api: Api, grading: Request
    ) -> None:
        self._submission = submission
        self._parts = run, cluster, api, grading
        self._grading = grading
        self._control: dict[int, Attempt] | None = None
        self._copies = 0

    def why_not(self, path: str, without: TakenOut) -> tuple[str, str]:
        """(diagnosis, what was seen) where the statement is not the one; both empty where it is.

        Raises :class:`Unknown` where the operator as it is does not retry, or where nothing
        without the statement can be built.
        """
        control = self._as_it_is()
        seen = self._run(path, without.texts, control)
        faults = [self._fault(control[code], attempt) for code, attempt in seen.items()]
        if "" not in (diagnosis for diagnosis, _ in faults):
            return faults[0]
        if without.effect_kept:
            # Carried out, and no more: what puts a key back does so all the same.
            kept = self._run(path, without.effect_kept, control)
            if any(self._is_lost(control[code], attempt) for code, attempt in kept.items()):
                return (
                    "only-reports-the-failure",
                    "What counts is what it gives or raises: carried out with that dropped, it "
                    "puts no key back",
                )
        return "", ""

    def _as_it_is(self) -> dict[int, Attempt]:
        if self._control is None:
            self._control = self._tried(self._submission, {})
            for attempt in self._control.values():
                if not attempt.converged:
                    raise Unknown(
                        "The operator, as it is, does work after a failure.",
                        f"With every write for a new WebApp refused ({attempt.code}) and then no "
                        "more, it did not."
                        if attempt.writes
                        else "It tried no write for a new WebApp.",
                        why="Only an operator that retries shows which line does it.",
                        next="4.3.2 and its faults say what is missing.",
                    )
        return self._control

    def _is_lost(self, control: Attempt, seen: Attempt) -> bool:
        return not self._fault(control, seen)[0]

    def _fault(self, control: Attempt, seen: Attempt) -> tuple[str, str]:
        """(diagnosis, sentence): why this attempt does not show the statement to be the one."""
        if not seen.writes:
            return (
                "not-the-requeue-line",
                "Without it the operator does not even try: no key gets to a worker, or nothing "
                "is done with it",
            )
        if more := sorted(seen.writes - control.writes):
            verb, resource = more[0]
            return (
                "not-the-requeue-line",
                f"Without it a failure is not noticed: the operator goes on to {verb} {resource}",
            )
        if seen.converged:
            return (
                "not-the-requeue-line",
                "Without it the work is done all the same after a failure",
            )
        if not seen.after_touch:
            return (
                "not-the-requeue-line",
                "Without it the WebApp is never worked on again, not even after a change: it "
                "does more than put a key back",
            )
        return "", ""

    def _run(
        self, path: str, texts: tuple[str, ...], control: dict[int, Attempt]
    ) -> dict[int, Attempt]:
        for text in texts:
            changed = self._changed(path, text)
            try:
                return self._tried(changed, control)
            except Fail as outcome:
                if outcome.message.diagnosis != "build-failed":
                    raise
        raise Unknown(
            "The operator can be built without the line, so that what it is for is seen.",
            f"Without it {path} does not build.",
            next="Cite the call that gives the key to the queue, on a line of its own.",
        )

    def _changed(self, path: str, text: str) -> Submission:
        self._copies += 1
        base = self._grading.run_dir / f"without-{self._copies}"
        root = base / "workspace"
        shutil.copytree(self._submission.root, root, symlinks=True, ignore=_LEFT_OUT)
        target = root / path
        if not target.parent.resolve().is_relative_to(root.resolve()):
            raise Unknown(
                "A copy of the operator is changed, and nothing else.",
                f"{path} is behind a link that leads out of the copy.",
                next="Replace the link with the folder itself.",
            )
        target.unlink()
        target.write_text(text, encoding="utf-8")
        given = self._submission
        return Submission(
            root / given.path.name, given.lab, given.track, out=_folder(base / "build")
        )

    def _tried(self, submission: Submission, control: dict[int, Attempt]) -> dict[int, Attempt]:
        """One process, and a WebApp for each kind of refusal; ``control`` is what it is held to."""
        run, cluster, api, grading = self._parts
        found: dict[int, Attempt] = {}
        with (
            suite_checks.trial(submission, run, cluster, api, grading) as trial,
            Bench(trial, "requeue", alone=True) as bench,
        ):
            # What looks at every WebApp now and then would do the work as well.
            program = bench.start("--resync", "10m")
            for code in REFUSALS:
                found[code] = _attempt(bench, program, code, control.get(code))
                if control and self._is_lost(control[code], found[code]):
                    # Lost once is enough.
                    return found
        return found


def _attempt(bench: Bench, program: RunningProgram, code: int, control: Attempt | None) -> Attempt:
    attempt = Attempt(code)
    namespace = bench.namespace()
    began = time.time()
    rule = program.wire.rules.add(
        f"answer {code} write ns={namespace} except=events,leases times=always"
    )
    app = bench.create(namespace, replicas=1)
    record = contract.record_name(app)

    def writes() -> list[tuple[float, Write]]:
        return [
            (e.t_request, (e.verb, e.target))
            for e in bench.writes(began)
            if e.namespace == namespace or e.name == record
        ]

    def seen(count: int) -> Callable[[], bool]:
        return lambda: len(writes()) >= count

    patience = bench.patience
    bench.ended_within(program, ATTEMPT * patience, unless=seen(1))
    if control is None:
        # As it is: the pause before the second attempt is what the others are waited for by.
        bench.ended_within(program, AGAIN * patience, unless=seen(2))
    else:
        _until_silent(bench, program, writes, max(SILENCE, 2 * control.gap))
    tried = writes()
    attempt.writes = {write for _, write in tried}
    attempt.gap = tried[1][0] - tried[0][0] if len(tried) > 1 else 0.0
    rule.remove()
    if not tried:
        return attempt
    limit = max(6.0, 4 * (control or attempt).gap)

    def converged() -> bool:
        return contract.has_converged(bench.world(app), app["metadata"]["generation"])

    attempt.converged = bench.history.until(namespace, converged, limit * patience)
    if not attempt.converged:
        bench.patch(
            contract.WEBAPPS,
            app["metadata"]["name"],
            {"metadata": {"annotations": {"touched": "1"}}},
            namespace,
        )
        attempt.after_touch = bench.history.until(namespace, converged, ATTEMPT * patience)
    return attempt


def _until_silent(
    bench: Bench,
    program: RunningProgram,
    writes: Callable[[], list[tuple[float, Write]]],
    silence: float,
) -> None:
    """Until no attempt came for ``silence`` s, or so many that it goes on trying."""
    enough = 4
    count = len(writes())
    while 0 < count < enough:
        more = _More(writes, count)
        if bench.ended_within(program, silence, unless=more) or not more():
            return
        count = len(writes())


@dataclass(frozen=True)
class _More:
    """Whether there are more writes than that."""

    writes: Callable[[], list[tuple[float, Write]]]
    count: int

    def __call__(self) -> bool:
        return len(self.writes()) > self.count


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path
