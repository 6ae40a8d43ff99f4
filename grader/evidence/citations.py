"""Citations: a source line named and quoted, checked by what it says.

A citation is two code spans in a learner's Markdown::

    `k8s.io/sample-controller@v0.36.2/controller.go:336` `c.workqueue.Add(objectRef)`

that is ``module@version/path:line`` and that line's own text. The text may hold
backticks if its span has more of them; whitespace does not count. A citation of
the learner's own file is ``path:line`` and is checked against what was handed in.

The index has digests and no source (see :mod:`grader.evidence.pinned`), so a
wrong quote can be told from a moved one, but not what the line says instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from grader.evidence import markdown, own, pinned
from grader.evidence.digest import digest
from grader.evidence.line_text import substance, variants
from grader.evidence.pinned import Index, PinnedFile, PinnedModule
from grader.verdict import Fail, NotGraded

Kind = Literal[
    "exact",
    "moved",
    "misquoted",
    "no-quote",
    "no-substance",
    "line-out-of-range",
    "no-such-file",
    "no-such-module",
    "no-such-version",
    "malformed",
]

#: How many line numbers a sentence lists before it says «and N more».
_LISTED = 6

_UPSTREAM = re.compile(
    r"(?P<module>[A-Za-z0-9][\w.\-]*(?:/[\w.\-]+)*)@(?P<version>[\w.+\-]+)/(?P<path>[^\s:]+):(?P<line>\d+)"
)
_OWN = re.compile(r"(?P<path>[^\s:@]*[^\s:@/]\.\w+):(?P<line>\d+)")
#: Looks like a citation, and is not one.
_NEARLY = re.compile(
    r"https?://\S+#L\d+\S*"  # a link to a line on a forge
    r"|\S+@[\w.+\-]+/\S+\.\w+(?::\S*|#L\S*)?"  # module@version/path with no line or a range
    r"|[^\s:]+\.(?:go|py|md|ya?ml)(?::\d+\s*[-–]\s*\d+|#L\d+\S*)"  # a range
)


@dataclass(frozen=True)
class Citation:
    """A citation as written: where it points, what it quotes, and where it is.

    ``module`` is empty for the learner's own file; ``quote`` is None where no
    code span follows; ``at`` is the 1-based line in the learner's text;
    ``written`` is the first span as it is. A ``malformed`` one has only that.
    """

    module: str
    version: str
    path: str
    line: int
    quote: str | None
    at: int = 0
    written: str = ""
    malformed: bool = False

    @property
    def is_own(self) -> bool:
        return not self.module and not self.malformed

    @property
    def place(self) -> str:
        """``module@version/path:line``, or ``path:line`` for the learner's own file."""
        if self.malformed:
            return self.written
        head = f"{self.module}@{self.version}/" if self.module else ""
        return f"{head}{self.path}:{self.line}"

    def __str__(self) -> str:
        return f"`{self.place}` {code_span(self.quote)}" if self.quote else f"`{self.place}`"


@dataclass(frozen=True)
class Finding:
    """What checking a citation found.

    ``seen`` and ``next`` are sentences for the learner. ``moved_to`` are the
    lines that do say the quote. ``symbols`` are the names that the line is
    inside, innermost first, where the citation is exact.
    """

    kind: Kind
    citation: Citation
    seen: str
    next: str = ""
    moved_to: tuple[int, ...] = ()
    symbols: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return self.kind == "exact"

    @property
    def diagnosis(self) -> str:
        """The stable name of the fault: ``citation-moved`` and so on; empty where it is exact."""
        return "" if self.exact else f"citation-{self.kind}"

    def require_exact(self, expected: str, *, why: str = "") -> Finding:
        """Raise :class:`Fail` unless the citation is exact; return self."""
        if not self.exact:
            raise Fail(
                expected,
                self.seen,
                why=why,
                next=self.next,
                diagnosis=self.diagnosis,
                evidence=(f"line {self.citation.at}: {self.citation}",),
            )
        return self


def code_span(text: str) -> str:
    """The text as a Markdown code span, with as many backticks as it needs."""
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def parse_place(text: str) -> Citation | None:
    """``module@version/path:line`` or ``path:line`` to a Citation without a quote; None if it is neither."""
    text = text.strip()
    if match := _UPSTREAM.fullmatch(text):
        module, version, path, line = match.group("module", "version", "path", "line")
        return Citation(module, version, path, int(line), None, written=text)
    if match := _OWN.fullmatch(text):
        return Citation("", "", match["path"], int(match["line"]), None, written=text)
    return None


