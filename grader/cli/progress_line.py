"""One line that says what is going on, for commands that make a person wait.

On a terminal it is a line that is rewritten; elsewhere (CI, a pipe) each new
sentence is printed once, so that nobody thinks that it hangs. Always on stderr:
what a command prints on stdout is its result.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

#: Shows a sentence in the place of the last one. An empty one takes the line away,
#: which has to be done before anything else is printed.
Tell = Callable[[str], None]

#: Frames per second of the spinner.
_PER_SECOND = 10


@contextmanager
def line(quiet: bool = False) -> Iterator[Tell]:
    """A function to call with the present step; the line is removed at the end."""
    if quiet:
        yield lambda sentence: None
        return
    if not sys.stderr.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        yield _printer()
        return
    from rich.live import Live

    from grader.report.terminal import console

    shown = _Turning()
    # Standard output is not redirected: it may be a file, and its text is a result.
    live = Live(
        shown,
        console=console(stderr=True),
        transient=True,
        refresh_per_second=_PER_SECOND,
        redirect_stdout=False,
        redirect_stderr=False,
    )

    def tell(sentence: str) -> None:
        shown.sentence = sentence
        if sentence and not live.is_started:
            live.start()
        elif not sentence:
            live.stop()

    try:
        yield tell
    finally:
        live.stop()


class _Turning:
    """A spinner and a sentence, in one line however narrow the terminal is."""

    sentence = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        turning = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if console.encoding.startswith("utf") else "-\\|/"
        mark = turning[int(time.monotonic() * _PER_SECOND) % len(turning)]
        text = Text.assemble((mark, "green"), " ", self.sentence)
        # The last column stays empty: some terminals go on to the next line from it.
        text.truncate(max(1, options.max_width - 1), overflow="ellipsis")
        yield text


def _printer() -> Tell:
    """Prints a sentence when it changes, at most once a second while it only counts up."""
    last = {"words": "", "at": 0.0}

    def tell(sentence: str) -> None:
        words = "".join(letter for letter in sentence if not letter.isdigit())
        now = time.monotonic()
        if not sentence or (words == last["words"] and now - float(last["at"]) < 10):
            return
        last.update(words=words, at=now)
        # In one piece: several threads may tell at the same time.
        print(f"{sentence}\n", end="", file=sys.stderr, flush=True)

    return tell
