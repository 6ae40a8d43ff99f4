"""Where the control plane's binaries come from: the first of three sources that has them.

1. ``KUBEBUILDER_ASSETS`` or the user's cache;
2. a download of the pinned release (:mod:`grader.cluster.download`);
3. a build from pinned Go modules (:mod:`grader.cluster.build`).

The last two end in the same cache, which concurrent runs share: one of them gets
what is missing while the others wait. ``PHASE4_BINARIES`` limits the sources
(``download`` or ``build``), for tests and for whoever wants one of them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from grader.cluster import dirs, locks, pins
from grader.cluster.errors import EnvironmentProblem

#: Called with a sentence that says what is being done, and how far it is where that is known.
Progress = Callable[[str], None]


def cached(name: str) -> Path:
    """Where the cache keeps a binary of the pinned version, there or not."""
    version = pins.VERSIONS[name]
    return dirs.cache() / "bin" / f"{pins.goos()}-{pins.goarch()}" / version / name


def version_of(path: Path) -> str | None:
    """What a binary calls its version (``v1.37.2``), or None where it does not say.

    Remembered in the cache by the file's size and time of change, as starting a
    binary of 100 MB takes longer than anything else here.
    """
    stat = path.stat()
    key = f"{path} {stat.st_size} {stat.st_mtime_ns}"
    memory = dirs.cache() / "versions.json"
    try:
        known = json.loads(memory.read_text())
    except (OSError, ValueError):
        known = {}
    if key in known:
        return known[key]
    version = _ask(path)
    try:
        dirs.made(memory.parent)
        kept = dict(list(known.items())[-50:])
        dirs.write_atomically(memory, json.dumps({**kept, key: version}))
    except EnvironmentProblem:
        pass  # asked again next time
    return version


def _ask(path: Path) -> str | None:
    arguments = ["version", "--client"] if path.name == "kubectl" else ["--version"]
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\bv?(\d+\.\d+\.\d+[-+.\w]*)", done.stdout + done.stderr)
    return f"v{found[1]}" if done.returncode == 0 and found else None


def asset(name: str) -> tuple[Path | None, str]:
    """The binary in ``KUBEBUILDER_ASSETS``, or None and why it is not used ("" where none is there).

    A folder made for other tests may hold another version of Kubernetes: components
    of one minor version go together, so only the pinned one's is taken.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return None, ""
    path = Path(assets).absolute() / name
    if not os.access(path, os.X_OK) or path.is_dir():
        return None, ""
    version = version_of(path)
    if version is None:
        return None, f"{path} does not run on this machine"
    if _minor(version) != _minor(pins.VERSIONS[name]):
        return None, f"{path} is {version}, and the course is written for {pins.VERSIONS[name]}"
    return path, ""


def find(name: str) -> Path | None:
    """A binary of the first source, or None."""
    path, _ = asset(name)
    if path is not None:
        return path
    path = cached(name)
    return path if os.access(path, os.X_OK) else None


def ensure(
    names: Iterable[str] = tuple(pins.VERSIONS), progress: Progress | None = None
) -> dict[str, Path]:
    """The path of each binary, fetched or built where it is not there yet.

    Raises :class:`grader.cluster.errors.EnvironmentProblem` saying why the last
    source is unavailable too.
    """
    chosen = list(names)
    found = {name: path for name in chosen if (path := find(name)) is not None}
    if len(found) == len(chosen):
        return found
    tell = progress or (lambda sentence: None)
    # All of them at once: a cluster needs every one anyway.
    wanted = [name for name in pins.VERSIONS if find(name) is None]
    folder = dirs.made(dirs.cache())
    waits = "another command is downloading or building the control plane; waiting for it"
    with locks.alone(folder / "binaries.lock", tell, waits):
        missing = [name for name in wanted if find(name) is None]
        if missing:
            _get(missing, tell)
    lost = [name for name in chosen if find(name) is None]
    if lost:
        raise EnvironmentProblem(
            f"{lost[0]} was put into {cached(lost[0])} and has disappeared since."
        )
    return {name: path for name in chosen if (path := find(name)) is not None}


#: What envtest looks for in the folder that KUBEBUILDER_ASSETS names.
ENVTEST = ("etcd", "kube-apiserver", "kubectl")


def assets(progress: Progress | None = None) -> Path:
    """A folder with the binaries that envtest wants, as links: for ``KUBEBUILDER_ASSETS``.

    It is one for each pair of pinned versions, and may be asked for by several at once.
    Raises :class:`grader.cluster.errors.EnvironmentProblem` as :func:`ensure` does.
    """
    found = ensure(ENVTEST, progress)
    machine = f"{pins.goos()}-{pins.goarch()}"
    folder = dirs.made(
        dirs.cache() / "assets" / f"{machine}-kubernetes-{pins.KUBERNETES}-etcd-{pins.ETCD}"
    )
    for name, path in found.items():
        # Where KUBEBUILDER_ASSETS names this very folder, what is found is the link itself.
        target, link = path.resolve(), folder / name
        if link.is_symlink() and link.resolve() == target:
            continue
        with dirs.writing(link):
            aside = folder / f".{name}.{os.getpid()}"
            aside.unlink(missing_ok=True)
            aside.symlink_to(target)
            aside.replace(link)
    return folder


def _get(missing: list[str], tell: Progress) -> None:
    """The second and the third source."""
    from grader.cluster import build, download

    only = os.environ.get("PHASE4_BINARIES", "")
    left = list(missing)
    why: dict[str, str] = {}
    if only != "build":
        for name in missing:
            try:
                tell(f"downloading {name} {pins.VERSIONS[name]}")
                download.fetch(name, cached(name), tell)
                left.remove(name)
            except download.DownloadFailed as failure:
                why[name] = str(failure)
                tell(f"{name} was not downloaded: {failure}")
                if failure.offline:
                    break  # nobody answers: the next ones need not be tried
    if not left:
        return
    reason = next(iter(why.values()), "downloads are switched off by PHASE4_BINARIES")
    if only == "download":
        raise EnvironmentProblem(f"{', '.join(left)} could not be downloaded: {reason}.")
    tell(f"building {', '.join(left)} instead, because {reason}")
    try:
        build.build(left, cached, tell)
    except build.BuildFailed as failure:
        raise EnvironmentProblem(
            f"The control plane is unavailable. Download: {reason}. Build: {failure} "
            "With a network, run the command again; or set KUBEBUILDER_ASSETS to a folder that "
            f"holds {', '.join(left)} ({pins.KUBERNETES})."
        ) from failure


def _minor(version: str) -> tuple[str, ...]:
    return tuple(version.removeprefix("v").split(".")[:2])
