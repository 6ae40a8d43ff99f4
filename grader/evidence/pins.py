"""Everything in the course that a new pin may affect: ``phase4 dev pins``.

The course cites upstream in Markdown (docs, hints, reference answers), it says which
statements answer a citation question (:mod:`grader.evidence.places`), and it names lines
by their numbers in docstrings, comments, pages and sentences of graders
(:mod:`grader.evidence.line_numbers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from grader.evidence import citations, indexing, line_numbers, places, sources
from grader.evidence.citations import Citation, Finding
from grader.evidence.line_numbers import LineNumber
from grader.evidence.pinned import Index, PinnedFile, PinnedModule

#: Folders and files of the course that may cite, from the root.
CITING = (
    "docs",
    "docs_hooks",
    "solutions",
    "exercises",
    "grader",
    "capstone",
    "oracle",
    "benchmarks",
    "tests",
    "README.md",
    "CONTRIBUTING.md",
)
#: Wrong on purpose.
PASSED_OVER = ("grader/mistakes",)


@dataclass(frozen=True)
class Use:
    """A citation and where in the course it stands (``file`` from the root, 1-based line)."""

    citation: Citation
    file: str
    line: int


@dataclass(frozen=True)
class Change:
    """A citation that does not hold at the new pin: ``finding`` says how, and where it went."""

    use: Use
    finding: Finding

    @property
    def verdict(self) -> str:
        """``moved`` where the same text is on another line of the same file, else ``died``."""
        return "moved" if self.finding.moved_to else "died"

    def to_json(self) -> dict:
        return {
            "file": self.use.file,
            "line": self.use.line,
            "citation": self.use.citation.place,
            "quote": self.use.citation.quote,
            "verdict": self.verdict,
            "to": list(self.finding.moved_to),
            "why": self.finding.seen,
        }


def uses(root: Path) -> list[Use]:
    """Every upstream citation with a quote in the course, in order of files and lines."""
    found: list[Use] = []
    for file in files(root):
        if file.suffix == ".md":
            name = file.relative_to(root).as_posix()
            cited = citations.find(file.read_text(encoding="utf-8"))
            found += [Use(each, name, each.at) for each in cited if each.module and each.quote]
    return found


def numbers(root: Path, index: Index) -> list[LineNumber]:
    """Every line number in the course's own words, judged at the present pins."""
    return line_numbers.found(root, list(files(root)), index)


def numbered(found: Iterable[LineNumber], index: Index) -> list[Use]:
    """The upstream line numbers that hold, as citations without a quote."""
    return [
        Use(
            Citation(
                each.module,
                index.modules[each.module].shown_version,
                each.path,
                each.number,
                None,
                each.line,
            ),
            each.file,
            each.line,
        )
        for each in found
        if each.module and not each.fault
    ]


def correct(root: Path, wrong: Iterable[LineNumber]) -> list[str]:
    """Correct each wrong number whose place is known; returns the files that changed.

    What is cut from ``solutions`` is left to ``phase4 dev cut``.
    """
    by_file: dict[str, list[LineNumber]] = {}
    for each in wrong:
        if each.to is not None and not each.file.startswith("exercises/"):
            by_file.setdefault(each.file, []).append(each)
    for name, found in by_file.items():
        path = root / name
        path.write_text(line_numbers.corrected(path.read_text(encoding="utf-8"), found))
    return sorted(by_file)


def statements(index: Index) -> tuple[list[Use], list[Change]]:
    """The statements of all citation questions as citations, and those that are not there."""
    found: list[Use] = []
    gone: list[Change] = []
    for question in places.every():
        name = f"grader/places/{question.lab}/{question.file.name}"
        lines = question.file.read_text(encoding="utf-8").split("\n")
        for each in (*question.right, *question.wrong):
            ending = f": {each.text}" if each.text else f" {each.inside}"
            at = next((n for n, line in enumerate(lines, 1) if ending in line), 1)
            module = index.modules[each.module]
            cited = Citation(each.module, module.shown_version, each.path, 1, each.text or None, at)
            try:
                (line, *_) = each.lines(index)
            except LookupError as error:
                gone.append(Change(Use(cited, name, at), Finding("misquoted", cited, f"{error}.")))
                continue
            if each.text:
                found.append(Use(replace(cited, line=line), name, at))
    return found, gone


