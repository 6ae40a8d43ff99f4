"""Start programs behind wires: what the ``run`` fixture gives to checks."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from grader.cluster.process import records
from grader.runner import limits, sandbox, subreaper
from grader.runner.build import build
from grader.runner.program import Program
from grader.runner.running import RunningProgram

if TYPE_CHECKING:
    from grader.cluster.interface import Cluster
    from grader.wire import Identity, Wire
    from grader.witness import Timeline


class Runner:
    """Starts programs against one cluster and ends them all when it is closed.

    ``run_dir`` gets a folder for each program: its output, its wire's record.
    ``seed`` is the wires' seed. ``isolation`` is ``none`` or ``bwrap``.
    ``marker`` is a ``NAME=VALUE`` that every program gets into its environment.
    ``building(what)`` is entered around each build.
    """

    def __init__(
        self,
        cluster: Cluster,
        run_dir: Path,
        *,
        seed: int = 0,
        isolation: str = "none",
        marker: str = "",
        building: Callable[[str], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.cluster = cluster
        self.run_dir = Path(run_dir)
        self.seed = seed
        self.isolation = sandbox.checked(isolation)
        #: Everything started so far, in order.
        self.programs: list[RunningProgram] = []
        #: The wires' rules, in their text form, in the order in which they were given.
        self.rules: list[str] = []
        self._marker = marker
        self._building = building
        self._wires: list[Wire] = []
        self._since = time.time()
        self._timeline: Timeline | None = None

    def __enter__(self) -> Runner:
        subreaper.adopt()
        # Programs of graders that were killed: their sweep ended them, or this does.
        records.reap("learner", orphans=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __call__(
        self,
        program: Program | Sequence[str],
        client: str = "operator",
        *,
        rules: Sequence[Any] = (),
        env: Mapping[str, str] | None = None,
        args: Sequence[str] = (),
        cwd: Path | None = None,
        identity: Identity | None = None,
        tools: Mapping[str, Path] | None = None,
        start: bool = True,
    ) -> RunningProgram:
        """Build the program where it needs it, give it a wire with ``rules``, and start it.

        ``program`` is a submission's, or a command of the course's own in words
        (``python3`` is the course's interpreter, ``{kubeconfig}`` its wire), which
        needs no sandbox. ``client`` is its name
        on the wire. ``env`` and ``args`` are added to its own. ``cwd`` is for a
        command in words. ``identity`` is whom the API server takes it for (an
        admin otherwise). ``tools`` are programs of the course's own, by name, that it finds
        first in its PATH. With ``start=False`` it is made ready; call
        ``.start()``. Raises Fail, as messages for the learner, where it does
        not build or cannot be started.
        """
        from grader.wire import Wire

        number = 1 + sum(known.client == client for known in self.programs)
        # A wire's files are in a folder with its client's name.
        base = self.run_dir if number == 1 else self.run_dir / str(number)
        wire = Wire(self.cluster, client, base, rules=rules, seed=self.seed, identity=identity)
        folder = wire.folder
        learners = isinstance(program, Program)
        if not isinstance(program, Program):
            program = Program(tuple(program), Path(cwd or self.run_dir), folder)
        if args:
            program = replace(program, run=(*program.run, *args))
        running = made_ready(
            program,
            client,
            folder,
            wire=wire,
            env=env or {},
            isolation=self.isolation if learners else "none",
            marker=self._marker,
            building=self._building,
            tools=tools or {},
        )
        wire.open()
        self._wires.append(wire)
        self.rules += [str(rule) for rule in rules]
        wire.on_kill(running.kill_now)
        self.programs.append(running)
        return running.start() if start else running

    @property
    def timeline(self) -> Timeline:
        """All wires' records of this run, and the audit log where the cluster has one; grows."""
        if self._timeline is None:
            from grader.cluster.interface import Capability
            from grader.witness import Timeline

            audited = Capability.AUDIT in self.cluster.capabilities
            self._timeline = Timeline(
                self.run_dir, cluster=self.cluster if audited else None, since=self._since
            )
        return self._timeline

    def trouble(self) -> str:
        """What is wrong with the wires' records, as half a sentence; empty when they are whole."""
        for wire in self._wires:
            if wire.failure is not None:
                return f"The record of {wire.client}'s wire is incomplete ({wire.failure.strerror})"
        return ""

    def close(self) -> None:
        """End every program, then its wire."""
        for running in self.programs:
            if running.starts and running.exited is None:
                running.kill()
        subreaper.end_strays()
        for wire in reversed(self._wires):
            wire.close()
        self._wires.clear()


def made_ready(
    program: Program,
    client: str,
    folder: Path,
    *,
    wire: Wire | None,
    env: Mapping[str, str],
    isolation: str,
    marker: str,
    building: Callable[[str], AbstractContextManager[None]],
    tools: Mapping[str, Path] = MappingProxyType({}),
) -> RunningProgram:
    """Build a program where it needs it, and have it ready to start; its output goes to ``folder``.

    The arguments are as for :class:`Runner`; ``wire`` may be opened later, but
    before the start. Raises Fail where the program does not build.
    """
    inside = isolation == "bwrap"
    folder.mkdir(parents=True, exist_ok=True)
    if program.build:
        with building(f"building with {shown(program.build)}"):
            build(program, folder / "build.log", isolation=isolation)
    environment = limits.inherited() | program.environment(sandbox.LABS if inside else "")
    if wire is not None:
        environment["KUBECONFIG"] = str(wire.kubeconfig)
    environment.update(env)
    if tools:
        found = sandbox.TOOLS if inside else _linked(folder / "tools", tools)
        environment["PATH"] = os.pathsep.join([found, environment.get("PATH", os.defpath)])
    if marker:
        name, _, value = marker.partition("=")
        environment[name] = value
    if inside:
        environment = sandbox.environment(environment)

    def argv() -> Sequence[str]:
        if not inside:
            return program.argv(str(wire.kubeconfig) if wire is not None else "")
        if wire is None:
            return sandbox.offline_argv(program)
        return sandbox.run_argv(program, folder, wire.unix_socket, tools)

    return RunningProgram(
        client,
        shown(program.run),
        argv,
        folder=program.folder,
        run_dir=folder,
        env=environment,
        wire=wire,
        sandboxed=inside,
        by_hand=shown(program.argv("{kubeconfig}")),
        where=program.where,
        root=(sandbox.LABS if inside else str(program.root)) if program.root else "",
    )


def shown(words: Sequence[str]) -> str:
    """A command for messages: the interpreter's path is of no interest."""
    return shlex.join("python3" if word == sys.executable else word for word in words)


def _linked(folder: Path, tools: Mapping[str, Path]) -> str:
    """A folder with a link to each tool: what else lies beside one is not to be found."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in tools.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(path.resolve())
    return str(folder)
