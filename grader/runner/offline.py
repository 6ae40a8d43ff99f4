"""Programs that need no cluster: they are asked, they answer, they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from grader.runner import limits, sandbox, subreaper
from grader.runner.program import Program
from grader.runner.runner import shown
from grader.runner.running import RunningProgram


@contextmanager
def offline(
    program: Program,
    run_dir: Path,
    *,
    name: str = "program",
    env: Mapping[str, str] | None = None,
    isolation: str = "none",
    marker: str = "",
    building: Callable[[str], AbstractContextManager[None]] = nullcontext,
) -> Iterator[RunningProgram]:
    """Build a submission's program and start it without a wire; it is gone after the block.

    ``env`` is added to its environment, and is how it is asked: its standard
    input is empty. ``isolation``, ``marker`` and ``building`` are as for
    :class:`~grader.runner.Runner`. Raises Fail as that does.
    """
    inside = sandbox.checked(isolation) == "bwrap"
    folder = run_dir / name
    folder.mkdir(parents=True, exist_ok=True)
    if program.build:
        with building(f"building with {shown(program.build)}"):
            program.built(folder / "build.log", isolation=isolation)
    environment = {
        **limits.inherited(),
        **program.environment(sandbox.LABS if inside else ""),
        **(env or {}),
    }
    if marker:
        key, _, value = marker.partition("=")
        environment[key] = value
    if inside:
        environment = sandbox.environment(environment)
    running = RunningProgram(
        name,
        shown(program.run),
        lambda: sandbox.offline_argv(program) if inside else program.argv(""),
        folder=program.folder,
        run_dir=folder,
        env=environment,
        wire=None,
        sandboxed=inside,
        by_hand=shown(program.argv("{kubeconfig}")),
    )
    subreaper.adopt()
    try:
        yield running.start()
    finally:
        if running.exited is None:
            running.kill()
        subreaper.end_strays()
