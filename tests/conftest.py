"""What every test gets: a clean environment, and never a learner's own folder or cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

#: Tests that need a cluster share this one; `phase4 test` ends it.
os.environ.setdefault("PHASE4_CLUSTER", "test")
os.environ.pop("PHASE4_WORKSPACE", None)
os.environ.pop("NO_COLOR", None)


@pytest.fixture
def workspace_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that commands take for the learner's; nothing is in it yet."""
    folder = tmp_path / "workspace"
    monkeypatch.setenv("PHASE4_WORKSPACE", str(folder))
    return folder
