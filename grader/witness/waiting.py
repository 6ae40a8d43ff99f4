"""Waiting on a timeline that grows: for something that is seen in it, or for nothing any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar

from grader.witness.selectors import Names, plain
from grader.witness.trace import begin

if TYPE_CHECKING:
    from grader.witness.timeline import Timeline

T = TypeVar("T")

#: How often (seconds) sources that cannot say that they grew are looked at.
_LOOK = 0.02


class NotObserved(TimeoutError):
    """What was waited for did not happen in time; ``str()`` says what, and what was seen last."""


class Waiting:
    """The part of :class:`~grader.witness.timeline.Timeline` that waits."""

    def until(self: Timeline, seen: Callable[[Timeline], T], timeout: float, what: str) -> T:
        """Wait until ``seen(timeline)`` is true and return what it gave.

        ``what`` completes «waited for ...». Raises :class:`NotObserved` after
        ``timeout`` seconds, with the last lines of the timeline.
        """
        deadline = time.monotonic() + timeout
        while True:
            self.refresh()
            if result := seen(self):
                return result
            left = deadline - time.monotonic()
            if left <= 0:
                raise NotObserved(f"waited {timeout:g} s for {what}; {self._last_seen()}")
            self._wait_for_growth(left)

    def quiet_for(
        self: Timeline,
        seconds: float,
        *,
        timeout: float,
        by: Names = None,
        verb: Names = "write",
        ignoring: Collection[str] = ("leases", "events"),
    ) -> float:
        """Wait until ``by`` has sent no such request for ``seconds``; returns when the last one was.

        Requests about ``ignoring`` (resources) do not count: an elected leader
        renews its lease for ever. Raises :class:`NotObserved` where it is not quiet
        within ``timeout`` seconds.
        """
        began = time.time()
        deadline = time.monotonic() + timeout
        while True:
            found = self.exchanges(by=by, verb=verb, where=lambda e: e.resource not in ignoring)
            last = found.last
            since = max(begin(last), began) if last is not None else began
            quiet = time.time() - since
            if quiet >= seconds:
                return begin(last) if last is not None else began
            left = deadline - time.monotonic()
            if left <= 0:
                raise NotObserved(
                    f"waited {timeout:g} s for {seconds:g} s without a {plain(verb)} "
                    f"{'by ' + plain(by) if by else ''}; "
                    + (f"the last was: {self.line(last)}" if last else "there was none yet")
                )
            self._wait_for_growth(min(left, seconds - quiet))

    def _wait_for_growth(self, seconds: float) -> None:
        """Until a wire of this process writes something, or it is time to look again."""
        from grader.wire.recorder import grown

        with grown:
            grown.wait(min(seconds, _LOOK))

    def _last_seen(self: Timeline) -> str:
        if not self._records:
            return "nothing was seen at all"
        return "the last that was seen: " + self.line(self._records[-1]).strip()
