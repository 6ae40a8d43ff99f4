"""A learner's program as ``program.toml`` declares it, and its build.

::

    build = ["go", "build", "-o", "{out}/stages", "."]   # optional
    run = ["{out}/stages", "--kubeconfig", "{kubeconfig}"]

``{out}`` is a folder for what the build makes, ``{kubeconfig}`` the file that
points at the program's wire (``KUBECONFIG`` names it as well). ``python`` and
``python3`` are the course's own interpreter. Where a lab hands in several
programs, each has a table ``[program.NAME]`` with the same two keys. Where an artifact
has both tracks in one folder, the tables ``[python]`` and ``[go]`` hold the two keys.

A program of a lab's own runs in the lab's folder, an artifact's at the workspace's root.
Python finds the artifacts' packages in both.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from grader import course
from grader.cluster import refusals
from grader.verdict import Fail, NotGraded

if TYPE_CHECKING:
    from grader.labs.submission import Submission

FILE = "program.toml"

#: Seconds. A first build of a program against client-go takes a minute or two.
BUILD_SECONDS = 600.0

_PYTHON = {"python", "python3"}

#: Options of ``go build`` that need cgo.
_INSTRUMENTED = {"-race", "-msan", "-asan"}


@dataclass(frozen=True)
class Program:
    """What to run, and what to build before.

    ``folder`` is where both run; ``out`` replaces ``{out}``. ``name`` is empty
    for a lab's only program. ``root`` is the root of the workspace, None for a
    command of the course's own.
    """

    run: tuple[str, ...]
    folder: Path
    out: Path
    build: tuple[str, ...] = ()
    name: str = ""
    root: Path | None = None

    def environment(self, root: str = "") -> dict[str, str]:
        """What it gets besides. ``root`` is where the workspace's is seen, if not where it is."""
        if self.root is None:
            return {}
        seen = PurePath(root or self.root)
        folders = [seen, *(seen / name for name in import_roots(self.root))]
        return {"PYTHONPATH": os.pathsep.join(map(str, folders))}

    @property
    def where(self) -> str:
        """Where to type its commands, for a person: what is run is a copy of the workspace."""
        if self.root is None:
            return os.path.abspath(self.folder)
        inside = self.folder.relative_to(self.root).as_posix()
        return "your workspace" if inside == "." else f"{inside} of your workspace"

    @property
    def shown(self) -> str:
        """The command as its author wrote it, for messages."""
        return shlex.join(self.run)

    def argv(self, kubeconfig: str, *, out: str = "") -> list[str]:
        """The command to execute. ``out`` is where the build is seen, if not where it is."""
        filled = [
            part.replace("{kubeconfig}", kubeconfig).replace("{out}", out or str(self.out))
            for part in self.run
        ]
        return _interpreted(filled)

    @classmethod
    def read(cls, submission: Submission, name: str = "") -> Program:
        """The declaration of a submission's program; NotGraded and Fail as its files deserve."""
        file = str(PurePath(submission.program_folder, FILE))
        shown = submission.shown(file)
        text = submission.text(file)
        try:
            table: Any = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise Fail(
                f"{shown} is TOML.",
                f"It cannot be read: {error}.",
                next='It looks like: run = ["python3", "program.py"]',
                diagnosis="bad-program-toml",
            ) from None
        where = shown
        if isinstance(table.get(submission.track), dict):
            where = f"[{submission.track}] in {shown}"
            table = table[submission.track]
        if name:
            where = f"[program.{name}] in {shown}"
            table = table.get("program", {})
            table = table.get(name) if isinstance(table, dict) else None
            if table is None:
                raise NotGraded(
                    f"{where} declares a program.",
                    "There is no such table.",
                    next=f'Add it: [program.{name}] with run = ["python3", "…"]',
                    diagnosis="nothing-handed-in",
                )
        submission.require_parts()
        run = _command(table, "run", where)
        if not run:
            raise Fail(
                f"{where} says how the program is started.",
                "It has no `run`, or an empty one.",
                next='Add the command, word by word: run = ["python3", "program.py"]',
                diagnosis="bad-program-toml",
            )
        out = submission.out or submission.path / ".phase4-build"
        folder = submission.root if submission.program_folder else submission.path
        build = _command(table, "build", where)
        return cls(run, folder, out, build, name, submission.root)

    def built(self, log: Path, *, isolation: str = "none") -> None:
        """Run the build to its end; its output goes to the file ``log``.

        Raises Fail where it does not succeed, NotGraded where the compiler is
        missing or too old or the machine is at its end: that is the machine's
        lack, not the answer's.
        """
        if not self.build:
            return
        from grader.cluster.process import NotStarted, Refused, records
        from grader.runner import sandbox
        from grader.runner.limits import FILE_BYTES, inherited, preexec, tail

        self.out.mkdir(parents=True, exist_ok=True)
        environment = {**inherited(), **self.environment()}
        if _INSTRUMENTED & {*self.build}:
            # What these put into a program is C, which Go then has to find a compiler for.
            del environment["CGO_ENABLED"]
        seen_out = sandbox.OUT if isolation == "bwrap" else str(self.out)
        argv = _interpreted([part.replace("{out}", seen_out) for part in self.build])
        shown = shlex.join(self.build)
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
            argv = sandbox.build_argv(self, argv)
            environment = sandbox.environment(environment)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            try:
                process = records.start(
                    argv,
                    name="build",
                    kind="learner",
                    cwd=self.folder,
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
                    next="Check the `build` line of program.toml; its paths start at the lab's "
                    "folder.",
                    diagnosis="build-tool-missing",
                ) from None
        try:
            code = process.wait(BUILD_SECONDS)
        except TimeoutError:
            code = None
        finally:
            process.end()
        lines = tuple(line.replace(f"{self.root}/", "") for line in tail(log, 15))
        if code is None:
            raise Fail(
                expected,
                f"It was still building after {BUILD_SECONDS:g} s and was stopped.",
                next=f"Run it yourself in {self.where}.",
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
                next=f"Run it yourself in {self.where} and mend the first error that it names.",
                diagnosis="build-failed",
                evidence=lines,
            )


def import_roots(root: Path) -> list[str]:
    """The artifacts' folders that hold Python packages and are none themselves, by name."""
    return [
        name
        for name in course.load().artifacts
        if (root / name).is_dir() and not (root / name / "__init__.py").exists()
    ]


#: What a build tool says when the machine is at its end, and what that is for a person.
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
    """What the machine lacks, where a build says so in its last lines; else empty."""
    for line in lines:
        for sign, what in _LACKS.items():
            if re.search(sign, line):
                return what
    return ""


def _refused(expected: str, why: str, evidence: tuple[str, ...] = ()) -> NotGraded:
    """The build was stopped by the machine: says nothing about the answer."""
    seen, _, remedy = why.partition(". ")
    return NotGraded(
        expected,
        f"This machine does not build it: {seen}.",
        next=remedy,
        diagnosis="machine-refused",
        evidence=evidence,
    )


def _interpreted(words: list[str]) -> list[str]:
    """A command with the course's own interpreter for ``python``."""
    return [sys.executable, *words[1:]] if words[0] in _PYTHON else words


def _command(table: Any, key: str, where: str) -> tuple[str, ...]:
    value = table.get(key, []) if isinstance(table, dict) else None
    if not isinstance(value, list) or not all(isinstance(word, str) and word for word in value):
        raise Fail(
            f"`{key}` in {where} is a list of words.",
            "It is something else.",
            next=f'Write each word as a string of its own: {key} = ["python3", "program.py"]',
            diagnosis="bad-program-toml",
        )
    return tuple(value)
