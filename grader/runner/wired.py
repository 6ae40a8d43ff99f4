"""A process that is watched to its end, and that its wire can kill in the middle of a request."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

from grader.cluster.process import Recorded, wait_gone

if TYPE_CHECKING:
    from grader.wire import Wire


class WiredProcess:
    """What a captured program and one that a person drives have in common.

    ``client`` is its name on the wire, ``wire`` None for a program without one.
    It may be started again after it has ended.
    """

    def __init__(self, client: str, wire: Wire | None) -> None:
        self.client = client
        self.wire = wire
        self._process: Recorded | None = None
        self._watcher: threading.Thread | None = None
        #: Set once the watcher has done its work. A thread whose join() a signal broke off
        #: is taken for ended by Python before 3.13, so nobody joins it.
        self._watched = threading.Event()

    def kill_now(self) -> None:
        """SIGKILL to the process group, and wait until the process and its children are gone.

        For the wire, in the middle of a request: quick, and from any thread.
        What was forked meanwhile and left the group ends a moment later.
        """
        process = self._process
        if process is None or not process.alive():
            return
        self._kills(process)
        family = [(process.pid, process.born), *process.descendants()]
        process.signal_group(signal.SIGKILL)
        wait_gone(family, 5.0)

    def _kills(self, process: Recorded) -> None:
        """Note that :meth:`kill_now` is about to kill the process."""

    def _follow(self, process: Recorded) -> None:
        """Put the start on record, and watch the process on a thread of its own."""
        self._process = process
        self._mark("process_started", pid=process.pid)
        watched = threading.Event()

        def work() -> None:
            try:
                self._watch(process)
            finally:
                watched.set()

        self._watched = watched
        self._watcher = threading.Thread(target=work, name=f"watch-{self.client}", daemon=True)
        self._watcher.start()

    def _watch(self, process: Recorded) -> None:
        """Wait for the process's end, and conclude from it what there is to conclude."""
        raise NotImplementedError

    def _join(self) -> None:
        """Wait until the watcher has done its work."""
        if self._watcher is not None and self._watcher is not threading.current_thread():
            self._watched.wait()

    def _mark(self, what: str, **data: Any) -> None:
        if self.wire is not None:
            self.wire.mark(what, **data)
