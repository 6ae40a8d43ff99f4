"""``answers.md``: headings with sentences under them, and predictions as a table or ``key: value`` lines.

::

    ## Predictions

    | edit          | outcome  |
    |---------------|----------|
    | managed field | stomped  |
    | foreign label | survives |

    ## Why it pays

    One sentence.

What a learner has written is told from what the stub has: a placeholder
(``TODO``, ``…``, ``?``, an HTML comment) counts as nothing, and so does any line of
the stub. Every message names the line.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markdown_it.token import Token

from grader.evidence import markdown
from grader.evidence.digest import lines_of, normalise
from grader.verdict import Fail, NotGraded

FILE = "answers.md"

_PLACEHOLDER = re.compile(
    r"(?:todo|tbd|fixme|xxx+|n/?a|your (?:answer|prediction|sentence)s?(?: here)?|fill (?:me )?in"
    r"|[\s._?…\-–—*]*|<[^>]*>|\([^)]*your[^)]*\)|\[[^\]]*your[^\]]*\])[\s.:…]*",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_KEY_VALUE = re.compile(r"\s*(?:[-*+]\s+|\d+[.)]\s+)?(?P<key>[^:|]+?)\s*:(?=\s|$)\s*(?P<value>.*)")
_NUMBER = re.compile(r"[-+]?\d[\d,_']*(?:\.\d+)?(?:[eE][-+]?\d+)?|[-+]?\.\d+")
_SECONDS = {"ms": 1e-3, "millisecond": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0}
_SECONDS |= {"m": 60.0, "min": 60.0, "minute": 60.0, "us": 1e-6, "µs": 1e-6}


def is_placeholder(text: str) -> bool:
    """Whether the text says nothing: blank, dots, a question mark, ``TODO``, a comment, ``<…>``."""
    return _PLACEHOLDER.fullmatch(_COMMENT.sub("", text).strip()) is not None


def fold(text: str) -> str:
    """A key or heading as it is compared: case, markup, numbering and punctuation do not count."""
    text = re.sub(r"^\s*\d+(?:\.\d+)*[.)]?\s+", "", text)
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


@dataclass(frozen=True)
class Entry:
    """One prediction: its key and value as written (markup off), and the 1-based line."""

    key: str
    value: str
    line: int

    @property
    def placeholder(self) -> bool:
        return is_placeholder(self.value)

    def number(self) -> float | None:
        """The first number in the value; a duration in seconds where a unit of time follows it."""
        match = _NUMBER.search(self.value)
        if not match:
            return None
        number = float(re.sub(r"[,_']", "", match[0]))
        follows = re.match(r"\s*([a-zµ]+)\b", self.value[match.end() :], re.IGNORECASE)
        unit = follows[1].lower() if follows else ""
        return number * _SECONDS.get(unit, _SECONDS.get(unit.removesuffix("s"), 1.0))


@dataclass(frozen=True)
class Row:
    """A table row: its cells' text, markup off, and its 1-based line."""

    cells: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Table:
    """A table: the header's cells and the rows, as written."""

    header: tuple[str, ...]
    rows: tuple[Row, ...]
    line: int

    def column(self, name: str) -> int | None:
        """The index of the column so headed, or None."""
        folded = [fold(cell) for cell in self.header]
        return folded.index(fold(name)) if fold(name) in folded else None

    def records(self) -> list[dict[str, str]]:
        """Each row by the folded headers: ``{"edit": "managed field", "outcome": "stomped"}``."""
        keys = [fold(cell) for cell in self.header]
        return [dict(zip(keys, row.cells, strict=False)) for row in self.rows]


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it up to the next heading of its level or above.

    ``source`` is the Markdown below the heading, from line ``body`` of the file on; ``text``
    is what the learner wrote of it: without comments, placeholders, block quotes and the
    stub's lines.
    """

    title: str
    level: int
    line: int
    source: str
    text: str
    tables: tuple[Table, ...] = ()
    entries: tuple[Entry, ...] = ()
    body: int = 1

    @property
    def placeholder(self) -> bool:
        """The learner has written nothing here."""
        return is_placeholder(self.text)


@dataclass(frozen=True)
class Answers:
    """A parsed ``answers.md``. ``problems`` are (line, sentence) of Markdown that hides answers."""

    sections: tuple[Section, ...]
    problems: tuple[tuple[int, str], ...] = ()
    name: str = field(default=FILE)

    def section(self, title: str) -> Section | None:
        """The section so headed, placeholder or not; None where there is no such heading."""
        same = [s for s in self.sections if fold(s.title) == fold(title)]
        written = [s for s in same if not s.placeholder]
        return (written or same or [None])[0]

    def table(self, title: str) -> Table | None:
        """The first table under the heading; None where there is none."""
        section = self.section(title)
        return section.tables[0] if section and section.tables else None

    def prediction(self, key: str, section: str | None = None) -> Entry | None:
        """The prediction for ``key``: of that section, or of the first that has the key.

        A table's first column is the key, and its second the value, or the
        column headed «prediction» or «I predict». None where the key is nowhere.
        """
        entries = list(self._entries(key, section))
        written = [e for e in entries if not e.placeholder]
        return (written or entries or [None])[0]

    def _entries(self, key: str, section: str | None) -> Iterator[Entry]:
        seen: set[tuple[int, str]] = set()
        for each in self.sections:
            if section is not None and fold(each.title) != fold(section):
                continue
            for entry in each.entries:
                if fold(entry.key) == fold(key) and (entry.line, entry.value) not in seen:
                    seen.add((entry.line, entry.value))
                    yield entry

    def require_section(self, title: str, *, expected: str = "", next: str = "") -> Section:
        """The section, if it has an answer; :class:`NotGraded` where it is missing or untouched."""
        expected = expected or f"{self.name} answers under the heading «{title}»."
        section = self.section(title)
        if section is None:
            raise NotGraded(
                expected,
                f"It has no such heading.{self._near(title)}{self._hidden()}",
                next=next or f"Put the heading «{title}» back and write under it.",
                diagnosis="answer-missing",
            )
        if section.placeholder:
            raise NotGraded(
                expected,
                f"Under «{title}» (line {section.line}) there is only the placeholder."
                f"{self._hidden()}",
                next=next or "Write your answer in its place.",
                diagnosis="answer-missing",
            )
        return section

    def require_prediction(
        self,
        key: str,
        *,
        section: str | None = None,
        choices: Sequence[str] = (),
        number: bool = False,
        next: str = "",
    ) -> Entry:
        """The prediction; this function does not ask whether it is right.

        :class:`NotGraded` where it is missing or a placeholder; :class:`Fail`
        where it is given twice and differs, is none of ``choices`` (compared
        folded), or holds no number where one is asked for. The value that comes
        back is the choice as the grader spells it.
        """
        place = f"{self.name}, «{section}»," if section else self.name
        expected = f"{place} predicts «{key}»"
        expected += f": {_either(choices)}." if choices else (": a number." if number else ".")
        entry = self.prediction(key, section)
        if entry is None or entry.placeholder:
            seen = (
                f"Line {entry.line} still has the placeholder."
                if entry
                else "There is no such line or row."
            )
            raise NotGraded(
                expected,
                seen + self._hidden(),
                next=next or "Write the prediction before you measure: a wrong one loses no point.",
                diagnosis="prediction-missing",
            )
        differing = [
            e
            for e in self._entries(key, section)
            if not e.placeholder and fold(e.value) != fold(entry.value)
        ]
        if differing:
            raise Fail(
                expected,
                f"It is predicted twice: «{entry.value}» on line {entry.line}, "
                f"«{differing[0].value}» on line {differing[0].line}.",
                next="Keep one of them.",
                diagnosis="prediction-twice",
            )
        if choices:
            chosen = [c for c in choices if fold(c) == fold(entry.value)]
            chosen = chosen or _only_choice_named(entry.value, choices)
            if not chosen:
                raise Fail(
                    expected,
                    f"Line {entry.line} says «{entry.value}».",
                    next=f"Write {_either(choices)}.",
                    diagnosis="prediction-unreadable",
                )
            return Entry(entry.key, chosen[0], entry.line)
        if number and entry.number() is None:
            raise Fail(
                expected,
                f"Line {entry.line} says «{entry.value}», which has no number.",
                next="Write the number, in digits.",
                diagnosis="prediction-unreadable",
            )
        return entry

    def _near(self, title: str) -> str:
        titles = {fold(s.title): s for s in self.sections}
        close = difflib.get_close_matches(fold(title), titles, n=1, cutoff=0.6)
        if not close:
            return ""
        section = titles[close[0]]
        return f" Line {section.line} has «{section.title}»: did you mean that one?"

    def _hidden(self) -> str:
        return "".join(f" {sentence}" for _, sentence in self.problems)


def _either(choices: Sequence[str]) -> str:
    quoted = [f"«{c}»" for c in choices]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _only_choice_named(value: str, choices: Sequence[str]) -> list[str]:
    """The one choice whose words all stand in the value («it survives»), unless the value denies it."""
    words = fold(value).split()
    if {"not", "never", "no", "neither", "t"} & set(words):
        return []
    named = [c for c in choices if f" {fold(c)} " in f" {' '.join(words)} "]
    return named if len(named) == 1 else []


def parse(text: str, *, stub: str = "", name: str = FILE) -> Answers:
    """Parse the file's text. ``stub`` is what the learner started from; its lines do not count."""
    lines = lines_of(text.removeprefix("\ufeff"))
    given = {normalise(line) for line in lines_of(stub)} - {""}
    source = "\n".join(lines)
    tokens = markdown.parser().parse(source)
    heads = _headings(tokens)
    sections = []
    for number, (level, title, first, body) in enumerate(heads):
        end = next((h[2] - 1 for h in heads[number + 1 :] if h[0] <= level), len(lines))
        inner = [(t, at) for t, at in markdown.located(tokens) if body <= at <= end]
        tables = tuple(_tables(inner))
        below = lines[body - 1 : end]
        sections.append(
            Section(
                title=title,
                level=level,
                line=first,
                source="\n".join(below),
                text=_own_words(below, given),
                tables=tables,
                entries=(*_table_entries(tables), *_line_entries(lines, inner)),
                body=body,
            )
        )
    return Answers(tuple(sections), tuple(_problems(tokens, lines)), name)