def find(text: str, first: int = 1) -> list[Citation]:
    """Every citation in Markdown text, in order, the malformed ones among them.

    ``first`` is the line of its file on which the text begins.

    The quote is the next code span of the same paragraph, list item or table
    row, or what comes right after it: a code span in a paragraph of its own, or
    a fenced block of one line.
    """
    found: list[Citation] = []
    every = markdown.spans(text)
    for number, span in enumerate(every):
        if span.fenced:
            continue
        written = span.text.strip()
        place = parse_place(written)
        if place is None:
            if _NEARLY.fullmatch(written):
                at = first - 1 + span.line
                found.append(Citation("", "", "", 0, None, at, written, malformed=True))
            continue
        quote = _quote_after(every, number)
        found.append(
            Citation(
                place.module,
                place.version,
                place.path,
                place.line,
                quote,
                first - 1 + span.line,
                written,
            )
        )
    return found


def _quote_after(every: list[markdown.Span], number: int) -> str | None:
    if number + 1 >= len(every):
        return None
    span, after = every[number], every[number + 1]
    if after.fenced:
        lines = [each for each in after.text.split("\n") if each.strip()]
        return lines[0] if after.block == span.block + 1 and len(lines) == 1 else None
    near = after.block == span.block or (after.alone and after.block == span.block + 1)
    if not near or parse_place(after.text):
        return None
    return after.text


def upstream(citations: Iterable[Citation], module: str | None = None) -> list[Citation]:
    """Those of a module (of any module where None): wrong versions and all."""
    return [c for c in citations if c.module and module in (None, c.module)]


def required(text: str, section: str, *, count: int = 1, first: int = 1) -> list[Citation]:
    """The section's citations, at least ``count``; :class:`NotGraded` where it has none, else Fail.

    ``section`` is how the message names the place, such as ``answers.md, «The enqueue»``;
    ``first`` is the line of the file on which the text begins.
    """
    found = find(text, first)
    expected = (
        f"{section} holds {'a citation' if count == 1 else f'{count} citations'}: "
        "`module@version/path:line` and the line's own text, both in backticks."
    )
    if not found:
        raise NotGraded(
            expected,
            "It holds none.",
            next="`phase4 cite PATH:LINE` prints one that you can paste.",
            diagnosis="citation-missing",
        )
    if len(found) < count:
        raise Fail(
            expected,
            f"It holds {len(found)}.",
            next="`phase4 cite PATH:LINE` prints one that you can paste.",
            diagnosis="citation-missing",
        )
    return found


def check(
    citation: Citation,
    index: Index | None = None,
    *,
    handed_in: Path | None = None,
    comments_count: bool = False,
) -> Finding:
    """Check one citation by content.

    ``handed_in`` is the learner's folder, for citations of their own files
    (without it such a citation is «no such module»). With ``comments_count`` a
    comment may be the evidence. Raises ``OSError`` only where a file in
    ``handed_in`` exists and the machine cannot read it.
    """
    if citation.malformed:
        return _malformed(citation)
    index = index or pinned.load()
    citation = located(citation, index, handed_in)
    if citation.is_own:
        return _check_own(citation, handed_in, index, comments_count)
    module = index.module(citation.module)
    if module is None:
        return _no_module(citation, index)
    if not module.is_version(citation.version):
        right = f"{module.module}@{module.shown_version}"
        return Finding(
            "no-such-version",
            citation,
            f"It cites {module.module} at {citation.version}; this course reads "
            f"{module.shown_version}.",
            f"Look up the line in {right}: numbers differ from version to version.",
        )
    file = module.files.get(citation.path)
    if file is None:
        return _no_file(citation, module, index)
    return _check_line(citation, file, comments_count)


def located(citation: Citation, index: Index, handed_in: Path | None = None) -> Citation:
    """A citation without a version, with the module and version that it means, where it means one.

    ``sample-controller/controller.go:336`` is named from its module, and
    ``thread_safe_store.go:LINE`` is the end of one pinned path alone. A file of the
    learner's own goes before both.
    """
    if not citation.is_own or (handed_in and (handed_in / citation.path).exists()):
        return citation
    split = index.split(citation.path)
    if split is None:
        found = index.named(citation.path)
        if len(found) != 1:
            return citation
        split = found[0][0].module, found[0][1].path
    module = index.modules[split[0]]
    return replace(citation, module=module.module, version=module.shown_version, path=split[1])


def check_all(
    citations: Iterable[Citation], index: Index | None = None, **options
) -> list[Finding]:
    return [check(each, index, **options) for each in citations]


def _malformed(citation: Citation) -> Finding:
    if re.search(r"\d\s*[-–]\s*L?\d", citation.written):
        seen = f"`{citation.written}` names a range of lines."
        advice = "Name the one line that shows it; several citations may stand side by side."
    elif citation.written.startswith("http"):
        seen = f"`{citation.written}` is a link."
        advice = "Write `module@version/path:line`; `phase4 cite PATH:LINE` prints it."
    else:
        seen = f"`{citation.written}` names no line."
        advice = "End it with a colon and the line's number; `phase4 cite PATH:LINE` prints it."
    return Finding("malformed", citation, seen, advice)


