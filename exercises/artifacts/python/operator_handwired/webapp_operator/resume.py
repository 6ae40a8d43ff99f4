"""Edge mode, the wrong one, to be compared with the right one: ``--resume DIR``.

A level-triggered process begins with a list: what is there now is all it needs
to know. In edge mode it believes that it knows already. It keeps the version of
the last event it was given on disk, goes on from there after a restart, and has
nothing to act on but what events bring. Everything else of the operator is the
same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from machinery.api import ListOptions, Page, WatchEvent, WatchStream
from machinery.client import ResourceClient


class Resuming:
    """A list and watch whose list says nothing and whose watch goes on where the last one ended.

    ``file`` keeps the version of the last event that was handed on, by whichever
    process. One reflector uses it.
    """

    def __init__(self, source: ResourceClient, file: Path) -> None:
        self._source = source
        self._file = file

    def list(self, options: ListOptions) -> Page:
        return self._source.list(options)  # a list is what edge mode does without

    def watch(self, options: ListOptions) -> WatchStream:
        return _Storing(self._source.watch(options), self)

    def saw(self, event: WatchEvent) -> None:
        """Called with each event before it is handed on."""
        pass  # where does the next process go on?

    def _stored(self) -> str:
        try:
            return self._file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def _store(self, version: str) -> None:
        # Whole or not at all: a kill may come at any moment.
        self._file.parent.mkdir(parents=True, exist_ok=True)
        partial = self._file.with_suffix(".part")
        partial.write_text(version, encoding="utf-8")
        os.replace(partial, self._file)


class _Storing:
    def __init__(self, stream: WatchStream, resuming: Resuming) -> None:
        self._stream = stream
        self._resuming = resuming

    def __iter__(self) -> Iterator[WatchEvent]:
        for event in self._stream:
            self._resuming.saw(event)
            yield event

    def close(self) -> None:
        self._stream.close()
