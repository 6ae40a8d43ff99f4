"""Markdown as the graders read it: blocks and code spans with the line each stands on.

Parsed by markdown-it, so that a code span holds what CommonMark says it holds:
double backticks may hold backticks, and a table cell's ``\\|`` is a bar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token


def parser() -> MarkdownIt:
    """CommonMark with tables: no typographer, no linkify, HTML left as it is."""
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


@dataclass(frozen=True)
class Span:
    """Code in Markdown: a span in backticks, or one whole fenced or indented block.

    ``line`` is 1-based. ``block`` counts the blocks of text (a paragraph, a list
    item's text, a table row); spans of one block carry the same number. ``alone``
    says that nothing else stands in its block.
    """

    text: str
    line: int
    block: int
    fenced: bool = False
    alone: bool = False


def spans(text: str) -> list[Span]:
    """Every piece of code in the text, in order."""
    found: list[Span] = []
    block = 0
    in_row = False
    for token, line in located(parser().parse(text)):
        if token.type == "tr_open":
            in_row, block = True, block + 1
        elif token.type == "tr_close":
            in_row = False
        elif token.type == "inline":
            block += not in_row
            alone = len(token.children or []) == 1
            code = ((t, n) for t, n in children(token, line) if _is_code(t))
            found += [Span(t.content, n, block, alone=alone) for t, n in code]
        elif token.type in ("fence", "code_block"):
            block += 1
            found.append(Span(token.content, line + (token.type == "fence"), block, fenced=True))
    return found


def located(tokens: list[Token]) -> Iterator[tuple[Token, int]]:
    """Each block token with its 1-based line; one without a place of its own has its parent's."""
    line = 1
    for token in tokens:
        if token.map:
            line = token.map[0] + 1
        yield token, line


def children(token: Token, line: int) -> Iterator[tuple[Token, int]]:
    """The inline tokens of a block that starts on ``line``, each with its line.

    A code span that runs over lines is placed on its first; markdown-it has
    turned its line ends into spaces, so they are counted in the block's source.
    """
    source = token.content
    at = 0
    for child in token.children or []:
        if _is_code(child):
            start = _find_code(source, child, at)
            if start is not None:
                line += source.count("\n", at, start)
                yield child, line
                end = _end_of_code(source, child, start)
                line += source.count("\n", start, end)
                at = end
                continue
        if child.type in ("softbreak", "hardbreak"):
            end = source.find("\n", at)
            if end >= 0:
                line += 1
                at = end + 1
        yield child, line


def raw_code_spans(source: str) -> list[tuple[int, int, str]]:
    """(start, end, content) of the code spans of inline Markdown, by CommonMark's rule alone.

    A span opens at a run of backticks and closes at the next run of the same
    length; a run that never closes is text. For work on source that must keep
    its offsets; one pass, however many backticks there are.
    """
    runs = [(m.start(), m.end()) for m in re.finditer(r"`+", source)]
    later: dict[int, list[int]] = {}
    for number in range(len(runs) - 1, -1, -1):
        later.setdefault(runs[number][1] - runs[number][0], []).append(number)
    found = []
    number = 0
    while number < len(runs):
        start, after = runs[number]
        same = later[after - start]
        while same and same[-1] <= number:
            same.pop()
        if same:
            close, end = runs[same[-1]]
            found.append((start, end, source[after:close]))
            number = same[-1]
        number += 1
    return found


def _is_code(token: Token) -> bool:
    return token.type == "code_inline"


def _find_code(source: str, token: Token, at: int) -> int | None:
    """Where the span's opening backticks stand, from ``at`` on."""
    while (at := source.find(token.markup, at)) >= 0:
        before = source[at - 1] if at else ""
        after = source[at + len(token.markup) : at + len(token.markup) + 1]
        if before != "`" and after != "`" and _end_of_code(source, token, at) > at:
            return at
        at += 1
    return None


def _end_of_code(source: str, token: Token, start: int) -> int:
    """Just past the span's closing backticks; ``start`` where they are not found."""
    inside = start + len(token.markup)
    end = inside
    while (end := source.find(token.markup, end)) >= 0:
        after = source[end + len(token.markup) : end + len(token.markup) + 1]
        if source[end - 1] != "`" and after != "`":
            if source[inside:end].split() == token.content.split():
                return end + len(token.markup)
            return start
        end += 1
    return start
