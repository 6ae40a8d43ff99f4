"""Several clusters at once, for measurements that would otherwise wait for one another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from grader import cluster as clusters


class Several:
    """As many names of clusters as there is work done at once; a name starts nothing."""

    def __init__(self, names: list[str]) -> None:
        self.first = names[0]
        self._free: SimpleQueue[str] = SimpleQueue()
        for name in names:
            self._free.put(name)

    @contextmanager
    def one(self) -> Iterator[str]:
        """A name that is nobody else's meanwhile; waits for one that is given back."""
        name = self._free.get()
        try:
            yield name
        finally:
            self._free.put(name)


@contextmanager
def several(first: str | None, many: int, *, backend: str | None = None) -> Iterator[Several]:
    """``first`` (the default cluster if None) and ``first-2`` to ``first-many``.

    At the end, those besides the first are ended that did not run before: the
    others are somebody else's.
    """
    first = first or clusters.default_name()
    names = [first, *(f"{first}-{number}" for number in range(2, many + 1))]
    before = {*clusters.names(backend=backend)}
    try:
        yield Several(names)
    finally:
        for name in names[1:]:
            if name not in before:
                clusters.stop(name, backend=backend)
