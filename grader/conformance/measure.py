"""How well the conformance suite tells right operators from wrong ones.

The wrong ones are small named changes to the course's own operators
(``grader/mistakes/conform/``): ``fails = "conform/<scenario>"`` names the
scenario that must see it, ``diagnosis`` what it must be called.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grader import cut, mistakes
from grader.conformance.processes import Subject
from grader.conformance.suite import Report, conform
from grader.course import ROOT
from grader.runner.build import build
from grader.runner.submission import Submission
from grader.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grader.cluster.interface import Cluster
    from grader.mistakes import Mistake

LAB = "conform"
#: Its answers are the operators themselves.
LAB_OF_OPERATORS = "4.3.2"


@dataclass(frozen=True)
class Row:
    """One wrong operator: what its scenario said, and whether that was right."""

    mistake: str
    scenario: str
    wanted: str
    verdict: Verdict
    diagnosis: str
    seen: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.verdict is Verdict.FAIL and is_called(self.diagnosis, self.wanted)


def is_called(diagnosis: str, wanted: str) -> bool:
    """Whether a fault is called by that name: alone, or as one of two that are possible."""
    return wanted in diagnosis.split(" or ")


def operator(
    track: str, folder: Path, mistake: Mistake | None = None, variant: str = ""
) -> Subject:
    """The course's operator of a track, with a mistake in it where one is given.

    Laid out in ``folder``, which must be empty, as lab 4.3.2 has it handed in
    (``variant``: another right answer of that lab); the Go one is built there.
    Raises Fail where it does not build, MistakeError where the mistake no longer fits.
    """
    source = laid_out(track, folder, variant)
    if mistake is not None:
        mistake.apply(source / LAB_OF_OPERATORS)
    return built(source, track, folder)


def built(workspace: Path, track: str, folder: Path) -> Subject:
    """The operator in a workspace, built in ``folder``. Raises Fail where it does not build."""
    submission = Submission(workspace / LAB_OF_OPERATORS, LAB_OF_OPERATORS, track, folder / "built")
    program = submission.program
    build(program, folder / "build.log")
    return Subject(tuple(program.argv("{kubeconfig}")), workspace, program.environment())


def laid_out(track: str, folder: Path, variant: str = "") -> Path:
    """A workspace with the operator, without the marks of what the exercises leave out."""
    return cut.handed_in(LAB_OF_OPERATORS, track, folder, variant=variant).parent


@dataclass(frozen=True)
class Right:
    """A right operator: a reference answer, another way of writing it, or one from outside.

    ``variant`` names files laid over the answer (``solutions/4.3.2/variants``).
    ``outside`` is a folder of its own, with a ``program.toml``.
    """

    name: str
    track: str = ""
    variant: str = ""
    flags: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    outside: Path | None = None


#: Right in ways as different as can be.
RIGHT = (
    Right("go", "go"),
    Right("python", "python"),
    Right("go-one-worker", "go", flags=("--workers", "1")),
    Right("python-eight-workers", "python", flags=("--workers", "8")),
    Right("go-without-watch-list", "go", env=(("KUBE_FEATURE_WatchListClient", "false"),)),
    Right("python-expectations", "python", "python-expectations"),
    Right("go-server-side-apply", "go", "go-server-side-apply"),
    Right("relist-loop", outside=ROOT / "tests" / "conformance" / "operators" / "relist_loop"),
)


def right_operators(names: Sequence[str] = ()) -> list[Right]:
    """The catalogue, or those named."""
    return [one for one in RIGHT if not names or one.name in names]


def right_subject(one: Right, folder: Path) -> Subject:
    """The operator, laid out (and built) in ``folder``."""
    if one.outside is not None:
        return Subject(("python3", "relist_loop.py", *one.flags), one.outside, dict(one.env))
    subject = operator(one.track, folder, variant=one.variant)
    return Subject((*subject.argv, *one.flags), subject.cwd, {**subject.env, **dict(one.env)})


def try_right(
    cluster: Cluster, one: Right, folder: Path, only: Sequence[str] = (), seed: int = 0
) -> Report:
    """Run the suite, or parts of it, against a right operator."""
    return conform(cluster, right_subject(one, folder), folder / "run", only=only, seed=seed)


def try_wrong(
    cluster: Cluster, mistake: Mistake, folder: Path, only: Sequence[str] = (), seed: int = 0
) -> Report:
    """Run the suite, or parts of it, against a wrong operator."""
    subject = operator(mistake.track, folder, mistake)
    return conform(cluster, subject, folder / "run", only=only, seed=seed)


def measure(cluster: Cluster, mistake: Mistake, folder: Path, seed: int = 0) -> Row:
    """Run the one scenario that must see a mistake against the operator that has it."""
    scenario = scenario_of(mistake)
    subject = operator(mistake.track, folder, mistake)
    report = conform(cluster, subject, folder / "run", only=(scenario,), seed=seed)
    (result,) = report.results
    told = result.message
    return Row(
        mistake.name,
        scenario,
        mistake.diagnosis,
        result.verdict,
        told.diagnosis if told else "",
        told.seen if told else "",
        report.duration,
    )


def scenario_of(mistake: Mistake) -> str:
    """The id of the scenario that must see a wrong operator."""
    return mistake.fails.partition("/")[2]


def wrong_operators(names: Sequence[str] = ()) -> list[Mistake]:
    """The catalogue, or those named."""
    return [m for m in mistakes.load(LAB) if not names or m.name in names]
