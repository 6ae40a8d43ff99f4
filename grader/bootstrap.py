"""Sets up ``.venv``: run by the launcher with the user's own Python, standard library alone.

Written so that it can be killed at any moment. ``.venv`` counts as complete only
once the copy of ``requirements.lock`` is in it, put there last by a rename; one
without that copy is made again. A file lock keeps two launchers apart: it is the
kernel's, so it ends with its holder, and the installers inherit it, so that a
killed launcher's installer still holds it until it has stopped writing.
"""

from __future__ import annotations

import ast
import fcntl
import functools
import os
import pwd
import re
import shlex
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
#: The files without which the interpreter does not start, a line each: the launcher looks for them.
NEEDED = VENV / "phase4.python"
#: Set by a command line that cannot import its packages: the name of the one that is missing.
BROKEN = "PHASE4_BROKEN"
DEVELOPER = (HOME / "requirements-dev.lock", VENV / "phase4-dev.lock")

ENVIRONMENT = 5


def main(developer: bool = False) -> None:
    """Bring ``.venv`` up to date with the lock file, and with the developers' one if asked."""
    try:
        with (HOME / ".venv.lock").open("a") as lock:
            acquire(lock.fileno())
            first = not LEARNER[1].exists()
            if not first and python().exists() and not works():
                LEARNER[1].unlink()
            if not current(*LEARNER):
                set_up(lock.fileno(), first)
            if developer and not current(*DEVELOPER):
                say("installing what the project's own tests need")
                install(*DEVELOPER, lock.fileno())
    except PermissionError as error:
        explain_permission(Path(error.filename or HOME))
    except OSError as error:
        stop(f"cannot set up {VENV}: {error.strerror or error} ({error.filename or HOME}).")
    except KeyboardInterrupt:
        print("\nphase4: stopped; the next command continues the set-up.", file=sys.stderr)
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


#: Run by the environment's interpreter: fails where its packages are not there, else prints what
#: it needs to start, a file on a line.
_PROBE = """
import encodings, os, sys, sysconfig
for name in sys.argv[1:]:
    __import__(name)
assert os.path.isdir(sysconfig.get_path("purelib"))
library = sysconfig.get_config_var("INSTSONAME") or ""
folders = [sysconfig.get_config_var(name) or "" for name in ("LIBDIR", "PYTHONFRAMEWORKPREFIX")]
files = [os.path.join(folder, library) for folder in folders if folder and library]
print(os.__file__, encodings.__file__, *filter(os.path.exists, files), sep="\\n")
"""


def works() -> bool:
    """Whether the environment's interpreter starts and has packages; notes what it needs to."""
    missing = os.environ.get(BROKEN)
    try:
        probed = subprocess.run(
            [str(python()), "-I", "-c", _PROBE, *([missing] if missing else ())],
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    except OSError:
        return False
    if probed.returncode == 0:
        replace(NEEDED, probed.stdout)
    return probed.returncode == 0


def packages_missing(error: ImportError) -> NoReturn:
    """What the command line does when it cannot import a package: has ``.venv`` made again, once."""
    name = (error.name or "").partition(".")[0]
    if name in ("", "grader") or Path(sys.prefix) != VENV:
        raise error
    if BROKEN in os.environ:
        stop(
            f"{name} cannot be imported, although .venv was set up just now: {error}.",
            f"Remove {VENV} and run this again.",
        )
    os.environ[BROKEN] = name
    os.execv(HOME / "phase4", [str(HOME / "phase4"), *sys.argv[1:]])


def set_up(lock: int, first: bool) -> None:
    """Make the environment (also in place of a broken one), or install what changed into it."""
    started = time.monotonic()
    mark = LEARNER[1]
    if os.statvfs(HOME).f_flag & getattr(os, "ST_NOEXEC", 0):
        stop(
            f"no program can be started from the file system that {HOME} is on (it is mounted "
            "noexec), and the course's packages have some.",
            "Clone the course to another file system, or mount this one with exec.",
        )
    LOG.write_bytes(b"")
    if not (mark.exists() and python().exists()):
        why = "first use" if first else "Python was replaced under .venv, or packages are gone"
        say(f"{why}: setting up .venv with Python {sys.version.split()[0]}")
        remove(VENV)
        run([sys.executable, "-I", "-m", "venv", str(VENV)], lock, on_failure=explain_venv)
        pip = [str(python()), "-I", "-m", "pip", "install", "--quiet", "--require-hashes"]
        run([*pip, "-r", str(HOME / "requirements-uv.lock")], lock, on_failure=explain_network)
    else:
        say("requirements.lock has changed: bringing .venv up to date")
    install(*LEARNER, lock)
    os.environ.pop(BROKEN, None)
    works()
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
    replace(mark, lock_file.read_bytes())


def replace(path: Path, content: bytes) -> None:
    """Write a whole file or nothing."""
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    aside.write_bytes(content)
    os.replace(aside, path)


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
            # Not where the user is: tools read settings of the project around them.
            cwd=HOME,
            pass_fds=[lock],
        ).returncode
    if code != 0:
        on_failure(LOG.read_bytes()[start:].decode(errors="replace").strip())


