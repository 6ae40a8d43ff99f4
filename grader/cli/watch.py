"""``check --watch``: check again at every save, until Ctrl-C.

A save while a check runs is not lost: it starts another round as soon as that one
has ended. Events do not arrive from network drives and from Windows folders under
WSL; there the folder is polled (``WATCHFILES_FORCE_POLLING`` forces either).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grader.course import Lab
    from grader.workspace import Workspace

#: Milliseconds between looks where the file system sends no events.
POLL_MS = 500


def watch_labs(here: Workspace, labs: list[Lab], round: Callable[[], int]) -> None:
    """Run a round now and after each change to the folders of these labs."""
    folders = _watched(here, labs)
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    changes = _changes(folders, needs_polling(here.root))
    seen = _stamps(folders)
    _announced(round)
    try:
        for _ in changes:
            # Files are looked at, whatever woke us: a watcher that polls compares whole
            # seconds, and does not notice a second save within one.
            if (now := _stamps(folders)) != seen:
                seen = now
                _announced(round)
    except KeyboardInterrupt:
        print()


def _watched(here: Workspace, labs: list[Lab]) -> list[Path]:
    """The labs' folders, and the artifacts that a check of them takes along."""
    from grader.workspace import parts

    own = [here.folder(lab) for lab in labs if not lab.program or here.folder(lab).is_dir()]
    artifacts = [name for lab in labs for name in parts.artifacts_of(here, lab)]
    return [*own, *(here.root / name for name in dict.fromkeys(artifacts))]


def _changes(folders: list[Path], polling: bool | None) -> Iterator[object]:
    """Wakes up after changes in the folders, and every second; already watching when it returns.

    Polls where the system has no watchers left (editors and other tools use
    hundreds).
    """
    import watchfiles

    changes = watchfiles.watch(
        *folders,
        debounce=200,
        rust_timeout=1000,
        yield_on_timeout=True,
        raise_interrupt=True,
        force_polling=polling,
        poll_delay_ms=POLL_MS,
    )
    # The watcher runs in its own thread from its first answer on, so the first
    # round starts only then and a save during it is the next answer.
    try:
        next(changes)
    except (OSError, RuntimeError):  # its own kind of error is a RuntimeError
        if polling:
            raise
        return _changes(folders, True)
    return changes


def _stamps(folders: list[Path]) -> dict[str, tuple[int, int, int]]:
    """What tells one state of the folders' files from another; what editors leave is passed over."""
    import watchfiles

    wanted = watchfiles.DefaultFilter()
    found = {}
    for folder in folders:
        for path in folder.rglob("*"):
            if wanted(watchfiles.Change.modified, str(path)):
                try:
                    about = path.stat()
                except OSError:
                    continue  # gone since it was listed
                if not stat.S_ISDIR(about.st_mode):
                    found[str(path)] = (about.st_mtime_ns, about.st_size, about.st_ino)
    return found


def _announced(round: Callable[[], int]) -> None:
    import sys

    if sys.stdout.isatty():
        print("\033[2J\033[H", end="")
    round()
    print("\nWatching for a save; Ctrl-C stops it.", flush=True)


def needs_polling(folder: Path) -> bool | None:
    """Whether the folder is on a file system that sends no events; None: let watchfiles decide."""
    if "WATCHFILES_FORCE_POLLING" in os.environ:
        return None
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    silent = {"9p", "drvfs", "nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "vboxsf", "fakeowner"}
    best, kind = "", ""
    for entry in mounts.splitlines():
        fields = entry.split(" ")
        point = fields[1].replace("\\040", " ")
        inside = folder == Path(point) or Path(point) in folder.parents
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return True if kind in silent else None
