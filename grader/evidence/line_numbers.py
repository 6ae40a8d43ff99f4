"""Every line number that the course names, and what that line must say.

A number counts from a file's first line, so a pin may move it. Beside each stands what it
is of, the name of what is defined on that line or the line's own text, in one of these forms::

    tools/cache/reflector.go:561 (Reflector.watch)
    ``dedupDeltas`` (delta_fifo.go:443)
    tools/cache/delta_fifo.go: ``dedupDeltas`` (443), ``isDup`` (line 460)
    `client-go/tools/cache/store.go:266` `c.cacheStorage.Add(key, obj)`

A path alone may follow in the same file once one of these has said what its line is. The
file may be one of the course's own. A number in any other form is a fault, because nothing
would notice when it becomes wrong.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from grader.cut import regions
from grader.evidence import citations, markdown, own
from grader.evidence.pinned import Index, PinnedFile

_PATH = r"(?:[\w.\-]+(?:/[\w.\-]+)*@[\w.+\-]+/)?[\w.\-]+(?:/[\w.\-]+)*\.(?:go|py|md|proto)"
_NAME = r"[A-Za-z_][\w.]*"
#: A path and a number, with what stands before and after it.
_PLACED = re.compile(
    rf"(?:(?P<ticks>`+)(?P<before>{_NAME})(?P=ticks)\s+\(`*)?"
    rf"(?<![\w/@.\-])(?P<path>{_PATH}):(?P<number>\d+)(?P<range>[-–]\d+)?(?![\w:])"
    rf"(?P<close>`*)(?:\s+\(`*(?P<after>{_NAME})`*\))?"
)
#: A name and a number, of the file that was named last.
_NAMED = re.compile(
    rf"(?P<ticks>`+)(?P<name>{_NAME})(?P=ticks)\s+\((?:line )?(?P<number>\d+)(?=[),:;])"
)
_MENTION = re.compile(rf"(?<![\w/@.\-])(?P<path>{_PATH})(?![\w])")
#: Looks like a line's number, and says of what in no way that can be checked.
_LOOSE = re.compile(
    r"\blines? (?P<number>\d{2,})(?!:)|\.(?:go|proto)#L(?P<link>\d+)|\.go`* \((?P<bare>\d{2,}(?:[-–]\d+)?)\)"
)

#: Where the course's own files are that it tells of by a learner's paths.
_OWN = ("", "solutions/artifacts/common", "solutions/artifacts/python", "solutions/artifacts/go")


@dataclass(frozen=True)
class LineNumber:
    """One number: where it stands (``file`` from the root, 1-based ``line``, ``start`` in its text).

    ``module`` is empty for a file of the course's own. ``of`` is the name or the text beside
    it, empty where there is none. ``fault`` is a sentence where it does not hold, and ``to``
    what it should be, where that is known.
    """

    file: str
    line: int
    start: int
    number: int
    module: str = ""
    path: str = ""
    of: str = ""
    quoted: bool = False
    fault: str = ""
    to: int | None = None


def found(root: Path, files: list[Path], index: Index) -> list[LineNumber]:
    """Every line number in these files, judged, in order."""
    numbers: list[LineNumber] = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        cited = citations.find(text) if path.suffix == ".md" else []
        quotes = {(c.at, c.written): c.quote for c in cited if c.quote}
        file = path.relative_to(root).as_posix()
        in_file = []
        for start, block in _blocks(root, path, text):
            first = text.count("\n", 0, start) + 1
            for each in _in_block(root, file, start, block, index):
                line = first + block.count("\n", 0, each.start - start)
                each = replace(each, line=line)
                quote = quotes.get((line, f"{each.path}:{each.number}"))
                if quote and not each.of:
                    each = replace(each, of=quote, quoted=True)
                in_file.append(_judged(root, each, index))
        numbers += _settled(in_file)
    return numbers


def corrected(text: str, numbers: list[LineNumber]) -> str:
    """The text of one file with each number corrected whose place is known."""
    for each in sorted(numbers, key=lambda n: -n.start):
        if each.to is not None:
            end = each.start + len(str(each.number))
            text = f"{text[: each.start]}{each.to}{text[end:]}"
    return text


def _in_block(root: Path, file: str, start: int, block: str, index: Index) -> Iterator[LineNumber]:
    taken: list[tuple[int, int]] = []
    spans = markdown.raw_code_spans(block)
    for match in _PLACED.finditer(block):
        taken.append(match.span())
        of = match["after"] or match["before"] or ""
        quote = "" if of else _text_after(block, spans, match)
        yield LineNumber(
            file,
            0,
            start + match.start("number"),
            int(match["number"]),
            path=match["path"],
            of=of or quote,
            quoted=bool(quote),
            fault="It is a range; name the one line that shows it." if match["range"] else "",
        )
    mentions = [(m.start(), m["path"]) for m in _MENTION.finditer(block)]
    for match in _NAMED.finditer(block):
        before = [path for at, path in mentions if at < match.start()]
        known = [path for path in before if _resolved(root, path, index)]
        if known:
            taken.append(match.span())
            at = start + match.start("number")
            yield LineNumber(file, 0, at, int(match["number"]), path=known[-1], of=match["name"])
    upstream = any(_resolved(root, path, index) for _, path in mentions)
    for match in _LOOSE.finditer(block):
        kind = match.lastgroup or "number"
        if not (upstream or kind == "link") or any(a <= match.start() < b for a, b in taken):
            continue
        digits = re.match(r"\d+", match[kind])
        assert digits
        yield LineNumber(
            file,
            0,
            start + match.start(kind),
            int(digits[0]),
            fault="Nothing beside it says what stands there: write `Name` (N) after the file's "
            "path, or path:N (Name).",
        )


def _text_after(block: str, spans: list[tuple[int, int, str]], match: re.Match[str]) -> str:
    """The code span right after a path in code: the line's own text, as a citation has it."""
    if not match["close"]:
        return ""
    after = next((s for s in spans if s[0] >= match.end("close")), None)
    between = block[match.end("close") : after[0]] if after else ""
    return after[2].strip() if after and not between.strip(" \n:>") else ""


