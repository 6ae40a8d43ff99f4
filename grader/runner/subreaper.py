"""Become the parent of the processes that a learner's programs leave behind.

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
    """Have orphaned descendants become our children; False where the system cannot."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def end_strays() -> int:
    """SIGKILL the processes that programs left behind, and their children; returns their number.

    A stray is a child of ours in a session that is not ours and without a mark in
    its environment: programs begin in sessions of their own, and what has a mark
    (a cluster that this process started) has a record and an end of its own.
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
    for process in psutil.Process().children():
        try:
            if os.getsid(process.pid) == os.getsid(0):
                continue
            if process.status() == psutil.STATUS_ZOMBIE:
                _collect(process.pid)
            elif MARKER not in process.environ():
                found += [process, *process.children(recursive=True)]
        except (psutil.Error, ProcessLookupError):
            continue
    return found


def _collect(pid: int) -> None:
    """Reap an adopted zombie. Not those that subprocess waits for: theirs carry a record."""
    try:
        if os.getpgid(pid) != pid:
            os.waitpid(pid, os.WNOHANG)
    except (ChildProcessError, ProcessLookupError):
        pass
