"""The cluster's commands: up, down, status, kubectl, kubeconfig, logs, assets."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from grader import exit_codes

if TYPE_CHECKING:
    from grader.cluster.interface import Cluster

_NAME = typer.Option(
    "--cluster", metavar="NAME", help="Which cluster; else PHASE4_CLUSTER, else “default”."
)
#: What kubectl asks of the container itself, which the API server passes on to a kubelet.
_OF_A_CONTAINER = {"logs", "exec", "attach", "port-forward", "cp"}
_JSON = typer.Option("--json", help="Print JSON.")


def up(
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Delete the running cluster first, and start an empty one."),
    ] = False,
    name: Annotated[str, _NAME] = "",
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Start the cluster and leave it running, or find the running one."""
    started = time.monotonic()
    cluster = _ensure(name, fresh=fresh)
    took = time.monotonic() - started
    if as_json:
        print(json.dumps({**_facts(cluster), "seconds": round(took, 3)}))
        return
    print(f"The cluster {cluster.name} runs ({cluster.backend}, {took:.1f} s). Try:")
    print("  phase4 kubectl get nodes")
    print(f"  export KUBECONFIG={cluster.kubeconfig}")


def down(
    name: Annotated[
        str, typer.Option("--cluster", metavar="NAME", help="End only this cluster.")
    ] = "",
    as_json: Annotated[bool, _JSON] = False,
) -> None:
    """Stop every process of the course: programs that run, the site's server, the clusters.

    The objects in a cluster are lost; its logs stay.
    """
    from grader import cluster
    from grader.cluster.errors import EnvironmentProblem
    from grader.cluster.process import records

    problem: EnvironmentProblem | None = None
    if name:
        ended = {"clusters": [name] if cluster.stop(name) else [], "processes": []}
    else:
        # The programs first: one that loses its API server would only complain.
        kinds = {one.kind for one in records.all()} - {"component"}
        others = [one for kind in sorted(kinds) for one in records.reap(kind, grace=0.2)]
        stopped = []
        for backend in ("embedded", "kind"):
            for known in cluster.names(backend=backend):
                try:
                    if cluster.stop(known, backend=backend):
                        stopped.append(known)
                except EnvironmentProblem as error:
                    problem = error  # the others end all the same
        ended = {
            "clusters": stopped,
            "processes": [{"name": one.name, "kind": one.kind, "pid": one.pid} for one in others],
        }
        # A cluster that a killed command left without a record of its own.
        records.reap("component")
    if as_json:
        print(json.dumps(ended))
    else:
        for one in ended["processes"]:
            print(f"Ended {one['name']} ({one['kind']}, process {one['pid']}).")
        for known in ended["clusters"]:
            print(f"Ended the cluster {known}.")
        if not any(ended.values()) and problem is None:
            print("Nothing was running.")
    if problem is not None:
        raise problem


def status(as_json: Annotated[bool, _JSON] = False) -> None:
    """Show what is running: clusters, their components, programs started through the course."""
    from grader import cluster
    from grader.cluster.process import records

    clusters = [_facts(found) for name in cluster.names() if (found := cluster.find(name))]
    others = [
        {
            "name": one.name,
            "kind": one.kind,
            "pid": one.pid,
            "since": one.started_at,
            "command": one.argv,
        }
        for one in records.live()
        if one.kind != "component"
    ]
    if as_json:
        print(json.dumps({"clusters": clusters, "processes": others}))
        return
    if not clusters and not others:
        print("Nothing is running. `phase4 up` starts the cluster.")
        return
    for one in clusters:
        print(f"cluster {one['name']} ({one['backend']}), kubeconfig {one['kubeconfig']}")
        for part in one["components"]:
            flags = f"  started with {' '.join(part['flags'])}" if part["flags"] else ""
            print(
                f"  {part['name']:<24} {part['version']:<9} process {part['pid']:<8}"
                f" {part['memory'] / 2**20:4.0f} MiB{flags}"
            )
    for one in others:
        print(f"{one['kind']} {one['name']}, process {one['pid']}: {' '.join(one['command'])}")


