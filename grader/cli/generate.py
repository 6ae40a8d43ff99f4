"""``phase4 dev generate``: the code and the CRD that are made from the WebApp type."""

from __future__ import annotations

import filecmp
import shutil
import subprocess
import tempfile
from pathlib import Path, PurePath
from typing import Annotated

import typer

from grader import cut, exit_codes
from grader.course import ROOT

GO = cut.tree.SOLUTIONS / cut.ARTIFACTS / "go"
COMMON = cut.tree.SOLUTIONS / cut.ARTIFACTS / "common"
CRD = Path("operator_handwired", "config", "crd", "phase4.example.com_webapps.yaml")
#: The same CRD, as every cluster of the course has it.
OF_CLUSTERS = ROOT / "grader" / "cluster" / "manifests" / "crd-webapps.yaml"
_HEAD = "# What the operators of this course look after. Made by `phase4 dev generate`.\n"


def register_dev(dev: typer.Typer) -> None:
    """Add this file's command to ``dev``."""
    dev.command()(generate)


def generate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 where something would change.")
    ] = False,
) -> None:
    """Make CRD, deep copies, client, lister and informer from the WebApp type."""
    if shutil.which("go") is None:
        print("there is no `go` on this machine; `phase4 doctor` says how to get it")
        raise typer.Exit(exit_codes.ENVIRONMENT)
    from grader.cluster import go_settings

    with tempfile.TemporaryDirectory(prefix="phase4-generate-") as folder:
        made = Path(folder)
        # The generators rewrite what is there: what a type no longer has must go.
        for name, (data, _) in cut.artifacts("go", "solution").items():
            if not _generated(name) and name != CRD:
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).write_bytes(data)
        (made / CRD).parent.mkdir(parents=True)
        done = subprocess.run(
            ["go", "generate", "./..."],
            cwd=made,
            env=go_settings.environment(),
            capture_output=True,
            text=True,
        )
        if done.returncode:
            print(done.stderr.strip())
            raise typer.Exit(exit_codes.FAIL)
        changed = _take_over(made, write=not check)
    for name in changed:
        print(name)
    if not changed:
        print("what is generated is what the type says")
    elif check:
        print("`phase4 dev generate` makes these again")
        raise typer.Exit(exit_codes.FAIL)


def _generated(name: PurePath) -> bool:
    return "generated" in name.parts or name.name.startswith("zz_")


def _all_generated(root: Path) -> set[Path]:
    names = {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
    return {name for name in names if _generated(name)}


def _take_over(made: Path, *, write: bool) -> list[str]:
    """Compare what was made with what is there; with ``write``, put it there. Returns the names."""
    new = _all_generated(made) | {CRD}
    changed = []
    for name in sorted(new | _all_generated(GO)):
        source, target = made / name, (COMMON if name == CRD else GO) / name
        if name in new and target.is_file() and filecmp.cmp(source, target, shallow=False):
            continue
        changed.append(str(target.relative_to(ROOT)))
        if not write:
            continue
        if name in new:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        else:
            target.unlink()
    wanted = of_clusters((made / CRD).read_text(encoding="utf-8"))
    if OF_CLUSTERS.read_text(encoding="utf-8") != wanted:
        changed.append(str(OF_CLUSTERS.relative_to(ROOT)))
        if write:
            OF_CLUSTERS.write_text(wanted, encoding="utf-8")
    return changed


def of_clusters(generated: str) -> str:
    """The manifest of the clusters out of the generated one."""
    return _HEAD + generated.removeprefix("---\n")
