"""Where the text of a cited source is on this machine, and how to get it where it is not."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

LIST = Path(__file__).parent / "sources.toml"

#: The prefix that a Python package's name has in a citation.
PYPI = "pypi.org/"


class SourceError(Exception):
    """A source cannot be had here; the text is a sentence that says what to do."""

    exit_code = 5


@dataclass(frozen=True)
class Source:
    """A module of ``sources.toml``: where its text comes from and which files are cited."""

    module: str
    version: str
    origin: Literal["go", "pypi", "git"]
    files: tuple[str, ...]
    toolchain: str = ""
    clone: str = ""

    @property
    def index_name(self) -> str:
        """The name of its file in ``index/``."""
        return f"{self.module.replace('/', '-')}-{shown(self.version)}.json"

    def at(self, version: str) -> Source:
        return Source(self.module, version, self.origin, self.files, self.toolchain, self.clone)

    def folder(self) -> Path | None:
        """The folder that holds its text on this machine, or None."""
        if self.origin == "go":
            folder = module_cache() / f"{escape(self.module)}@{escape(self.version)}"
            return folder if folder.is_dir() else None
        if self.origin == "pypi":
            name = self.module.removeprefix(PYPI)
            try:
                package = importlib.metadata.distribution(name)
            except importlib.metadata.PackageNotFoundError:
                return None
            folder = Path(str(package.locate_file("")))
            return folder if package.version == self.version else None
        return None

    def how_to_get(self, path: str, line: int) -> str:
        """A sentence for someone who wants to read that line and has not the source."""
        if self.origin == "go":
            return (
                f"`go mod download {self.module}@{self.version}` fetches it "
                f"(then it is in {module_cache()})."
            )
        if self.origin == "pypi":
            return f"`pip install {self.module.removeprefix(PYPI)}=={self.version}` installs it."
        return f"Read it at {self.clone}/blob/{shown(self.version)}/{path}?plain=1#L{line}."

    def expand(self, folder: Path) -> list[str]:
        """The paths of ``files`` in the folder, sorted. Raises :class:`SourceError` where one is missing."""
        found: list[str] = []
        for each in self.files:
            paths = sorted(folder.glob(each)) if "*" in each else [folder / each]
            paths = [p for p in paths if not p.name.endswith(("_test.go", "_test.py"))]
            if not paths or not all(p.is_file() for p in paths):
                raise SourceError(f"{self.module}@{self.version} has no {each}.")
            found += [p.relative_to(folder).as_posix() for p in paths]
        return sorted(set(found))

    def fetch(self) -> Path:
        """The folder, downloaded into the Go module cache where it is missing. Raises :class:`SourceError`."""
        folder = self.folder()
        if folder is not None:
            return folder
        if self.origin != "go":
            raise SourceError(f"{self.module}@{self.version} is not on this machine.")
        go = shutil.which("go")
        if go is None:
            raise SourceError(f"Fetching {self.module}@{self.version} needs Go, which is not here.")
        environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off"}
        if self.toolchain:
            environment["GOTOOLCHAIN"] = self.toolchain
        done = subprocess.run(
            [go, "mod", "download", "-json", f"{self.module}@{self.version}"],
            cwd=LIST.parent / "symbols",
            env=environment,
            capture_output=True,
            text=True,
        )
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            answer = {}
        if done.returncode or "Dir" not in answer:
            why = str(answer.get("Error") or done.stderr.strip() or "go gave no reason")
            raise SourceError(
                f"{self.module}@{self.version} cannot be fetched: {why.splitlines()[-1]}"
            )
        return Path(answer["Dir"])


@lru_cache(maxsize=1)
def load() -> dict[str, Source]:
    """The sources of ``sources.toml`` by module."""
    data = tomllib.loads(LIST.read_text())
    found = {}
    for each in data["module"]:
        found[each["module"]] = Source(
            each["module"],
            each["version"],
            each["from"],
            tuple(each["files"]),
            each.get("toolchain", ""),
            each.get("clone", ""),
        )
    return found


def module_cache() -> Path:
    """The Go module cache, whether or not Go is installed."""
    if cache := os.environ.get("GOMODCACHE"):
        return Path(cache)
    gopath = os.environ.get("GOPATH", "").split(os.pathsep)[0]
    return (Path(gopath) if gopath else Path.home() / "go") / "pkg" / "mod"


def shown(version: str) -> str:
    """The version as a citation has it: a commit by its first seven digits."""
    return version[:7] if re.fullmatch(r"[0-9a-f]{40}", version) else version


def escape(path: str) -> str:
    """A module path as the module cache spells it: ``!azure`` for ``Azure``."""
    return re.sub(r"[A-Z]", lambda m: "!" + m[0].lower(), path)


def unescape(path: str) -> str:
    return re.sub(r"!([a-z])", lambda m: m[1].upper(), path)


def in_module_cache(path: Path) -> tuple[str, str, str] | None:
    """(module, version, path) of a file in the Go module cache; None where it is not in it."""
    try:
        relative = path.resolve().relative_to(module_cache().resolve()).as_posix()
    except ValueError:
        return None
    match = re.fullmatch(r"(?P<module>[^@]+)@(?P<version>[^/]+)/(?P<path>.+)", relative)
    if match is None or relative.startswith("cache/"):
        return None
    return unescape(match["module"]), unescape(match["version"]), match["path"]
