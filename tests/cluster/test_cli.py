"""The commands as a person or a script uses them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader import exit_codes
from grader.cluster.embedded import layout

ROOT = Path(__file__).resolve().parents[2]


def phase4(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "grader", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.live
def test_a_day_with_the_cluster(own_home):
    name = os.environ["PHASE4_CLUSTER"]
    up = phase4("up", "--json")
    assert up.returncode == 0, up.stderr
    facts = json.loads(up.stdout)
    assert [part["name"] for part in facts["components"]] == sorted(facts["versions"])
    again = json.loads(phase4("up", "--json").stdout)
    assert again["components"][0]["pid"] == facts["components"][0]["pid"]

    assert phase4("kubeconfig").stdout.strip() == facts["kubeconfig"]
    nodes = phase4("kubectl", "get", "nodes", "-o", "name")
    assert (nodes.returncode, nodes.stdout) == (0, "node/node-1\n")
    wrong = phase4("kubectl", "get", "unicorns")
    assert wrong.returncode == 1 and "unicorns" in wrong.stderr
    assert "kubectl controls the Kubernetes" in phase4("kubectl", "--help").stdout

    sleeper = subprocess.run(
        [
            sys.executable,
            "-c",
            "from grader.cluster.process import records\n"
            "print(records.start(['sleep', '3600'], name='left', kind='learner').pid)",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.strip()
    status = json.loads(phase4("status", "--json").stdout)
    assert [one["name"] for one in status["clusters"]] == [name]
    assert [str(one["pid"]) for one in status["processes"]] == [sleeper]
    assert "kube-controller-manager" in phase4("status").stdout
    assert "==> " in phase4("logs").stdout

    fresh = json.loads(phase4("up", "--fresh", "--json").stdout)
    assert fresh["components"][0]["pid"] != facts["components"][0]["pid"]

    ended = json.loads(phase4("down", "--json").stdout)
    assert ended["clusters"] == [name]
    assert [str(one["pid"]) for one in ended["processes"]] == [sleeper]
    assert phase4("down").stdout == "Nothing was running.\n"
    assert "Nothing is running" in phase4("status").stdout
    # The logs stay, and only now is it known what is in them: nobody writes there any more.
    with layout(name).log("etcd").open("a") as log:
        log.write("one\ntwo\nthree\nfour\n")
    assert phase4("logs", "etcd", "-n", "3").stdout == "two\nthree\nfour\n"


def test_logs_of_a_cluster_that_never_ran(home):
    done = phase4("logs")
    assert done.returncode == exit_codes.ENVIRONMENT and "There are no logs in" in done.stderr
    assert phase4("logs", "kubelet").returncode == exit_codes.USAGE


def test_a_problem_with_the_machine_is_one_sentence(home):
    done = phase4("up", PHASE4_HOME="/sys/kernel")
    assert done.returncode == exit_codes.ENVIRONMENT
    assert done.stderr.startswith("phase4: ") and "Traceback" not in done.stderr
    assert "Set PHASE4_HOME" in done.stderr