def kubectl(context: typer.Context, name: Annotated[str, _NAME] = "") -> None:
    """Run kubectl against the cluster; everything after `kubectl` is its own.

    The cluster is started where none runs.
    """
    from grader.cluster import binaries

    cluster = _ensure(name)
    program = binaries.ensure(["kubectl"])["kubectl"]
    if cluster.backend == "embedded" and (asked := _OF_A_CONTAINER.intersection(context.args)):
        print(
            f"phase4: no Pod of this cluster runs a container, so `kubectl {min(asked)}` has no "
            "container to ask: kwok stands in for the kubelet. `phase4 run` shows a program's output.",
            file=sys.stderr,
        )
    sys.stdout.flush()
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    os.execve(program, ["kubectl", *context.args], environment)


def kubeconfig(name: Annotated[str, _NAME] = "") -> None:
    """Print the path of the cluster's kubeconfig: export KUBECONFIG=$(phase4 kubeconfig)."""
    print(_ensure(name).kubeconfig)


def logs(
    component: Annotated[
        str, typer.Argument(help="etcd, kube-apiserver, ...; else the last lines of each.")
    ] = "",
    name: Annotated[str, _NAME] = "",
    lines: Annotated[
        int | None, typer.Option("-n", "--lines", min=1, help="How many lines.")
    ] = None,
) -> None:
    """Print the logs of the cluster's components (also of one that has ended)."""
    from grader import cluster
    from grader.cluster import pins
    from grader.cluster.embedded import layout

    files = layout(name or cluster.default_name())
    if component and component not in pins.COMPONENTS:
        raise typer.BadParameter(f"There is {', '.join(pins.COMPONENTS)}; not {component}.")
    found = False
    for one in [component] if component else pins.COMPONENTS:
        path = files.log(one)
        if not path.exists():
            continue
        found = True
        if not component:
            print(f"==> {path}")
        for line in _last(path, lines or (1000 if component else 10)):
            print(line)
    if not found:
        print(f"There are no logs in {files.logs}: no embedded cluster ran.", file=sys.stderr)
        raise typer.Exit(exit_codes.ENVIRONMENT)


def assets() -> None:
    """Print a folder with etcd, kube-apiserver and kubectl: export KUBEBUILDER_ASSETS=$(phase4 assets)."""
    from grader.cli import progress_line
    from grader.cluster import binaries

    with progress_line.line() as tell:
        folder = binaries.assets(tell)
    print(folder)


def _ensure(name: str, *, fresh: bool = False) -> Cluster:
    from grader import cluster
    from grader.cli import progress_line

    with progress_line.line() as tell:
        return cluster.ensure(name or None, progress=tell, fresh=fresh)


def _facts(cluster: Cluster) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": cluster.name,
        "backend": cluster.backend,
        "kubeconfig": str(cluster.kubeconfig),
        "versions": cluster.versions,
        "components": [],
    }
    if cluster.backend == "embedded":
        facts["components"] = cluster.parts()  # type: ignore[attr-defined]
    return facts


def _last(path: Path, count: int) -> list[str]:
    """The last lines of a file, reading no more than a megabyte."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 2**20))
        return file.read().decode(errors="replace").splitlines()[-count:]


def register(app: typer.Typer) -> None:
    """Add this file's commands to the command line."""
    app.command(rich_help_panel="Cluster")(up)
    app.command(rich_help_panel="Cluster")(down)
    app.command(rich_help_panel="Cluster")(status)
    app.command(
        rich_help_panel="Cluster",
        context_settings={
            "allow_extra_args": True,
            "ignore_unknown_options": True,
            "allow_interspersed_args": False,
            "help_option_names": [],
        },
    )(kubectl)
    app.command(rich_help_panel="Cluster")(kubeconfig)
    app.command(rich_help_panel="Cluster")(logs)
    app.command(rich_help_panel="Cluster")(assets)
