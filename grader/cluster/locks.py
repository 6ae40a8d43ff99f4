"""Locks between processes. The operating system releases one when its holder ends, however it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from grader.cluster import dirs


@contextmanager
def alone(
    path: Path,
    tell: Callable[[str], None],
    waits: str,
    *,
    while_waiting: Callable[[], AbstractContextManager] = nullcontext,
) -> Iterator[None]:
    """Hold the lock file ``path``, whose folder must be there.

    Where another process holds it, ``tell`` gets the sentence ``waits`` and the
    call waits as long as it takes, inside ``while_waiting()``.
    """
    import filelock

    lock = filelock.FileLock(path)
    with dirs.writing(path.parent):
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            tell(waits)
            with while_waiting():
                lock.acquire()
    try:
        yield
    finally:
        lock.release()
