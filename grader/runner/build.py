"""The build of a learner's program, and what it means when it does not succeed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path

from grader.cluster import refusals
from grader.cluster.process import NotStarted, Refused, records
from grader.runner import sandbox
from grader.runner.limits import FILE_BYTES, inherited, preexec, tail
from grader.runner.program import Program, interpreted
from grader.verdict import Fail, NotGraded

#: Seconds. A first build of a program against client-go takes a minute or two.
BUILD_SECONDS = 600.0

#: Options of ``go build`` that need cgo.
_INSTRUMENTED = {"-race", "-msan", "-asan"}


def build(program: Program, log: Path, *, isolation: str = "none") -> None:
    """Run a program's build, where it has one, to its end; its output goes to the file ``log``.

    Raises Fail where it does not succeed; NotGraded where the compiler is missing or
    too old, or the machine has no room or memory left: that says nothing about the answer.
    """
    if not program.build:
        return
    program.out.mkdir(parents=True, exist_ok=True)
    environment = {**inherited(), **program.environment()}
    if _INSTRUMENTED & {*program.build}:
        # What these put into a program is C, which Go then has to find a compiler for.
        del environment["CGO_ENABLED"]
    seen_out = sandbox.OUT if isolation == "bwrap" else str(program.out)
    argv = interpreted([part.replace("{out}", seen_out) for part in program.build])
    shown = shlex.join(program.build)
    expected = f"The program builds with `{shown}`."
    if os.sep not in argv[0]:
        found = shutil.which(argv[0], path=environment.get("PATH"))
        if found is None:
            raise (NotGraded if argv[0] == "go" else Fail)(
                expected,
                f"There is no `{argv[0]}` on this machine.",
                next="`phase4 doctor` says what is missing and how to get it.",
                diagnosis="build-tool-missing",
            )
        argv[0] = found
    if isolation == "bwrap":
        argv = sandbox.build_argv(program, argv)
        environment = sandbox.environment(environment)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        try:
            process = records.start(
                argv,
                name="build",
                kind="learner",
                cwd=program.folder,
                env=environment,
                stdout=output,
                stderr=output,
                # A linker writes far larger files than a program's output may be.
                preexec=preexec(file_bytes=8 * FILE_BYTES),
            )
        except Refused as error:
            raise _refused(expected, str(error)) from None
        except NotStarted as error:
            raise Fail(
                expected,
                f"It cannot be started: {error}",
                next="Check the `build` line of program.toml; its paths start at the lab's folder.",
                diagnosis="build-tool-missing",
            ) from None
    try:
        code = process.wait(BUILD_SECONDS)
    except TimeoutError:
        code = None
    finally:
        process.end()
    lines = tuple(line.replace(f"{program.root}/", "") for line in tail(log, 15))
    if code is None:
        raise Fail(
            expected,
            f"It was still building after {BUILD_SECONDS:g} s and was stopped.",
            next=f"Run it yourself in {program.where}.",
            diagnosis="build-hangs",
            evidence=lines,
        )
    too_old = re.compile(r"requires go >= |toolchain not available")
    if code != 0 and any(too_old.search(line) for line in lines):
        raise NotGraded(
            expected,
            "The Go on this machine is older than the module asks for.",
            next="`phase4 doctor` says which version is needed and how to get it.",
            diagnosis="go-too-old",
            evidence=lines,
        )
    if code != 0 and (why := refusals.refused_by_shell(code, lines) or _lacking(lines)):
        raise _refused(expected, why, lines)
    if code != 0:
        raise Fail(
            expected,
            f"`{shown}` ended with exit code {code}; its last lines are below.",
            next=f"Run it yourself in {program.where} and fix the first error that it names.",
            diagnosis="build-failed",
            evidence=lines,
        )


#: What a build tool prints when the machine runs out of something, and what to do then.
_LACKS = {
    r"no space left on device": "the disk is full. Free some space and run the command again.",
    r"(fork/exec|pipe2?:|open ).*too many open files": "it may open no more files. Raise the "
    "limit, for example with `ulimit -n 4096`, and run the command again.",
    r"fork/exec .*resource temporarily unavailable|failed to create new OS thread": "it lets you "
    "start no more processes (`ulimit -u`). End some programs and run the command again.",
    r"cannot allocate memory|\(compile|link|asm\): signal: killed|: signal: killed$": "it has no "
    "memory left. End some programs and run the command again.",
    r"^(go: |\S+\.go:[\d:]+ ).*(dial tcp|no such host|i/o timeout|proxyconnect|"
    r"module lookup disabled by GOPROXY=off)": "a Go module is not in its cache and could not be "
    "fetched. Run the build once where there is a network (`go env GOPROXY` says from where).",
}


def _lacking(lines: Iterable[str]) -> str:
    """What the machine has run out of, where a build says so in its last lines; else empty."""
    for line in lines:
        for sign, what in _LACKS.items():
            if re.search(sign, line):
                return what
    return ""


def _refused(expected: str, why: str, evidence: tuple[str, ...] = ()) -> NotGraded:
    """The machine stopped the build: that says nothing about the answer."""
    seen, _, remedy = why.partition(". ")
    return NotGraded(
        expected,
        f"This machine does not build it: {seen}.",
        next=remedy,
        diagnosis="machine-refused",
        evidence=evidence,
    )
