"""The commands run, fault, record, timeline and replay, as a person uses them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from grader.cluster.process import records
from grader.wire.in_use import in_use
from grader.witness import Timeline, recording
from tests.wire.conftest import PATIENCE

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
FOO = {
    "apiVersion": "samplecontroller.k8s.io/v1alpha1",
    "kind": "Foo",
    "metadata": {"name": "stone"},
    "spec": {"deploymentName": "stone", "replicas": 1},
}
FOOS, DEPLOYMENTS = "foos.samplecontroller.k8s.io", "deployments.apps"


class Cli:
    """The command line in a workspace of the test's own."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.env = {**os.environ, "PHASE4_WORKSPACE": str(workspace), "NO_COLOR": "1"}
        self._started: list[subprocess.Popen] = []
        self("init", "--track", "python", str(workspace))

    def __call__(self, *words: str, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess:
        done = subprocess.run(
            [sys.executable, str(ROOT / "grader"), *words],
            env=self.env, input=stdin, text=True, capture_output=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == code, (done.stdout, done.stderr)
        return done

    def start(self, *words: str, **options) -> subprocess.Popen:
        started = subprocess.Popen(
            [sys.executable, str(ROOT / "grader"), *words],
            env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
        )  # fmt: skip
        self._started.append(started)
        return started

    @property
    def runs(self) -> Path:
        return self.workspace / ".phase4" / "runs"

    def wire(self, client: str, timeout: float = PATIENCE) -> dict:
        """What is said of a wire in use, once it is."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for about in in_use([self.runs]):
                if about["client"] == client:
                    return about
            time.sleep(0.02)
        pytest.fail(f"no wire {client} came into use")

    def timeline(self, client: str) -> Timeline:
        return Timeline(self.wire(client)["record"])

    def end(self) -> None:
        for started in self._started:
            started.kill()
            started.wait()
        # Only then: what a killed command leaves holds on to its pipes.
        records.reap("learner", orphans=True)
        for started in self._started:
            started.communicate()


@pytest.fixture
def cli(cluster, tmp_path):
    cli = Cli(tmp_path / "ws")
    yield cli
    cli.end()


@pytest.fixture
def foo_controller(cli) -> list[str]:
    """The command that starts the workspace's Foo controller; the course lends the machinery."""
    return ["python3", str(cli.workspace / "foo_controller" / "controller.py")]


def until(condition, timeout: float = PATIENCE, what: str = "it"):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    pytest.fail(f"{what} did not happen")


#: A program that prints its and its child's ids, and outlives SIGTERM.
STUBBORN = (
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(__import__('os').getpid(), child.pid, flush=True)\n"
    "time.sleep(600)\n"
)


def test_run_ends_with_the_programs_own_code(cli, kubectl):
    assert "default" in cli("run", "--", kubectl, "get", "namespaces").stdout
    cli("run", "--", "sh", "-c", "exit 7", code=7)
    cli("run", "--", "sh", "-c", "kill -TERM $$", code=143)
    refused = cli("run", "--fault", "answer 503 list namespaces",
                  "--", kubectl, "get", "namespaces", code=1)  # fmt: skip
    assert "a rule acted: answer 503 list namespaces" in refused.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["run", "--fault", "explode", "--", "ls"], 2, "Rules begin with one of"),
        (["run", "--as", "No Name", "--", "ls"], 2, "small letters"),
        (["run", "--", "no-such-program"], 5, "is not there"),
        (["fault", "add", "freeze", "watch", "pods"], 2, "No wire is in use"),
        (["fault", "remove", "r1", "--as", "x"], 2, "No wire called x"),
        (["timeline"], 2, "There are no runs yet"),
        (["replay", "yesterday"], 2, "There are no runs yet"),
        (["record", "9.9.9"], 2, "no lab"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(cli, words, code, says):
    done = cli(*words, code=code)
    assert says in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_program_and_all_that_it_started(cli, number):
    command = cli.start("run", "--", "python3", "-c", STUBBORN.replace("SIG_IGN", "SIG_DFL"))
    pids = [int(word) for word in command.stdout.readline().split()]
    command.send_signal(number)
    command.communicate(timeout=PATIENCE)
    assert command.returncode == 128 + number
    assert not any(psutil.pid_exists(pid) and _runs(pid) for pid in pids)
    (run,) = cli.runs.iterdir()
    assert Timeline(run).marks("process_exited"), "the record ends before the program did"


def test_a_second_signal_does_not_wait_for_the_stubborn(cli):
    command = cli.start("run", "--", "python3", "-c", STUBBORN)
    pids = [int(word) for word in command.stdout.readline().split()]
    began = time.time()
    command.send_signal(signal.SIGINT)
    until(lambda: "stopping it" in command.stderr.readline(), what="the first signal's notice")
    command.send_signal(signal.SIGINT)
    command.communicate(timeout=PATIENCE)
    (run,) = cli.runs.iterdir()
    exited = Timeline(run).marks("process_exited").first
    assert exited.t - began < 5, "the five seconds of the first signal were waited for"
    assert not any(_runs(pid) for pid in pids)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
def test_killed_at_any_moment_nothing_is_left_that_the_next_run_does_not_end(cli):
    rng = random.Random(7)
    for _ in range(8):
        command = cli.start("run", "--", "python3", "-c", STUBBORN, start_new_session=True)
        command_pid = command.pid
        time.sleep(rng.uniform(0.0, 1.5))  # any moment of its life, not a wait for anything
        command.kill()
        command.wait()
        assert not _runs(command_pid)
    cli("run", "--", "true")
    left = [r for r in records.live(kind="learner") if not r.starter_alive()]
    assert left == []
    for run in cli.runs.iterdir():
        if (run / "run.json").exists():
            json.loads((run / "run.json").read_text())
        assert Timeline(run).damaged == 0
    cli("timeline")


def test_a_drill_by_hand(cli, api, namespace, foo_controller):
    """Run the controller, freeze its watch, edit, remove the rule, and see it catch up."""
    cli.start("run", "--as", "foo", "--", *foo_controller)
    timeline = cli.timeline("foo")
    timeline.until(lambda t: t.reads(verb="watch", resource="foos"), PATIENCE, "its watch")
    api.create(FOO, namespace)
    api.until(
        DEPLOYMENTS, "stone", namespace, lambda d: d is not None, PATIENCE, what="the Deployment"
    )
    armed = cli("fault", "add", "freeze", "watch", "foos")
    assert armed.stdout.startswith("r1 is armed: freeze watch foos")
    api.patch(FOOS, "stone", {"spec": {"replicas": 3}}, namespace=namespace)
    until(lambda: "holds back" in cli("fault", "list").stdout, what="an event to be held back")
    assert api.get(DEPLOYMENTS, "stone", namespace)["spec"]["replicas"] == 1
    listed = json.loads(cli("fault", "list", "--json").stdout)
    assert listed[0]["rules"][0]["rule"] == "freeze watch foos"
    removed = cli("fault", "remove", "freeze", "watch", "foos")
    assert removed.stdout == "Removed: r1\n"
    api.until(DEPLOYMENTS, "stone", namespace, lambda d: d["spec"]["replicas"] == 3, PATIENCE,
              what="the controller to catch up")  # fmt: skip
    shown = cli("timeline", "--by", "foo", "--writes").stdout
    assert "rule r1 armed: freeze watch foos" in shown and "s late" in shown
    entries = [json.loads(line) for line in cli("timeline", "--json").stdout.splitlines()]
    assert {"write", "read", "watch", "event", "mark"} <= {entry["kind"] for entry in entries}
    assert "This wire has no rules." in cli("fault", "remove", "all").stdout


def test_restart_after_a_kill_by_a_rule(cli, api, namespace, foo_controller):
    command = cli.start(
        "run", "--as", "foo", "--restart", "--fault", f"kill-after create deployments ns={namespace}",
        "--", *foo_controller,
    )  # fmt: skip
    timeline = cli.timeline("foo")
    timeline.until(lambda t: t.reads(verb="watch", resource="foos"), PATIENCE, "its watch")
    api.create(FOO, namespace)
    timeline.until(lambda t: len(t.marks("process_started")) == 2, PATIENCE, "the second start")
    api.until(FOOS, "stone", namespace,
              lambda f: f and f.get("status", {}).get("availableReplicas") == 1, PATIENCE,
              what="the status")  # fmt: skip
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=PATIENCE)
    assert "starting it again" in said


def test_replay_runs_the_same_again(cli, kubectl):
    words = ["--as", "k", "--seed", "3", "--fault", "answer 503 list namespaces"]
    cli("run", *words, "--", kubectl, "get", "namespaces", code=1)
    again = cli("replay", code=1)
    assert "a rule acted: answer 503" in again.stderr
    first, second = sorted(cli.runs.iterdir())
    known = [json.loads((run / "run.json").read_text()) for run in (first, second)]
    for key in ("argv", "client", "seed", "rules", "cwd"):
        assert known[0][key] == known[1][key]


def test_replay_arms_again_what_was_armed_by_hand(cli, api, namespace):
    script = (
        "import os, time, urllib3, yaml\n"
        "url = yaml.safe_load(open(os.environ['KUBECONFIG']))['clusters'][0]['cluster']['server']\n"
        "pool = urllib3.PoolManager(retries=False)\n"
        "deadline = time.monotonic() + 120\n"
        "while time.monotonic() < deadline:\n"
        "    if pool.request('GET', url + '/api/v1/namespaces/default').status == 503: break\n"
        "    time.sleep(0.02)\n"
        "else: raise SystemExit('never refused')\n"
    )
    command = cli.start("run", "--as", "p", "--", "python3", "-c", script)
    cli.timeline("p").until(lambda t: t.reads(resource="namespaces"), PATIENCE, "a request")
    cli("fault", "add", "answer", "503", "get", "namespaces", "--as", "p")
    command.communicate(timeout=PATIENCE)
    assert command.returncode == 0
    cli("replay")


RECORDED = """
kubectl -n {ns} create -f {foo}
kubectl -n {ns} wait --for=create deploy/stone --timeout=60s
kubectl -n {ns} wait --for=condition=Available deploy/stone --timeout=60s
kubectl -n {ns} delete deploy/stone
kubectl -n {ns} wait --for=create deploy/stone --timeout=60s
stop
kubectl -n {ns} delete deploy/stone
start
kubectl -n {ns} wait --for=create deploy/stone --timeout=60s
nonsense
kubectl "unclosed
done
"""


def test_record(cli, namespace, tmp_path):
    foo = tmp_path / "foo.json"
    foo.write_text(json.dumps(FOO))
    done = cli("record", "4.1.3", stdin=RECORDED.format(ns=namespace, foo=foo))
    assert "unknown command “nonsense”" in done.stderr
    assert "that line cannot be read" in done.stderr
    read = recording.load(cli.workspace / "4.1.3" / "recording.jsonl")
    assert read.lab == "4.1.3" and read.unconfirmed == []
    timeline = read.timeline
    uid = timeline.writes(by="learner", resource="foos").first.answer["metadata"]["uid"]
    # Both who broke it and who mended it can be told, and when it was down.
    creates = timeline.writes(by="controller", resource="deployments", verb="create", owner=uid)
    deletes = timeline.writes(by="learner", resource="deployments", verb="delete")
    # One more may be refused: the cache need not have the Deployment when its Foo is next looked at.
    assert [e.status for e in creates if e.status != 409] == [201] * 3 and len(deletes) == 2
    down = timeline.marks("process_exited").first
    up = timeline.marks("process_started").last
    assert timeline.between(down, up).writes(by="learner", verb="delete")
    assert creates.after(up)
    # It had made the Deployment available before that was deleted.
    assert any("deployment-controller" in client for client in timeline.clients)


def test_a_recording_that_is_interrupted_is_written_all_the_same(cli, namespace):
    command = cli.start("record", "4.1.3", stdin=subprocess.PIPE)
    cli.timeline("controller").until(
        lambda t: t.reads(verb="watch", resource="foos"), PATIENCE, "the controller's watch"
    )
    command.send_signal(signal.SIGINT)
    until(lambda: "writing" in command.stderr.readline(), what="the notice of the writing")
    command.send_signal(signal.SIGINT)  # whoever presses it twice means it no more than once
    command.communicate(timeout=PATIENCE)
    assert command.returncode == 0
    assert recording.load(cli.workspace / "4.1.3" / "recording.jsonl").timeline.reads()
