"""Flowcharts: parsed, printed and parsed again, and told what is wrong with them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.evidence import mermaid
from grader.evidence.graph import Graph, words
from grader.evidence.mermaid import MermaidError, parse
from grader.verdict import Fail

SHAPES = {
    "rectangle": ("[", "]"),
    "rounded": ("(", ")"),
    "stadium": ("([", "])"),
    "subroutine": ("[[", "]]"),
    "cylinder": ("[(", ")]"),
    "circle": ("((", "))"),
    "double_circle": ("(((", ")))"),
    "ellipse": ("(-", "-)"),
    "asymmetric": (">", "]"),
    "diamond": ("{", "}"),
    "hexagon": ("{{", "}}"),
    "parallelogram": ("[/", "/]"),
    "trapezoid": ("[/", "\\]"),
}

#: What an arrow means, the arrow, and the arrow with its text inside.
LINES = [
    ("forward", "-->", "-- {} -->"),
    ("forward", "---->", "-- {} ---->"),
    ("forward", "==>", "== {} ==>"),
    ("forward", "-.->", "-. {} .->"),
    ("both", "<-->", "<-- {} -->"),
    ("none", "---", "-- {} ---"),
]

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(
    lambda n: (
        n not in ("end", "graph", "flowchart", "subgraph", "direction", "style", "class", "click")
        and n not in ("classDef", "linkStyle", "x", "o")
        and n[0] not in "xo"
    )
)
plain_text = (
    st.text(alphabet="abcXYZ 019.,:+*!?'é_/", min_size=1, max_size=12)
    .map(lambda t: " ".join(t.split()))
    .filter(lambda t: t and t[0] not in "/" and t[-1] not in "/")
)
quoted_text = (
    st.text(alphabet="ab ()[]{}|->/\\=.~@:;%éß\n", min_size=1, max_size=16)
    .map(lambda t: " ".join(t.split()))
    .filter(bool)
)
labels = st.one_of(plain_text, quoted_text.map(lambda t: f'"{t}"'))
edge_labels = st.one_of(st.just(""), plain_text.filter(lambda t: not re.search(r"\.\.|==", t)))


@st.composite
def drawings(draw):
    """(text, nodes {id: (label, shape)}, edges [(source, label, target, arrow)])."""
    ids = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    lines = [draw(st.sampled_from(["flowchart LR", "graph TD", "graph", "flowchart RL;"]))]
    nodes = {}
    for id in ids:
        shape = draw(st.sampled_from(sorted(SHAPES)))
        label = draw(labels)
        opening, closing = SHAPES[shape]
        if not label.startswith('"') and shape in ("parallelogram", "trapezoid"):
            label = f'"{label}"'
        nodes[id] = (mermaid.plain(label), shape)
        pad = draw(st.sampled_from(["", "  ", "\t"]))
        lines.append(
            f"{pad}{id}{opening}{label}{closing}" + draw(st.sampled_from(["", ";", ":::c"]))
        )
    edges = []
    for _ in range(draw(st.integers(0, 8))):
        source, target = draw(st.sampled_from(ids)), draw(st.sampled_from(ids))
        label = draw(edge_labels)
        arrow, line, with_text = draw(st.sampled_from(LINES))
        link = line
        if label:
            link = draw(st.sampled_from([f"{line}|{label}|", with_text.format(label)]))
        edges.append((source, mermaid.plain(label), target, arrow))
        space = draw(st.sampled_from([" ", "  "]))
        lines.append(f"{source}{space}{link}{space}{target}")
        if draw(st.booleans()):
            lines.append(draw(st.sampled_from(["%% a comment", "", "style x fill:#fff", "  "])))
    return "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"])), nodes, edges


@settings(max_examples=200, deadline=None)
@given(drawings())
def test_what_is_printed_is_what_is_read(drawing):
    text, nodes, edges = drawing
    graph = parse(text)
    assert {id: (n.label, n.shape) for id, n in graph.nodes.items()} == nodes
    assert [(e.source, e.label, e.target, e.arrow) for e in graph.edges] == edges


@settings(max_examples=200, deadline=None)
@given(drawings(), st.data())
def test_any_damage_is_a_graph_or_a_sentence_with_its_place(drawing, data):
    text = drawing[0]
    at = data.draw(st.integers(0, len(text)))
    with_ = data.draw(st.text(alphabet='[](){}|<>-=.~"`;\n%&@:/\\ endx', max_size=4))
    damaged = text[:at] + with_ + text[at + data.draw(st.integers(0, 3)) :]
    try:
        parse(damaged)
    except MermaidError as error:
        assert 1 <= error.line <= damaged.count("\n") + 1
        assert error.column >= 1 and error.sentence.endswith((".", "`")), error.sentence


BAD = [
    ("", 1, 1, "no diagram"),
    ("A --> B", 1, 1, "flowchart LR"),
    ("sequenceDiagram\nA->>B: x", 1, 1, "sequenceDiagram"),
    ("```mermaid\nflowchart LR\n```", 1, 1, "backticks"),
    ("flowchart XX\nA", 1, 11, "not a direction"),
    ("flowchart LR\n A -> B", 2, 4, "`->` is not an arrow"),
    ("flowchart LR\n A => B", 2, 4, "`=>` is not an arrow"),
    ("flowchart LR\n A[list (watch)] --> B", 2, 9, "double quotes"),
    ("flowchart LR\n A[list --> B\n C[x]", 2, 4, "not closed on its line"),
    ("flowchart LR\n A[list --> B", 2, 14, "never closed"),
    ('flowchart LR\n A["list] --> B', 2, 4, "quote is never closed"),
    ("flowchart LR\n A[]", 2, 4, "no text"),
    ("flowchart LR\n A[/path/file.go]", 2, 17, "slanted"),
    ("flowchart LR\n A -- text B", 2, 4, "never closed"),
    ("flowchart LR\n --> B", 2, 2, "node before"),
    ("flowchart LR\n A -->", 2, 7, "last arrow"),
    ("flowchart LR\n A --> B %% why", 2, 10, "line of its own"),
    ("flowchart LR\n A --> end", 2, 8, "`End`"),
    ("flowchart LR\n A --> B\n end", 3, 2, "closes nothing"),
    ("flowchart LR\n subgraph one\n A", 3, 3, "line 2"),
    ("flowchart LR\n subgraph a\n subgraph b\n A\n end", 5, 5, "line 2"),
    ("flowchart LR\n A B", 2, 4, "cannot follow a node"),
    ("flowchart LR\n subgraph a [b\n A\n end", 2, 13, "id [title]"),
]


@pytest.mark.parametrize(("text", "line", "column", "says"), BAD)
def test_a_fault_has_its_place_and_a_sentence(text, line, column, says):
    with pytest.raises(MermaidError) as fault:
        parse(text)
    assert says in fault.value.sentence
    assert fault.value.line == line
    assert abs(fault.value.column - column) <= 1


def test_comments_directives_and_front_matter_move_no_line():
    text = (
        "---\ntitle: A --> B\n---\n%%{init: {'a':\n 'b'}}%%\n  %% x --> y\nflowchart LR\nA --> B\n"
    )
    graph = parse(text)
    assert graph.nodes["A"].line == 8 and graph.edges[0].line == 8
    with pytest.raises(MermaidError) as fault:
        parse(text + "C -> D")
    assert (fault.value.line, fault.value.source) == (9, "C -> D")


def test_every_form_of_label():
    graph = parse(
        "flowchart LR\n"
        'a["`**bold** _it_`"] & b["x<br/>y #quot;z#quot; #35;1 &amp; <b>w</b>"]\n'
        'c@{ shape: cyl, label: "d, e" }\n'
        "f@{\n  shape: rounded\n  label: g\n}\n"
        'a -->|"p | q"| b -- "r -- s" --> c\n'
    )
    assert [n.label for n in graph.nodes.values()] == ["bold it", 'x y "z" #1 & w', "d, e", "g"]
    assert [n.shape for n in graph.nodes.values()][2:] == ["cyl", "rounded"]
    assert [e.label for e in graph.edges] == ["p | q", "r -- s"]


def test_chains_ampersands_line_breaks_and_edge_ids():
    graph = parse(
        "graph TD;A-->B & C-->D;D-->\n E\nE\n--> F\nF e1@--> G\ne1@{ animate: true }\nA ~~~ G\n"
    )
    pairs = [(e.source, e.target) for e in graph.edges]
    assert pairs == [tuple(each) for each in "AB AC BD CD DE EF FG".split()]
    assert "e1" not in graph.nodes


def test_subgraphs_nest_and_are_ends_of_edges():
    graph = parse(
        "flowchart LR\nsubgraph informer [The informer]\n direction TB\n r --> q\n"
        ' subgraph "inner box"\n  i; h\n end\nend\nworker --> informer\ninformer -->|keys| wq\n'
    )
    assert graph.subgraphs["informer"].title == "The informer"
    assert graph.subgraphs["inner box"].parent == "informer"
    assert graph.around("h") == ("inner box", "informer")
    assert set(graph.members("informer")) == {"r", "q", "i", "h"}
    assert "informer" not in graph.nodes
    assert graph.path(["worker"], ["wq"]) in (["worker", m, "wq"] for m in "rqih")
    assert [e.label for e in graph.between(["h"], ["wq"])] == ["keys"]


def ring() -> Graph:
    return parse(
        "flowchart LR\napi --> r --> q --> h --> wq --> w --> api\nq --> idx\nw --> idx\nw --- z\n"
    )


def test_questions_about_ways():
    graph = ring()
    assert graph.path(["r"], ["w"]) == ["r", "q", "h", "wq", "w"]
    assert graph.path(["r"], ["w"], avoiding={"wq"}) is None
    assert graph.path(["idx"], ["api"]) is None
    assert graph.path(["w"], ["z"]) is None
    assert graph.path(["api"], ["api"]) == ["api", "r", "q", "h", "wq", "w", "api"]
    assert graph.alone() == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=14))
def test_a_way_is_found_exactly_where_there_is_one(pairs):
    text = "flowchart LR\n" + "".join(f"n{n}\n" for n in range(6))
    text += "".join(f"n{a} --> n{b}\n" for a, b in pairs)
    graph = parse(text)
    reach = {(a, b) for a, b in pairs}
    for k in range(6):
        reach |= {(a, b) for a in range(6) for b in range(6) if {(a, k), (k, b)} <= reach}
    for a in range(6):
        for b in range(6):
            way = graph.path([f"n{a}"], [f"n{b}"])
            assert (way is not None) == ((a, b) in reach)
            for here, there in zip(way or [], (way or [])[1:], strict=False):
                assert (int(here[1:]), int(there[1:])) in pairs


def test_words_take_names_apart():
    assert words("RealFIFO / delta_fifo.go (sharedIndexInformer)") == (
        "real fifo delta fifo go shared index informer"
    )


def test_require_shows_the_place():
    with pytest.raises(Fail) as failed:
        mermaid.require("flowchart LR\n A -> B", name="pipeline.mmd")
    message = failed.value.message
    assert message.diagnosis == "diagram-syntax"
    assert message.evidence == (" A -> B", "   ^")


def test_a_large_diagram_is_read_quickly_and_a_huge_one_refused():
    text = "flowchart LR\n" + "".join(f"n{n} -->|e{n}| n{n + 1}\n" for n in range(2000))
    assert len(parse(text).edges) == 2000
    with pytest.raises(MermaidError):
        parse("flowchart LR\n" + "a" * 300_000)


@pytest.mark.parametrize(
    "text",
    [
        "A -- " + " " * 150_000,
        "A -. " + ".x" * 60_000,
        "A" + " -- x" * 30_000,
        "subgraph a\n" * 5_000 + "A\n" + "end\n" * 5_000,
        " & ".join(f"a{n}" for n in range(400)) + " --> " + " & ".join(f"b{n}" for n in range(400)),
    ],
    ids=["unclosed text", "dots", "many unclosed", "deep", "product"],
)
def test_hostile_text_ends_in_a_sentence(text):
    with pytest.raises(MermaidError):
        parse("flowchart LR\n" + text)
