"""The labs that run parts of the conformance suite: nothing of a part is left out, no check looks at nothing."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess

import pytest

from grader import course, cut
from grader.conformance.parts import scenarios
from grader.conformance.suite import select
from grader.labs import lab_4_3_2, lab_4_3_5


@pytest.mark.parametrize(("lab", "grader"), [("4.3.2", lab_4_3_2), ("4.3.5", lab_4_3_5)])
def test_each_check_names_scenarios_that_there_are(lab, grader):
    live = [c.id for c in course.checks(course.load().lab(lab)) if c.evidence != "claim"]
    assert list(grader.SCENARIOS) == live
    for ids in grader.SCENARIOS.values():
        assert len(select(ids)) == len(ids) > 0


def test_the_functional_part_is_judged_whole():
    judged = {id for ids in lab_4_3_2.SCENARIOS.values() for id in ids}
    assert {one.id for one in scenarios("functional")} <= judged


@pytest.mark.live
@pytest.mark.parametrize("track", ["python", "go"])
def test_what_4_3_4_starts_from_builds(track, tmp_path):
    """It is graded only once both numbers are predicted, so no measurement builds it."""
    lab = course.load().lab("4.3.4")
    mine = [part for part in course.load().parts if part.id in lab.writes]
    folder = cut.starter(
        lab.id, track, tmp_path, writes=lambda path: any(one.has(path, track) for one in mine)
    ).parent
    if track == "python":
        for file in folder.rglob("*.py"):
            py_compile.compile(str(file), str(tmp_path / "compiled"), doraise=True)
        return
    if shutil.which("go") is None:
        pytest.skip("there is no Go on this machine")
    environment = {**os.environ, "CGO_ENABLED": "0"}
    command = ["go", "build", "-trimpath", "-o", str(tmp_path / "operator"), "./operator_handwired"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
