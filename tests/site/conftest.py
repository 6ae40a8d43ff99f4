"""The site built once for all tests, and served as a learner gets it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader import course
from grader.report.model import LabReport
from tests.once import once

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, strictly built: any warning of mkdocs ends the tests. One for all workers."""
    return once(tmp_path_factory, "site", _build)


def _build(target: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", target],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A learner's empty workspace, the one that the server looks at."""
    from grader import workspace as folders

    root = tmp_path / "workspace"
    monkeypatch.setenv("PHASE4_WORKSPACE", str(root))
    folders.init(root, "python")
    return root


@pytest.fixture
def served(built: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the site as `phase4` serves it, for this test's workspace."""
    from grader.site import server

    monkeypatch.setattr(server, "SITE", built)
    with server.Server(("127.0.0.1", 0), server.Handler) as running:
        # How often it looks whether it shall stop (s): every test waits for that at its end.
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.stopped.set()
        running.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which 4.1.2 was graded: its answer and the grader's report. One for all workers."""
    return once(tmp_path_factory, "graded-4.1.2", _grade)


def _grade(root: Path) -> None:
    from grader import workspace as folders
    from grader.labs import grading
    from grader.labs.grading_request import Request
    from grader.report import store

    here, _ = folders.init(root, "python")
    lab = course.load().lab("4.1.2")
    answer = ROOT / "solutions" / "4.1.2" / "variants" / "list-form" / "answers.md"
    text = answer.read_text(encoding="utf-8")
    text = text.replace("why: one lookup", "why: one <img src=x onerror=alert(1)> lookup")
    (here.folder(lab) / "answers.md").write_text(text, encoding="utf-8")
    request = Request.of(lab, here.folder(lab), here.new_run("4.1.2"))
    store.save(here.reports, grading.grade(request))


@pytest.fixture
def checked(workspace: Path, graded: Path) -> LabReport:
    """A workspace whose 4.1.2 was checked, and has two sentences for the learner to judge."""
    from grader import workspace as folders
    from grader.report import assessing, store

    here, there = folders.find(), folders.open_folder(graded)
    lab = course.load().lab("4.1.2")
    shutil.copy(there.folder(lab) / "answers.md", here.folder(lab))
    report = store.load(there.reports, lab.id)
    assert report is not None
    report = assessing.settled(here, report, here.folder(lab))
    assessing.file(here, lab, report)
    return report