#: The settings of pip that say where packages come from, and what uv calls them.
NETWORK = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "keyring-provider": "UV_KEYRING_PROVIDER",
    "timeout": "",
    "retries": "",
    "cache-dir": "",
    "no-cache-dir": "",
}
#: And those of uv.
NETWORK_OF_UV = re.compile(
    "UV_(DEFAULT_INDEX|INDEX(_.+)?|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|INSECURE_HOST|NATIVE_TLS"
    "|SYSTEM_CERTS|HTTP_.+|KEYRING_PROVIDER|OFFLINE|CACHE_DIR|NO_CACHE|LINK_MODE|CONCURRENT_.+"
    "|CONFIG_FILE|NO_CONFIG)"
)


def environment() -> dict[str, str]:
    """The user's environment, with their settings for the network alone, said to pip and to uv.

    Where they have pip put packages otherwise (``user = true``, a ``target``, a
    required virtual environment) is not for this one.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PIP_", "UV_")) or NETWORK_OF_UV.fullmatch(name)
    }
    for name, value in pips_settings().items():
        if name in NETWORK:
            env["PIP_" + name.upper().replace("-", "_")] = value
            if uvs := NETWORK[name]:
                env.setdefault(uvs, " ".join(value.split()))
    if "UV_INDEX" in env:
        # As pip has it: the hash decides, not which index is asked first.
        env.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    return {**env, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


@functools.cache
def _configured() -> str:
    """What the environment's pip says of its settings, from files and variables."""
    try:
        asked = subprocess.run(
            [str(python()), "-I", "-m", "pip", "config", "list"],
            # A `user = true` in them would have this command look at one file alone.
            env={
                **os.environ,
                "PIP_USER": "0",
                "PIP_GLOBAL": "0",
                "PIP_SITE": "0",
                "PIP_QUIET": "0",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )
    except OSError:
        return ""
    return asked.stdout if asked.returncode == 0 else ""


def pips_settings() -> dict[str, str]:
    """pip's settings by their names; those for ``install`` and of the environment are stronger."""
    if not python().exists():
        return {}
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in _configured().splitlines():
        key, equals, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if equals and section in found:
            try:
                found[section][name] = str(ast.literal_eval(value))
            except (ValueError, SyntaxError):
                continue
    return {name: value for section in found.values() for name, value in section.items() if value}


def remove(folder: Path) -> None:
    """Remove a folder for good; renamed first, so that a kill leaves no half of it under its name."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        aside = folder.with_name(f"{folder.name}.old")
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
    shutil.rmtree(folder.with_name(f"{folder.name}.old"), ignore_errors=True)


def explain_permission(path: Path) -> NoReturn:
    """A file that may not be written: after one ``sudo ./phase4`` it belongs to root."""
    there = next(each for each in (path, *path.parents) if os.path.lexists(each))
    owner = there.lstat().st_uid
    if owner == os.geteuid():
        stop(f"cannot write to {path}: the course keeps its Python packages in its own folder.")
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = f"user {owner}"
    stop(
        f"cannot write to {path}: {there} belongs to {name}, as after a run with sudo.",
        f'Make the clone yours: sudo chown -R "$(id -un)" {shlex.quote(str(HOME))}',
    )


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
