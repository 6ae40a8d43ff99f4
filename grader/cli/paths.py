"""Paths as a person would type them."""

from __future__ import annotations

from pathlib import Path


def short(path: Path) -> str:
    """A path from where the user is, where it is below; else the whole of it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
