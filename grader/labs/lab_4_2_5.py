"""4.2.5 The third layer of a failure you have met twice.

A real 410, at two layers. The watch's events are held back by the wire while
objects change and etcd is compacted; then the watch is cut, and resumes from a
resourceVersion that is dead. First with the API server's watch cache off for
ConfigMaps, so that etcd itself refuses; then with the cache on, which is empty
of the past after the API server was started again. The server's own words say
which layer spoke; if it did not, nothing is concluded about the submission.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

import pytest

from grader.cluster.interface import Capability
from grader.evidence import answers as written
from grader.evidence import citations, places
from grader.labs import check
from grader.report import pictures
from grader.verdict import Fail, Unknown
from grader.witness import describe

#: Seconds until the program is ready; until its cache must be right after the 410 (the pause
#: of a reflector's backoff included); and for how long its requests are counted after that.
STARTING, PATIENCE = 60.0, 25.0
#: Requests for one 410 that are still no hot loop. client-go sends three or four.
MOST_REQUESTS = 12
#: What each layer says.
ETCD, CACHE = "The resourceVersion for the provided watch is too old", "too old resource version"
WHY = (
    "A 410 is the one error that waiting does not cure: that version will never come back. "
    "Whoever asks for it again gets it again."
)


@dataclass
class Episode:
    """One 410: what the server said, what was asked afterwards, and what the cache came to."""

    layer: str
    said: list[str] = field(default_factory=list)
    dead: str = ""
    #: (method or kind, resourceVersion asked for) of each request after the cut.
    asked: list[tuple[str, str]] = field(default_factory=list)
    right: bool = False
    seconds: float = 0.0
    ended: str = ""
    cache: str = ""
    evidence: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    moments: list[tuple[float, str]] = field(default_factory=list)


class _Story:
    def __init__(self, run, program, api, cluster, namespace: str, layer: str) -> None:
        self.api, self.cluster, self.namespace = api, cluster, namespace
        self.client = "follow" if layer == "etcd" else "follow-2"
        for name in ("kept", "changed", "deleted"):
            self.create(name)
        self.running = run(program, self.client, env={"NAMESPACE": namespace})
        self.running.wait_line(lambda line: line == "synced", STARTING, "prints synced")
        self.episode = Episode(layer)

    def create(self, name: str) -> None:
        metadata = {"name": name, "namespace": self.namespace, "labels": {"kind": "lab"}}
        self.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def truth(self) -> dict[str, str]:
        items = self.api.list("configmaps", namespace=self.namespace, label_selector="kind=lab")[
            "items"
        ]
        return {i["metadata"]["name"]: i["metadata"]["resourceVersion"] for i in items}

    def cache(self) -> dict[str, str]:
        for line in reversed(self.running.stdout_lines):
            if line.startswith("{"):
                try:
                    return dict(json.loads(line)["cache"])
                except (ValueError, KeyError, TypeError):
                    return {}
        return {}

    def reads(self) -> list:
        return list(self.running.timeline.reads(by=self.client, resource="configmaps"))

    def tell(self, break_the_watch) -> Episode:
        """Hold events back, change things, compact, break the watch, and see what comes of it."""
        running, episode = self.running, self.episode
        clock = running.timeline
        running.wire.rules.add("freeze watch configmaps")
        self.api.patch("configmaps", "changed", {"data": {"n": "1"}}, namespace=self.namespace)
        self.api.delete("configmaps", "deleted", namespace=self.namespace)
        self.create("new")
        begun = clock.start
        self._moment("changes, held back")
        self.cluster.compact()
        self._moment("compaction")
        asked_before = len(self.reads())
        break_the_watch(running)
        self._moment("watch broken")
        running.wire.rules.thaw()
        truth = self.truth()
        try:
            running.until(lambda: self.cache() == truth, PATIENCE, "has the right cache")
            episode.right = True
            self._moment("cache right")
        except Fail:
            pass
        # What comes now must not be a stream of requests: look on for a moment.
        try:
            running.until(lambda: len(self.reads()) > asked_before + MOST_REQUESTS, 4, "asks on")
        except Fail:
            pass
        after = self.reads()[asked_before:]
        episode.asked = [(e.verb, e.query.get("resourceVersion", "")) for e in after]
        episode.said = self._said()
        watches = [v for verb, v in episode.asked if verb == "watch" and v not in ("", "0")]
        episode.dead = watches[0] if watches else ""
        episode.ended = str(running.exited) if running.exited else ""
        episode.cache = json.dumps(self.cache())
        episode.evidence = [describe(e, begun) for e in after[:10]]
        episode.tail = list(running.stderr_tail(4))
        if not running.exited:
            running.kill()
        return episode

    def _moment(self, what: str) -> None:
        self.episode.moments.append((time.time(), what))

    def _said(self) -> list[str]:
        """The server's words of every 410 that was sent to the program."""
        timeline = self.running.timeline
        objects = [
            e.object for e in timeline.events(by=self.client, resource="configmaps", type="ERROR")
        ]
        objects += [e.response_body for e in self.reads() if e.status == 410]
        return [o.get("message", "") for o in objects if isinstance(o, dict)]


