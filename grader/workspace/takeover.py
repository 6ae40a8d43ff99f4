"""Upgrades a workspace of version 1: work in the labs' folders moves into the parts.

Version 1 put a copy of the machinery and of the operator into each lab's folder. A part is
taken from the lab that asked for it, where it was edited there, else from the lab in
which it was edited last: that is the copy that its owner continued with. Files that
were never edited are left for the new stubs. All of the old folders are in a backup first.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from grader import course
from grader.verdict import Verdict
from grader.workspace import files, stubs
from grader.workspace.folder import Workspace

SHIPPED = Path(__file__).with_name("version1.txt")

#: Folders of a lab in version 1, and where their files are now.
_MOVED = (
    ("machinery/", "machinery/"),
    ("webapp_operator/", "operator_handwired/webapp_operator/"),
    ("operator/", "operator_handwired/"),
    ("webapp/probe/main.go", "4.3.1/main.go"),
    ("webapp/", "operator_handwired/"),
    ("crd.yaml", "operator_handwired/config/crd/phase4.example.com_webapps.yaml"),
    ("role.yaml", "operator_handwired/config/rbac/role.yaml"),
    ("webapp_types.py", "operator_handwired/webapp_operator/webapp_types.py"),
    ("typed.py", "operator_handwired/webapp_operator/typed.py"),
)
#: Files that the workspace or the parts have now, or that were generated: never moved.
_DROPPED = re.compile(r"(^|/)(go\.mod|go\.sum|Dockerfile|generate\.go|__init__\.py|replay/.*)$")
#: The names by which version 1's files named each other.
_RENAMED = {
    ".go": (("phase4.example.com/webapp-operator/", "phase4.example.com/workspace/operator_handwired/"),),
    ".py": (
        ("from typed import", "from webapp_operator.typed import"),
        ("from webapp_types import", "from webapp_operator.webapp_types import"),
    ),
    ".md": (
        ("`webapp_operator/", "`operator_handwired/webapp_operator/"),
        ("`operator/", "`operator_handwired/"),
    ),
}
#: What the package of version 1 handed on from its modules.
_EXPORTED = re.compile(r"^from machinery import (\([^)]*\)|[^\n]*)$", re.MULTILINE)


@dataclass(frozen=True)
class _Candidate:
    lab: str
    source: Path
    edited: float


def take_over(here: Workspace, say: Callable[[str], None]) -> None:
    """Move an old workspace's work into the parts; says what it did. Nothing is lost: see the backup."""
    labs = [lab for lab in course.load().labs if here.folder(lab).is_dir()]
    backup = _backed_up(here, labs)
    found = _candidates(here, labs)
    moved: dict[str, list[str]] = {}
    for target, candidates in sorted(found.items()):
        chosen = _chosen(target, candidates)
        text = chosen.source.read_bytes()
        path = here.root / target
        if os.path.lexists(path) and not target.endswith("main.go"):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_renamed(text, path.suffix))
        shutil.copymode(chosen.source, path)
        moved.setdefault(chosen.lab, []).append(target)
    for lab in labs:
        _cleared(here.folder(lab))
    for name in ("go.mod", "go.sum"):
        (here.root / name).unlink(missing_ok=True)
    for lab in labs:
        for path in sorted(here.folder(lab).glob("answers.md")):
            path.write_bytes(_renamed(path.read_bytes(), ".md"))
        for path in sorted(here.folder(lab).glob("*.py")):
            path.write_bytes(_renamed(path.read_bytes(), ".py"))
        _without_old_program(here, lab)
        _completed(here, lab)
    for lab_id, targets in moved.items():
        say(f"from {lab_id}: {', '.join(_counted(targets))}")
    say(f"Your folders as they were are kept in {backup}")


def _counted(targets: list[str]) -> list[str]:
    """Names for a message: a folder and how many, where there are more than three in it."""
    tops: dict[str, list[str]] = {}
    for target in targets:
        tops.setdefault("/".join(target.split("/")[:2]), []).append(target)
    return [
        word
        for top, names in tops.items()
        for word in (names if len(names) <= 3 else [f"{top}/ ({len(names)} files)"])
    ]


def _backed_up(here: Workspace, labs: list[course.Lab]) -> Path:
    folder = here.state / "backups" / f"version-1-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    folder.mkdir(parents=True)
    for lab in labs:
        shutil.copytree(here.folder(lab), folder / lab.id, symlinks=True)
    for name in ("go.mod", "go.sum", "phase4.toml"):
        if (here.root / name).is_file():
            shutil.copy(here.root / name, folder / name)
    return folder


