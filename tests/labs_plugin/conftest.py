"""A grader made up on the spot, and a submission for it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.labs.grading import grade
from grader.labs.grading_request import Request
from grader.report.model import LabReport

HEAD = """\
import json, os, signal, time
import pytest
from grader.labs import check
from grader.verdict import Fail, NotGraded, Unknown

"""


@pytest.fixture
def submission_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace" / "9.9.9"
    folder.mkdir(parents=True)
    (folder / "answers.md").write_text("an answer\n")
    return folder


@pytest.fixture
def graded(
    tmp_path: Path, submission_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., LabReport]:
    """``graded(source)`` grades the submission with a grader of that source."""
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))

    def run(source: str, **options) -> LabReport:
        # A folder for each: a compiled file is told from its source by the second.
        number = len(list(tmp_path.glob("g*")))
        path = tmp_path / f"g{number}" / "lab_9_9_9.py"
        path.parent.mkdir()
        path.write_text(HEAD + textwrap.dedent(source))
        options.setdefault("run_dir", tmp_path / "run")
        progress = options.pop("progress", lambda line: None)
        options["only"] = tuple(options.get("only", ()))
        return grade(Request(submission_dir, "9.9.9", path, **options), progress)

    return run


def checks(*bodies: str) -> str:
    """A grader with one check for each body, ``9.9.9/c1`` and so on."""
    parts = []
    for number, body in enumerate(bodies, start=1):
        parameters = "submission, observe, rng, seed, later"
        names = [name for name in parameters.split(", ") if name in body]
        parts.append(
            f'@check("9.9.9/c{number}", title="Check {number}", points=1, evidence="claim")\n'
            f"def check_c{number}({', '.join(names)}):\n" + textwrap.indent(body, "    ") + "\n\n"
        )
    return "".join(parts)
