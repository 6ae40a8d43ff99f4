"""Where the control plane's binaries come from: a ladder of three rungs.

1. ``KUBEBUILDER_ASSETS`` or the user's cache;
2. a download of the pinned release (:mod:`grader.cluster.download`);
3. a build from pinned Go modules (:mod:`grader.cluster.build`).

The last two end in the same cache, which concurrent runs share.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from grader.cluster import dirs, pins

#: Called with a sentence that says what is being done, and how far it is where that is known.
Progress = Callable[[str], None]


def cached(name: str) -> Path:
    """Where the cache keeps a binary of the pinned version, there or not."""
    version = pins.VERSIONS[name]
    return dirs.cache() / "bin" / f"{pins.goos()}-{pins.goarch()}" / version / name


def version_of(path: Path) -> str | None:
    """What a binary calls its version (``v1.37.2``), or None where it does not say."""
    arguments = ["version", "--client"] if path.name == "kubectl" else ["--version"]
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\bv?(\d+\.\d+\.\d+\S*)", done.stdout + done.stderr)
    return f"v{found[1]}" if done.returncode == 0 and found else None


def find(name: str) -> Path | None:
    """A binary on the first rung, or None."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        path = Path(assets).absolute() / name
        if os.access(path, os.X_OK):
            return path
    path = cached(name)
    return path if os.access(path, os.X_OK) else None


def ensure(
    names: Iterable[str] = tuple(pins.VERSIONS), progress: Progress | None = None
) -> dict[str, Path]:
    """The path of each binary, fetched or built where it is not there yet.

    Raises :class:`grader.cluster.errors.EnvironmentProblem` saying why the last
    rung did not hold either.
    """
    found = {name: path for name in names if (path := find(name)) is not None}
    return found
