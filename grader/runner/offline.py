"""Programs that need no cluster: they are asked, they answer, they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from grader.runner import sandbox, subreaper
from grader.runner.program import Program
from grader.runner.runner import made_ready
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
    running = made_ready(
        program,
        name,
        run_dir / name,
        wire=None,
        env=env or {},
        isolation=sandbox.checked(isolation),
        marker=marker,
        building=building,
    )
    subreaper.adopt()
    try:
        yield running.start()
    finally:
        if running.exited is None:
            running.kill()
        subreaper.end_strays()
