"""The reflector: what the API server has, into a store — and kept so.

Upstream: client-go v0.37.2, tools/cache/reflector.go — ``RunWithContext``
(423), ``ListAndWatchWithContext`` (470), ``startResync`` (514), ``watch``
(561), ``list`` (674), ``watchList`` (804), ``handleAnyWatch`` (972),
``relistResourceVersion`` (1116), ``isWatchErrorRetriable`` (1195);
tools/pager/pager.go — ``list`` (92).

One round of work::

      ┌──────────────────────────────────────────────────────────┐
      ▼                                                          │
    initial state ──► watch ──► watch ──► … ──► error, 410 ──► pause (backoff)
    (watch-list, or LIST)  each from where the last one ended

The initial state comes as a *watch-list* (a watch that starts with an ADDED
for everything there is, and says with a BOOKMARK when that is all) where the
server serves it, else as a LIST; ``use_watch_list=False`` always lists. Both
end in ``store.replace``.

A watch that ends without an error is opened again where it ended. A 410 means
that this place is forgotten: the round ends, and the next one asks for a state
not older than the last one seen; if that is answered by a 410 too, for the
newest one, whatever it is.

Concurrency: :meth:`Reflector.run` works in its caller's thread until its
``Stop``. Requests run in threads that are left behind when stopping, since
nothing wakes them; a resync timer has a thread of its own while a watch lasts.
``last_sync_resource_version`` may be read from any thread.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from .api import (
    INITIAL_EVENTS_END,
    ApiError,
    ListerWatcher,
    ListOptions,
    Page,
    Unreachable,
    WatchStream,
)
from .backoff import Backoff
from .clock import Clock, RealClock
from .objects import KeyError_, Object, resource_version
from .stop import Stop, Stopped
from .store import Store

log = logging.getLogger("machinery.reflector")

#: Objects in a page, where paging is used: ``defaultPageSize`` (pager.go:31).
PAGE_SIZE = 500
#: Seconds after which the server ends a watch: random in this range, so that not all end at once.
WATCH_TIMEOUT = (300.0, 600.0)


class ReflectorStore(Protocol):
    """What a reflector writes to: a delta queue, or a store itself."""

    def add(self, obj: Object) -> None: ...

    def update(self, obj: Object) -> None: ...

    def delete(self, obj: Object) -> None: ...

    def replace(self, objs: list[Object], resource_version: str) -> None: ...

    def resync(self) -> None: ...

    def bookmark(self, resource_version: str) -> None: ...


class VeryShortWatch(Exception):
    """A watch ended within a second without an event: treated as an error, not opened at once."""


class Reflector:
    """Keeps ``store`` as the server has it.

    ``resync_period`` seconds (0: never) after a watch began, and so on,
    ``store.resync`` is called if ``should_resync()``. ``on_error`` is told of
    everything that ended a round; by default it is logged.
    """

    def __init__(
        self,
        lister_watcher: ListerWatcher,
        store: ReflectorStore,
        *,
        name: str = "reflector",
        use_watch_list: bool = True,
        page_size: int = 0,
        resync_period: float = 0.0,
        should_resync: Callable[[], bool] = lambda: True,
        on_error: Callable[[Exception], None] | None = None,
        watch_timeout: tuple[float, float] = WATCH_TIMEOUT,
        backoff: Backoff | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._lister_watcher = lister_watcher
        self._store = store
        self._name = name
        self._use_watch_list = use_watch_list
        self._page_size = page_size
        self._resync_period = resync_period
        self._should_resync = should_resync
        self._on_error = on_error or self._log_error
        self._watch_timeout = watch_timeout
        self._clock = clock or RealClock()
        self._backoff = backoff or Backoff(clock=self._clock)
        #: Where the last list or watch ended; "" before the first.
        self._last_version = ""
        #: The server has answered that it does not have _last_version (410, or too large).
        self._last_version_unavailable = False
        #: The first list came in pages: then nothing is gained by not asking for pages.
        self._lists_are_paged = False

    @property
    def last_sync_resource_version(self) -> str:
        return self._last_version

    def run(self, stop: Stop) -> None:
        """Reflect until ``stop``, with a pause after every round, good or bad."""
        while not stop.is_set():
            pause = 0.0
            try:
                self._list_and_watch(stop)
            except Stopped:
                return
            except Exception as error:  # a reflector never gives up
                self._on_error(error)
                pause = getattr(error, "retry_after", None) or 0.0
            # phase4:solution 4.2.5
            stop.wait(max(pause, self._backoff.step()), self._clock)
            # phase4:stub
            # # And then?
            # phase4:end

    def _log_error(self, error: Exception) -> None:
        level = logging.INFO if _is_expired(error) else logging.WARNING
        log.log(level, "%s: %s; listing again after a pause", self._name, error)

    # A round.

    def _list_and_watch(self, stop: Stop) -> None:
        """The initial state, then watches until one fails. Raises what ended it."""
        stream: WatchStream | None = None
        if self._use_watch_list:
            try:
                stream = self._watch_list(stop)
            except (ApiError, Unreachable, VeryShortWatch) as error:
                log.debug("%s: no watch-list (%s), listing instead", self._name, error)
        if stream is None:
            self._list(stop)
        over = Stop()
        resync = threading.Thread(target=self._resync, args=(over,), name="resync", daemon=True)
        with stop.on_stop(over.set):
            if self._resync_period > 0:
                resync.start()
            try:
                self._watch(stop, stream)
            finally:
                over.set()
                if self._resync_period > 0:
                    resync.join()

    def _resync(self, over: Stop) -> None:
        while not over.wait(self._resync_period, self._clock):
            if self._should_resync():
                self._store.resync()

    # The initial state as a LIST.

    def _list(self, stop: Stop) -> None:
        options = ListOptions(resource_version=self._relist_version(), limit=self._list_limit())
        try:
            page, paged = self._all_pages(stop, options)
        except ApiError as error:
            # phase4:solution 4.2.5
            if not (error.is_expired or error.is_too_large):
                raise
            # At once, once: the newest state there is, whatever its version.
            self._last_version_unavailable = True
            newest = replace(options, resource_version=self._relist_version())
            page, paged = self._all_pages(stop, newest)
            # phase4:stub
            # raise error  # what if the version asked for is forgotten?
            # phase4:end
        if options.resource_version == "0" and paged:
            self._lists_are_paged = True
        self._last_version_unavailable = False
        self._store.replace(page.items, page.resource_version)
        self._last_version = page.resource_version

    def _relist_version(self) -> str:
        """ "0": any state will do, from the server's cache. "": the newest, from etcd."""
        if self._last_version_unavailable:
            return ""
        return self._last_version or "0"

    def _list_limit(self) -> int:
        if self._page_size:
            return self._page_size
        if not self._lists_are_paged and self._relist_version() not in ("", "0"):
            # «Not older than» is answered from the server's cache only without a limit.
            return 0
        return PAGE_SIZE

    def _all_pages(self, stop: Stop, options: ListOptions) -> tuple[Page, bool]:
        """All pages as one, and whether there were several."""
        whole: Page | None = None
        next_page = options
        while True:
            try:
                page = self._page(stop, next_page)
            except ApiError as error:
                if whole is None or error.reason != "Expired":
                    raise
                # The pages' snapshot was compacted meanwhile: everything, in one answer.
                return self._page(stop, replace(options, limit=0)), True
            if whole is None:
                if not page.continue_token:
                    return page, False
                whole = Page([], page.resource_version)
            whole.items.extend(page.items)
            if not page.continue_token:
                return whole, True
            next_page = replace(
                options,
                resource_version="",
                resource_version_match="",
                continue_token=page.continue_token,
            )

    def _page(self, stop: Stop, options: ListOptions) -> Page:
        return stop.call(lambda: self._lister_watcher.list(options))

    # The initial state as a watch-list.

    def _watch_list(self, stop: Stop) -> WatchStream:
        """Stream the initial state; the open stream goes on with what happens after it."""
        while True:
            version = "" if self._last_version_unavailable else self._last_version
            state = Store()
            at = [""]

            def seen(event_version: str, beyond_added: bool, at=at) -> None:
                if beyond_added:
                    at[0] = event_version

            options = ListOptions(
                resource_version=version,
                resource_version_match="NotOlderThan",
                send_initial_events=True,
                allow_watch_bookmarks=True,
                timeout_seconds=self._random_watch_timeout(),
            )
            started = self._clock.now()
            try:
                stream = self._open_watch(stop, options)
                complete = self._handle(stop, stream, state, seen, started, until_initial_end=True)
            except (ApiError, Unreachable) as error:
                if _is_retriable(error):
                    self._pause(stop, error)
                    continue
                # phase4:solution 4.2.5
                if isinstance(error, ApiError) and (error.is_expired or error.is_too_large):
                    self._last_version_unavailable = True
                    if not version:
                        # Even the newest state is refused. Upstream asks again at once,
                        # for as long as that goes on.
                        self._pause(stop, error)
                    continue
                # phase4:stub
                # # What if the version asked for is forgotten?
                # phase4:end
                raise
            if complete:
                break
            # It ended too early. Upstream asks again at once.
            self._pause(stop)
        self._last_version_unavailable = False
        self._store.replace(state.list(), at[0])
        self._last_version = at[0]
        return stream

    # The watch.

    def _watch(self, stop: Stop, stream: WatchStream | None) -> None:
        """Watch, and watch again where that ended, until an error. Raises it."""
        while not stop.is_set():
            in_order = True
            started = self._clock.now()
            if stream is None:
                # From nowhere, or from anywhere, a watch starts with ADDED events in no order.
                in_order = self._last_version not in ("", "0")
                options = ListOptions(
                    resource_version=self._last_version,
                    allow_watch_bookmarks=True,
                    timeout_seconds=self._random_watch_timeout(),
                )
                try:
                    stream = self._open_watch(stop, options)
                except (ApiError, Unreachable) as error:
                    if not _is_retriable(error):
                        raise
                    self._pause(stop, error)
                    continue

            def seen(event_version: str, beyond_added: bool, in_order=in_order) -> None:
                if in_order or beyond_added:
                    self._last_version = event_version

            try:
                self._handle(stop, stream, self._store, seen, started)
            except ApiError as error:
                if not error.is_too_many_requests:
                    raise
                self._pause(stop, error)
            stream = None

    def _open_watch(self, stop: Stop, options: ListOptions) -> WatchStream:
        return stop.call(
            lambda: self._lister_watcher.watch(options), discard=lambda stream: stream.close()
        )

    def _handle(
        self,
        stop: Stop,
        stream: WatchStream,
        store: ReflectorStore,
        seen: Callable[[str, bool], None],
        started: float,
        until_initial_end: bool = False,
    ) -> bool:
        """Put a stream's events into ``store`` until it ends; True at the initial events' end.

        Raises :class:`ApiError` for an ERROR event. The stream is closed on
        the way out, unless True is returned: then it goes on.
        """
        events = 0
        beyond_added = False
        keep_open = False
        try:
            with stop.on_stop(stream.close):
                for event in stream:
                    if stop.is_set():
                        raise Stopped
                    # phase4:solution 4.2.5
                    if event.type == "ERROR":
                        raise ApiError.from_status(event.object)
                    # phase4:stub
                    # if event.type == "ERROR":
                    #     raise NotImplementedError("a Status instead of an object")
                    # phase4:end
                    try:
                        version = resource_version(event.object)
                        ends_initial = self._put(store, event.type, event.object)
                    except (AttributeError, KeyError_) as error:
                        # An object without metadata: skipped, not the end of everything.
                        log.warning("%s: cannot understand %s: %s", self._name, event.type, error)
                        continue
                    beyond_added = beyond_added or event.type != "ADDED"
                    seen(version, beyond_added)
                    events += 1
                    if until_initial_end and ends_initial:
                        keep_open = True
                        return True
                if stop.is_set():
                    raise Stopped
        finally:
            if not keep_open:
                stream.close()
        if events == 0 and self._clock.now() - started < 1.0:
            raise VeryShortWatch("a watch ended within a second, without an event")
        return False

    @staticmethod
    def _put(store: ReflectorStore, type_: str, obj: Object) -> bool:
        """One event into the store; whether it ends the initial events."""
        if type_ == "ADDED":
            store.add(obj)
        elif type_ == "MODIFIED":
            store.update(obj)
        elif type_ == "DELETED":
            store.delete(obj)
        elif type_ == "BOOKMARK":
            store.bookmark(resource_version(obj))
            annotations = obj.get("metadata", {}).get("annotations") or {}
            return annotations.get(INITIAL_EVENTS_END) == "true"
        else:
            log.warning("unknown type of watch event: %s", type_)
        return False

    def _random_watch_timeout(self) -> int:
        return int(random.uniform(*self._watch_timeout))

    def _pause(self, stop: Stop, error: Exception | None = None) -> None:
        """Wait for the backoff, or longer if the server asked for it. Raises Stopped."""
        asked = getattr(error, "retry_after", None) or 0.0
        if stop.wait(max(asked, self._backoff.step()), self._clock):
            raise Stopped


def _is_retriable(error: Exception) -> bool:
    """Nothing was lost: the same watch may be asked for again (reflector.go:1195)."""
    if isinstance(error, ApiError):
        return error.is_too_many_requests
    return isinstance(error, Unreachable) and error.refused


def _is_expired(error: Exception) -> bool:
    return isinstance(error, ApiError) and error.is_expired
