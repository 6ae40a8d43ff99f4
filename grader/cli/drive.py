"""Programs driven by hand: run, fault, record, timeline, replay."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from grader.cluster.interface import Cluster

_CLUSTER = typer.Option(
    "--cluster", metavar="NAME", help="Which cluster; else PHASE4_CLUSTER, else “default”."
)
_RUN = typer.Argument(
    metavar="[RUN]", help="A run's folder, its name, or the beginning of its name."
)
_AS = typer.Option("--as", metavar="NAME", help="The wire, where several are in use.")

fault_app = typer.Typer(
    no_args_is_help=True,
    help="Add faults to a wire that is in use, and remove them.",
    rich_markup_mode="rich",
)


def run(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="What to run.")],
    name: Annotated[
        str, typer.Option("--as", metavar="NAME", help="Its name in the record.")
    ] = "operator",
    faults: Annotated[
        list[str] | None,
        typer.Option(
            "--fault",
            metavar="RULE",
            help="A rule, such as 'kill-before create pods'; may be repeated. "
            "`phase4 fault rules` explains them.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed for rules that act by chance.")] = 0,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start it again whenever a rule has killed it.")
    ] = False,
    parts: Annotated[
        str,
        typer.Option(help="Whose parts it runs on: auto (yours where passed), own, course."),
    ] = "auto",
    cluster: Annotated[str, _CLUSTER] = "",
) -> None:
    """Run a program of yours behind a wire of its own: recorded, and open to faults.

    It finds the cluster by KUBECONFIG (or {kubeconfig} among its words). Ends
    with the program's own exit code, 128 + n where a signal ended it.
    """
    _check_name(name)
    from grader.cli import by_hand
    from grader.wire.rules import parse_rules
    from grader.workspace.parts import LENDING

    if parts not in LENDING:
        raise typer.BadParameter(", ".join(LENDING), param_hint="--parts")
    rules = parse_rules(faults or [])
    raise typer.Exit(
        by_hand.run(
            _ensure(cluster),
            name,
            command,
            [str(r) for r in rules],
            seed=seed,
            restart=restart,
            lending=parts,
        )
    )


def record(
    lab: Annotated[str, typer.Argument(metavar="LAB", help="Which lab it is for: 4.1.3.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND...]", help="The controller; by default the course's own."
        ),
    ] = None,
    cluster: Annotated[str, _CLUSTER] = "",
) -> None:
    """Record a controller, and yourself breaking what it made; then hand the recording in.

    Commands are read from the terminal (or from standard input, for a script):
    kubectl ..., stop, kill, start, done. kubectl in another terminal is recorded
    too, where the cluster has an audit log.
    """
    from grader import course, workspace
    from grader.cli import by_hand

    chosen = course.load().lab(lab)
    here = workspace.find()
    folder = here.folder(chosen)
    # After LAB the parser hands the dashes on as they are.
    command = command[1:] if command and command[0] == "--" else command
    raise typer.Exit(by_hand.record(_ensure(cluster), chosen.id, command or [], folder))


def timeline(
    run: Annotated[str, _RUN] = "last",
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="NAME", help="Only what this client sent or received."),
    ] = None,
    writes: Annotated[
        bool, typer.Option("--writes", help="Only writes, events and marks.")
    ] = False,
    resource: Annotated[
        str, typer.Option("--resource", metavar="PLURAL", help="Only about this resource.")
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the records as JSON lines.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Draw it as one HTML page that needs no network."
        ),
    ] = None,
) -> None:
    """Show what was said on the wires of a run: line by line, or drawn with --html."""
    from grader.cli import runs
    from grader.witness import picture

    folder = runs.find(run)
    if to is not None:
        print(f"{to}: {draw(folder, to)} records. Open it in a browser.")
        return
    chosen = picture.entries(folder, by=by or None, resource=resource or None, reads=not writes)
    if as_json:
        for entry in chosen:
            print(json.dumps(entry.to_json()))
        return
    print(f"{folder.name}")
    for entry in chosen:
        print(entry.line)
    if not chosen:
        print("The run has no such records.")


#: Seconds of the control plane's answer to a run that are drawn after its last record.
_AFTERWARDS = 2.0


def draw(folder: Path, to: Path) -> int:
    """Draw a run's folder into a file; returns how many records it shows.

    Where the cluster is still there, what the API server's audit log has of the
    time of the run is drawn as well: kubectl, and the control plane's controllers.
    """
    from grader import cluster
    from grader.cluster.errors import EnvironmentProblem
    from grader.cluster.interface import Capability
    from grader.report import timeline_page
    from grader.witness import Timeline
    from grader.witness.trace import end
    from grader.workspace import files

    timeline = Timeline(folder)
    facts: list[str] = []
    try:
        found = cluster.find()
        if found is not None and Capability.AUDIT in found.capabilities and len(timeline):
            last = max(end(record) for record in timeline)
            timeline = Timeline(folder, cluster=found).before(last + _AFTERWARDS)
            facts += [f"{name} {version}" for name, version in sorted(found.versions.items())]
    except EnvironmentProblem:
        pass  # what the wires recorded is there without it
    files.write(to, timeline_page.page(timeline, title=folder.name, facts=facts))
    to.chmod(0o600)  # what was said on a wire is for its user, as the record is
    return len(timeline)


def replay(
    run: Annotated[str, _RUN] = "last",
    cluster: Annotated[str, _CLUSTER] = "",
) -> None:
    """Run the same again: the same program or check, rules and seed.

    Faults that were armed by hand come again as long after the start as then.
    """
    from grader.cli import by_hand, runs

    raise typer.Exit(by_hand.replay(runs.find(run), lambda: _ensure(cluster)))


# fault ------------------------------------------------------------------------------


@fault_app.command("add", context_settings={"ignore_unknown_options": True})
def fault_add(
    rule: Annotated[
        list[str], typer.Argument(metavar="RULE...", help="Such as: freeze watch pods")
    ],
    name: Annotated[str, _AS] = "",
) -> None:
    """Add a rule: phase4 fault add freeze watch pods. `phase4 fault remove` removes it."""
    added = _ask(name, {"op": "add", "rule": " ".join(rule)})["added"]
    print(f"{added['id']} is armed: {added['rule']}")


@fault_app.command("list")
def fault_list(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the wires in use, their rules, and what their watches hold back."""
    from grader.wire import control

    wires = _in_use()
    replies = [
        {**about, **control.ask(Path(about["control_socket"]), {"op": "list"})} for about in wires
    ]
    if as_json:
        print(json.dumps(replies))
        return
    if not replies:
        print("No wire is in use. `phase4 run -- COMMAND` makes one.")
    for reply in replies:
        print(f"{reply['client']}  {Path(reply['record']).parent.parent.name}")
        for armed in reply["rules"]:
            state = "spent" if armed["spent"] else "armed"
            print(f"  {armed['id']:<4} {state}, acted {armed['fired']}x: {armed['rule']}")
        for watch in reply["watches"]:
            if watch["queued"]:
                print(f"  a watch of {watch['resource']} holds back {watch['queued']} event(s)")


