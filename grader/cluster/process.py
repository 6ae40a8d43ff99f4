"""Processes that are written down, so that none outlives the command that ends them.

Every process of the course (a component of a cluster, a learner's program, the
site's server) is started by :meth:`Records.start`: in a session and process
group of its own, with a record on disk that is there *before* the program runs.
A command line that is killed at any moment therefore leaves either no process or
a process with a record, and a later ``phase4 down`` ends it.

How the gap between fork and record is closed: the child is a shell that waits
for a line on a pipe and only then becomes the program. The parent writes the
record first and the line afterwards; if the parent dies in between, the pipe
closes and the shell exits.

A record names a process by its id *and* by when it was started, so a stale
record never touches a stranger that was given the same id later.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from grader.cluster import dirs, limits, machine, refusals
from grader.cluster.errors import EnvironmentProblem
from grader.cluster.machine import Machine

#: Every process started here carries its record's id in this variable, and so do
#: its descendants: those that left the process group are found by it.
MARKER = "PHASE4_PROCESS"

_GATE = ('read -r go && [ "$go" = go ] || exit 125',)


def birth(pid: int) -> str | None:
    """What tells this process from any other that has or had the same id; None if there is none.

    On Linux the boot's id and the start time in clock ticks since boot, which no
    clock adjustment moves; elsewhere psutil's creation time. A zombie has ended.
    """
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The second field is the name in parentheses and may hold anything.
                fields = file.read().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The first thread of a process can be a zombie while others still hold its
        # files and ports: it has ended when none is left.
        if fields[0] == b"X" or (fields[0] == b"Z" and int(fields[17]) <= 1):
            return None
        return f"{machine.here().boot or 'linux'}:{int(fields[19])}"
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None


def stopped(pid: int) -> bool:
    """Whether the process is halted by SIGSTOP."""
    import psutil

    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False


def wait_gone(processes: Iterable[tuple[int, str]], timeout: float) -> bool:
    """Wait until all of the processes (id, birth) have ended; False if ``timeout`` seconds passed first.

    A zombie has ended: whoever its parent is may collect it or not.
    """
    deadline = time.monotonic() + timeout
    waiting = [(pid, born) for pid, born in processes if birth(pid) == born]
    descriptors: dict[int, int] = {}
    try:
        if hasattr(os, "pidfd_open"):
            for pid, _ in waiting:
                try:
                    descriptors[pid] = os.pidfd_open(pid)
                except OSError:
                    continue  # gone, or not supported: the poll below decides
        while True:
            waiting = [(pid, born) for pid, born in waiting if birth(pid) == born]
            if not waiting:
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            watched = [descriptors[pid] for pid, _ in waiting if pid in descriptors]
            # Without a descriptor for each there is nothing to wait on but time.
            step = left if len(watched) == len(waiting) else min(left, 0.01)
            ready, _, _ = select.select(watched, [], [], step)
            if ready:
                gone = {pid for pid, fd in descriptors.items() if fd in ready}
                waiting = [(pid, born) for pid, born in waiting if pid not in gone]
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)


@dataclass
class Recorded:
    """A process that has a record, whether this command started it or an earlier one did."""

    id: str
    name: str
    #: What it is: ``component``, ``learner``, ``site``, ...
    kind: str
    pid: int
    born: str
    pgid: int
    argv: list[str]
    cwd: str
    #: What it belongs to, such as ``cluster/default``; empty when nothing.
    owner: str
    #: What the machine was called then: for people, who know it by that.
    host: str
    started_at: float
    #: (pid, birth) of the command that started it.
    started_by: tuple[int, str | None]
    #: Where it runs; None in a record of an older version of the course.
    machine: Machine | None = None
    _path: Path | None = field(default=None, repr=False, compare=False)
    _popen: subprocess.Popen | None = field(default=None, repr=False, compare=False)

    def here(self) -> bool:
        """Whether it can be told from here if it runs: not of another machine's or container's."""
        if self.machine is None or not (self.machine.boot and machine.here().boot):
            # All that is written down is a name, which may have changed since.
            return self.host == _host() or birth(self.pid) == self.born
        return machine.here().sees(self.machine)

    def alive(self) -> bool:
        """Whether the process itself runs (a zombie does not; descendants do not count)."""
        if self._popen is not None and self._popen.poll() is not None:
            return False
        return birth(self.pid) == self.born

    @property
    def returncode(self) -> int | None:
        """The exit code as subprocess has it (-9 after SIGKILL).

        None while it runs, and for a process that another command started.
        """
        if self._popen is None:
            return None
        code = self._popen.poll()
        if code is None and birth(self.pid) != self.born:
            # It has ended, and another thread is collecting its status just now:
            # poll() then says None, as if it ran.
            code = self._popen.wait(5)
        return code

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until the process has ended and return its exit code, where it can be known.

        Raises TimeoutError after ``timeout`` seconds.
        """
        if self._popen is not None:
            try:
                return self._popen.wait(timeout)
            except subprocess.TimeoutExpired:
                raise TimeoutError(f"{self.name} still runs after {timeout:g} s") from None
        if not wait_gone([(self.pid, self.born)], timeout if timeout is not None else 1e9):
            raise TimeoutError(f"{self.name} still runs after {timeout:g} s")
        return None

    def starter_alive(self) -> bool:
        """Whether the command that started it still runs."""
        pid, born = self.started_by
        return born is not None and birth(pid) == born

    def signal(self, number: int) -> bool:
        """Send a signal to the process alone; False if it has ended."""
        if not self.alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def halt(self) -> None:
        """SIGSTOP to the process alone, and in force when this returns.

        The signal is sent at once, but until one thread has had its turn and taken
        it, all of them go on. Raises EnvironmentProblem after ten seconds without.
        """
        self.signal(signal.SIGSTOP)
        deadline = time.monotonic() + 10.0
        while self.alive() and not stopped(self.pid):
            if time.monotonic() > deadline:
                raise EnvironmentProblem(
                    f"{self.name} (process {self.pid}) was told to halt and still runs after "
                    "ten seconds: this machine is too busy. Run the command again."
                )
            time.sleep(0.001)

    def signal_group(self, number: int) -> bool:
        """Send a signal to the whole process group; False if nothing of it is left.

        While the first process of the group lives, the group is certainly ours.
        Once it has ended the number could have been given away, so members are
        then told by their marker, one by one.
        """
        if self.alive():
            try:
                os.killpg(self.pgid, number)
                return True
            except ProcessLookupError:
                return False
        sent = False
        for pid, _ in self.descendants():
            try:
                os.kill(pid, number)
                sent = True
            except ProcessLookupError:
                continue
        return sent

    def descendants(self) -> list[tuple[int, str]]:
        """(pid, birth) of the processes that carry this record's marker, itself excepted."""
        return [item for item in marked(MARKER, self.id) if item != (self.pid, self.born)]

    def kill(self) -> None:
        """SIGKILL to the group, at once; waits for nothing. Safe to call from any thread."""
        self.signal_group(signal.SIGKILL)

    def end(self, *, grace: float = 0.0, sweep: bool = True) -> None:
        """End the process, its group and whatever left the group; nothing is left when this returns.

        SIGTERM first when ``grace`` (seconds) is not 0, SIGKILL to what is left
        after it. ``sweep=False`` spares the look for processes that left the
        group, for programs known not to start any. The record is removed.
        """
        end_all([self], grace=grace, sweep=sweep)

    def forget(self) -> None:
        """Remove the record (for a process that is known to have ended)."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def end_all(recorded: Sequence[Recorded], *, grace: float = 0.0, sweep: bool = True) -> None:
    """End several at once, as :meth:`Recorded.end` does for one."""
    pairs = [(one.pid, one.born) for one in recorded]
    if grace > 0:
        for one in recorded:
            one.signal_group(signal.SIGTERM)
            # A stopped process takes no SIGTERM until it goes on.
            one.signal_group(signal.SIGCONT)
        wait_gone(pairs, grace)
    for one in recorded:
        one.signal_group(signal.SIGKILL)
    wait_gone(pairs, 10.0)
    if sweep and recorded:
        end_marked(MARKER, *(one.id for one in recorded))
    for one in recorded:
        if one._popen is not None:
            one._popen.poll()
        if not one.alive():
            one.forget()


def marked(variable: str, *values: str) -> list[tuple[int, str]]:
    """(pid, birth) of every live process of this user, our own excepted, with such a variable.

    A program may leave its process group (``setsid``) and its parent (a double
    fork); what it was started with in its environment it keeps.
    """
    found = []
    for pid in _pids():
        if pid != os.getpid() and _variable(pid, variable) in values:
            if (born := birth(pid)) is not None:
                found.append((pid, born))
    return found


def end_marked(variable: str, *values: str) -> int:
    """SIGKILL all of them, until none is found; returns how many there were.

    Something may fork while it is being killed, so one look is not enough.
    """
    ended = 0
    while left := marked(variable, *values):
        for pid, born in left:
            if birth(pid) == born:
                try:
                    os.kill(pid, signal.SIGKILL)
                    ended += 1
                except ProcessLookupError:
                    continue
        if not wait_gone(left, 5.0):
            break  # in uninterruptible sleep: it dies as soon as it wakes
    return ended


def _pids() -> list[int]:
    if sys.platform == "linux":
        return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    import psutil

    return psutil.pids()


def _variable(pid: int, name: str) -> str | None:
    """A variable of a process's environment; None where it has none, or it is another user's."""
    if sys.platform == "linux":
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environ = file.read()
        except OSError:
            return None
        _, found, rest = (b"\0" + environ).partition(f"\0{name}=".encode())
        return rest.partition(b"\0")[0].decode(errors="replace") if found else None
    import psutil

    try:
        return psutil.Process(pid).environ().get(name)
    except (psutil.Error, OSError):
        return None


class NotStarted(Exception):
    """The program could not be started; ``str()`` says why in a sentence."""


class Refused(NotStarted, EnvironmentProblem):
    """It is this machine that does not let the program start, whatever program it is."""


def executable(
    program: str, cwd: str | os.PathLike[str] | None = None, path: str | None = None
) -> str:
    """The absolute path of a command's first word, as a shell in the folder ``cwd`` finds it.

    ``path`` is as in ``$PATH``. Raises :class:`NotStarted` where the folder or the
    program is not there, or is not executable.
    """
    if cwd is not None and not os.path.isdir(cwd):
        raise NotStarted(f"the folder {cwd} is not there.")
    if os.path.dirname(program):
        # A relative path is meant from the folder the program runs in.
        program = os.path.abspath(os.path.join(cwd or os.curdir, program))
    found = shutil.which(program, path=path)
    if found is None:
        if os.path.isfile(program) and (why := refusals.no_programs_from(program)):
            raise Refused(why)
        wrong = "is not executable" if os.path.exists(program) else "is not there"
        raise NotStarted(f"{program} {wrong}.")
    return os.path.abspath(found)


class Records:
    """The process records of a state folder (``dirs.processes()`` when none is given)."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        return self._folder if self._folder is not None else dirs.processes()

    def start(
        self,
        argv: Sequence[str | os.PathLike],
        *,
        name: str,
        kind: str,
        cwd: str | os.PathLike | None = None,
        env: Mapping[str, str] | None = None,
        stdout: int | IO | None = subprocess.DEVNULL,
        stderr: int | IO | None = subprocess.DEVNULL,
        owner: str = "",
        preexec: Sequence[str] = (),
        terminal: bool = False,
    ) -> Recorded:
        """Start a program in a process group of its own, written down before it runs.

        ``env`` is the whole environment (None: this process's own). ``stdout``
        and ``stderr`` are as for subprocess; stdin is empty, or with ``terminal`` this
        process's own (a debugger reads from it). ``preexec`` are lines
        of POSIX shell that run in the child just before the program takes its
        place, such as ``ulimit -f 1024``. Raises :class:`NotStarted` where the
        program is not there or not executable, :class:`Refused` where it is this
        machine that cannot start it.
        """
        command = [os.fspath(part) for part in argv]
        environment = dict(os.environ if env is None else env)
        try:
            command[0] = executable(command[0], cwd, environment.get("PATH", os.defpath))
        except Refused:
            raise
        except NotStarted as error:
            raise NotStarted(f"{name} cannot be started: {error}") from None
        folder = dirs.made(self.folder, private=True)
        id = f"{kind}-{name}-{uuid.uuid4().hex[:12]}".replace("/", "_")
        environment[MARKER] = id
        # The gate is read from standard input; the terminal waits under another number.
        kept = os.dup(0) if terminal else None
        become = 'exec "$@" </dev/null' if kept is None else f'exec "$@" </dev/fd/{kept}'
        script = "\n".join([*_GATE, *preexec, become])
        with limits.said():
            read_end, write_end = os.pipe()
        try:
            try:
                popen = subprocess.Popen(
                    ["/bin/sh", "-c", script, "sh", *command],
                    cwd=cwd,
                    env=environment,
                    stdin=read_end,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                    pass_fds=() if kept is None else (kept,),
                )
            except OSError as error:
                if why := refusals.refusal(error):
                    raise Refused(why) from error
                raise
            finally:
                os.close(read_end)
                if kept is not None:
                    os.close(kept)
            born = birth(popen.pid)
            recorded = Recorded(
                id=id,
                name=name,
                kind=kind,
                pid=popen.pid,
                born=born or "",
                pgid=popen.pid,
                argv=command,
                cwd=str(cwd or os.getcwd()),
                owner=owner,
                host=_host(),
                started_at=time.time(),
                started_by=(os.getpid(), birth(os.getpid())),
                machine=machine.here(),
                _path=folder / f"{id}.json",
                _popen=popen,
            )
            content = json.dumps(_plain(recorded))
            dirs.write_atomically(folder / f"{id}.json", content, mode=0o600)
            os.write(write_end, b"go\n")
        finally:
            # Without the line, whatever the reason, the shell ends here.
            os.close(write_end)
        return recorded

    def all(
        self, *, kind: str | None = None, owner: str | None = None, here: bool = True
    ) -> list[Recorded]:
        """Every record of this machine, of live processes and of ended ones.

        With ``here=False`` those of other machines (and containers) that share the home.
        """
        found = []
        try:
            paths = sorted(self.folder.glob("*.json"))
        except OSError:
            return []
        for path in paths:
            try:
                recorded = _read(path.read_text())
            except FileNotFoundError:
                continue
            except (ValueError, TypeError, KeyError):
                path.unlink(missing_ok=True)  # no version of ours wrote this
                continue
            recorded._path = path
            if recorded.here() != here:
                continue
            if (kind is None or recorded.kind == kind) and (
                owner is None or recorded.owner == owner
            ):
                found.append(recorded)
        return found

    def live(self, *, kind: str | None = None, owner: str | None = None) -> list[Recorded]:
        """The recorded processes that run."""
        return [one for one in self.all(kind=kind, owner=owner) if one.alive()]

    def reap(
        self,
        kind: str | None = None,
        *,
        owner: str | None = None,
        orphans: bool = False,
        grace: float = 0.0,
    ) -> list[Recorded]:
        """End every recorded process of a kind or an owner, and remove the records.

        ``orphans`` limits it to those whose starting command no longer runs.
        Returns those that were running. Nothing else is touched, however stale a
        record may be.
        """
        chosen = [
            one for one in self.all(kind=kind, owner=owner) if not (orphans and one.starter_alive())
        ]
        running = [one for one in chosen if one.alive()]
        end_all(chosen, grace=grace, sweep=bool(chosen))
        return running


def _plain(recorded: Recorded) -> dict:
    popen, recorded._popen = recorded._popen, None  # asdict would copy it
    path, recorded._path = recorded._path, None
    try:
        data = asdict(recorded)
    finally:
        recorded._popen, recorded._path = popen, path
    return {key: value for key, value in data.items() if not key.startswith("_")}


def _read(text: str) -> Recorded:
    data = json.loads(text)
    if (where := data.get("machine")) is not None:
        where = Machine(**where)
    return Recorded(**{**data, "started_by": tuple(data["started_by"]), "machine": where})


def _host() -> str:
    return os.uname().nodename


#: The records of the user's own state folder.
records = Records()
