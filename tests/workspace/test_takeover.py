"""A workspace of version 1 becomes one of today's: what was done is in the parts, nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import course, cut, workspace
from grader.report import store
from grader.report.model import CheckResult, LabReport
from grader.verdict import Verdict
from grader.workspace import files, parts


def old(root: Path, track: str, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        files.write(root / name, text)
    files.write(root / "phase4.toml", f'course = "phase-4"\nversion = "1"\ntrack = "{track}"\n')


def shipped_reflector() -> str:
    """A file that no learner of version 1 had to edit in 4.2.2: given there as it is today."""
    return cut.artifacts("python", "solution")[Path("machinery/stop.py")][0].decode()


@pytest.fixture
def taken(tmp_path: Path) -> workspace.Workspace:
    root = tmp_path / "w"
    old(root, "python", {
        "4.2.1/answers.md": "my answer\n",
        "4.2.1/replay.py": "given\n",
        "4.2.1/machinery/workqueue.py": "my queue\n",
        "4.2.2/machinery/workqueue.py": "a copy of it\n",
        "4.2.2/machinery/stop.py": shipped_reflector(),
        "4.3.1/typed.py": "from webapp_types import WebApp\n",
        "4.3.1/main.py": "from machinery import client_for\nfrom typed import WebApps\n",
        "4.3.2/webapp_operator/controller.py": "from machinery import Client, key_of\nfirst\n",
        "4.3.2/program.toml": 'run = ["python3", "-m", "webapp_operator"]\n',
        "4.3.4/answers.md": "`webapp_operator/controller.py:2` `first`\n",
        "4.3.5/webapp_operator/controller.py": "grown\n",
    })  # fmt: skip
    checks = [
        CheckResult(one.id, one.title, one.points, one.evidence, Verdict.PASS)
        for one in course.checks("4.2.1")
    ]
    store.save(root / ".phase4/reports", LabReport("4.2.1", "python", checks=checks))
    told: list[str] = []
    made, _ = workspace.init(root, None, told.append)
    assert any(line.startswith("from 4.2.1: machinery/workqueue.py") for line in told)
    return made


def test_the_work_is_in_the_parts(taken: workspace.Workspace) -> None:
    assert (taken.root / "machinery/workqueue.py").read_text() == "my queue\n"
    operator = taken.root / "operator_handwired/webapp_operator"
    assert (operator / "controller.py").read_text() == "grown\n"
    assert (taken.root / "4.2.1/answers.md").read_text() == "my answer\n"
    assert not (taken.root / "4.2.1/machinery").exists()


def test_names_that_moved_are_put_right(taken: workspace.Workspace) -> None:
    main = (taken.root / "4.3.1/main.py").read_text()
    assert main == "from machinery.client import client_for\nfrom webapp_operator.typed import WebApps\n"
    cited = (taken.root / "4.3.4/answers.md").read_text()
    assert cited.startswith("`operator_handwired/webapp_operator/controller.py:2`")
    assert not (taken.root / "4.3.2/webapp_operator").exists()


def test_what_was_passed_is_the_learner_s_own(taken: workspace.Workspace) -> None:
    uses = {use.part.id: use for use in parts.uses(taken, course.load().lab("4.2.2"))}
    assert uses["work-queue"].own and not uses["work-queue"].changed
    assert not uses["reflector"].own


def test_all_of_it_is_kept(taken: workspace.Workspace) -> None:
    (backup,) = (taken.state / "backups").glob("version-1-*")
    assert (backup / "4.2.2/machinery/workqueue.py").read_text() == "a copy of it\n"
    assert (backup / "4.3.2/webapp_operator/controller.py").exists()


def test_it_happens_once(taken: workspace.Workspace) -> None:
    told: list[str] = []
    workspace.init(taken.root, None, told.append)
    assert told == []


def test_a_go_operator_gets_the_module_s_new_name(tmp_path: Path) -> None:
    root = tmp_path / "w"
    old(root, "go", {
        "4.3.2/operator/controller.go": 'import "phase4.example.com/webapp-operator/api/v1alpha1"\n',
        "4.3.2/operator/go.mod": "module phase4.example.com/webapp-operator\n",
        "go.mod": "module phase4/workspace\n",
    })  # fmt: skip
    made, _ = workspace.init(root, None)
    text = (made.root / "operator_handwired/controller.go").read_text()
    assert text == 'import "phase4.example.com/workspace/operator_handwired/api/v1alpha1"\n'
    assert "phase4.example.com/workspace" in (made.root / "go.mod").read_text()
