"""A program that a person runs: started, stopped and killed behind a wire of its own.

What graders start has limits and its output is captured; here the output goes
where the command's own goes. Files, in the run's folder: ``run.json`` (what was
run, so that it can be run again) and the wire's.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.cluster import dirs
from grader.cluster.process import Recorded, records
from grader.runner.program import Program
from grader.runner.wired import WiredProcess
from grader.wire import Wire

RUN_FILE = "run.json"


class InteractiveProgram(WiredProcess):
    """One program behind a wire; use as a context manager.

    ``argv`` may hold ``{kubeconfig}``; ``python3`` is the course's interpreter.
    ``env`` is added to its environment; with ``terminal`` it reads from ours, where there
    is one, as a debugger does; ``about`` goes into ``run.json``. Ended, with all that it
    started, when the block is left; a command that is killed leaves a record by which
    ``phase4 down`` or the next run ends it.
    """

    wire: Wire

    def __init__(
        self,
        wire: Wire,
        argv: Sequence[str],
        run_dir: Path,
        *,
        env: Mapping[str, str] | None = None,
        terminal: bool = False,
        **about: Any,
    ) -> None:
        super().__init__(wire.client, wire)
        self.argv = list(argv)
        self.run_dir = run_dir
        self.exit_code: int | None = None
        #: Called with the exit code each time the program has ended, on a thread of ours.
        self.on_exit: Callable[[int | None], None] = lambda code: None
        self._env = dict(env or {})
        self._terminal = terminal and sys.stdin is not None and sys.stdin.isatty()
        self._about = {"cwd": os.getcwd(), **about}
        #: Ids of processes that a rule had killed.
        self._killed: set[int] = set()
        self._lock = threading.Lock()
        self._owner = f"drive/{os.getpid()}"

    def __enter__(self) -> InteractiveProgram:
        # A program that a killed command left running would write meanwhile.
        records.reap("learner", orphans=True)
        self._write(started=time.time())
        self.wire.on_kill(self.kill_now)
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        records.reap("learner", owner=self._owner)
        self._write(ended=time.time(), exit_code=self.exit_code)

    def _write(self, **more: Any) -> None:
        self._about.update(more)
        data = {
            "argv": self.argv,
            "client": self.wire.client,
            "seed": self.wire.seed,
            **self._about,
        }
        # A command's words can hold a password.
        dirs.write_atomically(
            self.run_dir / RUN_FILE, json.dumps(data, indent=1) + "\n", mode=0o600
        )

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.alive()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self.running else None

    def start(self) -> None:
        """Start it (again); raises :class:`grader.cluster.process.NotStarted` with a sentence."""
        with self._lock:
            if self.running:
                return
            self._join()
            self.exit_code = None
            program = Program(tuple(self.argv), Path(), self.run_dir)
            process = records.start(
                program.argv(str(self.wire.kubeconfig.absolute())),
                name=self.client,
                kind="learner",
                env={**environment(self.wire), **self._env},
                terminal=self._terminal,
                stdout=None,
                stderr=None,
                owner=self._owner,
            )
            self._follow(process)

    def _watch(self, process: Recorded) -> None:
        code = process.wait()
        process.end()
        self.exit_code = code
        self._mark("process_exited", pid=process.pid, code=code)
        self.on_exit(code)

    def _kills(self, process: Recorded) -> None:
        self._killed.add(process.pid)

    def killed_by_rule(self) -> bool:
        """Whether a rule of the wire had the last process killed."""
        return self._process is not None and self._process.pid in self._killed

    def wait(self) -> int | None:
        """Wait until it has ended; the exit code as subprocess has it."""
        self._join()
        return self.exit_code

    def stop(self, grace: float = 5.0) -> None:
        """SIGTERM, and SIGKILL after ``grace`` seconds."""
        if self._process is not None:
            self._process.end(grace=grace)
            self._join()

    def kill(self) -> None:
        """SIGKILL to all of it; gone when this returns."""
        if self._process is not None:
            self._process.end()
            self._join()


def environment(wire: Wire) -> dict[str, str]:
    """A person's own environment, with the wire in the place of any cluster."""
    result = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_SERVICE_")}
    result["KUBECONFIG"] = str(wire.kubeconfig.absolute())
    for name in ("NO_PROXY", "no_proxy"):
        known = result.get(name)
        result[name] = f"{known},127.0.0.1,localhost" if known else "127.0.0.1,localhost"
    return result


def read_run(folder: Path) -> dict[str, Any] | None:
    """What a run's folder says was run; None where it does not say."""
    try:
        data = json.loads((folder / RUN_FILE).read_text())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) and isinstance(data.get("argv"), list) else None
