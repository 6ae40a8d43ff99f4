"""Record lab 4.2.2's three timelines by running the three controllers.

    python -m tests.machinery.record_timelines

It needs a cluster. Each is the reference answer, or one of its mistakes, behind
a wire that answers some writes with 500, as the grader has it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from grader import cluster as clusters
from grader.cluster.api import Api
from grader.cut.tree import SOLUTIONS, handed_in
from grader.mistakes import load
from grader.runner import Runner
from grader.runner.program import Program
from grader.witness import describe

LAB = "4.2.2"
FOLDER = SOLUTIONS / LAB / "common" / "timelines"
CONTROLLERS = {"a": "add-instead-of-rate-limited", "b": "never-forgotten", "c": ""}


def record(name: str, mistake: str) -> str:
    cluster = clusters.ensure()
    api = Api(cluster)
    namespace = f"timeline-{name}"
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    with tempfile.TemporaryDirectory() as temporary, Runner(cluster, Path(temporary)) as run:
        folder = handed_in(LAB, "python", Path(temporary) / "workspace")
        if mistake:
            next(m for m in load(LAB) if m.name == mistake).apply(folder)
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
        api.create({**obj, "data": {"wanted": "1"}}, namespace=namespace)
        running = run(
            Program(("python3", "echo.py"), folder, folder),
            "echo",
            env={"NAMESPACE": namespace, "BASE": "0.05", "MAX": "3.2"},
            rules=["answer 500 patch configmaps times=6"],
        )

        def attempts() -> list:
            return list(running.timeline.writes(by="echo", resource="configmaps"))

        for version, fails in (("1", 6), ("2", 3), ("3", 2)):
            if version != "1":
                running.wire.rules.add(f"answer 500 patch configmaps times={fails}")
                api.patch(
                    "configmaps", "settings", {"data": {"wanted": version}}, namespace=namespace
                )
            count = sum(n + 1 for v, n in (("1", 6), ("2", 3), ("3", 2)) if v <= version)
            running.until(lambda count=count: len(attempts()) >= count, 60, "tries again")
        found = attempts()
        lines = [describe(each, found[0].t_request) for each in found]
    api.delete("namespaces", namespace)
    return "\n".join(line.replace(namespace, "default") for line in lines) + "\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, mistake in CONTROLLERS.items():
        (FOLDER / f"{name}.txt").write_text(record(name, mistake), encoding="utf-8")


if __name__ == "__main__":
    main()
