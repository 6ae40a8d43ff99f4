"""The graph of a flowchart, and the queries that graders need."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal

#: ``forward`` from source to target, ``both`` ways, ``none`` for a line without a head.
Arrow = Literal["forward", "both", "none"]


@dataclass(frozen=True)
class Node:
    """A node: its id, its text without markup, its shape's name, and the 1-based line that first names it."""

    id: str
    label: str
    shape: str
    line: int
    subgraph: str | None = None

    @property
    def words(self) -> str:
        """Label and id, lower case, with words of camelCase and file names apart: for matching."""
        return words(f"{self.label} {self.id}" if self.label != self.id else self.label)


@dataclass(frozen=True)
class Edge:
    """An edge as drawn; ``source`` and ``target`` are ids of nodes or of subgraphs."""

    source: str
    target: str
    label: str
    arrow: Arrow
    line: int

    @property
    def words(self) -> str:
        return words(self.label)


@dataclass(frozen=True)
class Subgraph:
    """A box around nodes; ``nodes`` are its own, without those of the boxes inside it."""

    id: str
    title: str
    nodes: tuple[str, ...]
    parent: str | None
    line: int


@dataclass(frozen=True)
class Graph:
    """Nodes and subgraphs by id in the order of their first mention, and edges in order.

    An edge to or from a subgraph stands for its nodes: a path may continue from
    any node in it, and leave by the edge from any node in it.
    """

    direction: str
    nodes: dict[str, Node]
    edges: tuple[Edge, ...]
    subgraphs: dict[str, Subgraph] = field(default_factory=dict)

    def members(self, id: str) -> tuple[str, ...]:
        """The node itself, or every node of the subgraph, those of inner subgraphs included."""
        if id not in self.subgraphs:
            return (id,)
        inner = [s.id for s in self.subgraphs.values() if s.parent == id]
        return (*self.subgraphs[id].nodes, *(n for s in inner for n in self.members(s)))

    def around(self, node: str) -> tuple[str, ...]:
        """The subgraphs that the node is in, the innermost first."""
        found = []
        at = self.nodes[node].subgraph if node in self.nodes else None
        while at is not None:
            found.append(at)
            at = self.subgraphs[at].parent
        return tuple(found)

    def matching(self, pattern: str) -> list[Node]:
        """The nodes whose words match the regular expression (see :attr:`Node.words`)."""
        return [n for n in self.nodes.values() if re.search(pattern, n.words)]

    def successors(self, node: str) -> list[tuple[str, Edge]]:
        """The nodes that one arrow leads to, each with its edge; subgraphs stand for their nodes."""
        here = {node, *self.around(node)}
        found = []
        for edge in self.edges:
            ends = []
            if edge.source in here and edge.arrow != "none":
                ends.append(edge.target)
            if edge.target in here and edge.arrow == "both":
                ends.append(edge.source)
            # A box with an arrow to something in itself: the thing does not lead to itself by it.
            found += [(m, edge) for end in ends for m in self.members(end) if m != node or end == m]
        return found

    def between(self, sources: Iterable[str], targets: Iterable[str]) -> list[Edge]:
        """The edges that lead straight from any of the sources to any of the targets."""
        wanted = set(targets)
        found = [e for s in sources for t, e in self.successors(s) if t in wanted]
        return list(dict.fromkeys(found))

    def path(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        avoiding: Collection[str] = (),
    ) -> list[str] | None:
        """A shortest way along the arrows of at least one edge, as node ids, both ends included.

        It goes through no node of ``avoiding`` on its way (its ends may be of
        them). None where there is no way.
        """
        ends = set(targets)
        start = list(dict.fromkeys(sources))
        before: dict[str, str | None] = {}
        waiting: deque[str] = deque(start)
        expanded: set[str] = set()
        while waiting:
            node = waiting.popleft()
            if node in expanded:
                continue
            expanded.add(node)
            for after, _ in self.successors(node):
                if after in ends:
                    way = [after, node]
                    while (node := before.get(node)) is not None:  # type: ignore[assignment]
                        way.append(node)
                    return way[::-1]
                if after not in before and after not in start and after not in avoiding:
                    before[after] = node
                    waiting.append(after)
        return None

    def alone(self) -> list[Node]:
        """The nodes that no edge touches, not even by a subgraph around them."""
        touched = {m for e in self.edges for end in (e.source, e.target) for m in self.members(end)}
        return [node for id, node in self.nodes.items() if id not in touched]


def words(text: str) -> str:
    """Lower-case words with one space between: ``RealFIFO queue`` is ``real fifo queue``."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    return " ".join(re.findall(r"[^\W_]+", apart)).lower()
