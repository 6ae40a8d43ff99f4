"""Mermaid flowcharts to graphs, by the grammar in ``mermaid.lark``.

``parse(text)`` gives a :class:`~grader.evidence.graph.Graph`, or raises
:class:`MermaidError` with the place and a sentence. Read are flowcharts (``graph``
and ``flowchart``) with all bracketed shapes and ``@{ shape: … }``, edge labels
in both forms, chains, ``&``, and subgraphs. It rejects what mermaid's own parser
rejects; it never guesses.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache
from pathlib import Path

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedEOF, UnexpectedInput, UnexpectedToken

from grader.evidence.graph import Arrow, Edge, Graph, Node, Subgraph
from grader.verdict import Fail

__all__ = ["Edge", "Graph", "MermaidError", "Node", "Subgraph", "parse", "require"]

#: Far more than a picture that a person reads, in characters.
LARGEST = 200_000
MOST_EDGES = 10_000

_OTHER_DIAGRAMS = re.compile(
    r"(sequenceDiagram|classDiagram|stateDiagram(?:-v2)?|erDiagram|gantt|pie|mindmap|journey"
    r"|gitGraph|block(?:-beta)?|architecture-beta|timeline|quadrantChart|C4\w+)\b"
)
_LINK_END = re.compile(r"(?:--+|==+|\.+-)(?P<head>[-=xo>]?)\Z")
_DATA_ITEM = re.compile(r"(\w+)\s*:\s*(?:\"([^\"]*)\"|'([^']*)'|([^,\n}]+))")


class MermaidError(ValueError):
    """Why the text is no flowchart; ``line`` and ``column`` are 1-based, ``source`` is that line."""

    def __init__(self, line: int, column: int, sentence: str, source: str = "") -> None:
        super().__init__(f"line {line}, column {column}: {sentence}")
        self.line = line
        self.column = column
        self.sentence = sentence
        self.source = source


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = (Path(__file__).parent / "mermaid.lark").read_text()
    return Lark(grammar, parser="lalr", lexer="contextual", propagate_positions=True)


def parse(text: str) -> Graph:
    """The flowchart's graph. Raises :class:`MermaidError`."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if len(text) > LARGEST:
        raise MermaidError(1, 1, f"The diagram has {len(text)} characters, too many for a picture.")
    blanked = _blank(text)
    _check_header(blanked)
    try:
        return _Builder().build(_parser().parse(blanked))
    except UnexpectedInput as error:
        raise _explain(error, blanked, text) from None
    except RecursionError:
        raise MermaidError(1, 1, "Its subgraphs are nested too deep to be a picture.") from None


def require(text: str, *, name: str, expected: str = "") -> Graph:
    """As :func:`parse`, but a diagram with a fault is a :class:`Fail` that shows the place."""
    try:
        return parse(text)
    except MermaidError as error:
        shown = error.source[:100].expandtabs(1)
        raise Fail(
            expected or f"{name} is a mermaid flowchart.",
            f"Line {error.line}, column {error.column}: {error.sentence}",
            next="https://mermaid.live draws it as you type.",
            diagnosis="diagram-syntax",
            evidence=(shown, " " * (min(error.column, 100) - 1) + "^") if shown else (),
        ) from None


def plain(text: str) -> str:
    """A label without quotes, entities, HTML tags, markdown marks and icons, on one line."""
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1].strip()
    if len(text) >= 2 and text[0] == text[-1] == "`":
        text = re.sub(r"\*\*|__|(?<!\w)[*_]|[*_](?!\w)", "", text[1:-1])
    text = re.sub(r"<br\s*/?>", " ", text)
    text = re.sub(r"</?[a-zA-Z][^<>]*>", "", text)
    text = re.sub(r"(?<!&)#(?:(\d+)|(\w+));", lambda m: f"&#{m[1]};" if m[1] else f"&{m[2]};", text)
    text = html.unescape(text)
    text = re.sub(r"\bfa[bsrl]?:fa-[\w-]+", "", text)
    return " ".join(text.split())