def _judged(root: Path, number: LineNumber, index: Index) -> LineNumber:
    if number.fault:
        return number
    resolved = _resolved(root, number.path, index, _variant(number.file))
    if resolved is None:
        return replace(number, fault=f"{number.path} is no file of the index, or of several.")
    module, path, file = resolved
    number = replace(number, module=module, path=path)
    if not number.of:
        return number
    if number.quoted:
        lines = file.saying(number.of)
        what = f"«{number.of}»"
    else:
        lines = tuple(
            symbol.first
            for symbol in file.symbols
            if symbol.name == number.of or symbol.name.endswith("." + number.of)
        )
        what = number.of
    if number.number in lines:
        return number
    if not lines:
        return replace(number, fault=f"{path} has no {what}.")
    where = ", ".join(map(str, lines[:4]))
    return replace(
        number,
        fault=f"{what} is on line {where} of {path}.",
        to=lines[0] if len(lines) == 1 else None,
    )


def _settled(numbers: list[LineNumber]) -> list[LineNumber]:
    """A path that says nothing of its line holds where the same place is told of beside it."""
    told = {(n.module, n.path, n.number): n for n in numbers if n.of}
    settled = []
    for each in numbers:
        if not each.of and not each.fault:
            beside = told.get((each.module, each.path, each.number))
            fault = f"Nothing in this file says what is on line {each.number} of {each.path}."
            if beside is None or beside.fault:
                each = replace(each, fault=fault, to=beside.to if beside else None)
        settled.append(each)
    return settled


def _variant(file: str) -> tuple[str, ...]:
    """The folder of a variant, where a file is part of one: its sources go before the artifacts'."""
    parts = PurePath(file).parts
    return ("/".join(parts[:4]),) if parts[2:3] == ("variants",) else ()


def _resolved(
    root: Path, path: str, index: Index, first: tuple[str, ...] = ()
) -> tuple[str, str, PinnedFile] | None:
    """(module, path, file): a pinned file, or one of the course's own (module empty)."""
    head, at, tail = path.partition("@")
    if at:
        module = index.module(head)
        version, _, rest = tail.partition("/")
        if module and module.is_version(version) and rest in module.files:
            return module.module, rest, module.files[rest]
        return None
    split = index.split(path)
    if split and split[1] in index.modules[split[0]].files:
        return split[0], split[1], index.modules[split[0]].files[split[1]]
    mine = path.removeprefix("workspace/")
    if "/" in mine:
        for folder in (*first, *_OWN):
            file = root / folder / mine
            if file.is_file():
                # As a learner has it: without the marks that part an answer from its starter.
                text = regions.render(file.read_text(), PurePath(mine), "solution")
                return "", mine, own.parse(mine, text or "")
    # A link's path begins with what is no folder of the module.
    parts = path.split("/")
    for begin in range(len(parts)):
        named = index.named("/".join(parts[begin:]))
        if len(named) == 1:
            return named[0][0].module, named[0][1].path, named[0][1]
        if named:
            return None
    return None


def _blocks(root: Path, path: Path, text: str) -> Iterator[tuple[int, str]]:
    """(offset, text) of each piece of prose: what is parted by a blank line, or by code."""
    lines = text.split("\n")
    prose = set(range(1, len(lines) + 1))
    if path.suffix == ".py":
        strings = path.relative_to(root).parts[0] == "grader"
        prose = _python_prose(text, strings=strings)
    elif path.suffix == ".go":
        prose = {n for n, line in enumerate(lines, 1) if "//" in line}
    offset, start, block = 0, 0, []
    for number, line in enumerate(lines, 1):
        words = line.strip(" #/*>")
        if number in prose and words and not words.startswith(("```", "~~~")):
            if not block:
                start = offset
            block.append(line)
        elif block:
            yield start, "\n".join(block)
            block = []
        offset += len(line) + 1
    if block:
        yield start, "\n".join(block)


def _python_prose(text: str, *, strings: bool) -> set[int]:
    """The lines of comments and docstrings; of every other string too where ``strings`` is set."""
    found = {n for first, last in own.python_comments(text) for n in range(first, last + 1)}
    found |= {n for n, line in enumerate(text.split("\n"), 1) if "  # " in line}
    if strings:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found
