"""The index of pinned sources: which line of which file says what, without the source.

``index/*.json`` holds one module at one version a file, made by
``phase4 dev index``::

    {"module": "k8s.io/client-go", "version": "v0.37.2", "digest": "first 16 hex …",
     "files": {"tools/cache/reflector.go": {
         "sha256": "…",                       # of the whole file's bytes
         "lines": ["9be0ce374327e360", …],    # one digest a line, line 1 first
         "symbols": {"Reflector.watch": [561, 672], …},   # 1-based, both ends included
         "comments": [[1, 15], …]}}}          # whole lines that are comment, where known

A symbol is a Go function, a method (``Type.method``), a type, a field or method
of a type (``Type.field``), a constant or variable, a Python class or function,
or a Markdown heading with its section.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from grader.evidence.digest import digest

FOLDER = Path(__file__).parent / "index"

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORT_COMMIT = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True)
class Symbol:
    """A named thing in a file and the lines it covers, both ends included."""

    name: str
    first: int
    last: int

    def __contains__(self, line: int) -> bool:
        return self.first <= line <= self.last


@dataclass(frozen=True)
class PinnedFile:
    """One file of one module at one version: digests and ranges, no source."""

    path: str
    sha256: str
    lines: tuple[str, ...]
    symbols: tuple[Symbol, ...] = ()
    comments: tuple[tuple[int, int], ...] = ()

    def at(self, line: int) -> str | None:
        """The digest of that line (1-based), or None where the file has no such line."""
        return self.lines[line - 1] if 1 <= line <= len(self.lines) else None

    def saying(self, text: str) -> tuple[int, ...]:
        """Every line that says exactly this, whitespace aside."""
        wanted = digest(text)
        return tuple(number for number, each in enumerate(self.lines, 1) if each == wanted)

    def around(self, line: int) -> tuple[Symbol, ...]:
        """The symbols that the line is inside, the innermost first."""
        inside = [symbol for symbol in self.symbols if line in symbol]
        return tuple(sorted(inside, key=lambda s: (s.last - s.first, -s.first)))

    def symbol(self, name: str) -> Symbol | None:
        """The symbol of that name; ``enqueueFoo`` finds ``Controller.enqueueFoo`` if it is the only one."""
        exact = [s for s in self.symbols if s.name == name]
        if exact:
            return exact[0]
        tails = [s for s in self.symbols if s.name.rsplit(".", 1)[-1] == name]
        return tails[0] if len(tails) == 1 else None

    def is_comment(self, line: int) -> bool:
        return any(first <= line <= last for first, last in self.comments)

    @classmethod
    def from_json(cls, path: str, data: dict) -> PinnedFile:
        return cls(
            path=path,
            sha256=data["sha256"],
            lines=tuple(data["lines"]),
            symbols=tuple(Symbol(n, a, b) for n, (a, b) in data.get("symbols", {}).items()),
            comments=tuple((a, b) for a, b in data.get("comments", ())),
        )


@dataclass(frozen=True)
class PinnedModule:
    """The cited files of one module at one version."""

    module: str
    version: str
    files: dict[str, PinnedFile] = field(repr=False)

    @property
    def shown_version(self) -> str:
        """The version as it is written in a citation: a commit by its first seven digits."""
        return self.version[:7] if _COMMIT.fullmatch(self.version) else self.version

    def is_version(self, version: str) -> bool:
        if version == self.version:
            return True
        return bool(
            _COMMIT.fullmatch(self.version)
            and _SHORT_COMMIT.fullmatch(version)
            and self.version.startswith(version)
        )

    @classmethod
    def from_json(cls, data: dict) -> PinnedModule:
        files = {path: PinnedFile.from_json(path, each) for path, each in data["files"].items()}
        return cls(data["module"], data["version"], files)


class Index:
    """All pinned modules. ``load()`` reads the project's own; tests make small ones."""

    def __init__(self, modules: Iterable[PinnedModule]) -> None:
        self.modules = {each.module: each for each in modules}

    def module(self, name: str) -> PinnedModule | None:
        return self.modules.get(name)

    def split(self, text: str) -> tuple[str, str] | None:
        """``k8s.io/client-go/tools/cache/store.go`` to module and path, by the longest module that fits.

        A module may also be named by its last element (``client-go/tools/…``) or by its
        repository (``github.com/kubernetes/client-go/…``), and a path may begin where the
        module is kept (``kubernetes/staging/src/k8s.io/client-go/…``).
        """
        text = text.removeprefix("./").rpartition("staging/src/")[2].removeprefix("github.com/")
        fitting = [
            (name, text[len(prefix) + 1 :])
            for name in self.modules
            for prefix in _prefixes(name)
            if text.startswith(prefix + "/")
        ]
        return max(
            fitting,
            key=lambda pair: (pair[1] in self.modules[pair[0]].files, len(pair[0])),
            default=None,
        )

    def named(self, tail: str) -> list[tuple[PinnedModule, PinnedFile]]:
        """Every pinned file whose path is ``tail`` or ends in ``/tail``."""
        return [
            (module, file)
            for module in self.modules.values()
            for path, file in module.files.items()
            if path == tail or path.endswith("/" + tail)
        ]

    def nearest_module(self, name: str) -> str | None:
        by_tail = [each for each in self.modules if _short_name(each) == _short_name(name)]
        if len(by_tail) == 1:
            return by_tail[0]
        close = difflib.get_close_matches(name, self.modules, n=1, cutoff=0.6)
        return close[0] if close else None


def nearest_path(module: PinnedModule, path: str) -> str | None:
    """The pinned path that the reader most likely meant, if the file's name is near."""
    names: dict[str, list[str]] = {}
    for each in module.files:
        names.setdefault(each.rsplit("/", 1)[-1], []).append(each)
    close = difflib.get_close_matches(path.rsplit("/", 1)[-1], names, n=1, cutoff=0.7)
    if not close:
        return None
    return max(names[close[0]], key=lambda p: difflib.SequenceMatcher(None, path, p).ratio())


def _short_name(module: str) -> str:
    """``go.etcd.io/etcd/api/v3`` is known as ``etcd/api/v3``, ``k8s.io/client-go`` as ``client-go``."""
    host, _, rest = module.partition("/")
    return rest if "." in host and rest else module


def _prefixes(module: str) -> set[str]:
    """What a path may begin with to name the module; a ``github.com/`` before it is taken off."""
    short = _short_name(module)
    found = {module.removeprefix("github.com/"), short}
    for host, owner in (("k8s.io/", "kubernetes"), ("sigs.k8s.io/", "kubernetes-sigs")):
        if module.startswith(host):
            found.add(f"{owner}/{short}")
    if module.startswith("go.etcd.io/"):
        # The repository's folders have no major version.
        folder = re.sub(r"/v\d+$", "", short)
        found |= {folder, f"etcd-io/{short}", f"etcd-io/{folder}"}
    return found


@lru_cache(maxsize=1)
def load() -> Index:
    """The project's own index. Raises ``FileNotFoundError`` where the folder holds none."""
    found = sorted(FOLDER.glob("*.json"))
    if not found:
        raise FileNotFoundError(f"{FOLDER} holds no index; `phase4 dev index` makes it")
    return Index(PinnedModule.from_json(json.loads(path.read_text())) for path in found)
