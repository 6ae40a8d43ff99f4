"""A drawn pipeline, read as stages and what flows between them: for 4.1.1 (and 4.2.8).

Which stage a node stands for is taken from its words, generously. Arrows are
read as the way that things go: whether somebody draws ``queue --> worker`` or
``worker -- Get --> queue``, the key goes from the queue to the worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from grader.evidence.graph import Edge, Graph, Node, words
from grader.verdict import Fail


@dataclass(frozen=True)
class Stage:
    """A stage that a right drawing has: its id, how messages call it, and names to offer."""

    id: str
    name: str
    names: str


STAGES = (
    Stage("api", "the API server", "«API server» or «kube-apiserver»"),
    Stage("reflector", "the reflector", "«Reflector» or «ListAndWatch»"),
    Stage("deltas", "the delta queue", "«DeltaFIFO», «RealFIFO» or «delta queue»"),
    Stage("indexer", "the indexer", "«Indexer», «cache» or «store»"),
    Stage("handlers", "the event handlers", "«Event handlers» or «AddFunc»"),
    Stage("queue", "the work queue", "«Workqueue» or «rate-limiting queue»"),
    Stage("worker", "the worker", "«Worker», «syncHandler» or «reconcile»"),
)
_NAME = {stage.id: stage.name for stage in STAGES}

#: What a node's words say it is. The match that begins first decides, then the longest.
_PATTERNS = {
    "api": r"(kube )?api ?server|(kubernetes|k8s|kube) api|apis?|watch cache|control plane",
    "reflector": r"reflectors?|list( and)? ?watch(er|ers)?|watchers?",
    "deltas": r"(delta|real) ?fifos?( queue)?|fifos?( queue)?|deltas?( queues?)?",
    "indexer": r"indexers?|(local |informer |informer s |shared )?caches?"
    r"|(thread safe |threadsafe |local |object )?stores?",
    "lister": r"listers?",
    "handlers": r"(resource )?(event )?handlers?|(add|update|delete) ?funcs?|on (add|update|delete)"
    r"|callbacks?",
    "queue": r"(rate limit(ing|ed) )?(work|key) ?queues?|rate limit(ing|ed) queues?|queues?",
    "worker": r"workers?|sync ?handlers?|reconcil\w*|process (next )?(work )?items?|run worker"
    r"|sync loop|control loop",
    "informer": r"(shared )?(index )?informers?|process loop",
}
_COMPILED = {stage: re.compile(rf"\b(?:{pattern})\b") for stage, pattern in _PATTERNS.items()}

#: Nodes that things pass through without a change of hands.
_SOFT = frozenset({"informer", ""})
#: Stages that things are taken out of: an arrow towards them with such a label points at the source.
_TAKEN_FROM = frozenset({"api", "deltas", "indexer", "lister", "queue"})
_TAKING = re.compile(
    r"\b(gets?|pops?|takes?|pulls?|dequeues?|reads?|re ?reads?|look(s|ed)? ?ups?|lookups?"
    r"|fetch(es)?|lists?|watch(es)?|next|consumes?|asks?|quer(y|ies)|finds?)\b"
)
_PUTTING = re.compile(r"\b(adds?|writes?|updates?|puts?|stores?|saves?|fills?|sets?|deletes?)\b")


def stage_of(node: Node) -> str:
    """The stage that a node stands for: an id of :data:`STAGES`, ``lister``, ``informer`` or empty."""
    return _stage_in(words(node.label)) or _stage_in(words(node.id))


def _stage_in(text: str) -> str:
    found = [
        (match.start(), -len(match[0]), stage)
        for stage, pattern in _COMPILED.items()
        if (match := pattern.search(text))
    ]
    return min(found)[2] if found else ""


class Pipeline:
    """A drawing with its nodes sorted into stages."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.stage = {id: stage_of(node) for id, node in graph.nodes.items()}
        #: What goes from node to node: (from, to) to the edges that say so.
        self.flows: dict[tuple[str, str], list[Edge]] = {}
        for edge in graph.edges:
            for source in graph.members(edge.source):
                for target in graph.members(edge.target):
                    for pair in self._directions(edge, source, target):
                        self.flows.setdefault(pair, []).append(edge)

    def _directions(self, edge: Edge, source: str, target: str) -> list[tuple[str, str]]:
        there, back = (source, target), (target, source)
        if edge.arrow != "forward":
            return [there, back]
        towards = self.stage.get(target, "")
        if towards == "api" and self.stage.get(source) == "reflector":
            return [back]  # the reflector's requests; what flows are their answers
        if towards in _TAKEN_FROM and _TAKING.search(edge.words):
            return [back]
        return [there]

    def nodes(self, *stages: str) -> list[str]:
        """The ids of the nodes of these stages."""
        return [id for id, stage in self.stage.items() if stage in stages]

    def need(self, *stages: str) -> None:
        """Fail unless each of the stages is in the drawing."""
        for stage in STAGES:
            if stage.id in stages and not self.nodes(stage.id):
                unknown = [n.label for id, n in self.graph.nodes.items() if not self.stage[id]]
                seen = f"No box was recognised as {stage.name}."
                if unknown:
                    seen += " Boxes that could not be placed: "
                    seen += ", ".join(f"«{label}»" for label in unknown[:6]) + "."
                raise Fail(
                    f"The drawing has a box for {stage.name}.",
                    seen,
                    why="Each stage was built to survive one kind of failure; a stage that is "
                    "missing in the picture is a failure you won't find.",
                    next=f"Add it, or put its name into the box's text: {stage.names}.",
                    diagnosis=f"stage-missing-{stage.id}",
                    evidence=[f"{_NAME.get(s, s)}: {self.shown(s)}" for s in _NAME],
                )

    def shown(self, *stages: str) -> str:
        """The labels of a stage's nodes, for a message."""
        labels = [f"«{self.graph.nodes[id].label}»" for id in self.nodes(*stages)]
        return ", ".join(labels) or "none"

    def way(self, source: str, target: str, *, through: Iterable[str] = ()) -> list[str] | None:
        """A way that things go from a stage to another, over no other stage than those ``through``.

        Node ids, both ends included; None if there is none.
        """
        passable = _SOFT | set(through)
        ends = set(self.nodes(target))
        ways = [[id] for id in self.nodes(source)]
        visited = {way[0] for way in ways}
        while ways:
            way = ways.pop(0)
            for here, there in self.flows:
                if here != way[-1]:
                    continue
                if there in ends:
                    return [*way, there]
                if there not in visited and self.stage.get(there, "") in passable:
                    visited.add(there)
                    ways.append([*way, there])
        return None

    def drawn(self, source: str, target: str) -> list[Edge]:
        """The arrows from a box of one stage to a box of another, as drawn, node to node.

        Arrows to and from a frame around several boxes don't count here: they
        don't say which box is meant.
        """
        return [
            edge
            for edge in self.graph.edges
            if (self.stage.get(edge.source), self.stage.get(edge.target)) == (source, target)
            and edge.arrow != "none"
        ]

    def drawn_way(self, source: str, target: str) -> list[str] | None:
        """As :meth:`way`, over arrows as drawn, node to node."""
        ends = set(self.nodes(target))
        ways = [[id] for id in self.nodes(source)]
        visited = {way[0] for way in ways}
        while ways:
            way = ways.pop(0)
            for edge in self.graph.edges:
                if edge.source != way[-1] or edge.arrow == "none":
                    continue
                if edge.target in ends:
                    return [*way, edge.target]
                if edge.target not in visited and self.stage.get(edge.target) == "":
                    visited.add(edge.target)
                    ways.append([*way, edge.target])
        return None

    def labels(self, way: list[str]) -> list[str]:
        """What is written along a way: on its arrows, and in the boxes between its ends."""
        written = [e.label for pair in zip(way, way[1:], strict=False) for e in self.flows[pair]]
        return [label for label in written if label] + [
            self.graph.nodes[id].label for id in way[1:-1]
        ]

    def lines(self, way: list[str] | None) -> list[str]:
        """A way as text, for a message."""
        if not way:
            return []
        return [" → ".join(f"«{self.graph.nodes[id].label}»" for id in way)]


def is_put(edge: Edge) -> bool:
    """Whether an arrow says that something is put there, and not read: unlabelled, it does."""
    return bool(_PUTTING.search(edge.words)) or not _TAKING.search(edge.words)


def shown_edge(graph: Graph, edge: Edge) -> str:
    """An arrow as text, with its line."""

    def label(id: str) -> str:
        return graph.nodes[id].label if id in graph.nodes else graph.subgraphs[id].title

    middle = f"--{edge.label}-->" if edge.label else "-->"
    return f"line {edge.line}: «{label(edge.source)}» {middle} «{label(edge.target)}»"
