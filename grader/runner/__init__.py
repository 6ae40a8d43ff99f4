"""Start, watch, stop and kill a learner's programs, each on a wire of its own.

A program is a process in a process group of its own with a record on disk, so
that nothing of it outlives the run, neither what it forked nor what left its
group. With ``isolation="bwrap"`` it also sees nothing of the machine but its
own folder and its wire (see :mod:`grader.runner.sandbox`).
"""

from __future__ import annotations

from grader.runner.program import Program
from grader.runner.runner import Runner
from grader.runner.running import Exit, Line, RunningProgram

__all__ = ["Exit", "Line", "Program", "Runner", "RunningProgram"]
