"""The right programs whose mutants are judged, and by what."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grader import course, cut
from grader.conformance import measure
from grader.labs.grading import grade
from grader.labs.grading_request import Request
from grader.verdict import Verdict
from grader.verify.mutation import go_source, python_source
from grader.verify.mutation.edits import Edit

if TYPE_CHECKING:
    from grader.cluster.interface import Cluster
    from grader.conformance.scenario import Result

#: The lab whose answer is the operator.
_OPERATOR = measure.LAB_OF_OPERATORS


class DoesNotBuild(Exception):
    """The change makes no program."""


@dataclass(frozen=True)
class Judgement:
    """``by``: the scenario or check that saw the fault first; ``called``: the fault's name there.

    ``verdict`` is FAIL for a mutant that was killed, PASS for one that survived.
    """

    verdict: Verdict
    by: str = ""
    called: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Target:
    """A program in one track.

    ``files`` are globs from the root of a workspace that holds it. ``lab`` is the
    lab whose grader judges it; empty for the operator, which the conformance
    suite judges.
    """

    name: str
    track: str
    files: tuple[str, ...]
    lab: str = ""

    def lay_out(self, folder: Path) -> Path:
        """Lay the right program out in ``folder``; returns the root of its workspace."""
        return cut.handed_in(self.lab or _OPERATOR, self.track, folder).parent

    def edits(self, root: Path) -> list[Edit]:
        """Every change of its files below ``root``, in their order.

        Where a lab judges it, only of the lines that the lab's starter leaves to the learner:
        nobody hands the others in wrong, and the course's own tests hold them.
        """
        names = sorted(
            {
                path.relative_to(root).as_posix()
                for pattern in self.files
                for path in root.glob(pattern)
                if not path.name.endswith("_test.go")
            }
        )
        if self.track == "go":
            return go_source.edits(root, names)
        found = [edit for name in names for edit in python_source.edits(root, name)]
        if not self.lab:
            return found
        left_open = {name: self._left_open(root / name, name) for name in names}
        return [edit for edit in found if edit.line in left_open[edit.file]]

    def _left_open(self, path: Path, name: str) -> set[int]:
        """The lines of a file, from 1, that its starter does not have."""
        with tempfile.TemporaryDirectory() as folder:
            start = cut.starter(self.lab, self.track, Path(folder)).parent / name
            given = start.read_text(encoding="utf-8").splitlines() if start.exists() else []
        written = path.read_text(encoding="utf-8").splitlines()
        same = difflib.SequenceMatcher(None, given, written, autojunk=False)
        return {
            line + 1
            for kind, _, _, low, high in same.get_opcodes()
            if kind in ("insert", "replace")
            for line in range(low, high)
        }

    def judge(
        self, cluster: Cluster, edit: Edit, folder: Path, likeliest: Sequence[str] = ()
    ) -> Judgement:
        """Judge the program with this change, in an empty folder.

        ``likeliest`` names scenarios to try first. Raises DoesNotBuild.
        """
        edit.apply(self.lay_out(folder / "workspace"))
        if self.lab:
            return self._by_grader(cluster, folder)
        return self._by_suite(cluster, folder, likeliest)

    def _by_grader(self, cluster: Cluster, folder: Path) -> Judgement:
        request = Request.of(
            course.load().lab(self.lab),
            folder / "workspace" / self.lab,
            folder / "run",
            track=self.track,
            cluster=cluster.name,
        )
        report = grade(request)
        failed = [check for check in report.checks if check.verdict is Verdict.FAIL]
        if not failed:
            return Judgement(report.verdict, seconds=report.duration)
        message = failed[0].message
        called = message.diagnosis if message else ""
        if called == "build-failed":
            raise DoesNotBuild
        return Judgement(Verdict.FAIL, failed[0].id, called, report.duration)

    def _by_suite(self, cluster: Cluster, folder: Path, likeliest: Sequence[str]) -> Judgement:
        from grader.conformance.suite import conform
        from grader.verdict import Outcome

        try:
            subject = measure.built(folder / "workspace", self.track, folder)
        except Outcome as error:
            raise DoesNotBuild from error
        seconds = 0.0
        verdict = Verdict.PASS
        for number, only in enumerate(([*likeliest], [])):
            if number == 0 and not only:
                continue
            try:
                report = conform(
                    cluster, subject, folder / f"run-{number}", only=only, on_result=_first_failure
                )
            except _Killed as killed:
                result = killed.result
                called = result.message.diagnosis if result.message else ""
                return Judgement(Verdict.FAIL, result.id, called, seconds + result.duration)
            seconds += report.duration
            verdict = report.verdict
        return Judgement(verdict, seconds=seconds)


class _Killed(Exception):
    def __init__(self, result: Result) -> None:
        super().__init__(result.id)
        self.result = result


def _first_failure(result: Result) -> None:
    """End the suite: a mutant is killed once."""
    if result.verdict is Verdict.FAIL:
        raise _Killed(result)


def targets() -> list[Target]:
    """Both operators, then each part of the machinery."""
    package = "operator_handwired/webapp_operator"
    found = [
        Target(
            "operator-python",
            "python",
            tuple(
                f"{package}/{name}.py"
                for name in ("controller", "pods", "reconcile", "types", "election", "__main__")
            ),
        ),
        Target("operator-go", "go", ("operator_handwired/*.go",)),
    ]
    for part in course.load().parts:
        files = tuple(
            name for name in part.files.get("python", ()) if name.startswith("machinery/")
        )
        if files:
            found.append(Target(part.id, "python", files, part.lab))
    return found


def target(name: str) -> Target:
    """Raises KeyError with the names that there are."""
    known = {one.name: one for one in targets()}
    if name not in known:
        raise KeyError(f"{name}: the programs with mutants are {', '.join(known)}")
    return known[name]