@pytest.fixture(scope="module")
def episodes(submission, run, api, cluster, new_namespace, observe) -> dict[str, Episode]:
    cluster.require(Capability.COMPACT, Capability.RESTART, Capability.FLAGS)
    program = submission.program
    found: dict[str, Episode] = {}
    cluster.restart("kube-apiserver", flags=("--watch-cache-sizes=configmaps#0",))
    try:
        story = _Story(run, program, api, cluster, new_namespace(), "etcd")
        found["etcd"] = story.tell(lambda running: running.wire.rules.add("cut watch configmaps"))
    finally:
        cluster.restart("kube-apiserver")
    story = _Story(run, program, api, cluster, new_namespace(), "watch cache")
    found["watch cache"] = story.tell(lambda running: cluster.restart("kube-apiserver"))
    for layer, episode in found.items():
        observe(f"what the {layer} said", episode.said[:2])
    _picture(found, observe)
    return found


def _picture(found: dict[str, Episode], observe) -> None:
    lanes = []
    for layer, episode in found.items():
        start = episode.moments[0][0]
        moments = [pictures.Moment(t - start, what) for t, what in episode.moments]
        lanes.append(pictures.Lane(layer, moments=moments))
    observe(
        "two 410s",
        pictures.lanes(
            "Two real 410s",
            "For each layer: changes that are held back, the compaction, the broken watch, and "
            "the moment when the cache was right again.",
            lanes,
        ),
    )


def _require_recovery(episode: Episode, words: str) -> None:
    if episode.dead and not any(words in said for said in episode.said):
        # It resumed from a version that should be dead, and nobody said so.
        raise Unknown(
            f"The {episode.layer} refuses the dead resourceVersion.",
            f"It said {episode.said[:3] or 'nothing'}, asked {episode.asked[:5]}.",
        )
    if episode.ended:
        raise Fail(
            "The program survives a 410.",
            f"It {episode.ended}.",
            why="A process that ends here is started again, lists everything, and has the same "
            "happen to it at the next compaction.",
            next="What raises, and who catches it?",
            diagnosis="exits-on-410",
            evidence=[*episode.evidence, *episode.tail],
        )
    _require_calm(episode)
    if episode.right:
        return
    again = episode.asked.count(("watch", episode.dead)) if episode.dead else 0
    whole = [a for a in episode.asked if a[0] == "list" or a[1] in ("", "0")]
    if again >= 2 and not whole:
        raise Fail(
            "After the 410 the whole state is asked for.",
            f"The same resourceVersion was asked for {again} times, and nothing else.",
            why=WHY,
            next="Which version does the reflector ask for after a 410, and after the second?",
            diagnosis="resumes-the-dead-version",
            evidence=episode.evidence,
        )
    raise Fail(
        f"Within {PATIENCE:g} s the cache has what the API server has.",
        f"It has {episode.cache}.",
        why="Everything that happened while nobody watched is in no event any more. Only a list, "
        "or a watch-list, has it.",
        next="An ERROR event in a watch has a Status for an object: what becomes of it?",
        diagnosis="cache-stays-wrong",
        evidence=[*episode.evidence, *episode.tail],
    )


