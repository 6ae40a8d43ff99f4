"""Writing that a kill at any moment leaves whole, and folders of one's own."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path


def write(path: Path, data: str | bytes, *, mode: int = 0o644, durable: bool = False) -> None:
    """Write a whole file or nothing: readers see the old content or the new, never a part.

    The folder must be there. ``mode`` is as for open(2). ``durable`` has the
    content on the disk before the name: for what nobody can make again.
    """
    content = data.encode() if isinstance(data, str) else data
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def new_folder(place: Path, label: str) -> Path:
    """Make a folder in ``place`` for this user alone, named by time (UTC) and label."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    place.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        folder = place / f"{stamp}-{label}{f'-{number}' if number else ''}"
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
            continue
        return folder
