"""Sets up ``.venv``: run by the launcher with the user's own Python, standard library alone.

Written so that it can be killed at any moment. ``.venv`` counts as complete only
once the copy of ``requirements.lock`` is in it, put there last by a rename; one
without that copy is made anew. A file lock keeps two launchers apart: it is the
kernel's, so it ends with its holder, and the installers inherit it, so that a
killed launcher's installer still holds it until it has stopped writing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

HOME = Path(__file__).resolve().parent.parent
VENV = HOME / ".venv"
LOG = HOME / ".venv.log"
#: Lock file of the packages, the mark that says that they are installed.
LEARNER = (HOME / "requirements.lock", VENV / "phase4.lock")
DEVELOPER = (HOME / "requirements-dev.lock", VENV / "phase4-dev.lock")

ENVIRONMENT = 5


def main(developer: bool = False) -> None:
    """Bring ``.venv`` up to date with the lock file, and with the developers' one if asked."""
    try:
        with (HOME / ".venv.lock").open("a") as lock:
            acquire(lock.fileno())
            if not current(*LEARNER):
                set_up(lock.fileno())
            if developer and not current(*DEVELOPER):
                say("installing what the project's own tests need")
                install(*DEVELOPER, lock.fileno())
    except PermissionError as error:
        stop(
            f"cannot write to {error.filename}: the course keeps its Python packages in its own folder."
        )
    except OSError as error:
        stop(f"cannot set up {VENV}: {error.strerror or error} ({error.filename or HOME}).")
    except KeyboardInterrupt:
        print("\nphase4: stopped; the next command takes up the set-up again.", file=sys.stderr)
        raise SystemExit(130) from None


def acquire(descriptor: int) -> None:
    """Take the lock, saying so when another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("another phase4 is setting up .venv; waiting for it")
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def current(lock_file: Path, mark: Path) -> bool:
    """Whether what ``lock_file`` lists is what was installed."""
    try:
        return python().exists() and mark.read_bytes() == lock_file.read_bytes()
    except FileNotFoundError:
        return False


def python() -> Path:
    return VENV / "bin" / "python"


def set_up(lock: int) -> None:
    """Make the environment, or install what changed into a complete one."""
    started = time.monotonic()
    mark = LEARNER[1]
    LOG.write_bytes(b"")
    if not (mark.exists() and python().exists()):
        say(f"first use: setting up .venv with Python {sys.version.split()[0]}")
        remove(VENV)
        run([sys.executable, "-m", "venv", str(VENV)], lock, on_failure=explain_venv)
        pip = [str(python()), "-m", "pip", "install", "--quiet", "--require-hashes"]
        run([*pip, "-r", str(HOME / "requirements-uv.lock")], lock, on_failure=explain_network)
    else:
        say("requirements.lock has changed: bringing .venv up to date")
    install(*LEARNER, lock)
    say(f"ready after {time.monotonic() - started:.0f} s")


def install(lock_file: Path, mark: Path, lock: int) -> None:
    """Install what ``lock_file`` lists, every file checked against its hash, then mark it done."""
    mark.unlink(missing_ok=True)
    uv = [str(VENV / "bin" / "uv"), "pip", "install", "--python", str(python()), "--quiet"]
    run(
        [*uv, "--require-hashes", "-r", str(lock_file)],
        lock,
        on_failure=explain_network,
    )
    aside = mark.with_name(f"{mark.name}.{os.getpid()}")
    shutil.copyfile(lock_file, aside)
    os.replace(aside, mark)


def run(argv: list[str], lock: int, *, on_failure: Callable[[str], NoReturn]) -> None:
    """Run an installer; its output goes to the log, and to the user only when it fails."""
    with LOG.open("ab") as log:
        log.write(f"\n$ {' '.join(argv)}\n".encode())
        log.flush()
        start = log.tell()
        code = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(),
            pass_fds=[lock],
        ).returncode
    if code != 0:
        on_failure(LOG.read_bytes()[start:].decode(errors="replace").strip())


def environment() -> dict[str, str]:
    """The user's environment, with pip's settings for the index and certificates said to uv too."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONHOME", "PYTHONPATH")
    }
    for pips, uvs in (("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), ("PIP_CERT", "SSL_CERT_FILE")):
        if pips in env:
            env.setdefault(uvs, env[pips])
    return env


def remove(folder: Path) -> None:
    """Remove a folder for good; renamed first, so that a kill leaves no half of it under its name."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        aside = folder.with_name(f"{folder.name}.old")
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
    shutil.rmtree(folder.with_name(f"{folder.name}.old"), ignore_errors=True)


def explain_venv(output: str) -> NoReturn:
    """Python cannot make virtual environments: Debian packs that part on its own."""
    if "ensurepip" in output:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        stop(
            f"Python {version} at {sys.executable} cannot make virtual environments.",
            f"On Debian and Ubuntu: sudo apt install python{version}-venv. Then run this again.",
        )
    stop("could not make .venv.", last_lines(output))


def explain_network(output: str) -> NoReturn:
    """The installer failed: no network, no room, or a package that was changed."""
    text = output.lower()
    if "no space left" in text:
        stop(f"the disk is full: .venv needs about 200 MB in {HOME}.")
    if "do not match the hashes" in text or ("hash" in text and "mismatch" in text):
        stop(
            "a downloaded package is not the one the course was tested with (its hash differs), "
            "so it was not installed.",
            last_lines(output),
        )
    network = (
        "connect",
        "resolve",
        "network",
        "dns",
        "timed out",
        "no matching distribution",
        "ssl",
    )
    if any(word in text for word in network):
        stop(
            "could not reach the Python package index.",
            "The first use needs a network; after it the course works without. Run this again once "
            f"you are online. Details: {LOG}",
        )
    stop("could not install the course's Python packages.", last_lines(output), f"Details: {LOG}")


def last_lines(output: str, count: int = 4) -> str:
    return "\n".join(f"  {line}" for line in output.splitlines()[-count:])


def say(sentence: str) -> None:
    print(f"phase4: {sentence}", file=sys.stderr, flush=True)


def stop(*sentences: str) -> NoReturn:
    for line in (f"phase4: {sentences[0]}", *sentences[1:]):
        print(line, file=sys.stderr, flush=True)
    raise SystemExit(ENVIRONMENT)


if __name__ == "__main__":
    main(developer="--developer" in sys.argv[1:])
