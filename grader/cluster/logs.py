"""What a component said in its present run, and why it ended, in few words."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import BinaryIO

_STARTS = "--- phase4 starts "

#: How much of a log is looked at (bytes). What is longer ago is no last word.
_TAIL = 1 << 18

#: A line of a Go stack: a function with its arguments, or what follows it, indented.
_STACK = re.compile(r"\s|goroutine \d|created by |\S+\(.*\)$|\[signal ")
#: klog: severity, date, time, thread, source; then what is said.
_KLOG = re.compile(r"([IWEF])\d{4} [\d:.]+ +\d+ \S+\] (.*)")

_NOTHING, _ERROR, _FATAL = range(3)
_LEVELS = {"error": _ERROR, "fatal": _FATAL, "panic": _FATAL, "dpanic": _FATAL}


def begin(log: BinaryIO, component: str) -> None:
    """Write into a log, which is appended to over all runs, that a run begins."""
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    log.write(f"{_STARTS}{component}, {when} ---\n".encode())
    log.flush()


def of_this_run(log: Path) -> list[str]:
    """The lines since the present run began, no more than the last quarter of a megabyte."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    begun = text.rfind(_STARTS)
    lines = text[max(0, begun) :].splitlines()
    return lines[1:] if begun >= 0 else lines


def last_words(log: Path) -> str:
    """Why the component's present run ended, as it says itself: one line of its log, shortened.

    The first line that is fatal (what comes after it are consequences), else the last
    that is an error, else the last line. "none" where it said nothing.
    """
    said = [(level, words) for line in of_this_run(log) for level, words in [_read(line)] if words]
    for wanted, which in ((_FATAL, 0), (_ERROR, -1), (_NOTHING, -1)):
        if found := [words for level, words in said if level == wanted]:
            return found[which][:400]
    return "none"


def _read(line: str) -> tuple[int, str]:
    """How bad a line is and what it says; without words where it is part of a stack."""
    if line.startswith("{"):
        try:
            data = json.loads(line)
            level = _LEVELS.get(str(data.get("level")).lower(), _NOTHING)
            # zap calls it error, slog err.
            parts = [data.get("msg"), data.get("error") or data.get("err")]
        except (ValueError, AttributeError):
            pass
        else:
            return level, ": ".join(str(part) for part in parts if part)
    if (klog := _KLOG.match(line)) is not None:
        return {"E": _ERROR, "F": _FATAL}.get(klog[1], _NOTHING), klog[2].strip()
    if not line.strip() or _STACK.match(line):
        return _NOTHING, ""
    if line.startswith(("panic: ", "fatal error: ", "runtime: ")):
        return _FATAL, line
    return (_ERROR if "rror" in line or "ailed" in line else _NOTHING), line
