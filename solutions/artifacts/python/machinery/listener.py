"""One handler of a shared informer: its own thread, and its own place in line.

Upstream: client-go v0.37.2, tools/cache/shared_informer.go —
``processorListener`` (1353), ``processorListener.run`` (1478),
``processorListener.shouldResync`` (1535);
tools/cache/synctrack/synctrack.go — ``SingleFileTracker`` (129).

Notifications wait in a queue without a bound, so that a slow handler holds up
neither the cache nor the other handlers. It pays with memory, and works on
what was true a while ago: which is why a handler should do no more than put a
key into a work queue.

Concurrency: a handler's methods are called one after another, from its
thread, in the order of the cache's changes. Everything else may be called from
any thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from .clock import Clock
from .objects import DeletedFinalStateUnknown, Object

log = logging.getLogger("machinery.informer")


class Handler:
    """What is told of changes. Override what is of interest; never change an object."""

    def on_add(self, obj: Object, in_initial_list: bool) -> None:
        """``obj`` is new in the cache; the flag: it was there when the informer started."""

    def on_update(self, old: Object, new: Object) -> None:
        """It changed, or a resync tells it again (then the resourceVersions are equal).

        A different UID: the old object was deleted and this one created meanwhile.
        """

    def on_delete(self, obj: Object | DeletedFinalStateUnknown) -> None:
        """It is gone. A tombstone: nobody saw the end, and its ``obj`` may be stale."""


@dataclass(frozen=True)
class Added:
    obj: Object
    in_initial_list: bool


@dataclass(frozen=True)
class Updated:
    old: Object
    new: Object


@dataclass(frozen=True)
class Deleted:
    obj: Object | DeletedFinalStateUnknown


Notification = Added | Updated | Deleted
OnHandlerError = Callable[[Handler, Notification, Exception], None]


def log_handler_error(handler: Handler, notification: Notification, error: Exception) -> None:
    log.error(
        "%s failed on %s; it goes on with the next",
        type(handler).__name__,
        type(notification).__name__,
        exc_info=error,
    )


class Listener:
    """A handler's registration: what :meth:`SharedInformer.add_handler` returns."""

    def __init__(
        self, handler: Handler, on_error: OnHandlerError, resync_period: float, clock: Clock
    ) -> None:
        self._handler = handler
        self._on_error = on_error
        self._changed = threading.Condition(threading.Lock())
        self._pending: deque[Notification] = deque()
        self._closed = False
        #: Notifications of the initial list that the handler has not seen yet.
        self._initial_left = 0
        self._informer_synced = False
        self._synced = threading.Event()
        self._resync_period = resync_period
        self._clock = clock
        self._next_resync = clock.now() + resync_period
        self._thread = threading.Thread(target=self._run, name="handler", daemon=True)

    def has_synced(self) -> bool:
        """Whether the handler has *seen* the whole initial list. Never false again."""
        return self._synced.is_set()

    def wait_for_sync(self, timeout: float | None = None) -> bool:
        """Wait until :meth:`has_synced`, at most ``timeout`` seconds; whether it is so.

        False also when the informer was stopped before: look at it.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._synced.is_set() or self._closed, timeout)
        return self._synced.is_set()

    # For the informer.

    def start(self) -> None:
        self._thread.start()

    def add(self, notification: Notification) -> None:
        with self._changed:
            # phase4:solution 4.2.6
            if isinstance(notification, Added) and notification.in_initial_list:
                self._initial_left += 1
            # phase4:stub
            # # Not written yet: count what is of the initial list.
            # phase4:end
            self._pending.append(notification)
            self._changed.notify_all()

    def informer_has_synced(self) -> None:
        """All of the initial list was given to :meth:`add`."""
        # phase4:solution 4.2.6
        with self._changed:
            self._informer_synced = True
            self._check_synced()
        # phase4:stub
        # raise NotImplementedError("informer_has_synced is not written yet")
        # phase4:end

    def should_resync(self, now: float) -> bool:
        """Whether this handler's resync is due; if so, the next one is a period later."""
        with self._changed:
            if self._resync_period == 0 or now < self._next_resync:
                return False
            self._next_resync = now + self._resync_period
            return True

    def close(self) -> None:
        """No more notifications, not even those that wait; the one in hand is finished."""
        with self._changed:
            self._closed = True
            self._pending.clear()
            self._changed.notify_all()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the thread; whether it has ended. From the handler itself: False."""
        if self._thread is threading.current_thread() or not self._thread.ident:
            return not self._thread.ident
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._pending and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                notification = self._pending.popleft()
            try:
                self._tell(notification)
            except Exception as error:  # one handler's error is its own
                self._on_error(self._handler, notification, error)
            # phase4:solution 4.2.6
            if isinstance(notification, Added) and notification.in_initial_list:
                with self._changed:
                    self._initial_left -= 1
                    self._check_synced()
            # phase4:stub
            # # Not written yet: one of the initial list less, and look whether that was all.
            # phase4:end

    def _tell(self, notification: Notification) -> None:
        match notification:
            case Added(obj, in_initial_list):
                self._handler.on_add(obj, in_initial_list)
            case Updated(old, new):
                self._handler.on_update(old, new)
            case Deleted(obj):
                self._handler.on_delete(obj)

    def _check_synced(self) -> None:
        # phase4:solution 4.2.6
        if self._informer_synced and self._initial_left == 0:
            self._synced.set()
            self._changed.notify_all()
        # phase4:stub
        # raise NotImplementedError("_check_synced is not written yet")
        # phase4:end