def _require_calm(episode: Episode) -> None:
    if len(episode.asked) > MOST_REQUESTS:
        raise Fail(
            f"One 410 costs a few requests, at most {MOST_REQUESTS}.",
            f"There were {len(episode.asked)}.",
            why="A compaction makes every controller's watch fail at once. If each of them comes "
            "back without a pause, the API server does not.",
            next="Where is the pause between two attempts?",
            diagnosis="hot-loop",
            evidence=episode.evidence,
        )


@check(
    "4.2.5/etcd",
    title="etcd refuses the dead version: the cache is right soon afterwards, without a hot loop",
    points=3,
    evidence="live",
)
def check_etcd(episodes):
    _require_recovery(episodes["etcd"], ETCD)


@check(
    "4.2.5/watch-cache",
    title="The watch cache refuses it: the cache is right soon afterwards, without a hot loop",
    points=3,
    evidence="live",
)
def check_watch_cache(episodes):
    _require_recovery(episodes["watch cache"], CACHE)


#: Heading → what it asks for, files of that layer, a word that the line must have.
CHAIN = {
    "etcd says it": (
        "a line in which etcd says that a revision was compacted",
        (
            ("go.etcd.io/etcd/server/v3", "storage/mvcc/kvstore.go"),
            ("go.etcd.io/etcd/server/v3", "storage/mvcc/kvstore_txn.go"),
            ("go.etcd.io/etcd/server/v3", "storage/mvcc/watchable_store.go"),
            ("go.etcd.io/etcd/server/v3", "etcdserver/api/v3rpc/util.go"),
            ("go.etcd.io/etcd/api/v3", "v3rpc/rpctypes/error.go"),
        ),
        ("compact",),
    ),
    "The API server passes it on": (
        "a line in which the API server makes a 410 of it",
        (
            ("k8s.io/apiserver", "pkg/storage/etcd3/errors.go"),
            ("k8s.io/apiserver", "pkg/storage/etcd3/watcher.go"),
            ("k8s.io/apiserver", "pkg/storage/cacher/watch_cache.go"),
            ("k8s.io/apiserver", "pkg/storage/cacher/watch_cache_history.go"),
            ("k8s.io/apiserver", "pkg/storage/cacher/watch_cache_interval.go"),
        ),
        ("compact", "expired", "too old"),
    ),
    "The client acts on it": (
        "a line in which the reflector recognises the 410, or goes on from it",
        (("k8s.io/client-go", "tools/cache/reflector.go"),),
        ("expired", "gone", "unavailable"),
    ),
}


@check(
    "4.2.5/chain",
    title="The chain is cited at all three layers: compacted, 410, asked anew",
    points=2,
    evidence="claim",
)
def check_chain(submission):
    answers = written.parse(submission.text("answers.md"))
    for heading, (wanted, files, has) in CHAIN.items():
        source = answers.require_section(heading).source
        finding = citations.check(citations.required(source, f"answers.md, «{heading}»")[0])
        expected = f"The citation is of {wanted}."
        why = "The same failure has three names; whoever knows one of them finds a third of it."
        places.require(
            finding,
            [places.inside(path, module=module) for module, path in files],
            expected=expected,
            why=why,
            next="Search each layer's source for the next one's word: compacted, expired.",
        )
        if not any(word in finding.citation.quote.casefold() for word in has):
            raise Fail(
                expected,
                f"`{finding.citation.quote}` is in the right file and says nothing of it.",
                why=why,
                next=f"The line has one of these words: {', '.join(has)}.",
                diagnosis="right-file-wrong-line",
            )
