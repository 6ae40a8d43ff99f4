"""What this machine does not give: files, memory, processes, room. Each as a sentence."""

from __future__ import annotations

import errno
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager

from grader.cluster.errors import EnvironmentProblem

#: How many files each component may have open at least. etcd alone wants 150.
OPEN_FILES = 256

_AGAIN = "and run the command again."

_FILES = (
    f"This machine lets a process open too few files. `ulimit -n` shows how many; allow "
    f"{OPEN_FILES} or more (`ulimit -n 4096` in a new terminal, or the hard limit in "
    f"/etc/security/limits.conf), {_AGAIN}"
)
_WATCHES = (
    "This machine's inotify instances or watches are used up: other programs (editors, file "
    "synchronisation) hold them. End some of these, or raise the limits (`sysctl "
    f"fs.inotify.max_user_instances fs.inotify.max_user_watches` shows them), {_AGAIN}"
)
_ROOM = (
    f"The disk is full. Free some space, or set PHASE4_HOME to a folder on another disk, {_AGAIN}"
)
_SIZE = (
    "This machine's limit for the size of a file is too low (`ulimit -f` shows it; "
    f"etcd's take 64 MB and more). Raise that limit in a new terminal, {_AGAIN}"
)
_MEMORY = (
    "This machine has too little memory, or lets a process have too little (`ulimit -v` shows "
    "how much; the control plane takes 650 MB, and etcd maps 10 GB of addresses). End other "
    f"programs or raise that limit, {_AGAIN}"
)
_PROCESSES = (
    "This machine lets you start no more processes or threads (`ulimit -u` shows how many). End "
    f"other programs or raise that limit, {_AGAIN}"
)

#: In this order: of its limits inotify says the same as files and disks do of theirs.
_SAID = (
    (r"(inotify|fsnotify).*(too many open files|no space left)", _WATCHES),
    (r"too many open files|file descriptor limit", _FILES),
    (r"no space left on device|disk quota exceeded", _ROOM),
    (r"file too large", _SIZE),
    (r"cannot allocate memory|out of memory", _MEMORY),
    (r"failed to create new os thread|fork.*resource temporarily unavailable", _PROCESSES),
)

#: The sentence for what a system call says of a limit.
ERRORS = {
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.EFBIG: _SIZE,
    errno.ENOMEM: _MEMORY,
    errno.EAGAIN: _PROCESSES,
}


def check() -> None:
    """Raise :class:`EnvironmentProblem` where no control plane can run, before one is begun.

    The soft limit is no obstacle: Go programs raise it to the hard one themselves.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < OPEN_FILES:
        raise EnvironmentProblem(_FILES)


def named_in(words: str) -> str:
    """The sentence about the limit that a component's last words name; "" where they name none."""
    found = (sentence for said, sentence in _SAID if re.search(said, words, re.IGNORECASE))
    return next(found, "")


@contextmanager
def said() -> Iterator[None]:
    """Turn what the operating system says about a limit into :class:`EnvironmentProblem`."""
    try:
        yield
    except OSError as error:
        if (sentence := ERRORS.get(error.errno or 0)) is None:
            raise
        raise EnvironmentProblem(sentence) from error
