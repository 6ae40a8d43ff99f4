"""Makes the index of pinned sources: ``phase4 dev index``.

The text comes from the Go module cache and from installed Python packages; Go's
symbols come from Go's own parser (``symbols/main.go``). What is written holds
digests and ranges alone. Sources that are in a repository and in no module are
carried over: their index files stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from grader import files
from grader.cluster import go_settings
from grader.evidence import own, pinned, sources
from grader.evidence.digest import DESCRIPTION, digest, lines_of
from grader.evidence.sources import Source, SourceError


def make(source: Source) -> dict:
    """The index of one module, as its JSON file has it. Raises :class:`SourceError`."""
    folder = source.fetch()
    paths = source.expand(folder)
    go = go_facts([folder / path for path in paths if path.endswith(".go")])
    return {
        "module": source.module,
        "version": source.version,
        "digest": DESCRIPTION,
        "files": {path: _file(folder / path, path, go) for path in paths},
    }


def _file(file: Path, path: str, go: dict[str, dict]) -> dict:
    data = file.read_bytes()
    text = data.decode()
    entry: dict = {
        "sha256": hashlib.sha256(data).hexdigest(),
        "lines": [digest(line) for line in lines_of(text)],
    }
    if str(file) in go:
        facts = go[str(file)]
        ordered = sorted(facts["symbols"].items(), key=lambda item: (item[1], item[0]))
        return {**entry, **facts, "symbols": dict(ordered)}
    parsed = own.parse(path, text)
    entry["symbols"] = {s.name: [s.first, s.last] for s in parsed.symbols}
    if parsed.comments:
        entry["comments"] = [list(each) for each in parsed.comments]
    return entry


def go_facts(files: Iterable[Path]) -> dict[str, dict]:
    """Symbols and comments of Go files, by path, from Go's parser."""
    names = [str(file) for file in files]
    if not names:
        return {}
    go = shutil.which("go")
    if go is None:
        raise SourceError(
            "Making the index needs Go, which is not here: `phase4 doctor` says more."
        )
    done = subprocess.run(
        [go, "run", "-trimpath", "."],
        cwd=sources.LIST.parent / "symbols",
        env=go_settings.environment(),
        input="\n".join(names) + "\n",
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SourceError(f"Go's parser refuses a source: {done.stderr.strip()}")
    return json.loads(done.stdout)


def write(data: dict, path: Path) -> None:
    """Write one index file, atomically; a line for each file of the module keeps diffs small."""
    head = {key: value for key, value in data.items() if key != "files"}
    lines = [
        f"{json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}"
        for name, entry in data["files"].items()
    ]
    text = json.dumps(head, separators=(",", ":"))[:-1]
    text += ',"files":{\n' + ",\n".join(lines) + "\n}}\n"
    files.write(path, text)


def outdated(source: Source, folder: Path = pinned.FOLDER) -> str:
    """Why the module's index file differs from its source; empty where it does not.

    A carried one is only looked at for being there, at its version.
    Raises :class:`SourceError` where the source is unavailable.
    """
    path = folder / source.index_name
    if not path.is_file():
        return "it has no index file"
    kept = json.loads(path.read_text())
    if kept["version"] != source.version:
        return f"its index file is of {kept['version']}"
    if source.origin == "git":
        missing = set(source.files) - set(kept["files"])
        return f"its index lacks {', '.join(sorted(missing))}" if missing else ""
    return "" if kept == json.loads(json.dumps(make(source))) else "its source says otherwise"


def refresh(source: Source, folder: Path = pinned.FOLDER) -> bool:
    """Bring the module's index file up to date; whether it changed. Raises :class:`SourceError`.

    Index files of the module's other versions are removed.
    """
    path = folder / source.index_name
    if source.origin == "git":
        if why := outdated(source, folder):
            raise SourceError(f"{source.module}: {why}, and it comes from no module cache.")
        return False
    data = json.loads(json.dumps(make(source)))
    changed = not path.is_file() or json.loads(path.read_text()) != data
    if changed:
        folder.mkdir(exist_ok=True)
        write(data, path)
    for each in folder.glob("*.json"):
        if each != path and json.loads(each.read_text())["module"] == source.module:
            each.unlink()
            changed = True
    return changed
