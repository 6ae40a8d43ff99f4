"""Where the course keeps its files outside the learner's folder.

``cache`` holds what can be made again (binaries, unfinished downloads, the etcd
template) and may be shared by concurrent runs; ``state`` holds what describes
this moment (running clusters, process records). Both are the platform's usual
per-user folders, unless ``PHASE4_HOME`` names one folder for the two.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grader import files
from grader.cluster import limits
from grader.cluster.errors import EnvironmentProblem

APP = "phase4"


def cache() -> Path:
    """The cache folder; not necessarily there yet."""
    home = os.environ.get("PHASE4_HOME")
    if home:
        return Path(home).expanduser().absolute() / "cache"
    import platformdirs

    return Path(platformdirs.user_cache_dir(APP, appauthor=False))


def state() -> Path:
    """The state folder; not necessarily there yet."""
    home = os.environ.get("PHASE4_HOME")
    if home:
        return Path(home).expanduser().absolute() / "state"
    import platformdirs

    return Path(platformdirs.user_state_dir(APP, appauthor=False))


def clusters() -> Path:
    """The folder with one folder for each cluster."""
    return state() / "clusters"


def processes() -> Path:
    """The folder with one JSON record for each process started."""
    return state() / "processes"


def made(path: Path, *, private: bool = False) -> Path:
    """Make a folder (and its parents) and return it; ``private`` makes it 0700.

    Raises :class:`EnvironmentProblem` where the place cannot be written to.
    """
    with writing(path):
        path.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
        # A folder that is there already tells nothing: ask for the right to write.
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        if private and path.stat().st_mode & 0o077:
            path.chmod(0o700)
    return path


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system says about a place into a sentence for a person.

    A full disk, a read-only file system, a missing permission, a file where a folder
    should be or a limit of the machine become :class:`EnvironmentProblem`; any other
    error passes.
    """
    try:
        with limits.said():
            yield
    except OSError as error:
        where = error.filename or path
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise EnvironmentProblem(
                f"The disk that holds {path} is full. Free some space (the control plane's "
                "binaries take 0.5 GB, building them 6 GB), or set PHASE4_HOME to a folder on "
                "another disk, and run the command again."
            ) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise EnvironmentProblem(
                f"{where} cannot be written to ({error.strerror}). {_remedy(path)}, and run the "
                "command again."
            ) from error
        if error.errno in (errno.ENOTDIR, errno.EEXIST):
            raise EnvironmentProblem(
                f"{where} is needed as a folder, but something in its path is a file. Move that "
                "file away, or set PHASE4_HOME to another folder."
            ) from error
        raise


def _remedy(path: Path) -> str:
    """What to do about a place that is not ours to write: it may be the learner's own."""
    if any(Path(path).is_relative_to(ours) for ours in (cache(), state())):
        return "Set PHASE4_HOME to a folder that is yours to write"
    return "Make it yours (`chmod -R u+rwX`, or `chown` where it is another user's)"


def write_atomically(path: Path, data: str | bytes, *, mode: int = 0o644) -> None:
    """Write a whole file or nothing: readers see the old content or the new, never a part.

    The folder must be there. Raises :class:`EnvironmentProblem` as :func:`writing` does.
    """
    with writing(path.parent):
        files.write(path, data, mode=mode)
