"""A learner's own file, read as a pinned one so that citations of it are checked the same way."""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
from pathlib import Path, PurePosixPath

from grader.evidence.digest import digest, lines_of, normalise
from grader.evidence.pinned import PinnedFile, Symbol

#: Far above any source file that a person wrote, in bytes.
LARGEST = 2_000_000


class NotReadable(Exception):
    """Why the file cannot be read, as a sentence; ``next`` says what to do."""

    def __init__(self, sentence: str, next: str = "") -> None:
        super().__init__(sentence)
        self.next = next


def read(folder: Path, path: str) -> PinnedFile:
    """The file ``path`` of the handed-in folder. Raises :class:`NotReadable`.

    Only a plain file inside the folder is read, symbolic links resolved.
    """
    named = PurePosixPath(path)
    if named.is_absolute() or ".." in named.parts or "\\" in path:
        raise NotReadable(f"{path} leads out of the lab's folder.", "Cite a file that you hand in.")
    root = folder.resolve()
    file = (root / named).resolve()
    if not file.is_relative_to(root):
        raise NotReadable(
            f"{path} is a link out of the lab's folder.",
            "Cite a file that you hand in.",
        )
    if not file.is_file():
        raise NotReadable(
            f"You handed in no file {path}.", "The path starts at the workspace's root."
        )
    if file.stat().st_size > LARGEST:
        raise NotReadable(
            f"{path} is larger than {LARGEST // 1_000_000} MB.", "Cite a source file."
        )
    data = file.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise NotReadable(
            f"{path} is not UTF-8 text (byte {error.start}).", "Save it as UTF-8."
        ) from None
    return parse(path, text)


def parse(path: str, text: str) -> PinnedFile:
    """The text as a pinned file: digests, and symbols for Python, Go and Markdown."""
    lines = lines_of(text)
    suffix = path.rsplit(".", 1)[-1]
    symbols: tuple[Symbol, ...] = ()
    comments: tuple[tuple[int, int], ...] = ()
    if suffix == "py":
        symbols, comments = python_symbols(text), python_comments(text)
    elif suffix == "go":
        symbols = go_symbols(lines)
    elif suffix == "md":
        symbols = headings(lines)
    return PinnedFile(
        path=path,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        lines=tuple(digest(line) for line in lines),
        symbols=symbols,
        comments=comments,
    )


def python_comments(text: str) -> tuple[tuple[int, int], ...]:
    """Docstrings and whole-line comments, as line ranges; none if the file does not parse."""
    try:
        tree = ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return ()
    found = [
        (t.start[0], t.end[0])
        for t in tokens
        if t.type == tokenize.COMMENT and not t.line[: t.start[1]].strip()
    ]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        # Any bare string is prose: a docstring, or one put under an attribute.
        found += [
            (s.lineno, s.end_lineno or s.lineno)
            for s in body
            if isinstance(s, ast.Expr)
            and isinstance(s.value, ast.Constant)
            and isinstance(s.value.value, str)
        ]
    return tuple(sorted(found))


def python_symbols(text: str) -> tuple[Symbol, ...]:
    """Classes, functions and methods (``Class.method``, ``outer.inner``); none if it does not parse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found: list[Symbol] = []

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                found.append(Symbol(prefix + child.name, first, child.end_lineno or child.lineno))
                visit(child, f"{prefix}{child.name}.")
            else:
                visit(child, prefix)

    visit(tree, "")
    return tuple(found)


_GO_FUNC = re.compile(r"func\s+(?:\(\s*(?:\w+\s+)?\*?(?P<receiver>\w+)[^)]*\)\s*)?(?P<name>\w+)")
_GO_TYPE = re.compile(r"type\s+(?P<name>\w+)")


def go_symbols(lines: list[str]) -> tuple[Symbol, ...]:
    """Top-level functions, methods and types of gofmt'ed Go: they end at a bracket in column one.

    The learner's machine may have no Go, so this does without its parser.
    """
    found: list[Symbol] = []
    for number, line in enumerate(lines, 1):
        match = _GO_FUNC.match(line) or _GO_TYPE.match(line)
        if not match:
            continue
        groups = match.groupdict()
        name = (
            f"{groups['receiver']}.{groups['name']}" if groups.get("receiver") else groups["name"]
        )
        last = number
        if line.rstrip().endswith(("{", "(", ",")):
            ends = (n for n in range(number, len(lines)) if lines[n].rstrip() in ("}", "})"))
            last = next((n + 1 for n in ends), len(lines))
        found.append(Symbol(name, number, last))
    return tuple(found)


_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")


def headings(lines: list[str]) -> tuple[Symbol, ...]:
    """Markdown headings by their text, each with its whole section."""
    open_sections: list[tuple[int, str, int]] = []
    found: list[Symbol] = []
    fence = ""
    for number, line in enumerate(lines, 1):
        mark = re.match(r"\s{0,3}(```+|~~~+)", line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        match = None if fence else _HEADING.match(line)
        if not match:
            continue
        level = len(match[1])
        while open_sections and open_sections[-1][0] >= level:
            _, name, first = open_sections.pop()
            found.append(Symbol(name, first, number - 1))
        open_sections.append((level, normalise(match[2]), number))
    found += [Symbol(name, first, len(lines)) for _, name, first in reversed(open_sections)]
    return tuple(sorted(found, key=lambda symbol: symbol.first))
