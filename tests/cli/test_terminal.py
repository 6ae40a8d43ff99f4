"""What a person sees: the screen of a real terminal after a command has ended."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pyte
import pytest

from grader import workspace
from grader.course import ROOT

PHASE4 = [sys.executable, "-I", "-X", "utf8", str(ROOT / "grader")]


def on_a_terminal(words: list[str], columns: int, env: dict[str, str]) -> pyte.Screen:
    """The screen after a command; tall enough that nothing is scrolled away."""
    screen = pyte.Screen(columns, 200)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [*PHASE4, *words], env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    try:
        while data := os.read(ours, 65536):
            stream.feed(data)
    except OSError:
        pass  # how Linux says that the other end was closed
    finally:
        os.close(ours)
        process.wait(timeout=60)
    return screen


def text_of(lines: str) -> list[str]:
    """Lines without the blanks at their ends, and with one number of seconds for all."""
    return [re.sub(r"\d+\.\d s", "N s", line.rstrip()) for line in lines.rstrip().splitlines()]


@pytest.fixture
def environment(workspace_dir: Path) -> dict[str, str]:
    workspace.init(workspace_dir, "python")
    # A width that a shell has exported would be believed before the terminal's.
    ours = ("LC_", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8"}


@pytest.mark.parametrize(
    ("columns", "changes"),
    [(columns, changes) for columns in (40, 80, 200) for changes in ({}, {"NO_COLOR": "1"})]
    + [(40, {"LANG": "C"}), (80, {"LC_ALL": "POSIX"})],
)
def test_check_leaves_on_the_screen_what_a_pipe_would_get(
    columns: int, changes: dict[str, str], environment: dict[str, str]
) -> None:
    env = {**environment, **changes}
    screen = on_a_terminal(["check", "4.1.2"], columns, env)
    seen = text_of("\n".join(screen.display))
    piped = subprocess.run(
        [*PHASE4, "check", "4.1.2"],
        env={**env, "COLUMNS": str(columns)},
        capture_output=True,
        timeout=60,
    )
    assert seen == text_of(piped.stdout.decode())
    assert seen[0].startswith("4.1.2  ") and any(line.startswith("– 4.1.2/") for line in seen)
    assert not screen.cursor.hidden
    coloured = any(cell.fg != "default" for row in screen.buffer.values() for cell in row.values())
    assert coloured == ("NO_COLOR" not in changes)


def test_the_progress_line_is_one_line_however_long_its_sentence(
    environment: dict[str, str],
) -> None:
    """Two that overlap cannot be taken away again."""
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from grader.cli.progress_line import line\n"
        "with line() as tell:\n"
        "    tell('a sentence of words ' * 20); tell('another')\n"
        "    tell(''); print('a result')\n"
        "    tell('more ' * 30)\n"
    )
    screen = pyte.Screen(40, 20)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 40, 0, 0))
    subprocess.run(
        [sys.executable, "-c", code, ROOT],
        env=environment,
        stdout=theirs,
        stderr=theirs,
        timeout=60,
    )
    os.close(theirs)
    pyte.ByteStream(screen).feed(os.read(ours, 65536))
    os.close(ours)
    assert text_of("\n".join(screen.display)) == ["a result"]
