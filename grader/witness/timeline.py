"""One timeline of a run: the wires' records and the API server's audit log.

Every grader is written with it:

>>> timeline = Timeline(run_dir, cluster=cluster)
>>> kill = timeline.marks("process_killed").first
>>> timeline.after(kill).writes(by="operator", resource="pods", verb="create")
>>> timeline.writes(resource="deployments.apps", owner=foo_uid).between(scaled, repaired).first
>>> timeline.events(by="operator", type="DELETED", resource="configmaps", fate="hidden")
>>> timeline.known(by="operator", at=write).get("pods", "a-1", "default")
>>> timeline.until(lambda t: t.writes(by="operator", resource="foos/status"), 10, "a status write")

Selectors, the same in every query, all of them optional:

``by``          a wire's client, or a user's name where there was no wire
                (``system:serviceaccount:kube-system:deployment-controller``);
                ``not_by`` leaves some out
``verb``        as the audit log names them, or ``write``, ``read``; one or several
``resource``    ``pods``, ``pods/status``, ``pods/*`` (with the Pods), ``deployments.apps``
``namespace``, ``name``, ``uid``  of the object
``owner``       the UID of one of its owners
``status``      what the process was told (a number, a range, or None for no answer)
``applied``     whether the API server carried the write out (True, False, None: unknown)
``rule``        the id of a rule that acted on it
``where``       any predicate besides

Requests that went through no wire (the learner's kubectl, the control plane's
controllers) are exchanges as well, with ``source`` «audit».
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from grader.wire.records import WRITE_VERBS, Exchange, Mark, Record, WatchEnd, WatchEvent
from grader.wire.rules import READ_VERBS
from grader.witness import objects, wording
from grader.witness.knowledge import Knowledge, gather
from grader.witness.ledger import Ledger
from grader.witness.selectors import ANY, Names, is_status, names, plain, resources, verbs
from grader.witness.sources import AuditSource
from grader.witness.trace import Point, Trace, begin, end

if TYPE_CHECKING:
    from grader.wire import Wire

T = TypeVar("T")

#: How often (seconds) sources that cannot say that they grew are looked at.
_LOOK = 0.02


class NotObserved(TimeoutError):
    """What was waited for did not happen in time; ``str()`` says what, and the last record."""


class Timeline:
    """Records in order of time; see the module's docstring for the selectors.

    ``places`` are run folders or ``wire.jsonl`` files (or a mixture); with
    ``cluster``, its audit log from ``since`` (epoch seconds; the first record's
    time where not given) is merged in. A timeline goes on reading while the wires
    write: every query sees what is on disk when it is asked. ``after``, ``before``
    and ``between`` give parts that do not grow.
    """

    def __init__(
        self,
        places: Path | str | Iterable[Path | str] = (),
        *,
        cluster: AuditSource | None = None,
        since: float | None = None,
    ) -> None:
        given = [places] if isinstance(places, (str, Path)) else list(places)
        self._ledger = Ledger([Path(p) for p in given], cluster=cluster, since=since)
        #: The records of a part; None for all there are.
        self._chosen: list[Record] | None = None

    @classmethod
    def of(cls, *wires: Wire, cluster: AuditSource | None = None) -> Timeline:
        """The growing timeline of wires in use (of one wire alone, always the same one).

        >>> Timeline.of(leader.wire, follower.wire, cluster=cluster)
        """
        if len(wires) == 1 and cluster is None:
            if wires[0].timeline is None:
                wires[0].timeline = cls(wires[0].record)
            return wires[0].timeline
        return cls([wire.record for wire in wires], cluster=cluster)

    @classmethod
    def of_records(cls, records: Iterable[Record], audit_events: Iterable[dict] = ()) -> Timeline:
        """A timeline of records that are at hand already; it does not grow."""
        timeline = cls()
        timeline._ledger.add(records, audit_events)
        return timeline

    # Growth ----------------------------------------------------------------------

    @property
    def _records(self) -> list[Record]:
        return self._ledger.records if self._chosen is None else self._chosen

    def refresh(self) -> bool:
        """Read what is new; whether there was anything. Queries do this by themselves."""
        return self._chosen is None and self._ledger.refresh()

    def until(self, seen: Callable[[Timeline], T], timeout: float, what: str) -> T:
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
        self,
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

    def _last_seen(self) -> str:
        if not self._records:
            return "nothing has been recorded"
        return "the last record is: " + self.line(self._records[-1]).strip()

    # Parts -----------------------------------------------------------------------

    def after(self, point: Point) -> Timeline:
        """What began when ``point`` (a record, or seconds since the epoch) was over."""
        t = end(point)
        return self._part(lambda r: r is not point and begin(r) >= t)

    def before(self, point: Point) -> Timeline:
        """What began before ``point`` did."""
        t = begin(point)
        return self._part(lambda r: r is not point and begin(r) < t)

    def between(self, a: Point, b: Point) -> Timeline:
        """What began after ``a`` was over and before ``b`` began."""
        return self.after(a).before(b)

    def _part(self, keep: Callable[[Record], bool]) -> Timeline:
        self.refresh()
        part = Timeline()
        part._ledger = self._ledger
        part._chosen = [r for r in self._records if keep(r)]
        return part

    @property
    def start(self) -> float:
        """When the first record of the whole began (0: there is none): the zero of :meth:`line`."""
        return self._ledger.start

    @property
    def damaged(self) -> int:
        """Lines that could not be read: where it is not 0, a writer was killed."""
        return self._ledger.damaged

    def __iter__(self):
        self.refresh()
        return iter(self._records)

    def __len__(self) -> int:
        self.refresh()
        return len(self._records)

    # Queries -----------------------------------------------------------------------

    def exchanges(
        self,
        *,
        by: Names = None,
        not_by: Names = None,
        verb: Names = None,
        resource: Names = None,
        namespace: str | None = None,
        name: str | None = None,
        uid: str | None = None,
        owner: str | None = None,
        status: Any = ANY,
        applied: Any = ANY,
        rule: str | None = None,
        where: Callable[[Exchange], Any] | None = None,
    ) -> Trace[Exchange]:
        """Requests with their answers; a watch is the request that opened it."""
        self.refresh()
        clients, others, wanted = names(by), names(not_by), verbs(verb)
        about = resources(resource)

        def fits(e: Record) -> bool:
            return (
                isinstance(e, Exchange)
                and (clients is None or e.client in clients or e.user in clients)
                and (others is None or not (e.client in others or e.user in others))
                and (wanted is None or e.verb in wanted)
                and (not about or any(one.matches(e) for one in about))
                and (namespace is None or e.namespace == namespace)
                and (name is None or e.name == name)
                and (status is ANY or is_status(e.status, status))
                and (applied is ANY or e.applied is applied)
                and (rule is None or rule in e.faults)
                and (uid is None or objects.uid(self.object_of(e)) == uid)
                and (owner is None or owner in objects.owner_uids(self.object_of(e)))
                and (where is None or bool(where(e)))
            )

        return self._trace(r for r in self._records if fits(r))

    def writes(self, **selectors: Any) -> Trace[Exchange]:
        """Requests that could change something, dry runs left out."""
        selectors.setdefault("verb", WRITE_VERBS)
        return self.exchanges(**selectors).where(lambda e: e.is_write)

    def reads(self, **selectors: Any) -> Trace[Exchange]:
        """Gets, lists and watches."""
        selectors.setdefault("verb", READ_VERBS)
        return self.exchanges(**selectors)

    def lists(self, **selectors: Any) -> Trace[Exchange]:
        """Lists, and watches that ask for the initial events."""
        return self.reads(**selectors).where(
            lambda e: e.verb == "list" or (e.verb == "watch" and "sendInitialEvents" in e.query)
        )

    def events(
        self,
        *,
        by: Names = None,
        type: Names = None,
        resource: Names = None,
        namespace: str | None = None,
        name: str | None = None,
        uid: str | None = None,
        owner: str | None = None,
        fate: str | None = None,
        watch: Exchange | None = None,
        rule: str | None = None,
        where: Callable[[WatchEvent], Any] | None = None,
    ) -> Trace[WatchEvent]:
        """Watch events, bookmarks left out unless ``type`` names them; of ``watch`` alone if given."""
        self.refresh()
        clients, types = names(by), names(type)
        about = resources(resource)

        def fits(e: Record) -> bool:
            if not isinstance(e, WatchEvent):
                return False
            opened = self.opened(e)
            return (
                (clients is None or e.client in clients)
                and (e.type in types if types is not None else e.type != "BOOKMARK")
                and (
                    not about or (opened is not None and any(one.matches(opened) for one in about))
                )
                and (namespace is None or objects.namespace(e.object) == namespace)
                and (name is None or objects.name(e.object) == name)
                and (uid is None or objects.uid(e.object) == uid)
                and (owner is None or owner in objects.owner_uids(e.object))
                and (fate is None or e.fate == fate)
                and (watch is None or opened is watch)
                and (rule is None or rule in e.faults)
                and (where is None or bool(where(e)))
            )

        return self._trace(r for r in self._records if fits(r))

    def watch_ends(self, *, by: Names = None, watch: Exchange | None = None) -> Trace[WatchEnd]:
        """Ends of watches, of a client's or of one watch; ``.by`` of each says who ended it."""
        self.refresh()
        clients = names(by)
        return self._trace(
            r
            for r in self._records
            if isinstance(r, WatchEnd)
            and (clients is None or r.client in clients)
            and (watch is None or (r.client, r.watch) == (watch.client, watch.seq))
        )

    def marks(self, what: Names = None, *, by: Names = None, **data: Any) -> Trace[Mark]:
        """Marks of a kind, with those particulars: ``marks("rule_fired", rule="r1")``."""
        self.refresh()
        kinds, clients = names(what), names(by)
        return self._trace(
            r
            for r in self._records
            if isinstance(r, Mark)
            and (kinds is None or r.what in kinds)
            and (clients is None or r.client in clients)
            and all(r.data.get(key) == value for key, value in data.items())
        )

    @property
    def clients(self) -> list[str]:
        """Everybody who did something here, in order of appearance."""
        self.refresh()
        return list(dict.fromkeys(r.client for r in self._records))

    def _trace(self, records: Iterable[Any]) -> Trace[Any]:
        return Trace(records, self.line)

    # About one record -----------------------------------------------------------

    def opened(self, record: WatchEvent | WatchEnd) -> Exchange | None:
        """The exchange that opened the watch which an event or an end belongs to."""
        return self._ledger.opened(record)

    def object_of(self, exchange: Exchange) -> dict | None:
        """The object that an exchange is about, as the answer, the request or the past has it.

        Of a delete that was answered with a Status, the object's last known state.
        """
        if exchange.subresource_is_view:
            return None
        answer = exchange.answer
        if objects.is_object(answer):
            return answer
        if isinstance(answer, dict) and answer.get("kind") == "Status":
            details = answer.get("details")
            if isinstance(details, dict) and (
                found := self._ledger.last_state(details.get("uid", ""))
            ):
                return found
        return exchange.request_body if objects.is_object(exchange.request_body) else None

    def cause(self, event: WatchEvent) -> Exchange | None:
        """The write that made the version of an event's object, None where it is not known."""
        return self.write_of(event.object)

    def write_of(self, obj: dict) -> Exchange | None:
        """The applied write that made this version of an object (its UID and resourceVersion)."""
        uid, version = objects.uid(obj), objects.resource_version(obj)
        for exchange in self.writes(applied=True):
            answer = exchange.answer
            if objects.uid(answer) == uid and objects.resource_version(answer) == version:
                return exchange
        return None

    # What was known ---------------------------------------------------------------

    def known(self, *, by: str, at: Point | None = None) -> Knowledge:
        """What a client could know when ``at`` began: from its lists, answers and delivered events.

        >>> timeline.known(by="operator", at=write).get("foos.x".split(".")[0], "a", "default")
        """
        t = float("inf") if at is None else begin(at)
        told = [
            r
            for r in self._whole_records()
            if r.client == by
            and r is not at
            and (
                (isinstance(r, Exchange) and r.t_response is not None and r.t_response <= t)
                or (isinstance(r, WatchEvent) and r.t_delivered is not None and r.t_delivered <= t)
            )
        ]
        told.sort(key=lambda r: r.t_end if isinstance(r, Exchange) else r.t)
        return gather((r, self._opened_or_none(r)) for r in told)

    def moment(self, exchange: Exchange) -> float:
        """When an exchange took effect, in an order that agrees with resourceVersions.

        Seconds since the epoch, between its request and its answer; see
        :mod:`grader.witness.order`.
        """
        return self._ledger.moment(exchange)

    def truth(self, at: Point | None = None) -> Knowledge:
        """The objects as they were when ``at`` began, as far as all traffic shows them."""
        t = float("inf") if at is None else begin(at)
        seen = [
            r
            for r in self._whole_records()
            if (isinstance(r, Exchange) and r.t_end <= t and r is not at)
            or (isinstance(r, WatchEvent) and r.t_received <= t)
        ]
        seen.sort(key=lambda r: r.t_end if isinstance(r, Exchange) else r.t_received)
        return gather(((r, self._opened_or_none(r)) for r in seen), told=False)

    def _whole_records(self) -> list[Record]:
        self.refresh()
        return self._ledger.records

    def _opened_or_none(self, record: Record) -> Exchange | None:
        return self.opened(record) if isinstance(record, WatchEvent) else None

    # Words --------------------------------------------------------------------------

    def line(self, record: Record) -> str:
        """One line for a record, as messages show it, timed from the timeline's start."""
        resource = ""
        if isinstance(record, WatchEvent) and (opened := self.opened(record)):
            resource = opened.resource
        return wording.describe(record, self.start, resource)
