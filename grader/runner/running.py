"""One running program: what it prints, how it ends, and how it is ended."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader.cluster import refusals
from grader.cluster.process import NotStarted, Recorded, Refused, records, wait_gone
from grader.runner import limits, sandbox
from grader.runner.wired import WiredProcess
from grader.verdict import Fail, NotGraded, Outcome

if TYPE_CHECKING:
    from grader.wire import Wire
    from grader.witness import Timeline

#: Seconds between two looks at a program's output files.
_LOOK = 0.01
#: Seconds between two counts of its processes.
_COUNT = 0.5

_FLUSH = " Python buffers its output when it does not go to a terminal: use print(…, flush=True)."


class Line(str):
    """A line of a program's standard output; ``t`` is when it was read, seconds since the epoch."""

    t: float

    def __new__(cls, text: str, t: float) -> Line:
        line = super().__new__(cls, text)
        line.t = t
        return line

    def __getnewargs__(self) -> tuple[str, float]:
        """The arguments of a copy: a line may be part of a message."""
        return str(self), self.t


@dataclass(frozen=True)
class Exit:
    """How a program ended.

    ``code`` is its exit code, None where a signal ended it; ``signal`` that
    signal's number. ``by`` says who: ``itself``, ``grader`` (killed or stopped
    on purpose), ``limit`` (it took more than it may). ``after`` is seconds from
    its start. ``obeyed`` is False where SIGTERM was sent and SIGKILL was needed.
    """

    code: int | None
    signal: int | None
    by: str
    after: float
    obeyed: bool = True

    def __str__(self) -> str:
        if self.signal is not None:
            return f"was terminated by {_signal_name(self.signal)} after {self.after:.1f} s"
        return f"ended with exit code {self.code} after {self.after:.1f} s"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class RunningProgram(WiredProcess):
    """A program whose output is captured and kept within limits, on a wire of its own.

    Made by :class:`grader.runner.Runner`. All times are in seconds. The output
    is in ``stdout_path`` and ``stderr_path``; ``stdout_lines`` grows as lines
    are completed, over restarts as well.
    """

    def __init__(
        self,
        client: str,
        shown: str,
        argv: Callable[[], Sequence[str]],
        *,
        folder: Path,
        run_dir: Path,
        env: Mapping[str, str],
        wire: Wire | None,
        sandboxed: bool = False,
        by_hand: str = "",
        where: str = "",
        root: str = "",
    ) -> None:
        super().__init__(client, wire)
        #: The command as its author wrote it.
        self.shown = shown
        #: The same for a shell: with the file that the build made for ``{out}/…``.
        self.by_hand = by_hand or shown
        #: Where to type it, for a person.
        self.where = where or os.path.abspath(folder)
        #: Of no interest in what it prints: the folder that this run was put together in.
        self._root = f"{root}/" if root else ""
        self.run_dir = run_dir
        self.stdout_path = run_dir / "stdout"
        self.stderr_path = run_dir / "stderr"
        #: The lines of standard output so far, in order.
        self.stdout_lines: list[Line] = []
        #: How many times it was started.
        self.starts = 0
        self._argv, self._folder, self._env = argv, folder, dict(env)
        self._sandboxed = sandboxed
        self._timeline: Timeline | None = None
        self._changed = threading.Condition()
        self._exit: Exit | None = None
        self._started = 0.0
        self._asked: set[str] = set()
        self._limit = ""
        #: Where this start's output begins in the two files.
        self._stdout_before = self._stderr_before = 0

    # -- life ---------------------------------------------------------------------

    def start(self) -> RunningProgram:
        """Start it (again, on the same wire, after it has ended)."""
        if self._process is not None and self._exit is None:
            raise RuntimeError(f"{self.client} is running already")
        self._join()
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self._asked, self._limit, self._exit, self._process = set(), "", None, None
        with self.stdout_path.open("ab") as out, self.stderr_path.open("ab") as err:
            self._stdout_before, self._stderr_before = out.tell(), err.tell()
            self._started = time.time()
            try:
                process = records.start(
                    self._argv(),
                    name=self.client,
                    kind="learner",
                    cwd=self._folder,
                    env=self._env,
                    stdout=out,
                    stderr=err,
                    preexec=limits.preexec(),
                )
            except Refused as error:
                raise self._refused(str(error)) from None
            except NotStarted as error:
                raise Fail(
                    f"`{self.shown}` starts.",
                    f"It cannot be started: {error}",
                    next="Check the `run` line of program.toml; its paths start at the lab's "
                    "folder.",
                    diagnosis="program-not-started",
                ) from None
        self.starts += 1
        self._follow(process)
        return self

    def restart(self) -> RunningProgram:
        """Start it again; kills it first where it still runs."""
        if self._running():
            self.kill()
        return self.start()

    @property
    def exited(self) -> Exit | None:
        """How it ended, or None while it runs."""
        process = self._process
        if self._exit is None and process is not None and not process.alive():
            self._join()
        return self._exit

    @property
    def pid(self) -> int:
        """The id of the process that takes its signals: its own, or the relay's in a sandbox."""
        if self._process is None:
            raise RuntimeError(f"{self.client} was not started")
        if self._sandboxed:
            return sandbox.first_inside(self._process.pid) or self._process.pid
        return self._process.pid

    def kill(self) -> Exit:
        """SIGKILL to the program and all that it started; nothing of it runs when this returns."""
        process = self._running()
        if process is not None:
            self._asked.add("kill")
            process.kill()
            process.end()
        return self._how_it_ended()

    def _kills(self, process: Recorded) -> None:
        self._asked.add("kill")

    def terminate(self, grace: float = 5.0) -> Exit:
        """SIGTERM to the program (not its children), SIGKILL to all of it after ``grace``.

        ``.obeyed`` of what is returned says whether it ended by itself in time.
        """
        process = self._running()
        if process is not None:
            self._asked.add("term")
            try:
                os.kill(self.pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
            if not wait_gone([(process.pid, process.born)], grace):
                self._asked.add("kill")
            process.end()
        return self._how_it_ended()

    def pause(self) -> None:
        """SIGSTOP to the program's process group: it halts in the middle of whatever it does."""
        if (process := self._running()) is not None:
            process.signal_group(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it continues without knowing that time has passed."""
        if (process := self._running()) is not None:
            process.signal_group(signal.SIGCONT)

    def _running(self) -> Recorded | None:
        return self._process if self._process is not None and self._exit is None else None

    # -- what a grader asks -------------------------------------------------------

    @property
    def timeline(self) -> Timeline:
        """What its wire has seen so far; grows."""
        if self._timeline is None:
            from grader.witness import Timeline

            if self.wire is None:
                raise RuntimeError(f"{self.client} has no wire")
            self._timeline = Timeline(self.wire.folder)
        return self._timeline

    def stderr_tail(self, count: int = 10) -> tuple[str, ...]:
        """The last lines of its standard error."""
        lines = limits.tail(self.stderr_path, count)
        return tuple(line.replace(self._root, "") for line in lines) if self._root else lines

    def wait_line(
        self, predicate: Callable[[Line], Any], timeout: float, what: str = "prints it"
    ) -> Line:
        """The first line of its output, from its first start on, that ``predicate`` accepts.

        ``what`` completes «the program …» in the message. Raises Fail where the
        program ends without it or does not print it in ``timeout`` seconds.
        """
        place = 0

        def found() -> Line | None:
            nonlocal place
            while place < len(self.stdout_lines):
                line = self.stdout_lines[place]
                place += 1
                if predicate(line):
                    return line
            return None

        return self.until(found, timeout, what)

    def until(self, condition: Callable[[], Any], timeout: float, what: str) -> Any:
        """Wait until ``condition()`` is true while the program runs; returns its value.

        Asked whenever the program printed and otherwise every few milliseconds.
        ``what`` completes «the program …». Raises Fail where the program ends
        first or the time is up.
        """
        deadline = time.monotonic() + timeout
        while True:
            # Check first whether it has ended: what it did before must be seen.
            ended = self.exited
            if value := condition():
                return value
            if ended is not None:
                raise self.ended(what)
            left = deadline - time.monotonic()
            if left <= 0:
                raise Fail(
                    f"`{self.shown}` {what} within {timeout:g} s.",
                    "It is running, but has not done so. To its standard output it has printed "
                    + (f"{len(self.stdout_lines)} lines." if self.stdout_lines else "nothing.")
                    + (
                        " The last lines of its standard error are below."
                        if self.stderr_tail(1)
                        else ""
                    ),
                    next=f"All of its output is in {self.run_dir}."
                    + (_FLUSH if "python" in self.shown else ""),
                    diagnosis="program-hangs",
                    evidence=self._last_output(),
                )
            with self._changed:
                self._changed.wait(min(left, 0.02))

    def wait_exit(self, timeout: float, what: str = "ends") -> Exit:
        """Wait until it has ended, by itself or killed by a rule of its wire; returns how.

        ``what`` completes «the program …». Raises Fail where it still runs after
        ``timeout`` seconds.
        """
        return self.until(lambda: self.exited, timeout, what)

    def require_running(self, what: str = "goes on running") -> None:
        """Fail where the program has ended. ``what`` completes «the program …»."""
        if self.exited is not None:
            raise self.ended(what)

    def ended(self, what: str) -> Outcome:
        """The sentence for a program that ended although ``what`` was still awaited.

        NotGraded where it never ran, as this machine cannot start it.
        """
        how = self.exited
        expected = f"`{self.shown}` {what}."
        if how is not None and how.by == "grader":
            # The grader killed it: waiting for it after that is the grader's bug.
            raise RuntimeError(f"waiting for {self.client} that was killed: {what}")
        if self._limit:
            return Fail(
                expected,
                f"It was stopped: {self._limit}.",
                next="See the first lines of its output "
                f"({self.stdout_path}, {self.stderr_path}): what is repeated?",
                diagnosis="program-over-limit",
                evidence=self._last_output(),
            )
        if how is not None and how.code and self._process is not None:
            why = refusals.refused_by_shell(how.code, self.stderr_tail()) or (
                "" if self.stdout_lines else refusals.for_another_machine(self._process.argv[0])
            )
            if why:
                return self._refused(why)
        return Fail(
            expected,
            f"It {how} instead."
            + (" The last lines of its standard error are below." if self.stderr_tail(1) else ""),
            next="Start it as it was started here: "
            f"`phase4 run -- {self.by_hand}` in {self.where}.",
            diagnosis="program-exited",
            evidence=self._last_output(),
        )

    def _refused(self, why: str) -> NotGraded:
        """The machine does not start it: that says nothing about the program."""
        seen, _, remedy = why.partition(". ")
        return NotGraded(
            f"`{self.shown}` starts.",
            f"This machine does not start it: {seen}.",
            next=remedy,
            diagnosis="machine-refused",
        )

    def _last_output(self) -> tuple[str, ...]:
        return self.stderr_tail() or limits.tail(self.stdout_path, 10)

    # -- watching -----------------------------------------------------------------

    def _watch(self, process: Recorded) -> None:
        """Read its output as it comes, keep it within its limits, note how it ends."""
        pending = b""
        taken = 0
        counted = time.monotonic()
        with self.stdout_path.open("rb") as out:
            out.seek(self._stdout_before)
            while True:
                ended = not process.alive()
                chunk = b"" if self._limit else out.read(1024 * 1024)
                if chunk:
                    taken += len(chunk)
                    pending = self._lines(pending + chunk)
                if not self._limit:
                    due = time.monotonic() - counted >= _COUNT
                    self._limit = self._over(taken, count=due and not ended)
                    counted = time.monotonic() if due else counted
                    if self._limit:
                        process.end()
                        continue
                if chunk:
                    continue
                if ended:
                    break
                # Nothing tells of a file that grows, on every system alike.
                try:
                    process.wait(_LOOK)
                except TimeoutError:
                    pass
        if pending:
            self._lines(pending + b"\n")
        code = process.returncode
        # What it started and left behind ends with it.
        process.end()
        self._exit = self._concluded(code)
        self._mark("process_exited", pid=process.pid, code=code)
        with self._changed:
            self._changed.notify_all()

    def _lines(self, data: bytes) -> bytes:
        *whole, pending = data.split(b"\n")
        if whole:
            now = time.time()
            lines = [Line(line.decode("utf-8", "replace").rstrip("\r"), now) for line in whole]
            with self._changed:
                self.stdout_lines += lines
                self._changed.notify_all()
        return pending

    def _over(self, taken: int, *, count: bool) -> str:
        """The limit that the program has exceeded, as half a sentence; empty for none."""
        sizes = {"output": taken, "error": self.stderr_path.stat().st_size - self._stderr_before}
        for name, size in sizes.items():
            if size > limits.OUTPUT_BYTES:
                most = limits.OUTPUT_BYTES // 2**20
                return f"it had printed more than {most} MiB to its standard {name}"
        if count and self._process is not None:
            processes = 1 + len(self._process.descendants())
            if processes > limits.PROCESSES:
                return f"it had started {processes} processes ({limits.PROCESSES} are allowed)"
        return ""

    def _concluded(self, code: int | None) -> Exit:
        after = time.time() - self._started
        by = "limit" if self._limit else "grader" if self._asked else "itself"
        number = -code if code is not None and code < 0 else None
        if self._sandboxed and code is not None and 128 < code <= 192:
            number = code - 128  # as shells say it, and so does what is around the program
        return Exit(
            code if number is None else None,
            number,
            by,
            after,
            obeyed=not {"term", "kill"} <= self._asked,
        )

    def _how_it_ended(self) -> Exit:
        self._join()
        if self._exit is None:
            raise RuntimeError(f"{self.client} was not started")
        return self._exit
