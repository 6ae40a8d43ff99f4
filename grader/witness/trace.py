"""The result of a query: records in order, and ways to narrow them down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from grader.wire.records import Exchange, Record, WatchEvent

R = TypeVar("R", Exchange, WatchEvent, Any)
#: A point of time: seconds since the epoch, or a record.
Point = float | Record


def begin(point: Point) -> float:
    """When something began: a request's arrival, an event's, or the time itself."""
    if isinstance(point, (int, float)):
        return float(point)
    return point.t_request if isinstance(point, Exchange) else point.t


def end(point: Point) -> float:
    """When something was over: the answer to a request, or the time itself."""
    if isinstance(point, (int, float)):
        return float(point)
    return point.t_end if isinstance(point, Exchange) else point.t


class Trace(Sequence[R], Generic[R]):
    """Records in order. False where there are none, so that queries read as conditions.

    >>> creates = timeline.writes(by="operator", verb="create", resource="pods")
    >>> if not creates.after(kill): ...
    >>> creates.first, creates.last, len(creates), creates.names
    """

    def __init__(self, records: Iterable[R], line: Callable[[Record], str]) -> None:
        self._records = tuple(records)
        self._line = line

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> Trace[R]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Trace(self._records[index], self._line)
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[R]:
        return iter(self._records)

    def __repr__(self) -> str:
        return "\n".join(self.lines()) or "(nothing)"

    @property
    def first(self) -> R | None:
        return self._records[0] if self._records else None

    @property
    def last(self) -> R | None:
        return self._records[-1] if self._records else None

    @property
    def names(self) -> list[str]:
        """The names of the objects, each once, in order of appearance."""
        found: dict[str, None] = {}
        for record in self._records:
            if isinstance(record, Exchange):
                found[record.name] = None
            elif isinstance(record, WatchEvent):
                found[(record.object.get("metadata") or {}).get("name", "")] = None
        return list(found)

    def where(self, predicate: Callable[[R], Any]) -> Trace[R]:
        """Those for which ``predicate`` holds."""
        return Trace((r for r in self._records if predicate(r)), self._line)

    def after(self, point: Point) -> Trace[R]:
        """Those that began when ``point`` was over."""
        t = end(point)
        return self.where(lambda r: r is not point and begin(r) >= t)

    def before(self, point: Point) -> Trace[R]:
        """Those that began before ``point`` did."""
        t = begin(point)
        return self.where(lambda r: r is not point and begin(r) < t)

    def between(self, a: Point, b: Point) -> Trace[R]:
        """Those after ``a`` and before ``b``."""
        return self.after(a).before(b)

    def gaps(self) -> list[float]:
        """Seconds from each to the next, from beginning to beginning."""
        times = [begin(r) for r in self._records]
        return [b - a for a, b in zip(times, times[1:], strict=False)]

    def lines(self, limit: int | None = None) -> list[str]:
        """One line for each, as messages show them; the first ``limit`` where that is given."""
        shown = [self._line(r) for r in self._records[:limit]]
        if limit is not None and len(self._records) > limit:
            shown.append(f"... and {len(self._records) - limit} more")
        return shown
