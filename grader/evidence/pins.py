"""Every citation in the course, and what becomes of it when a pin changes: ``phase4 dev pins``.

The course cites upstream in Markdown (docs, hints, reference answers), in
graders (``places.line("module@version/path:line", "quote")``), and in comments
of its code (``module@version/path:line`` with no quote: what the line says at
the present pin stands for it).
"""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from grader.evidence import citations, indexing, places, sources
from grader.evidence.citations import Citation, Finding
from grader.evidence.pinned import Index, PinnedFile, PinnedModule

#: Folders and files of the course that may cite, from the root.
CITING = (
    "docs",
    "solutions",
    "exercises",
    "grader",
    "capstone",
    "oracle",
    "README.md",
    "CONTRIBUTING.md",
)
#: Wrong on purpose, or about citations themselves.
PASSED_OVER = ("grader/mistakes", "grader/evidence")

_IN_TEXT = re.compile(
    r"(?<![\w/@.-])[A-Za-z0-9][\w.\-]*(?:/[\w.\-]+)*@[\w.+\-]+/[\w./\-]*\w\.\w+:\d+(?![\d\-])"
)


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
    """Every upstream citation in the course, in order of files and lines."""
    found: list[Use] = []
    declared = _declared(root)
    for file in _files(root):
        try:
            text = file.read_text()
        except (UnicodeDecodeError, OSError):
            continue
        name = file.relative_to(root).as_posix()
        in_file = _of_python(text) if file.suffix == ".py" else []
        places_seen = {(c.place, c.quote) for c, _ in in_file}
        in_file += [
            (c, n) for c, n in declared.get(name, ()) if (c.place, c.quote) not in places_seen
        ]
        if file.suffix == ".md":
            in_file = [(c, c.at) for c in citations.find(text) if c.module]
        known = {(c.place, line) for c, line in in_file}
        in_file += [(c, line) for c, line in _bare(text) if (c.place, line) not in known]
        found += [Use(c, name, line) for c, line in sorted(in_file, key=lambda pair: pair[1])]
    return found


def _declared(root: Path) -> dict[str, list[tuple[Citation, int]]]:
    """The places that graders make with :func:`places.line` as they are imported, by file."""
    found: dict[str, list[tuple[Citation, int]]] = {}
    for file in sorted((root / "grader" / "labs").glob("lab_*.py")):
        with places.recording() as recorded:
            try:
                runpy.run_path(str(file), run_name=f"grader.labs.{file.stem}")
            except Exception:  # a grader that does not run is for its own tests to find
                recorded.clear()
        for citation, at, line in recorded:
            name = Path(at).relative_to(root).as_posix()
            found.setdefault(name, []).append((citation, line))
    return found


def _files(root: Path) -> Iterator[Path]:
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


def _of_python(text: str) -> list[tuple[Citation, int]]:
    """Calls whose first two arguments are a place and its quote."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or len(node.args) < 2:
            continue
        place, quote = (_string(a, constants) for a in node.args[:2])
        cited = citations.parse_place(place) if place and quote else None
        if cited and cited.module:
            found.append((replace(cited, quote=quote, at=node.args[0].lineno), node.args[0].lineno))
    return found


def _string(node: ast.expr, constants: dict[str, str]) -> str | None:
    """The string that an expression is: a literal, or an f-string of the file's own constants."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.FormattedValue):
        return _string(node.value, constants)
    if isinstance(node, ast.JoinedStr):
        parts = [_string(value, constants) for value in node.values]
        return None if None in parts else "".join(p for p in parts if p is not None)
    return None


def _bare(text: str) -> Iterator[tuple[Citation, int]]:
    for number, line in enumerate(text.split("\n"), 1):
        for match in _IN_TEXT.finditer(line):
            cited = citations.parse_place(match[0])
            if cited and cited.module:
                yield replace(cited, at=number), number


def broken(found: Iterable[Use], index: Index) -> list[Change]:
    """The citations that do not hold at the present pins; one with no quote holds if its line exists."""
    changes = []
    for use in found:
        finding = citations.check(use.citation, index, comments_count=True)
        if finding.kind not in ("exact", "no-quote", "no-substance"):
            changes.append(Change(use, finding))
    return changes


def moved(found: Iterable[Use], index: Index, to: Iterable[PinnedModule]) -> list[Change]:
    """What moves or dies among the citations that hold now, when modules change to those in ``to``.

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

    Raises :class:`grader.evidence.sources.SourceError` where it cannot be had.
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
