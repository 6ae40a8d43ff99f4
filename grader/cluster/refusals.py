"""What this machine refuses, as sentences: no programs from a mount, no more files or processes.

None of it says anything about the work of whoever meets it.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

_NOEXEC = (
    "{path} is on {mount}, which is mounted so that no program can be started from it (noexec). "
    "Work in a folder on another file system (`phase4 init DIR`), or mount it with exec."
)
_BY_NUMBER = {
    errno.EMFILE: "This process may open no more files (`ulimit -n` is {files}). Raise the limit, "
    "for example with `ulimit -n 4096`, and run the command again.",
    errno.ENFILE: "This machine may open no more files (`sysctl fs.file-max`). End some programs "
    "and run the command again.",
    errno.EAGAIN: "This machine lets you start no more processes or threads (`ulimit -u`). End "
    "some programs, or raise the limit, and run the command again.",
    errno.ENOMEM: "This machine has no memory left. End some programs and run the command again.",
    errno.ETXTBSY: "The program's file was being written while it was to be started. Run the "
    "command again once the file is complete.",
    errno.ENOEXEC: "The program is for another system or another kind of processor than this "
    "machine's ({machine}). Build it here.",
}
#: How a shell says in its last words that it could not become the program.
_SHELL = re.compile(r"^\S*sh: .+: (?P<why>[^:]+)$")


def refusal(error: BaseException) -> str:
    """The sentences for an error that is the machine's limit; empty for any other error."""
    if isinstance(error, MemoryError):
        return _said(errno.ENOMEM)
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return _said(errno.EAGAIN)
    return _said(error.errno or 0) if isinstance(error, OSError) else ""


def refused_by_shell(code: int | None, stderr: Iterable[str]) -> str:
    """The sentences where a shell could not become a program for want of the machine, or empty.

    ``code`` is what the shell ended with, ``stderr`` its last lines.
    """
    if code not in (126, 127):
        return ""
    # A wrong format may be the file's own fault: see for_another_machine.
    known = {os.strerror(number): number for number in _BY_NUMBER if number != errno.ENOEXEC}
    for line in stderr:
        said = _SHELL.match(line)
        if said and said["why"] in known:
            return _said(known[said["why"]])
    return ""


def _said(number: int) -> str:
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _BY_NUMBER.get(number, "").format(files=files, machine=os.uname().machine)


def no_programs_from(path: str | os.PathLike[str]) -> str:
    """The sentences where the file system of ``path`` is mounted noexec; else empty."""
    mount = _noexec_mount(Path(path))
    return _NOEXEC.format(path=path, mount=mount) if mount else ""


def _noexec_mount(path: Path) -> str:
    real = Path(os.path.realpath(path))
    there = next(folder for folder in (real, *real.parents) if folder.exists())
    if hasattr(os, "ST_NOEXEC") and not os.statvfs(there).f_flag & os.ST_NOEXEC:
        return ""
    import psutil

    mounts = [
        mount for mount in psutil.disk_partitions(all=True) if real.is_relative_to(mount.mountpoint)
    ]
    # Of two at the same place the later one is on top.
    best = max(reversed(mounts), key=lambda mount: len(mount.mountpoint), default=None)
    return best.mountpoint if best and "noexec" in best.opts.split(",") else ""


def for_another_machine(program: str | os.PathLike[str]) -> str:
    """The sentences where a program's file is for another system or processor; else empty.

    Only of use once it did not start: some machines run what is not theirs.
    """
    ours, its = _kind(Path(sys.executable)), _kind(Path(program))
    return _said(errno.ENOEXEC) if its and its != ours else ""


def _kind(program: Path) -> tuple[str, int] | tuple[()]:
    """The format of a compiled program and its kind of processor; empty for a script."""
    try:
        with open(program, "rb") as file:
            head = file.read(20)
    except OSError:
        return ()
    if head[:4] == b"\x7fELF" and len(head) == 20 and head[5] in (1, 2):
        processor = int.from_bytes(head[18:20], "big" if head[5] == 2 else "little")
        return ("ELF", processor) if processor else ()
    if head[:4] in (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe"):
        return "Mach-O", 0  # a Mac runs those of either of its processors, or says which it is
    return ("PE", 0) if head[:2] == b"MZ" else ()
