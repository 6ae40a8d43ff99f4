"""What was handed in for one lab: a folder, read as untrusted input.

Whatever is wrong with a file becomes a sentence about that file (FAIL), or NOT GRADED
where it is missing.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePath
from typing import BinaryIO

from grader import course
from grader.runner.declaration import FILE, Declaration
from grader.runner.program import Program
from grader.verdict import Fail, NotGraded

#: Bytes. No answer of this course comes near it; a log pasted by mistake does.
TEXT_LIMIT = 2 * 1024 * 1024


class Submission:
    """One lab's folder as handed in, and the artifacts beside it.

    ``path`` is the lab's folder, ``root`` what it is in, ``lab`` the lab's id,
    ``track`` ``python``, ``go`` or empty. ``out`` is where builds go (outside of both).
    A file's name is its path in the lab's folder; one that begins with the folder of
    an artifact is its path from ``root``.
    """

    def __init__(self, path: Path, lab: str, track: str = "", out: Path | None = None) -> None:
        self.path = Path(path)
        self.root = self.path.parent
        self.lab = lab
        self.track = track
        self.out = out

    def __repr__(self) -> str:
        return f"Submission({str(self.path)!r}, {self.lab!r}, {self.track!r})"

    def has(self, name: str) -> bool:
        """Whether something of that name was handed in."""
        return os.path.lexists(self.at(name))

    def at(self, name: str) -> Path:
        """Where the file of that name would be."""
        return self._base(name) / name

    def _base(self, name: str) -> Path:
        artifacts = course.load().artifacts
        return self.root if PurePath(name).parts[0] in artifacts else self.path

    def file(self, name: str, *, limit: int = TEXT_LIMIT) -> Path:
        """The path of a regular file inside the folder, not larger than ``limit`` bytes.

        Raises NotGraded where there is none, Fail for anything but a regular
        file of ours to read: a folder, a pipe, a link to somewhere else.
        """
        self._open(name, limit).close()
        return self.at(name)

    def data(self, name: str, *, limit: int = TEXT_LIMIT) -> bytes:
        """The bytes of a file; raises as :meth:`file` does."""
        with self._open(name, limit) as handle:
            return handle.read(limit + 1)

    def text(self, name: str, *, limit: int = TEXT_LIMIT) -> str:
        """The text of a file, with ``\\n`` at the end of each line.

        Raises NotGraded where it is missing, and Fail with a sentence where it
        is not UTF-8 text (a byte order mark is let through), too long, or not
        readable.
        """
        data = self.data(name, limit=limit)
        shown = self.shown(name)
        expected = f"{shown} is a text file in UTF-8."
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise Fail(
                expected,
                f"{shown} is in UTF-16.",
                next="Save it again with the encoding UTF-8 (in most editors: Save as, Encoding).",
                diagnosis="not-utf-8",
            )
        if b"\0" in data:
            raise Fail(
                expected,
                f"{shown} is a binary file.",
                next=f"Put your answer into {name} as plain text.",
                diagnosis="binary-file",
            )
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise Fail(
                expected,
                f"Line {line} of {shown} has a byte that is not UTF-8 (0x{data[error.start]:02x}).",
                next="Save it again with the encoding UTF-8.",
                diagnosis="not-utf-8",
            ) from None
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def untouched(self, name: str) -> bool:
        """Whether a file is still what ``phase4 init`` put there (or is not there at all)."""
        try:
            handed_in = self.data(name)
        except NotGraded:
            return True
        except Fail:
            return False
        for part in ("common", self.track):
            if not part:
                continue
            of = self.lab if self._base(name) == self.path else "artifacts"
            starter = course.ROOT / "exercises" / of / part / name
            if starter.is_file() and starter.read_bytes() == handed_in:
                return True
        return False

    @property
    def program_folder(self) -> str:
        """The folder of the artifact whose program is run; empty for one of the lab's own."""
        if os.path.lexists(self.path / FILE):
            return ""
        try:
            return course.load().lab(self.lab).program
        except course.NoSuchName:
            return ""

    @property
    def program(self) -> Program:
        """The program that ``program.toml`` declares.

        Raises NotGraded where there is none, Fail for a declaration that cannot
        be followed.
        """
        return self.program_named("")

    def program_named(self, name: str) -> Program:
        """One of several programs: the table ``[program.NAME]`` of ``program.toml``.

        A program of a lab's own runs in the lab's folder, an artifact's at the root.
        """
        file = str(PurePath(self.program_folder, FILE))
        declared = Declaration.read(self.text(file), self.shown(file), self.track, name)
        self.require_parts()
        run, build = declared.commands()
        folder = self.root if self.program_folder else self.path
        out = self.out or self.path / ".phase4-build"
        return Program(run, folder, out, build, name, self.root)

    def require_parts(self) -> None:
        """Require that every file of a part that the program needs is there, and that Python files parse.

        Raises NotGraded for one that is missing, Fail for one that is something else.
        What it does shows when the program runs.
        """
        try:
            lab = course.load().lab(self.lab)
        except course.NoSuchName:
            return
        track = self.track or "python"
        for part in course.load().parts_of(lab, track):
            for name in part.files.get(track, ()):
                if "*" in name:
                    continue
                if not self.has(name):
                    raise NotGraded(
                        f"{name}, the {part.title}, is there.",
                        "It is not.",
                        next=f"`phase4 reset {part.lab}` brings back what {part.lab} starts from.",
                        diagnosis="nothing-handed-in",
                    )
                if name.endswith(".py"):
                    _require_python(self.text(name), name, part.title)

    def shown(self, name: str) -> str:
        """How messages name a file: from the workspace's root."""
        return self.at(name).relative_to(self.root).as_posix()

    def _open(self, name: str, limit: int) -> BinaryIO:
        path = self.at(name)
        shown = self.shown(name)
        expected = f"{shown} is a file in the folder that you hand in."
        if not os.path.lexists(path):
            raise NotGraded(
                f"{shown} is handed in.",
                "It is not there.",
                next=f"`phase4 show {self.lab}` says what goes into it; "
                f"`phase4 reset {self.lab}` brings the starter back.",
                diagnosis="nothing-handed-in",
            )
        root = self._base(name).resolve()
        try:
            real = path.resolve(strict=True)
        except (OSError, RuntimeError):
            raise Fail(
                expected,
                f"{shown} is a link to something that does not exist.",
                next="Replace the link by the file itself.",
                diagnosis="link-outside",
            ) from None
        if not real.is_relative_to(root):
            raise Fail(
                expected,
                f"{shown} is a link to a place outside of that folder.",
                next="Replace the link by the file itself.",
                diagnosis="link-outside",
            )
        try:
            # O_NONBLOCK: a pipe must not be waited for. O_NOFOLLOW: what was
            # resolved a moment ago has to be what is opened.
            descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise Fail(
                f"{shown} can be read.",
                f"Opening {shown} fails: {os.strerror(error.errno or errno.EIO)}.",
                next="Check its permissions (chmod u+r) and its owner.",
                diagnosis="unreadable-file",
            ) from None
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            os.close(descriptor)
            kind = "a folder" if stat.S_ISDIR(state.st_mode) else "not a regular file"
            raise Fail(
                expected,
                f"{shown} is {kind}.",
                next=f"Put a file named {name} in its place.",
                diagnosis="not-a-file",
            )
        if state.st_size > limit:
            os.close(descriptor)
            raise Fail(
                f"{shown} has at most {_size(limit)}.",
                f"It has {_size(state.st_size)}.",
                next="Keep to the answer; logs and recordings have files of their own.",
                diagnosis="file-too-large",
            )
        return os.fdopen(descriptor, "rb")


def _require_python(text: str, name: str, title: str) -> None:
    try:
        compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        lines = text.splitlines()
        raise Fail(
            f"{name}, the {title}, is Python.",
            f"{f'Line {line} of {name}' if line else name} cannot be read: "
            f"{getattr(error, 'msg', error)}.",
            next=f"`python3 -m py_compile {name}` in your workspace says the same.",
            diagnosis="not-python",
            evidence=[lines[line - 1]] if line and line <= len(lines) else [],
        ) from None


def _size(count: int) -> str:
    """A number of bytes for a person."""
    value, unit = float(count), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value >= 10 or unit == "bytes" else f"{value:.1f} {unit}"
