"""The environment and the limits of a learner's process."""

from __future__ import annotations

import os
import sys
from collections import deque
from pathlib import Path

from grader.cluster import go_settings

#: Bytes of standard output or error after which a program is stopped.
OUTPUT_BYTES = 16 * 1024 * 1024
#: Bytes of any one file it writes; the kernel's limit, behind the one above.
FILE_BYTES = 256 * 1024 * 1024
#: Processes and threads of one program.
PROCESSES = 400

#: Of our own environment, what a program may see: nothing of ours, no credential.
_PASSED = (
    "HOME LOGNAME PATH SHELL TERM TMPDIR TZ USER "
    "HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy "
    "SSL_CERT_FILE SSL_CERT_DIR XDG_CACHE_HOME XDG_CONFIG_HOME"
).split()


def inherited() -> dict[str, str]:
    """The part of our environment that learners' processes get.

    The same answer gets the same verdict whatever its author has set for other
    work: no ``PYTHON…``, Go as :mod:`grader.cluster.go_settings` has it, text in
    UTF-8, and the course's interpreter wherever a script asks for ``python3``.

    Proxy settings are among it for builds; the wire is on the loopback, which
    no client sends through a proxy once ``NO_PROXY`` names it.
    """
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    if not os.path.isdir(passed.get("TMPDIR", "/")):
        del passed["TMPDIR"]
    passed["LANG"] = "C.UTF-8"
    ours = os.path.dirname(sys.executable)
    passed["PATH"] = os.pathsep.join([ours, passed.get("PATH", os.defpath)])
    local = "127.0.0.1,localhost"
    for name in ("NO_PROXY", "no_proxy"):
        passed[name] = f"{passed[name]},{local}" if passed.get(name) else local
    # Not PYTHONUNBUFFERED: it has print() write a line and its end apart, and the
    # lines of two threads then come out mingled.
    return go_settings.environment(passed)


def preexec(*, file_bytes: int = FILE_BYTES) -> list[str]:
    """Lines of shell that lower the limits of the process to come."""
    # POSIX: ulimit -f counts blocks of 512 bytes.
    lines = ["ulimit -c 0", f"ulimit -f {file_bytes // 512}"]
    if sys.platform == "linux" and os.geteuid() != 0:
        # Counted over the whole user, so what runs already has to be added. Not
        # every shell has -u, and root is exempt: the runner also counts for itself.
        lines.append(f"ulimit -u {_tasks_of_user() + PROCESSES} 2>/dev/null || :")
    return lines


def _tasks_of_user() -> int:
    """How many threads this user has."""
    total = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.stat(f"/proc/{entry}").st_uid == os.geteuid():
                    total += len(os.listdir(f"/proc/{entry}/task"))
            except OSError:
                continue
    return total


def tail(path: Path, count: int, *, width: int = 300) -> tuple[str, ...]:
    """The last lines of an output file, as text, each cut to ``width`` characters."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 64 * 1024))
            data = file.read()
    except OSError:
        return ()
    lines = deque(data.decode("utf-8", "replace").splitlines(), maxlen=count)
    return tuple(line if len(line) <= width else line[: width - 1] + "…" for line in lines)