def _no_module(citation: Citation, index: Index) -> Finding:
    near = index.nearest_module(citation.module)
    module = index.module(near) if near else None
    if module:
        advice = f"Did you mean {module.module}@{module.shown_version}?"
    else:
        advice = "Cite a source that the reading list names; `phase4 cite` knows them all."
    return Finding(
        "no-such-module",
        citation,
        f"{citation.module} is not among the sources this course reads.",
        advice,
    )


def _no_file(citation: Citation, module: PinnedModule, index: Index) -> Finding:
    near = pinned.nearest_path(module, citation.path)
    if near:
        advice = f"Did you mean {module.module}@{module.shown_version}/{near}?"
    else:
        name = citation.path.rsplit("/", 1)[-1]
        elsewhere = [f"{m.module}@{m.shown_version}/{f.path}" for m, f in index.named(name)]
        advice = (
            f"A file of that name is {' or '.join(elsewhere[:2])}."
            if elsewhere
            else "Paths start at the module's root; `phase4 cite PATH:LINE` prints the right one."
        )
    return Finding(
        "no-such-file",
        citation,
        f"The course's index of {module.module}@{module.shown_version} has no {citation.path}.",
        advice,
    )


def _check_line(citation: Citation, file: PinnedFile, comments_count: bool) -> Finding:
    here = file.at(citation.line)
    if here is None:
        again = file.saying(citation.quote) if citation.quote else ()
        return Finding(
            "line-out-of-range",
            citation,
            f"{citation.path} has {len(file.lines)} lines; line {citation.line} is asked for.",
            f"The text you quote is on {_lines(again)}." if again else "Look up the line again.",
            moved_to=again,
        )
    if citation.quote is None or not citation.quote.strip():
        return Finding(
            "no-quote",
            citation,
            f"`{citation.place}` stands alone, without the line's own text.",
            "Put the line itself in backticks after it; `phase4 cite` prints both.",
        )
    if here != digest(citation.quote):
        return _elsewhere(citation, file)
    empty = substance(citation.quote, citation.path)
    if not empty and file.is_comment(citation.line):
        empty = "a comment"
    if empty and not (comments_count and empty == "a comment"):
        return Finding(
            "no-substance",
            citation,
            f"Line {citation.line} of {citation.path} is {empty}: it shows nothing by itself.",
            "Cite the line of code that does it.",
        )
    names = tuple(symbol.name for symbol in file.around(citation.line))
    return Finding("exact", citation, f"`{citation.place}` says what you quote.", symbols=names)


def _elsewhere(citation: Citation, file: PinnedFile) -> Finding:
    quote = citation.quote or ""
    lines = file.saying(quote)
    if lines:
        places = ", ".join(_inside(file, line) for line in lines[:_LISTED])
        return Finding(
            "moved",
            citation,
            f"Line {citation.line} of {citation.path} does not say what you quote: that text is "
            f"on {_lines(lines)}.",
            f"Write {citation.path}:{lines[0]}."
            if len(lines) == 1
            else f"Choose the one you mean: {places}{_more(lines)}.",
            moved_to=lines,
        )
    for change, variant in variants(quote):
        if file.at(citation.line) == digest(variant):
            return Finding(
                "misquoted",
                citation,
                f"Line {citation.line} of {citation.path} is close to what you quote, but {change}.",
                "Quote the whole line as it is; `phase4 cite` prints it.",
            )
    return Finding(
        "misquoted",
        citation,
        f"Line {citation.line} of {citation.path} does not say what you quote, "
        "and no other line of that file does.",
        "Copy the whole line from the source at that version; `phase4 cite` prints it.",
    )


def _check_own(
    citation: Citation,
    handed_in: Path | None,
    index: Index,
    comments_count: bool,
) -> Finding:
    if handed_in is None or not (handed_in / citation.path).exists():
        # A bare file name is as often an upstream file without its module.
        near = [(module, file.path) for module, file in index.named(citation.path)]
        seen = f"You handed in no file {citation.path}."
        advice = "The path starts at the workspace's root, or at the lab's folder."
        if near:
            seen = (
                f"`{citation.place}` names no module, so it is taken for a file of yours, and "
                "you handed in none of that name."
            )
            written = [f"`{module.module}/{path}:{citation.line}`" for module, path in near]
            advice = f"Put the module before it: {' or '.join(written[:4])}."
        return Finding("no-such-file", citation, seen, advice)
    try:
        file = own.read(handed_in, citation.path)
    except own.NotReadable as error:
        return Finding("no-such-file", citation, str(error), error.next)
    return _check_line(citation, file, comments_count)


def _inside(file: PinnedFile, line: int) -> str:
    around = file.around(line)
    return f"{line} (in {around[0].name})" if around else str(line)


def _lines(numbers: tuple[int, ...]) -> str:
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    listed = ", ".join(str(each) for each in numbers[:_LISTED])
    return f"lines {listed}{_more(numbers)}"


def _more(numbers: tuple[int, ...]) -> str:
    return f" and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else ""
