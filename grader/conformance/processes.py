"""The processes of an operator under test, and the exchanges on their wires."""

from __future__ import annotations

import itertools
import shlex
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader.runner import Runner, RunningProgram
from grader.verdict import Fail, Unknown
from grader.wire.records import Exchange, Mark
from grader.witness.sources import RecordFile

if TYPE_CHECKING:
    from grader.runner.program import Program

#: Seconds until an operator must have asked for WebApps; an interpreter on a busy machine takes some.
STARTING = 30.0


@dataclass(frozen=True)
class Subject:
    """The operator under test: a command in words, and where it runs.

    ``{kubeconfig}`` in a word is replaced by the file that points at the wire;
    KUBECONFIG names it as well. The flags of the contract are added. ``program``
    is what a learner handed in: it is built once, and sandboxed where the
    bench's runner does that; ``argv`` and ``cwd`` are then its own.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    program: Program | None = None

    @classmethod
    def of(cls, program: Program) -> Subject:
        return cls(program.run, program.folder, program=program)

    @property
    def shown(self) -> str:
        return shlex.join(self.argv)


class Processes:
    """Every process of one subject: the one that scenarios share, and those of their own.

    ``shared`` is None while it does not run.
    """

    def __init__(self, subject: Subject, runner: Runner) -> None:
        self.subject = subject
        self.runner = runner
        self.lock = threading.RLock()
        self.shared: RunningProgram | None = None
        #: Whether that one was told to resync every second.
        self._resyncing = False
        self._built: Program | None = None
        #: Whether the suite was ended: what runs no longer shows anything.
        self.abandoned = False
        self._numbers = itertools.count(1)
        self._records: dict[Path, tuple[RecordFile, list[Exchange], list[Mark]]] = {}

    def share(self, resyncing: bool) -> None:
        """Make sure that the shared process runs, resyncing or not: start it, or restart it."""
        with self.lock:
            self._still_wanted()
            if self._resyncing != resyncing:
                self.stop_shared()
            if self.shared is None:
                self._resyncing = resyncing
                flags = ("--resync", "1s") if resyncing else ()
                self.shared = self.start("operator", *flags)
                self.wait_started(self.shared)
            elif self.shared.exited is not None:
                self.shared.start()

    def stop_shared(self) -> None:
        """End the shared process."""
        with self.lock:
            if self.shared is not None:
                self.shared.kill()
                self.shared.wire.close()
                self.shared = None

    def abandon(self) -> None:
        """End every process; none can be started after that."""
        self.abandoned = True
        for program in self.runner.programs:
            program.kill()

    def _still_wanted(self) -> None:
        if self.abandoned:
            raise Unknown("The suite runs to its end.", "It was interrupted.")

    def start(
        self, client: str = "", *flags: str, rules: Sequence[str] = (), **keywords: Any
    ) -> RunningProgram:
        """Start one more, on a wire of its own; ``client`` is its name there."""
        if self.subject.program is None:
            keywords["cwd"] = self.subject.cwd
        with self.lock:
            self._still_wanted()
            program = self._built or self.subject.program
            started = self.runner(
                program or self.subject.argv,
                client or f"operator-{next(self._numbers)}",
                rules=rules,
                env=self.subject.env,
                args=flags,
                **keywords,
            )
            # Built once: what was built stays where it is.
            self._built = program and replace(program, build=())
        return started

    def wait_started(self, program: RunningProgram) -> None:
        """Wait until it has asked for WebApps, or ended: how long a start takes is not judged."""
        self.wait_exchange(program, lambda e: e.resource == "webapps" and e.status == 200, STARTING)

    def wait_exchange(
        self, program: RunningProgram, predicate: Callable[[Exchange], bool], timeout: float
    ) -> bool:
        """Wait until the process has had such an exchange; False after ``timeout`` s or its end."""
        return wait(program, timeout, lambda: any(map(predicate, self.record(program))))

    def record(self, program: RunningProgram) -> list[Exchange]:
        """The exchanges in a wire's record so far; what was read before is not read again."""
        return self._read(program.wire.record)[0]

    def marks(self, program: RunningProgram) -> list[Mark]:
        """What else was noted on its wire: rules, starts, ends."""
        return self._read(program.wire.record)[1]

    def _read(self, path: Path) -> tuple[list[Exchange], list[Mark]]:
        with self.lock:
            source, known, marks = self._records.get(path) or (RecordFile(path), [], [])
            new = source.new()
            marks = marks + [one for one in new if isinstance(one, Mark)]
            if news := [one for one in new if isinstance(one, Exchange)]:
                for exchange in news:
                    if exchange.verb == "list" and exchange.status == 200:
                        # Nobody asks for it, and a loop of lists would fill the memory.
                        exchange.response_body = None
                # Another list: whoever has the old one may be in the middle of it.
                known = known + news
            self._records[path] = (source, known, marks)
            return known, marks


def wait(program: RunningProgram, timeout: float, condition: Callable[[], bool]) -> bool:
    """Wait for the condition or the process's end, whichever comes first; whether it holds."""
    try:
        program.until(condition, timeout, "is seen")
    except (Fail, RuntimeError):
        return bool(condition())
    return True
