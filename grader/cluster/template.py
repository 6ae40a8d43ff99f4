"""A bootstrapped etcd folder, kept so that the next empty cluster need not bootstrap.

It is taken when the API server is ready and the course's CRDs and namespaces are
in place, and before any controller has run: what controllers do at the start of a
cluster (service accounts, the node's readiness) is done in each cluster, and
shows that they work.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from grader.cluster import dirs, limits, pins
from grader.cluster.components import MANIFESTS


def folder() -> Path:
    """Where the template for these versions and manifests is kept, there or not."""
    digest = hashlib.sha256(f"1 {pins.KUBERNETES} {pins.ETCD}".encode())
    for name in ("crd-foos.yaml", "crd-webapps.yaml", "namespaces.yaml"):
        digest.update((MANIFESTS / name).read_bytes())
    return dirs.cache() / "etcd-template" / digest.hexdigest()[:16]


def there() -> bool:
    """Whether there is a template."""
    return folder().is_dir()


def restore(target: Path) -> bool:
    """Copy the template to ``target``; False where there is none, or none that can be read.

    Raises :class:`grader.cluster.errors.EnvironmentProblem` where the disk is full, or a
    limit of the machine is met.
    """
    try:
        _copy(folder(), target)
    except OSError as error:
        shutil.rmtree(target, ignore_errors=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, *limits.ERRORS):
            with dirs.writing(target):
                raise
        if error.errno != errno.ENOENT:
            discard()
        return False
    return True


def capture(source: Path) -> None:
    """Keep the etcd folder ``source`` as the template. etcd must be halted meanwhile.

    What etcd has in its files at any moment is what it would recover from after a
    crash, so a copy of them is as good as a clean stop.
    """
    target = folder()
    if target.is_dir():
        return
    parent = dirs.made(target.parent, private=True)
    with dirs.writing(parent):
        staging = Path(tempfile.mkdtemp(dir=parent, prefix=".new-"))
        try:
            _copy(source, staging / "etcd")
            os.rename(staging / "etcd", target)
        except FileExistsError:
            pass  # another run was first
        except OSError:
            if not target.is_dir():
                raise
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            for old in parent.iterdir():
                if old != target and not old.name.startswith("."):
                    shutil.rmtree(old, ignore_errors=True)


def discard() -> None:
    """Throw the template away (for one that no cluster starts from)."""
    damaged = folder()
    if damaged.is_dir():
        shutil.rmtree(damaged, ignore_errors=True)
    else:
        damaged.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    """Copy a tree, leaving out the zeros: etcd sets 64 MB aside for a log that holds 1 MB."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for entry in os.scandir(source):
        to = target / entry.name
        if entry.is_dir():
            _copy(Path(entry.path), to)
        elif not entry.name.endswith(".tmp"):  # the next log file, set aside and empty
            _copy_sparsely(entry.path, to)


def _copy_sparsely(source: str, target: Path) -> None:
    zeros = bytes(1 << 20)
    with open(source, "rb", buffering=0) as old, open(target, "wb") as new:
        size = os.fstat(old.fileno()).st_size
        position = 0
        while (position := _next_data(old.fileno(), position, size)) < size:
            old.seek(position)
            block = old.read(len(zeros))
            if not block:
                break
            if block != zeros[: len(block)]:
                new.seek(position)
                new.write(block)
            position += len(block)
        new.truncate(size)
    os.chmod(target, 0o600)


def _next_data(descriptor: int, position: int, size: int) -> int:
    """Where the file has data next, where the system can tell; ``size`` when nowhere."""
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA)
    except AttributeError:
        return position
    except OSError as error:
        # No such device or address: there is nothing but a hole up to the end.
        return size if error.errno == errno.ENXIO else position
