"""bubblewrap around a learner's program and its build.

What is inside: the lab's own folder and the system's programs, read-only; the
course's interpreter; a small ``/tmp``; the wire's unix socket with a relay in
front of it (:mod:`grader.runner.relay`). What is not: any other file of the
user's, any other process, any network, the environment of the grader. A build
also sees Go's module and build caches, read-only, so that what is cached is
fast and nothing can be left there for the next learner.

bubblewrap ends with its parent, and with the first process of its namespace
ends everything in it. The program has the rights of whoever starts it over what
is mounted: do not grade for marks as root. Memory has no common
limit here; that takes a cgroup.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath
from types import MappingProxyType

from grader.cluster import go_settings
from grader.cluster.errors import EnvironmentProblem
from grader.runner.program import Program

#: Where things are inside.
LABS, OUT, RUN = "/workspace", "/out", "/run/phase4"
TOOLS = f"{RUN}/tools"
#: The wire's port inside: in a network of its own any port is free.
PORT = 8001
#: Bytes of /tmp inside.
TMP_BYTES = 256 * 1024 * 1024

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt")
_ETC = (
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "ssl",
    "localtime",
    "mime.types",
)


@functools.cache
def available() -> str:
    """Why this machine has no sandbox, as a sentence; empty where it has one."""
    if sys.platform != "linux":
        return "bubblewrap runs on Linux only; use --isolation none to check your own work."
    if shutil.which("bwrap") is None:
        return "bwrap is not installed (the package is called bubblewrap)."
    said = _refused([])
    if said:
        return (
            f"bwrap does not work here ({said}): this system does not let users create namespaces."
        )
    return ""


def _refused(options: list[str]) -> str:
    """The error of bwrap with these options; empty where it works."""
    tried = subprocess.run(
        ["bwrap", "--unshare-all", *options, "--ro-bind", "/", "/", "--", "true"],
        capture_output=True,
        text=True,
    )
    if tried.returncode == 0:
        return ""
    return " ".join(tried.stderr.split()) or f"exit code {tried.returncode}"


@functools.cache
def _no_namespaces_inside() -> list[str]:
    """The option that forbids further namespaces inside, for the versions (0.8 on) that have it."""
    options = ["--unshare-user", "--disable-userns"]
    return [] if _refused(options) else options


def checked(isolation: str) -> str:
    """The isolation asked for; EnvironmentProblem where this machine cannot provide it."""
    if isolation == "bwrap" and (why := available()):
        raise EnvironmentProblem(why)
    if isolation not in ("none", "bwrap"):
        raise EnvironmentProblem(f"Unknown isolation {isolation!r}: use none or bwrap.")
    return isolation


def run_argv(
    program: Program, folder: Path, socket: Path, tools: Mapping[str, Path] = MappingProxyType({})
) -> list[str]:
    """The command that runs a program inside, with the wire at ``socket``.

    ``folder`` gets the kubeconfig that names the relay. ``tools`` are found in ``TOOLS``.
    """
    kubeconfig = folder / "kubeconfig.sandbox"
    kubeconfig.write_text(_kubeconfig(), encoding="utf-8")
    relay = Path(__file__).with_name("relay.py")
    argv = (
        [*_base(program), "--ro-bind", str(program.out), OUT]
        if program.out.is_dir()
        else _base(program)
    )
    argv += ["--unshare-net", "--as-pid-1"]
    argv += ["--ro-bind", str(kubeconfig), f"{RUN}/kubeconfig"]
    argv += ["--ro-bind", str(relay), f"{RUN}/relay.py", "--bind", str(socket), f"{RUN}/wire.sock"]
    for name, path in tools.items():
        argv += ["--ro-bind", str(path.resolve()), f"{TOOLS}/{name}"]
    inside = program.argv(f"{RUN}/kubeconfig", out=OUT)
    return [
        *argv,
        "--",
        sys.executable,
        "-I",
        "-S",
        f"{RUN}/relay.py",
        f"{RUN}/wire.sock",
        str(PORT),
        *inside,
    ]


def offline_argv(program: Program) -> list[str]:
    """The command that runs a program inside without any wire, nor any network."""
    argv = _base(program)
    if program.out.is_dir():
        argv += ["--ro-bind", str(program.out), OUT]
    return [*argv, "--unshare-net", "--as-pid-1", "--", *program.argv("", out=OUT)]


def build_argv(program: Program, command: list[str]) -> list[str]:
    """The command that builds inside: without any network, its result in the program's ``out``."""
    argv = [*_base(program), "--bind", str(program.out), OUT, "--unshare-net"]
    for name, value in _go().items():
        if name in ("GOCACHE", "GOMODCACHE", "GOROOT") and os.path.isdir(value):
            argv += ["--ro-bind", value, value]
            argv += ["--setenv", name, value]
    argv += ["--setenv", "GOPROXY", "off", "--setenv", "GOTOOLCHAIN", "local"]
    return [*argv, "--", *command]


def environment(outside: dict[str, str]) -> dict[str, str]:
    """What is left of an environment inside: no path of this machine but the system's."""
    kept = {
        name: value
        for name, value in outside.items()
        if not name.startswith("XDG_") and name not in ("TMPDIR", "GOPATH", "GOCACHEPROG", "GOAUTH")
    }
    return {**kept, "HOME": "/tmp", "TMPDIR": "/tmp", "KUBECONFIG": f"{RUN}/kubeconfig"}


def _base(program: Program) -> list[str]:
    """Namespaces and what is seen in every sandbox."""
    argv = ["bwrap", "--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc"]
    argv += ["--unshare-uts", "--unshare-cgroup-try", "--hostname", "lab"]
    argv += _no_namespaces_inside()
    for path in _SYSTEM:
        if os.path.islink(path):
            argv += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            argv += ["--ro-bind", path, path]
    for name in _ETC:
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    argv += ["--proc", "/proc", "--dev", "/dev", "--size", str(TMP_BYTES), "--tmpfs", "/tmp"]
    for path in dict.fromkeys(_interpreter()):
        argv += ["--ro-bind", path, path]
    # The root holds what was put together for this run, and nothing else.
    root = program.root or program.folder
    folder = PurePath(LABS, program.folder.relative_to(root))
    return [*argv, "--ro-bind", str(root), LABS, "--chdir", str(folder)]


def _interpreter() -> list[str]:
    """The folders that the course's interpreter is made of."""
    return [path for path in (sys.base_prefix, sys.prefix) if not path.startswith("/usr")]


@functools.cache
def _go() -> dict[str, str]:
    """Where Go keeps its things; empty without Go."""
    if shutil.which("go") is None:
        return {}
    asked = subprocess.run(
        ["go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOROOT"],
        env=go_settings.environment(),
        capture_output=True,
        text=True,
    )
    return json.loads(asked.stdout) if asked.returncode == 0 else {}


def _kubeconfig() -> str:
    from grader.wire.wire import kubeconfig

    return kubeconfig(f"http://127.0.0.1:{PORT}", "sandbox")


def first_inside(outer: int) -> int | None:
    """The id, outside, of the first process inside: bubblewrap's only child."""
    import psutil

    try:
        children = psutil.Process(outer).children()
    except psutil.Error:
        return None
    return children[0].pid if children else None
