"""Makes the citation of a given place: ``phase4 cite``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from grader import course
from grader.evidence import citations, line_text, own, pinned, sources
from grader.evidence.citations import Citation, Finding
from grader.evidence.digest import lines_of, normalise
from grader.evidence.sources import Source


class CiteError(Exception):
    """No citation can be made; the text says why and what to do."""

    def __init__(self, sentence: str, exit_code: int = 2) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Quoted:
    """A citation with its quote, ``inside`` which symbols it is, and what to mind (``note``)."""

    citation: Citation
    inside: tuple[str, ...]
    note: str = ""


def cite(text: str, *, here: Path, quote: str | None = None) -> Quoted:
    """The citation of ``PATH:LINE``. Raises :class:`CiteError`.

    PATH is a file of the learner's own (as seen from ``here``), an absolute path
    in the Go module cache, ``module@version/path``, ``module/path`` or
    ``client-go/path``, or the end of the path of a pinned file. ``quote`` stands
    in for the line where its source is not on this machine.
    """
    path, _, number = text.strip().rpartition(":")
    if not path or not number.isdigit() or int(number) < 1:
        raise CiteError(
            "Write PATH:LINE, such as client-go/tools/cache/reflector.go:561 (Reflector.watch)."
        )
    line = int(number)
    file = Path(path).expanduser()
    cached = sources.in_module_cache(file) if file.is_absolute() else None
    if cached:
        return _upstream(Citation(cached[0], cached[1], cached[2], line, None), quote)
    parsed = citations.parse_place(text)
    if parsed and parsed.module:
        return _upstream(parsed, quote)
    if (here / file).is_file():
        return _own((here / file).resolve(), line)
    return _upstream(_named(path, line), quote)


def _named(path: str, line: int) -> Citation:
    index = pinned.load()
    path = path.removeprefix("./")
    split = index.split(path)
    if split:
        module = index.modules[split[0]]
        return Citation(module.module, module.shown_version, split[1], line, None)
    found = index.named(path)
    if len(found) == 1:
        module, file = found[0]
        return Citation(module.module, module.shown_version, file.path, line, None)
    if found:
        listed = ", ".join(f"{m.module}/{f.path}" for m, f in found[:5])
        raise CiteError(f"{path} is the end of several paths: {listed}. Write more of the path.")
    raise CiteError(
        f"There is no file {path} here, and no source that this course reads ends with that path. "
        "Upstream files are named from their module, such as client-go/tools/cache/store.go."
    )


def _upstream(citation: Citation, quote: str | None) -> Quoted:
    index = pinned.load()
    module = index.module(citation.module)
    source = sources.load().get(citation.module)
    if module and source and module.is_version(citation.version):
        text = _line(source, citation)
    else:
        # Not a source of the course, or not at its pin: quoted all the same, with a warning.
        text = _line(Source(citation.module, citation.version, "go", ()), citation)
    if text is None and quote is None:
        how = (source or Source(citation.module, citation.version, "go", ())).how_to_get(
            citation.path, citation.line
        )
        inside = _inside(citation, index)
        where = f" That line is in {inside[0]}." if inside else ""
        raise CiteError(
            f"{citation.module}@{citation.version} is not on this machine, so its lines cannot be "
            f"quoted.{where} {how} Or pass the line's text with --quote, and it is checked.",
            exit_code=5,
        )
    quoted = replace(citation, quote=normalise(text if text is not None else quote or ""))
    finding = citations.check(quoted, index, comments_count=True)
    if text is None and not finding.exact:
        raise CiteError(f"{finding.seen} {finding.next}", exit_code=1)
    return Quoted(quoted, finding.symbols, _note(quoted, finding))


def _line(source: Source, citation: Citation) -> str | None:
    folder = source.folder()
    if folder is None:
        return None
    file = (folder / citation.path).resolve()
    if not file.is_relative_to(folder.resolve()) or not file.is_file():
        module = pinned.load().module(citation.module)
        near = pinned.nearest_path(module, citation.path) if module else None
        advice = f" Did you mean {near}?" if near else ""
        raise CiteError(f"{source.module}@{source.version} has no {citation.path}.{advice}")
    return _pick(lines_of(file.read_text(errors="replace")), citation.path, citation.line)


def _pick(lines: list[str], path: str, line: int) -> str:
    if line > len(lines):
        raise CiteError(f"{path} has {len(lines)} lines; there is no line {line}.")
    return lines[line - 1]


def _own(file: Path, line: int) -> Quoted:
    folder = lab_folder(file)
    path = file.relative_to(folder).as_posix()
    try:
        parsed = own.read(folder, path)
    except own.NotReadable as error:
        raise CiteError(f"{error} {error.next}") from None
    text = _pick(lines_of(file.read_text()), path, line)
    citation = Citation("", "", path, line, normalise(text))
    return Quoted(
        citation,
        tuple(symbol.name for symbol in parsed.around(line)),
        _substance_note(citation, comment=parsed.is_comment(line)),
    )


def lab_folder(file: Path) -> Path:
    """Where the path of a learner's file starts: its lab's folder, or the workspace for an artifact's.

    Outside of a workspace it is the file's own folder.
    """
    for folder in file.parents:
        if (folder.parent / "phase4.toml").is_file():
            return folder.parent if folder.name in course.load().artifacts else folder
    return file.parent


def _inside(citation: Citation, index: pinned.Index) -> tuple[str, ...]:
    module = index.module(citation.module)
    file = module.files.get(citation.path) if module else None
    return tuple(symbol.name for symbol in file.around(citation.line)) if file else ()


def _note(citation: Citation, finding: Finding) -> str:
    if finding.kind in ("no-such-module", "no-such-version", "no-such-file"):
        return f"{finding.seen} {finding.next}".strip()
    if finding.kind == "misquoted":
        return (
            "The file on this machine differs from the pinned one: "
            "`go mod verify` says whether the module cache was changed."
        )
    module = pinned.load().module(citation.module)
    file = module.files.get(citation.path) if module else None
    return _substance_note(citation, comment=bool(file and file.is_comment(citation.line)))


def _substance_note(citation: Citation, *, comment: bool) -> str:
    empty = line_text.substance(citation.quote or "", citation.path)
    empty = empty or ("a comment" if comment else "")
    return f"This line is {empty}: it shows nothing by itself." if empty else ""
