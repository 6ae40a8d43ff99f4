"""One line that says what is going on, for commands that make a person wait.

On a terminal it is a line that is rewritten; elsewhere (CI, a pipe) each new
sentence is printed once, so that nobody thinks that it hangs. Always on stderr:
what a command prints on stdout is its result.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Tell = Callable[[str], None]


@contextmanager
def line(quiet: bool = False) -> Iterator[Tell]:
    """A function to tell the present step to; what it showed is gone at the end."""
    if quiet:
        yield lambda sentence: None
        return
    if not sys.stderr.isatty():
        yield _printer()
        return
    from grader.report.terminal import console

    with console(stderr=True).status("") as status:
        yield lambda sentence: status.update(_escaped(sentence))


def _printer() -> Tell:
    """Prints a sentence when it changes, at most once a second while it only counts up."""
    last = {"words": "", "at": 0.0}

    def tell(sentence: str) -> None:
        words = "".join(letter for letter in sentence if not letter.isdigit())
        now = time.monotonic()
        if words == last["words"] and now - float(last["at"]) < 10:
            return
        last.update(words=words, at=now)
        # In one piece: several threads may tell at the same time.
        print(f"{sentence}\n", end="", file=sys.stderr, flush=True)

    return tell


def _escaped(sentence: str) -> Any:
    from rich.text import Text

    return Text(sentence)
