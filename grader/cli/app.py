"""The command line: which file has which command, and how errors are shown.

A command's file is imported only when that command (or the help of all of them) is
asked for, and each file imports what is slow inside its functions: Enter to first
word stays under 0.3 seconds (``benchmarks/cli_start.py`` measures it).
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import typer

from grader import exit_codes
from grader.cli.encoding import fit_streams

#: The files with commands, and the commands in each.
FILES: dict[str, tuple[str, ...]] = {
    "grader.cli.start": ("start", "site"),
    "grader.cli.learn": (
        "init",
        "list",
        "show",
        "hint",
        "track",
        "reset",
        "parts",
        "progress",
        "gate",
    ),
    "grader.cli.check": ("check",),
    "grader.cli.site": ("solution", "report"),
    "grader.cli.cite": ("cite",),
    "grader.cli.conform": ("conform",),
    "grader.cli.drive": ("run", "fault", "record", "timeline", "replay"),
    "grader.cli.cluster": ("up", "down", "status", "kubectl", "kubeconfig", "logs", "assets"),
    "grader.cli.doctor": ("doctor", "completion"),
    "grader.cli.test": ("test",),
    "grader.cli.dev": ("dev",),
}

#: The help's groups, in their order and with the commands in theirs: the order of a day.
PANELS: dict[str, tuple[str, ...]] = {
    "Begin": ("start", "doctor", "init", "site"),
    "A lab": ("list", "show", "check", "hint", "cite", "solution", "reset", "track"),
    "Programs under test": ("run", "fault", "record", "timeline", "replay", "conform"),
    "Where you are": ("progress", "parts", "gate", "report"),
    "The cluster": ("up", "down", "status", "kubectl", "kubeconfig", "logs", "assets"),
    "The course itself": ("test", "dev", "completion"),
}

HELP = """Phase 4: Kubernetes controllers, written by hand and graded on a real API server.

New here: [bold]phase4 start[/bold] sets everything up and says what to do next.
"""


def build(command: str | None = None) -> typer.Typer:
    """The application with every command, or with those of the file that has ``command``."""
    app = typer.Typer(
        name="phase4",
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )

    @app.callback()
    def everywhere(
        version: bool = typer.Option(
            False, "--version", callback=_version, is_eager=True, help="Print the version."
        ),
        workspace: str = typer.Option(
            "",
            "--workspace",
            "-w",
            metavar="DIR",
            help="The learner's folder. Else PHASE4_WORKSPACE, else the one you are in, else workspace/.",
        ),
    ) -> None:
        if workspace:
            os.environ["PHASE4_WORKSPACE"] = str(Path(workspace).expanduser().absolute())

    wanted = [name for name, commands in FILES.items() if command in commands] or list(FILES)
    for name in wanted:
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name).register(app)
    _arrange(app)
    return app


def _arrange(app: typer.Typer) -> None:
    """Put the commands into the help's groups, whoever registered them."""
    order = [name for names in PANELS.values() for name in names]
    panel_of = {name: panel for panel, names in PANELS.items() for name in names}

    def place(info: Any) -> int:
        name = info.name or getattr(info, "callback", None).__name__
        info.rich_help_panel = panel_of.get(name, "Others")
        return order.index(name) if name in order else len(order)

    app.registered_commands.sort(key=place)
    app.registered_groups.sort(key=place)


def main() -> NoReturn:
    """Run the command line on ``sys.argv``; exits as ``grader.exit_codes`` says."""
    fit_streams()
    if sys.argv[1:] == ["--version"]:
        _version(True)
    if "_PHASE4_COMPLETE" in os.environ:
        # Typer does this by itself only along with an --install-completion, which
        # would write into a person's shell files.
        from typer.completion import completion_init

        completion_init()
    allow_files()
    command = typer.main.get_command(build(_command_of(sys.argv[1:])))
    try:
        command(prog_name="phase4")
    except KeyboardInterrupt:
        raise SystemExit(exit_codes.INTERRUPTED) from None
    except Exception as error:
        raise SystemExit(report(error)) from None
    raise SystemExit(exit_codes.OK)


def allow_files(wanted: int = 4096) -> None:
    """Raise the soft limit of open files of this process and what it starts, where it is low."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _command_of(arguments: list[str]) -> str | None:
    """The first word that is not an option: it decides what is imported."""
    if "_PHASE4_COMPLETE" in os.environ:
        return None
    words = iter(arguments)
    for word in words:
        if word in ("-w", "--workspace"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def _version(asked: bool) -> None:
    if asked:
        from grader import __version__

        print(f"phase4 {__version__}")
        raise SystemExit(exit_codes.OK)


def report(error: Exception) -> int:
    """Tell a person about an error; returns the exit code.

    An error class of ours says so with its name (``…Error`` under ``grader``) and its
    text is a sentence; anything else is a fault of the course and is said to be one.
    """
    if os.environ.get("PHASE4_DEBUG"):
        import traceback

        traceback.print_exception(error)
    kind = type(error)
    if kind.__module__.startswith("grader."):
        complain(str(error))
        return int(getattr(error, "exit_code", exit_codes.ENVIRONMENT))
    from grader.cluster.refusals import refusal

    if why := refusal(error):
        complain(why)
        return exit_codes.ENVIRONMENT
    if isinstance(error, OSError) and error.filename:
        complain(_of_the_system(error))
        return exit_codes.ENVIRONMENT
    complain(
        f"phase4 itself failed ({kind.__name__}: {error}). This is a fault of the course, not of "
        f"your work.\nWhat happened is in {_keep(error)}; please send it along with a report."
    )
    return exit_codes.UNKNOWN


def _of_the_system(error: OSError) -> str:
    """A message about a file that cannot be read or written: what, where, and what to do."""
    where = error.filename2 or error.filename
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return (
            f"{where} cannot be read or written ({error.strerror}). If it is in your workspace, "
            "make it yours (`chmod -R u+rwX`, or `chown` where it is another user's), or work in "
            "another folder: `phase4 init DIR`."
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk that holds {where} is full. Free some space and run the command again."
    return f"{where}: {error.strerror}."


def complain(sentence: str) -> None:
    """Print an error: a sentence for a person, on stderr."""
    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    print(
        f"\033[31mphase4:\033[0m {sentence}" if colour else f"phase4: {sentence}", file=sys.stderr
    )


def _keep(error: Exception) -> str:
    """Write the traceback where a report can be made from it; says where."""
    import tempfile
    import traceback

    handle, path = tempfile.mkstemp(prefix="phase4-fault-", suffix=".txt", text=True)
    with os.fdopen(handle, "w") as file:
        file.write(f"phase4 {' '.join(sys.argv[1:])}\nPython {sys.version}\n\n")
        traceback.print_exception(error, file=file)
    return path