@fault_app.command("remove", context_settings={"ignore_unknown_options": True})
def fault_remove(
    rule: Annotated[
        list[str],
        typer.Argument(metavar="RULE...", help="The rule's id (r1), the rule itself, or: all"),
    ],
    name: Annotated[str, _AS] = "",
) -> None:
    """Remove a rule; what it held back goes on: phase4 fault remove all."""
    removed = _ask(name, {"op": "remove", "rule": " ".join(rule)})["removed"]
    print(f"Removed: {', '.join(removed)}" if removed else "This wire has no rules.")


@fault_app.command("rules")
def fault_rules() -> None:
    """Explain the rules: what they can do, and how they are written."""
    from grader.wire import faults

    print(faults.reference(plain=True))


def _in_use() -> list[dict[str, Any]]:
    from grader.cli import runs
    from grader.wire.in_use import in_use

    return in_use(runs.places())


def _ask(name: str, request: dict[str, Any]) -> dict[str, Any]:
    from grader.cli.runs import NoRun
    from grader.wire import control

    wires = [about for about in _in_use() if not name or about["client"] == name]
    if not wires:
        raise NoRun(
            f"No wire called {name} is in use; see `phase4 fault list`."
            if name
            else "No wire is in use: start a program with `phase4 run -- COMMAND` first."
        )
    if len(wires) > 1:
        known = ", ".join(sorted(about["client"] for about in wires))
        raise NoRun(f"Several wires are in use ({known}): say which with --as NAME.")
    return control.ask(Path(wires[0]["control_socket"]), request)


def _check_name(name: str) -> None:
    from grader.wire.records import is_client_name

    if not is_client_name(name):
        raise typer.BadParameter(
            f"“{name}” cannot name a process: use small letters, digits and hyphens.",
            param_hint="--as",
        )


def _ensure(name: str) -> Cluster:
    from grader import cluster
    from grader.cli import progress_line

    with progress_line.line() as tell:
        found = cluster.ensure(name or None, progress=tell)
    sys.stderr.flush()
    return found


def register(app: typer.Typer) -> None:
    """Add this file's commands to the command line."""
    options = {"allow_interspersed_args": False}
    app.command(context_settings=options)(run)
    app.add_typer(fault_app, name="fault")
    app.command(context_settings=options)(record)
    app.command()(timeline)
    app.command()(replay)