def _headings(tokens: list[Token]) -> list[tuple[int, str, int, int]]:
    """(level, title, its line, the first line of its body), in order; line 1 opens an untitled one."""
    found: list[tuple[int, str, int, int]] = [(0, "", 1, 1)]
    for token, inline in itertools.pairwise(tokens):
        if token.type == "heading_open" and token.map and token.level == 0:
            first, after = token.map
            found.append((int(token.tag[1:]), plain(inline), first + 1, after + 1))
    return found


def plain(inline: Token) -> str:
    """An inline token's text without its markup."""
    pieces = []
    for child in inline.children or []:
        if child.type in ("text", "code_inline"):
            pieces.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            pieces.append(" ")
    return "".join(pieces).strip()


def _tables(tokens: list[tuple[Token, int]]) -> Iterator[Table]:
    header: tuple[str, ...] = ()
    rows: list[Row] = []
    cells: list[str] = []
    start = 0
    for token, line in tokens:
        if token.type == "table_open":
            header, rows, start = (), [], line
        elif token.type == "tr_open":
            cells = []
        elif token.type == "inline" and start:
            cells.append(plain(token))
        elif token.type == "tr_close" and start:
            if header:
                rows.append(Row(tuple(cells), line))
            else:
                header = tuple(cells)
        elif token.type == "table_close":
            yield Table(header, tuple(rows), start)
            start = 0


