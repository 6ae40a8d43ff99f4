"""What every test gets: a clean environment, and never a learner's own folder or cluster."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

try:
    from hypothesis import HealthCheck, settings
except ModuleNotFoundError:  # only the developers' packages have it
    pass
else:
    # How fast a machine draws examples says nothing about the code under test, and
    # a test that fails on a busy machine alone is a flaky one.
    settings.register_profile(
        "phase4", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
    )
    settings.load_profile("phase4")

#: Tests that need a cluster share this one; `phase4 test` ends it.
os.environ.setdefault("PHASE4_CLUSTER", "test")
os.environ.pop("PHASE4_WORKSPACE", None)
# Where it is set (in many containers), each process of a test would compile its packages anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.pop("NO_COLOR", None)

# Where the tests themselves run in the background, Ctrl-C is ignored, and what they
# start would inherit that: several of them press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def workspace_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that commands take for the learner's; nothing is in it yet."""
    folder = tmp_path / "workspace"
    monkeypatch.setenv("PHASE4_WORKSPACE", str(folder))
    return folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What drives a browser is a step of its own in `phase4 test`."""
    for item in items:
        if item.path.name == "test_browser.py":
            item.add_marker(pytest.mark.browser)