def _blank(text: str) -> str:
    """Front matter, directives and comment lines turned into spaces, line for line."""

    def spaces(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    text = re.sub(r"\A\s*---[ \t]*\n(?:.*\n)*?[ \t]*---[ \t]*(?=\n|\Z)", spaces, text)
    end = 0
    while (start := text.find("%%{", end)) >= 0 and (close := text.find("}%%", start)) >= 0:
        end = close + 3
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return re.sub(r"^[ \t]*%%[^\n]*", spaces, text, flags=re.MULTILINE)


def _check_header(text: str) -> None:
    stripped = text.lstrip()
    before = text[: len(text) - len(stripped)]
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    source = text.split("\n")[line - 1]
    if not stripped:
        raise MermaidError(1, 1, "There is no diagram here: begin with `flowchart LR`.")
    if stripped.startswith("```"):
        raise MermaidError(
            line,
            column,
            "The file is the diagram itself: take out the lines with backticks.",
            source,
        )
    if other := _OTHER_DIAGRAMS.match(stripped):
        raise MermaidError(
            line, column, f"This is a {other[1]}; a flowchart begins with `flowchart LR`.", source
        )
    if not re.match(r"(?:flowchart-elk|flowchart|graph)(?=[\s;]|\Z)", stripped):
        raise MermaidError(
            line, column, "A flowchart begins with a line such as `flowchart LR`.", source
        )


def _explain(error: UnexpectedInput, blanked: str, text: str) -> MermaidError:
    """The parser's error as a sentence for the author of the diagram."""
    lines = text.split("\n")
    if isinstance(error, UnexpectedEOF) or (
        isinstance(error, UnexpectedToken) and error.token.type == "$END"
    ):
        line, column = len(blanked.rstrip().split("\n")), len(blanked.rstrip().split("\n")[-1]) + 1
    else:
        line, column = error.line, error.column
    if isinstance(error, UnexpectedToken):
        expected = set(error.expected) | set(getattr(error, "accepts", None) or ())
        at = str(error.token)
    else:
        expected = set(getattr(error, "allowed", None) or ())
        at = ""
    offset = sum(len(each) + 1 for each in blanked.split("\n")[: line - 1]) + column - 1
    rest = blanked[offset:]
    history = getattr(error, "token_history", None) or []
    if history and history[-1].type == "TEXT" and "\n" in blanked[history[-1].start_pos : offset]:
        # Plain text may run over lines, so the error came long after its cause.
        line, column = history[-1].line, history[-1].column
        sentence = "The text that begins here is not closed on its line."
    else:
        sentence = _sentence(expected, at, rest, blanked[:offset])
    source = lines[line - 1] if line <= len(lines) else ""
    return MermaidError(line, column, sentence, source)


def _sentence(expected: set[str], at: str, rest: str, before: str) -> str:
    here = rest.lstrip(" \t")
    if not here.strip():
        opened = _open_subgraph(before + rest)
        if opened:
            return f"The subgraph opened on line {opened} is never closed: it needs a line `end`."
        if "TEXT" in expected or not ({"ID", "_SEP"} & expected):
            return "The last node's or edge's text is never closed."
        return "Something must follow the last arrow."
    if here.startswith("%%"):
        return "A comment stands on a line of its own."
    if re.match(r"\s*end(?=[\s;]|\Z)", here):
        if "ID" in expected and "END" not in expected and "HEADER" not in expected:
            if re.search(r"(?:[->x.=o]|&|\|)\s*\Z", before):
                return "`end` closes a subgraph and cannot name a node: write `End`."
        return "This `end` closes nothing: no subgraph is open."
    if re.match(r"\s*[<]?-(?:>|\s)", here):
        return "`->` is not an arrow: write `-->`."
    if re.match(r"\s*(?:=>)", here):
        return "`=>` is not an arrow: write `==>`."
    if re.fullmatch(r"(?:.*\n)?\s*(?:flowchart-elk|flowchart|graph)[ \t]*", before, re.DOTALL):
        return f"`{here.split()[0]}` is not a direction: use LR, RL, TB or BT."
    if re.match(r"\s*(?:--|==|-\.)", here):
        if re.search(r"(?:^|[\n;&])\s*\Z", before):
            return "An arrow needs a node before it."
        return "The text on this edge is never closed: write `-- text -->` or `-->|text|`."
    if here.startswith("\n") or at.startswith("\n"):
        if "TEXT" in expected:
            return "The text is never closed."
        return "The line ends too soon: a node is missing here."
    if "TEXT" in expected or ("STRING" in expected and "ID" not in expected):
        if here[0] in "])}|":
            return f"There is no text before `{here[0]}`."
        if here[0] == '"' and before.rstrip()[-1:] in "[({|/\\>":
            return "This double quote is never closed."
        return f"`{here[0]}` cannot stand in plain text: put the text in double quotes."
    if re.search(r"[\[]/[^\]\n]*\Z", before):
        return "`[/` opens a slanted box: put a text that begins with `/` in double quotes."
    closers = [n for n in expected if n not in ("ID", "_SEP") and "ARROW" not in expected]
    if closers and "ID" not in expected and "_SEP" not in expected:
        return f"`{here[0]}` cannot stand in plain text: put the whole text in double quotes."
    word = re.match(r"\S+", here)
    shown = word[0][:30] if word else here[0]
    if "ARROW" in expected:
        return f"`{shown}` cannot follow a node: an arrow, a new line or `;` must come first."
    return f"`{shown}` cannot stand here: a node's name is expected."


def _open_subgraph(text: str) -> int:
    """The line of the innermost subgraph that is not closed; 0 where all are."""
    open_on: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        for statement in re.split(r";(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", line):
            if re.match(r"\s*subgraph(?=\s|$)", statement):
                open_on.append(number)
            elif re.match(r"\s*end\s*$", statement) and open_on:
                open_on.pop()
    return open_on[-1] if open_on else 0


class _Builder:
    """Walks the syntax tree in source order and collects what it draws."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.edges: list[Edge] = []
        self.subgraphs: dict[str, Subgraph] = {}
        self.edge_ids: set[str] = set()
        self.homes: dict[str, str] = {}

    def build(self, tree: Tree) -> Graph:
        direction = "TB"
        for child in tree.children:
            if isinstance(child, Tree):
                self._block(child, None)
            elif child.type == "DIRECTION":
                direction = {"TD": "TB", "v": "TB", ">": "LR", "<": "RL", "^": "BT"}.get(
                    child, str(child)
                )
        nodes = {
            id: Node(id, n.label, n.shape, n.line, self.homes.get(id))
            for id, n in self.nodes.items()
            if id not in self.subgraphs and id not in self.edge_ids
        }
        subgraphs = {
            id: Subgraph(id, s.title, tuple(n for n in s.nodes if n in nodes), s.parent, s.line)
            for id, s in self.subgraphs.items()
        }
        return Graph(direction, nodes, tuple(self.edges), subgraphs)

    def _block(self, tree: Tree, parent: str | None) -> list[str]:
        """Returns the ids that the block mentions, each once, inner subgraphs' left out."""
        mentioned: list[str] = []
        for statement in tree.children:
            if isinstance(statement, Token):
                continue
            if statement.data == "subgraph":
                self._subgraph(statement, parent)
            else:
                mentioned += self._chain(statement)
        return list(dict.fromkeys(mentioned))

    def _subgraph(self, tree: Tree, parent: str | None) -> None:
        opening, block = tree.children[0], tree.children[1]
        id, title = _subgraph_title(opening)
        if not id or (id in self.subgraphs and id != title):
            id = f"subgraph on line {opening.line}"
        while id in self.subgraphs:
            id += "'"
        # Entered before its inside, so that outer comes before inner.
        self.subgraphs[id] = Subgraph(id, title, (), parent, opening.line)
        # As in mermaid, the subgraph that closes first keeps a node that several mention.
        own = [n for n in self._block(block, id) if n not in self.homes]
        self.homes.update(dict.fromkeys(own, id))
        self.subgraphs[id] = Subgraph(id, title, tuple(own), parent, opening.line)

    def _chain(self, tree: Tree) -> list[str]:
        groups = [self._group(g) for g in tree.children if g.data == "group"]
        links = [self._link(link) for link in tree.children if link.data == "link"]
        for (label, arrow, line), left, right in zip(links, groups, groups[1:], strict=False):
            if len(self.edges) + len(left) * len(right) > MOST_EDGES:
                raise MermaidError(
                    line, 1, f"With more than {MOST_EDGES} edges nobody can read it."
                )
            if arrow is not None:
                self.edges += [Edge(a, b, label, arrow, line) for a in left for b in right]
        return [id for group in groups for id in group]

    def _group(self, tree: Tree) -> list[str]:
        return [self._vertex(vertex) for vertex in tree.children]

    def _vertex(self, tree: Tree) -> str:
        name = tree.children[0]
        id = str(name)
        label, shape = None, None
        for part in tree.children[1:]:
            if isinstance(part, Tree):
                label, shape = plain(str(part.children[0])), str(part.data)
            elif part.type == "DATA":
                items = {
                    m[1]: next(g for g in m.groups()[1:] if g is not None).strip()
                    for m in _DATA_ITEM.finditer(part)
                }
                shape = items.get("shape", shape)
                label = plain(items["label"]) if "label" in items else label
        known = self.nodes.get(id)
        self.nodes[id] = Node(
            id,
            label if label is not None else (known.label if known else id),
            shape or (known.shape if known else "rectangle"),
            known.line if known else name.line,
        )
        return id

    def _link(self, tree: Tree) -> tuple[str, Arrow | None, int]:
        arrow = tree.children[-1]
        for child in tree.children[:-1]:
            self.edge_ids.add(str(child).rstrip("@"))
        token = arrow.children[0]
        line = token.line + str(token).count("\n", 0, _indent(str(token)))
        text = str(token).strip()
        if arrow.data == "text_arrow":
            tail = text[0] if text[0] in "xo<" else ""
            body = text[len(tail) + 2 :]
            end = _LINK_END.search(body)
            assert end is not None, token
            return plain(body[: end.start()]), _arrow(tail, end["head"]), line
        if text.startswith("~"):
            return "", None, line
        label = plain(str(arrow.children[1].children[0])) if len(arrow.children) > 1 else ""
        return label, _arrow(text[0], text[-1]), line


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _arrow(tail: str, head: str) -> Arrow:
    pointed = ("x", "o", ">", "<")
    if head in pointed:
        return "both" if tail in pointed else "forward"
    return "none"


def _subgraph_title(opening: Token) -> tuple[str, str]:
    """(id, title) of ``subgraph id [title]``, ``subgraph "title"``, ``subgraph some words``."""
    rest = str(opening)[len("subgraph") :].strip()
    match = re.fullmatch(r"(?P<id>[^\[\"]*?)\s*\[\s*(?P<title>\"[^\"]*\"|[^\[\]]*)\s*\]", rest)
    if match and match["id"]:
        return match["id"], plain(match["title"])
    if match or rest.count("[") != rest.count("]"):
        column = opening.column + str(opening).find("[")
        sentence = "A subgraph's title is written `subgraph id [title]`."
        raise MermaidError(opening.line, column, sentence, str(opening))
    title = plain(rest)
    return title, title
