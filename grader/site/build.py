"""Build the site with mkdocs, only when something it is made of has changed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
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
    "grader/course.toml",
    "grader/labs",
    "grader/hints",
    "grader/cli",
    "solutions",
    "exercises",
    "requirements.lock",
)
#: In a built site: the digest of what it was built from.
MARK = ".built-from"


class BuildError(Exception):
    """The site cannot be built; the text says where mkdocs says why."""


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
    """Make the site if it is not current; a reader sees the old one or the new, never half."""
    with (ROOT / ".site.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if current():
            return
        wanted = digest()
        aside = ROOT / ".site.new"
        shutil.rmtree(aside, ignore_errors=True)
        with LOG.open("wb") as log:
            code = subprocess.run(
                [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(aside)],
                cwd=ROOT,
                env={**os.environ, "DISABLE_MKDOCS_2_WARNING": "true", "NO_MKDOCS_2_WARNING": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A killed command line's mkdocs keeps the lock until it has ended.
                pass_fds=[lock.fileno()],
            ).returncode
        if code != 0:
            raise BuildError(f"the site could not be built; what mkdocs said is in {LOG}.")
        (aside / MARK).write_text(wanted, encoding="utf-8")
        old = ROOT / ".site.old"
        shutil.rmtree(old, ignore_errors=True)
        if SITE.exists():
            SITE.rename(old)
        aside.rename(SITE)
        shutil.rmtree(old, ignore_errors=True)
