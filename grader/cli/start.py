"""``start``: from a fresh clone to a running course; ``site``: the pages alone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from grader import exit_codes
from grader.cli.paths import short

if TYPE_CHECKING:
    from grader.course import Lab
    from grader.workspace import Workspace


def register(app: typer.Typer) -> None:
    """Add this file's commands."""
    app.command(rich_help_panel="Start here")(start)
    app.command(rich_help_panel="Start here")(site)


Port = Annotated[int | None, typer.Option(help="First port to try; the next free one is used.")]


def start(
    track: Annotated[
        str | None, typer.Option(help="python or go: the language of a new workspace.")
    ] = None,
    port: Port = None,
    cluster: Annotated[
        bool, typer.Option("--cluster/--no-cluster", help="Leave the control plane for later.")
    ] = True,
) -> None:
    """Set everything up: your folder, the site, a control plane. Run it as often as you like."""
    began = time.monotonic()
    here, fresh = _workspace(track)
    _serve(port)
    from grader.report.progress import progress

    standing = progress(here.reports)
    if cluster and not _control_plane():
        _without_cluster([entry.lab for entry in standing.labs])
        raise typer.Exit(exit_codes.ENVIRONMENT)
    upcoming = standing.next()
    print()
    print(f"Everything is ready after {time.monotonic() - began:.0f} s.")
    if fresh and track is None:
        print("Your folder has the Python stubs; `phase4 track LAB go` changes a lab to Go.")
    if upcoming:
        print(f"Next: phase4 show {upcoming.id}    {upcoming.title}")
    else:
        print("Next: phase4 gate    every lab that this version can grade is passed")
    print("Later: phase4 progress, phase4 down to stop everything, phase4 --help for the rest")


def _workspace(track: str | None) -> tuple[Workspace, bool]:
    from grader import workspace

    fresh = not workspace.exists()
    if fresh or track:
        here, laid = workspace.init_folder(None, track)
    else:
        here, laid = workspace.init_folder(workspace.find().root, None)
    new = f", {len(laid)} labs laid" if laid else ""
    _done("workspace", f"{short(here.root)} ({here.track} track{new})")
    return here, fresh


def _serve(port: int | None) -> None:
    """Build and serve the site; a failure is reported and does not stop the rest."""
    from grader.cli.progress_line import line
    from grader.site import build, server

    try:
        with line() as tell:
            if not build.current():
                tell("building the site")
                build.build()
            address = server.start(port)
    except (build.BuildError, server.ServeError) as error:
        _done("site", f"not served: {error}")
        return
    _done("site", address)


def _control_plane() -> bool:
    """Start the cluster, showing the progress of downloads and builds.

    False where no cluster can run on this machine; the reason was printed.
    """
    from grader import cluster
    from grader.cli.app import complain
    from grader.cli.progress_line import line
    from grader.cluster.errors import EnvironmentProblem

    began = time.monotonic()
    try:
        with line() as tell:

            def tell_with_time(step: str) -> None:
                seconds = time.monotonic() - began
                tell(f"control plane: {step}" + (f"  ({seconds:.0f} s)" if seconds > 3 else ""))

            tell_with_time("looking for a running one")
            up = cluster.ensure(progress=tell_with_time)
    except KeyboardInterrupt:
        print("\nphase4: stopped. Run `phase4 start` again: it continues from here.")
        raise typer.Exit(exit_codes.INTERRUPTED) from None
    except EnvironmentProblem as problem:
        print("control plane  none yet", flush=True)
        complain(str(problem))
        return False
    version = up.versions.get("kube-apiserver", "")
    _done("control plane", f"{up.backend} {version}".strip() + f", kubeconfig {up.kubeconfig}")
    return True


def _without_cluster(labs: list[Lab]) -> None:
    """What can be done all the same."""
    free = [lab.id for lab in labs if lab.built and "cluster" not in lab.needs]
    print()
    print(
        "Your folder and the site are there. `phase4 doctor` says what is missing on this machine."
    )
    if free:
        print(f"Until then: phase4 show {free[0]}    (labs without a cluster: {', '.join(free)})")


def site(
    port: Port = None,
    stop: Annotated[bool, typer.Option("--stop", help="End the server.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build even if current.")] = False,
) -> None:
    """Build the site where it is not current, and serve it to this machine."""
    from grader.cli.progress_line import line
    from grader.site import build, server

    if stop:
        print("The site's server has ended." if server.stop() else "The site was not being served.")
        return
    with line() as tell:
        if rebuild:
            (build.SITE / build.MARK).unlink(missing_ok=True)
        if not build.current():
            tell("building the site")
            build.build()
        address = server.start(port)
    print(address)


def _done(what: str, detail: str) -> None:
    print(f"{what:<14} {detail}", flush=True)
