"""Build the site with mkdocs, only when one of its sources has changed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from pathlib import Path

from grader.course import ROOT

SITE = ROOT / "site"
LOG = ROOT / ".site.log"
#: What pages are made of: a change in any of it makes a new build.
SOURCES = (
    "mkdocs.yml",
    "docs",
    "docs_hooks",
    # The manifest, checks, hints, and all that the references are made from.
    "grader",
    "solutions",
    "exercises",
    "requirements.lock",
)
#: In a built site: the digest of what it was built from.
MARK = ".built-from"


class BuildError(Exception):
    """The site cannot be built; the text names mkdocs's log."""


def digest(root: Path = ROOT) -> str:
    """What the sources are now: names, sizes and times, which is quick to read."""
    total = hashlib.sha256()
    for source in SOURCES:
        path = root / source
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if "__pycache__" in file.parts or not file.is_file():
                continue
            stat = file.stat()
            total.update(f"{file.relative_to(root)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return total.hexdigest()


def current() -> bool:
    """Whether the site on disk is the one that the sources make."""
    try:
        return (SITE / MARK).read_text(encoding="utf-8") == digest()
    except OSError:
        return False


def build() -> None:
    """Make the site if it is not current; :class:`BuildError` where that fails.

    It is made by a recorded process of its own, so that a command line that is
    killed meanwhile leaves nothing that ``phase4 down`` does not end.
    """
    from grader.cluster.process import records

    with LOG.open("wb") as log:
        process = records.start(
            [sys.executable, "-E", "-X", "utf8", "-m", "grader.site.build"],
            name="site-build",
            kind="site-build",
            cwd=ROOT,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
            stdout=log,
            stderr=log,
        )
    try:
        code = process.wait()
    finally:
        process.end()
    if code != 0:
        raise BuildError(f"the site could not be built; what mkdocs said is in {LOG}.")


def _make() -> None:
    """The process that builds: one at a time; a reader sees the old site or the new one."""
    from mkdocs.commands.build import build as make
    from mkdocs.config import load_config

    with (ROOT / ".site.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if current():
            return
        wanted = digest()
        aside, old = ROOT / ".site.new", ROOT / ".site.old"
        shutil.rmtree(aside, ignore_errors=True)
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(aside))
        config.plugins.on_startup(command="build", dirty=False)
        make(config)
        config.plugins.on_shutdown()
        (aside / MARK).write_text(wanted, encoding="utf-8")
        shutil.rmtree(old, ignore_errors=True)
        if SITE.exists():
            SITE.rename(old)
        aside.rename(SITE)
        shutil.rmtree(old, ignore_errors=True)


if __name__ == "__main__":
    _make()