def files(root: Path) -> Iterator[Path]:
    """The course's files that may name a line of another."""
    for each in CITING:
        top = root / each
        paths = sorted(top.rglob("*")) if top.is_dir() else [top]
        for path in paths:
            name = path.relative_to(root).as_posix()
            if (
                path.suffix in (".md", ".py", ".go", ".mmd", ".toml", ".yaml")
                and path.is_file()
                and not name.startswith(PASSED_OVER)
            ):
                yield path


def broken(found: Iterable[Use], index: Index) -> list[Change]:
    """The citations that do not hold at the present pins."""
    changes = []
    for use in found:
        finding = citations.check(use.citation, index, comments_count=True)
        if not finding.exact and finding.kind != "no-substance":
            changes.append(Change(use, finding))
    return changes


def moved(found: Iterable[Use], index: Index, to: Iterable[PinnedModule]) -> list[Change]:
    """Which citations that are right now move or die when modules change to those in ``to``.

    A file of the index that the new version has no more is among them.
    """
    changes = []
    for new in to:
        old = index.module(new.module)
        for path in old.files if old else ():
            if path not in new.files:
                gone = Citation(new.module, new.version, path, 1, None)
                seen = f"{new.module}@{new.shown_version} has no {path}."
                use = Use(gone, f"grader/evidence/{sources.LIST.name}", _listed_on(path))
                changes.append(Change(use, Finding("no-such-file", gone, seen)))
        for use in found:
            cited = use.citation
            if old is None or cited.module != new.module or not old.is_version(cited.version):
                continue
            before = old.files.get(cited.path)
            digest = before.at(cited.line) if before else None
            if digest is None:
                continue
            finding = _after(cited, digest, new.files.get(cited.path), new)
            if not finding.exact:
                changes.append(Change(use, finding))
    return changes


def _listed_on(path: str) -> int:
    """The line of ``sources.toml`` that names the path, or 1 where a pattern does."""
    lines = sources.LIST.read_text().split("\n")
    return next((n for n, line in enumerate(lines, 1) if f'"{path}"' in line), 1)


def _after(cited: Citation, digest: str, file: PinnedFile | None, module: PinnedModule) -> Finding:
    place = f"{module.module}@{module.shown_version}"
    if file is None:
        return Finding("no-such-file", cited, f"{place} has no {cited.path}.")
    if file.at(cited.line) == digest:
        return Finding("exact", cited, "It says the same there.")
    again = tuple(n for n, each in enumerate(file.lines, 1) if each == digest)
    if again:
        nearest = sorted(again, key=lambda n: abs(n - cited.line))
        listed = ", ".join(map(str, nearest[:4]))
        return Finding("moved", cited, f"It is on line {listed} there.", moved_to=tuple(nearest))
    return Finding("misquoted", cited, f"No line of {cited.path} says it there.")


def at_version(module: str, version: str, index: Index) -> PinnedModule:
    """The module at another version, indexed in memory for the pinned files that it still has.

    Raises :class:`grader.evidence.sources.SourceError` where it is unavailable.
    """
    source = sources.load().get(module)
    if source is None:
        raise sources.SourceError(f"{module} is not in {sources.LIST.name}: nothing cites it.")
    if source.origin != "go":
        raise sources.SourceError(
            f"{module} is no Go module, so its other versions are not served."
        )
    there = source.at(version)
    folder = there.fetch()
    pinned_module = index.module(module)
    paths = pinned_module.files if pinned_module else ()
    present = tuple(sorted(path for path in paths if (folder / path).is_file()))
    if not present:
        return PinnedModule(module, version, {})
    return PinnedModule.from_json(indexing.make(replace(there, files=present)))