def _candidates(here: Workspace, labs: list[course.Lab]) -> dict[str, list[_Candidate]]:
    shipped = _shipped()
    found: dict[str, list[_Candidate]] = {}
    for lab in labs:
        folder = here.folder(lab)
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            target = _target(name)
            if not target or path.is_symlink() or not path.is_file() or "__pycache__" in name:
                continue
            digest = sha256(path.read_bytes()).hexdigest()[:16]
            if lab.id in shipped.get((digest, name), ()):
                continue
            found.setdefault(target, []).append(_Candidate(lab.id, path, path.stat().st_mtime))
    return found


def _target(name: str) -> str:
    for old, new in _MOVED:
        if name == old or (old.endswith("/") and name.startswith(old)):
            target = new + name.removeprefix(old) if old.endswith("/") else new
            return "" if _DROPPED.search(target) else target
    return ""


def _chosen(target: str, candidates: list[_Candidate]) -> _Candidate:
    """The copy to take: from the lab that asks for it; of the operator the newest."""
    writers = {
        part.lab
        for part in course.load().parts
        for track in part.files
        if part.has(target, track)
    }
    if not target.startswith("operator_handwired/"):
        for candidate in candidates:
            if candidate.lab in writers:
                return candidate
    return max(candidates, key=lambda one: (one.edited, one.lab))


def _shipped() -> dict[tuple[str, str], tuple[str, ...]]:
    found = {}
    for line in SHIPPED.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            digest, name, labs = line.split(" ")
            found[digest, name] = tuple(labs.split(","))
    return found


def _renamed(data: bytes, suffix: str) -> bytes:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return data
    for old, new in _RENAMED.get(suffix, ()):
        text = text.replace(old, new)
    if suffix == ".py":
        text = _EXPORTED.sub(_from_modules, text)
    return text.encode("utf-8")


def _from_modules(match: re.Match[str]) -> str:
    modules = _modules()
    by_module: dict[str, list[str]] = {}
    for name in re.findall(r"\w+", match[1]):
        if name not in modules:
            return match[0]
        by_module.setdefault(modules[name], []).append(name)
    return "\n".join(
        f"from machinery.{module} import {', '.join(sorted(names))}"
        for module, names in sorted(by_module.items())
    )


def _modules() -> dict[str, str]:
    """Which module has what the package of version 1 handed on."""
    return {
        name: module
        for module, names in {
            "api": "ApiError ListOptions Resource Selectors Unreachable",
            "client": "Client ResourceClient client_for",
            "delaying": "DelayingQueue RateLimitingQueue",
            "informer": "SharedInformer",
            "listener": "Handler Listener",
            "lister": "Lister",
            "objects": "DeletedFinalStateUnknown key_of key_of_deleted last_known_state split_key",
            "rate_limiters": "BucketRateLimiter ItemExponentialFailureRateLimiter "
            "MaxOfRateLimiter default_controller_rate_limiter",
            "store": "Store",
            "workqueue": "ShutDown WorkQueue",
        }.items()
        for name in names.split()
    }


def _cleared(folder: Path) -> None:
    """Remove from a lab's folder what belongs to a part now."""
    for name in ("machinery", "webapp_operator", "operator", "webapp"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in ("crd.yaml", "role.yaml", "webapp_types.py", "typed.py"):
        (folder / name).unlink(missing_ok=True)


def _without_old_program(here: Workspace, lab: course.Lab) -> None:
    """Remove a declaration that names the old folders; the artifact has its own now."""
    path = here.folder(lab) / "program.toml"
    if path.is_file() and (
        lab.program == "operator_handwired" or '"webapp"' in path.read_text("utf-8", "replace")
    ):
        path.unlink()


def _completed(here: Workspace, lab: course.Lab) -> None:
    """Add what is new in a lab's folder; remove an empty one."""
    folder = here.folder(lab)
    for name, source in stubs.of(lab, here.track_of(lab)).items():
        if not os.path.lexists(folder / name):
            files.write(folder / name, source.read_text(encoding="utf-8"))
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def keep_passes(here: Workspace) -> None:
    """A part whose lab had passed is the learner's own from the start, as it is now."""
    from grader.report import store
    from grader.report.model import ReportError
    from grader.workspace import parts

    for lab in course.load().labs:
        try:
            report = store.load(here.reports, lab.id)
        except ReportError:
            continue
        if report is not None and report.passed:
            track = parts.track_of(here, lab)
            parts.judged(here, lab, Verdict.PASS, parts.digests(here.root, lab, track))
