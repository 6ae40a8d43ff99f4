"""A program that follows a kind of object, and a real 410 done to it; for lab 4.2.5.

The watch's events are held back by the wire while objects change and etcd is
compacted; then the watch ends, as one does whose time is up, and resumes from a
resourceVersion that is dead. That a layer refuses it, and in which words, is asked
by the grader itself before the program comes to it; where it does not, nothing is
concluded about the submission.

What no API server does when one wishes is the wire's: lists at the dead version are
refused as well, and when the cache is right again nobody is let through for a while,
so that the pauses between attempts can be seen.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

from grader.report import pictures
from grader.verdict import Fail, Unknown
from grader.witness import describe

#: Seconds until the program is ready; until its cache must be right after the 410 (the pause
#: of a reflector's backoff included); for how long its requests are counted after that; and
#: for how long everything is refused.
STARTING, PATIENCE, LOOK_ON, REFUSED = 30.0, 8.0, 1.0, 2.0
#: Requests for one 410, or while everything is refused, that are still no hot loop. client-go
#: sends three to five.
MOST_REQUESTS = 12
#: How often the dead version may be asked for, for how long (s) and with nothing else, until
#: that is the verdict: in watches alone, or in lists too.
ENOUGH, ENOUGH_LISTS, AT_LEAST = 3, 5, 2.0


@dataclass
class Episode:
    """One 410: what the layer said, what was asked afterwards, and what the cache came to."""

    layer: str
    #: The server's words to the program, one for each 410 that it got.
    said: list[str] = field(default_factory=list)
    #: Requests after the end of the watch: all of them; watches from versions that were
    #: compacted; those for the whole state, by list or watch-list, and of them those for such
    #: a version.
    asked: int = 0
    resumed: int = 0
    relisted: int = 0
    relisted_old: int = 0
    #: Requests while everything was refused, and a line for each of the first.
    while_refused: int = 0
    refused: list[str] = field(default_factory=list)
    right: bool = False
    ended: str = ""
    cache: str = ""
    evidence: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)


class Story:
    """A program that follows one kind of object, and what is done to its watch."""

    def __init__(
        self, layer: str, resource: str, words: str, run, program, api, cluster, ns, rules=()
    ):
        self.layer, self.resource, self.words = layer, resource, words
        self.api, self.cluster, self.namespace = api, cluster, ns
        self.client = f"follow-{resource}"
        #: What happened when, for the picture: seconds since the epoch.
        self.moments: dict[str, float] = {}
        for name in ("kept", "changed", "deleted"):
            self.create(name)
        env = {"NAMESPACE": ns, "RESOURCE": resource}
        self.running = run(program, self.client, env=env, rules=rules)
        self.running.wait_line(lambda line: line == "synced", STARTING, "prints synced")

    def create(self, name: str) -> None:
        metadata = {"name": name, "namespace": self.namespace, "labels": {"kind": "lab"}}
        obj = {"apiVersion": "v1", "metadata": metadata}
        if self.resource == "events":
            about = {"kind": "Namespace", "name": self.namespace, "namespace": self.namespace}
            obj |= {"kind": "Event", "involvedObject": about, "reason": "Lab"}
        else:
            obj |= {"kind": "ConfigMap"}
        self.api.create(obj)

    def change(self, name: str, value: str) -> None:
        patch = {"metadata": {"annotations": {"changed": value}}}
        self.api.patch(self.resource, name, patch, namespace=self.namespace)

    def truth(self) -> tuple[dict[str, str], int]:
        """Name to resourceVersion of what there is, and the version of that list."""
        found = self.api.list(self.resource, namespace=self.namespace, label_selector="kind=lab")
        versions = {i["metadata"]["name"]: i["metadata"]["resourceVersion"] for i in found["items"]}
        return versions, int(found["metadata"]["resourceVersion"])

    def cache(self) -> dict[str, str]:
        """The cache as the program printed it last."""
        for line in reversed(self.running.stdout_lines):
            if line.startswith("{"):
                try:
                    return dict(json.loads(line)["cache"])
                except (ValueError, KeyError, TypeError):
                    return {}
        return {}

    def happened(self, what: str) -> None:
        self.moments[what] = time.time()

    def tell(self, restart: bool) -> Episode:
        """Hold events back, change things, compact, end the watch, and see what comes of it.

        With ``restart``, the API server is started again meanwhile.
        """
        running = self.running
        self._show_a_change()
        frozen = running.wire.rules.add(f"freeze watch {self.resource}")
        self.happened("held")
        self.change("changed", "yes")
        self.api.delete(self.resource, "deleted", namespace=self.namespace)
        self.create("new")
        truth, newest = self.truth()
        self._require_held(3)
        self.happened("changed")
        self.cluster.compact()
        self.happened("compacted")
        if restart:
            self.cluster.restart("kube-apiserver")
            self.happened("restarted")
        self._require_refusal(newest)
        mark = time.time()
        # «Not older than that» the API server always has. Refused, it shows what is asked next.
        running.wire.rules.add(
            f"answer 410 list {self.resource} version={self._known()} times=always "
            "message=The_provided_resource_version_is_too_old."
        )
        running.wire.rules.add(f"cut watch {self.resource} cleanly=yes")
        frozen.remove()
        self.happened("ended")
        episode = self._seen(truth, newest, mark, look_on=LOOK_ON if restart else 0.0)
        if not restart and not running.exited:
            self._refuse_everything(episode)
        episode.ended = str(running.exited) if running.exited else ""
        episode.tail = list(running.stderr_tail(4))
        running.kill()
        return episode

    def _show_a_change(self) -> None:
        """A watch that ends within a second and without any event would be a fault of its own."""
        self.change("kept", str(len(self.moments)))
        truth, _ = self.truth()
        self.running.until(
            lambda: self.cache() == truth, PATIENCE, "has a change of «kept» in its cache"
        )

    def _known(self) -> str:
        """The newest resourceVersion that the program was told of, bookmarks included."""
        told = self.running.timeline.events(
            by=self.client,
            resource=self.resource,
            type=("ADDED", "MODIFIED", "DELETED", "BOOKMARK"),
            fate="delivered",
        )
        return told[-1].object["metadata"]["resourceVersion"]

    def _refuse_everything(self, episode: Episode) -> None:
        """Let nobody through for a while, and count who knocks."""
        running = self.running
        if episode.right:
            self._show_a_change()
        mark = time.time()
        running.wire.rules.add(f"answer 503 list,watch {self.resource} times=always")
        running.wire.rules.add(f"cut watch {self.resource} cleanly=yes")

        def asked() -> list:
            reads = running.timeline.reads(by=self.client, resource=self.resource)
            return [e for e in reads if e.t_request >= mark]

        _wait(running, lambda: len(asked()) > MOST_REQUESTS, REFUSED)
        episode.while_refused = len(asked())
        episode.refused = [describe(e, mark) for e in asked()[:10]]

    def _require_held(self, count: int) -> None:
        """Until the wire has the events, and the program has not."""
        deadline = time.monotonic() + PATIENCE
        while self.running.wire.queued(self.resource) < count:
            self.running.require_running()
            if time.monotonic() > deadline:
                self._require_watch()
                raise Unknown(
                    "The wire holds the events of three changes.",
                    f"It holds {self.running.wire.queued(self.resource)}.",
                )
            time.sleep(0.01)

    def _require_watch(self) -> None:
        timeline = self.running.timeline
        ended = {end.watch for end in timeline.watch_ends(by=self.client)}
        watches = timeline.reads(by=self.client, resource=self.resource, verb="watch", status=200)
        if all(watch.seq in ended for watch in watches):
            raise Fail(
                "The program follows the objects by a watch.",
                "It has none open.",
                why="Whoever only lists now and then is never told 410, and is always late.",
                next="The informer opens a watch after its list; what ends it?",
                diagnosis="no-watch",
                evidence=self.running.stderr_tail(4),
            )

    def _require_refusal(self, newest: int) -> None:
        """Unknown where this layer answers a watch from before the changes."""
        before = str(newest - 3)
        events = self.api.watch(
            self.resource, self.namespace, before, timeout=5, label_selector="kind=lab"
        )
        type_, obj = next(events, ("nothing", {}))
        events.close()
        said = obj.get("message", "")
        if type_ != "ERROR" or obj.get("code") != 410 or self.words not in said:
            raise Unknown(
                f"A watch from resourceVersion {before} is refused by {self.layer}.",
                f"It answers with {type_} {said}.",
            )

    def _seen(self, truth: dict[str, str], newest: int, mark: float, look_on: float) -> Episode:
        running, episode = self.running, Episode(self.layer)

        def asked() -> list:
            reads = running.timeline.reads(by=self.client, resource=self.resource)
            return [e for e in reads if e.t_request >= mark]

        def whole(exchange) -> bool:
            return exchange.verb == "list" or "sendInitialEvents" in exchange.query

        def resumed() -> list:
            return [e for e in asked() if not whole(e) and _older(e, newest)]

        def over() -> bool:
            """It is right, or what is wrong will not change any more."""
            all_, old = asked(), [e for e in asked() if _older(e, newest)]
            if self.cache() == truth or len(all_) > MOST_REQUESTS:
                return True
            if len(old) < len(all_) or not all_ or all_[-1].t - all_[0].t < AT_LEAST:
                return False
            return len(all_) >= (ENOUGH_LISTS if any(map(whole, all_)) else ENOUGH)

        _wait(running, over, PATIENCE)
        if self.cache() == truth:
            self.happened("right")
        if look_on and self.cache() == truth:
            # What comes now must not be a stream of requests.
            _wait(running, lambda: len(asked()) > MOST_REQUESTS, look_on)
        episode.right = self.cache() == truth
        after, begun = asked(), self.moments["held"]
        episode.asked, episode.resumed = len(after), len(resumed())
        relists = [e for e in after if whole(e)]
        episode.relisted = len(relists)
        episode.relisted_old = len([e for e in relists if _older(e, newest)])
        answered = [e for e in relists if e.status == 200]
        if answered:
            self.moments["relisted"] = answered[0].t_request
        refusals = self._refusals(mark)
        if refusals:
            self.moments["refused"] = refusals[0][0]
        episode.said = [message for _, message in refusals]
        episode.cache = json.dumps(self.cache())
        episode.evidence = [describe(e, begun) for e in after[:10]]
        return episode

    def _refusals(self, mark: float) -> list[tuple[float, str]]:
        """When the program was told of a 410, and in which words."""
        timeline = self.running.timeline
        told = [
            (e.t, e.object)
            for e in timeline.events(by=self.client, resource=self.resource, type="ERROR")
        ]
        told += [
            (e.t_end, e.response_body)
            for e in timeline.reads(by=self.client, resource=self.resource, status=410)
        ]
        told.sort(key=lambda each: each[0])
        return [(t, o.get("message", "")) for t, o in told if t >= mark and isinstance(o, dict)]

    def picture(self) -> dict[str, str]:
        """From the first event that is held to the cache that is right again."""
        zero = self.moments["held"]
        at = {what: t - zero for what, t in self.moments.items()}
        end = at.get("right", time.time() - zero)

        def lane(name: str, what: str, label: str) -> pictures.Lane:
            moments = [pictures.Moment(at[what], label)] if what in at else []
            return pictures.Lane(name, moments=moments)

        server = (
            [pictures.Span(at["compacted"], at["restarted"], "starts again")]
            if "restarted" in at
            else []
        )
        return pictures.lanes(
            f"A real 410, said by {self.layer}",
            "Changes whose events are held back, the compaction, the end of the watch, the 410, "
            "the request for the whole state, and how long the cache was wrong.",
            [
                lane("objects", "changed", "3 changes"),
                lane("etcd", "compacted", "compaction"),
                *([pictures.Lane("API server", spans=server)] if server else []),
                pictures.Lane("watch", [pictures.Span(0.0, at["ended"], "events held back")]),
                lane("resumed", "refused", "410"),
                lane("listed again", "relisted", "the whole state"),
                pictures.Lane(
                    "cache",
                    [pictures.Span(at["changed"], end, "wrong")],
                    [pictures.Moment(at["right"], "right")] if "right" in at else [],
                ),
            ],
        )


def _wait(running, condition, seconds: float) -> None:
    """Until it is true, the program has ended, or the time is up: which of them, say the checks."""
    try:
        running.until(condition, seconds, "")
    except Fail:
        pass


def _older(exchange, newest: int) -> bool:
    """Whether it asks for a version from before the compaction."""
    version = exchange.query.get("resourceVersion", "")
    return version.isdecimal() and 0 < int(version) < newest
