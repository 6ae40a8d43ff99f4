"""What is slow to make and never changed: made once, and shared by the workers of a run."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that ``make`` was called with; the workers of pytest-xdist wait for one of them.

    ``make`` creates the folder. Where it fails nothing is left, and the next worker
    that needs it fails by itself.
    """
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # a worker's own is a folder in the run's
    made = base / f"once-{name}"
    with (base / f"once-{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            # Under a name of this process until it is whole.
            unfinished = base / f"once-{name}.{os.getpid()}"
            make(unfinished)
            unfinished.rename(made)
    return made