def _table_entries(tables: Sequence[Table]) -> Iterator[Entry]:
    for table in tables:
        named = [
            i
            for i, cell in enumerate(table.header)
            if i and re.match(r"(?:my |i )?predict|outcome|expect", fold(cell))
        ]
        column = named[0] if named else 1
        for row in table.rows:
            if len(row.cells) > column:
                yield Entry(row.cells[0], row.cells[column], row.line)


def _line_entries(lines: list[str], tokens: list[tuple[Token, int]]) -> Iterator[Entry]:
    code = [t.map for t, _ in tokens if t.type in ("fence", "code_block", "html_block") and t.map]
    for token, _line in tokens:
        if token.type != "inline" or not token.map:
            continue
        for number in range(token.map[0], min(token.map[1], len(lines))):
            if any(first <= number < last for first, last in code):
                continue
            match = _KEY_VALUE.fullmatch(_COMMENT.sub("", lines[number]))
            if match and "|" not in lines[number]:
                yield Entry(_bare(match["key"]), _bare(match["value"]), number + 1)


def _bare(text: str) -> str:
    return re.sub(r"[`*]|(?<!\w)_|_(?!\w)", "", text).strip()


def _own_words(lines: Sequence[str], given: set[str]) -> str:
    """The lines that are the learner's: not the stub's, no headings, quotes, comments, placeholders."""
    kept = []
    for line in _COMMENT.sub("", "\n".join(lines)).split("\n"):
        bare = re.sub(r"^\s*(?:[-*+]|\d+[.)])\s+", "", line)
        if normalise(line) in given or re.match(r"\s*(?:>|#{1,6}\s)", line):
            continue
        if is_placeholder(bare):
            kept.append("")
            continue
        kept.append(line)
    return "\n".join(kept).strip()


def _problems(tokens: list[Token], lines: list[str]) -> Iterator[tuple[int, str]]:
    for token in tokens:
        if token.type == "fence" and token.map:
            last = lines[min(token.map[1], len(lines)) - 1].strip().lstrip("> ")
            closed = token.map[1] - token.map[0] > 1 and last.startswith(token.markup)
            if not closed:
                line = token.map[0] + 1
                yield (
                    line,
                    (
                        f"The code block opened on line {line} is never closed, "
                        "so what follows it is not read."
                    ),
                )
    text = "\n".join(lines)
    opened = text.rfind("<!--")
    if opened >= 0 and text.find("-->", opened) < 0:
        line = text.count("\n", 0, opened) + 1
        yield (
            line,
            f"The comment opened on line {line} is never closed, so what follows is not read.",
        )
