"""A learner's morning, with the real command line and a real browser: 4.1.1 wrong, then right.

Watch, look, hint, fix, pass, read the reference answer, and the next lab is offered;
the page stays open and is never reloaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.site.test_browser import browser, open_page, pytestmark  # noqa: F401

ROOT = Path(__file__).parents[2]

WRONG = """flowchart LR
  api[API server] --> reflector[reflector: list and watch]
  reflector --> fifo[delta queue]
  fifo --> indexer[indexer]
  fifo --> handlers[handlers]
  handlers -->|object| queue[workqueue]
  queue -->|object| worker[worker]
  worker --> api
"""


def phase4(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "grader", *arguments]


@pytest.fixture
def watching(workspace: Path, tmp_path: Path) -> Iterator[Path]:
    """`phase4 check 4.1.1 --watch` in the background; its output goes to the file returned."""
    output = tmp_path / "watch.txt"
    env = {**os.environ, "PHASE4_HOME": str(tmp_path / "home"), "PHASE4_WORKSPACE": str(workspace)}
    with output.open("wb") as file:
        process = subprocess.Popen(
            phase4("check", "4.1.1", "--watch"), cwd=ROOT, env=env, stdout=file, stderr=file
        )
    yield output
    process.terminate()
    process.wait(timeout=120)


def test_a_morning(browser, served: str, workspace: Path, watching: Path) -> None:
    page = open_page(browser, f"{served}/4.1/4.1.1.html")
    page.evaluate("window.stillTheSamePage = true")
    page.wait_for_selector(".p4-verdict .p4-message")

    (workspace / "4.1.1" / "pipeline.mmd").write_text(WRONG, encoding="utf-8")
    page.wait_for_selector("[data-check='4.1.1/stages'] .p4-badge[data-v=PASS]")
    page.wait_for_selector("[data-check='4.1.1/keys'] .p4-badge[data-v=FAIL]")
    assert "expected" in page.inner_text(".p4-message")
    assert "expected" in watching.read_text(encoding="utf-8")

    env = {**os.environ, "PHASE4_WORKSPACE": str(workspace)}
    hint = subprocess.run(
        phase4("hint", "4.1.1"), cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert "Hint 1 of 3" in hint.stdout

    answer = ROOT / "solutions" / "4.1.1" / "common"
    for name in ("answers.md", "pipeline.mmd"):
        shutil.copyfile(answer / name, workspace / "4.1.1" / name)
    page.wait_for_selector(".p4-verdict[data-v=PASS]")
    page.wait_for_selector(".p4-answer summary:text-is('pipeline.mmd')")
    assert page.evaluate("window.stillTheSamePage") is True

    page.goto(f"{served}/index.html")
    page.wait_for_selector(".p4-live >> text=1 of 34 labs passed")
    assert "4.1.2" in page.inner_text(".p4-live")
    page.context.close()
