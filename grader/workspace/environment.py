"""``.venv`` in the workspace: an ordinary virtual environment, which editors find by themselves.

It has no packages of its own: a ``.pth`` file names the course's, and the workspace's
own folders. So ``python -m webapp_operator``, a debugger and «go to definition» work in
it, and nothing is downloaded.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import venv
from pathlib import Path

from grader.runner.program import import_roots

FOLDER = ".venv"
PTH = "phase4.pth"


def ensure(root: Path) -> bool:
    """Make the environment, or repair the one that we made; False where it is somebody else's.

    A Python that was replaced, a course that was moved and a workspace that was moved
    all leave one that no longer works: it is made again.
    """
    folder = root / FOLDER
    wanted = _paths(root)
    found = _pth(folder)
    if folder.exists() and found is None:
        return False
    python = folder / "bin" / "python"
    if found is not None and python.exists() and found.read_text(encoding="utf-8") == wanted:
        return True
    shutil.rmtree(folder, ignore_errors=True)
    try:
        venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
        _site_packages(folder).joinpath(PTH).write_text(wanted, encoding="utf-8")
    except (OSError, ValueError):
        # Only editors need it.
        shutil.rmtree(folder, ignore_errors=True)
        return False
    return True


def _paths(root: Path) -> str:
    folders = [sysconfig.get_path("purelib"), root, *(root / name for name in import_roots(root))]
    return "".join(f"{os.fspath(folder)}\n" for folder in folders)


def _site_packages(folder: Path) -> Path:
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return folder / "lib" / name / "site-packages"


def _pth(folder: Path) -> Path | None:
    return next(iter(folder.glob(f"lib/python*/site-packages/{PTH}")), None)
