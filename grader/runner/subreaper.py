"""Be the parent of whatever a learner's programs leave behind.

A process that forks twice and clears its environment has neither a parent nor a
mark to be found by. Linux lets us ask to become the parent of such orphans.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

import psutil

from grader.cluster.process import MARKER

#: prctl(2)
_PR_SET_CHILD_SUBREAPER = 36


def adopt() -> bool:
    """Have orphaned descendants become our children; False where the system has no such thing."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def end_strays() -> int:
    """SIGKILL every descendant that has no mark of ours in its environment; returns their number.

    Those with a mark have a record and an end of their own: a cluster that this
    process started goes on.
    """
    ended = 0
    while strays := _strays():
        for process in strays:
            try:
                process.send_signal(signal.SIGKILL)
                ended += 1
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(strays, timeout=5)
    return ended


def _strays() -> list[psutil.Process]:
    if sys.platform != "linux":
        return []
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                _collect(process.pid)
            elif MARKER not in process.environ():
                found.append(process)
        except psutil.Error:
            continue
    return found


def _collect(pid: int) -> None:
    """Let an adopted zombie go. Not those that subprocess waits for: theirs carry a record."""
    try:
        if os.getpgid(pid) != pid:
            os.waitpid(pid, os.WNOHANG)
    except (ChildProcessError, ProcessLookupError):
        pass
