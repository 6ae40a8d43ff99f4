"""Graders against a real control plane: programs on wires, and a cluster that dies."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from grader import cluster as clusters
from grader.cluster.process import marked
from grader.labs.grading import grade
from grader.labs.grading_request import MARKER, Request
from grader.runner import sandbox
from grader.verdict import Verdict

from .conftest import HEAD

pytestmark = pytest.mark.live

#: The Python standard library alone: importing a client takes seconds.
PROGRAM = """\
import json, os, sys, time, urllib.request, yaml
config = yaml.safe_load(open(os.environ["KUBECONFIG"]))
server = config["clusters"][0]["cluster"]["server"]
path = f"{server}/api/v1/namespaces/{os.environ['NAMESPACE']}/configmaps"
def post(name):
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
    request = urllib.request.Request(path, body.encode(), {"Content-Type": "application/json"})
    try:
        urllib.request.urlopen(request).read()
        sys.stdout.write(f"made {name}\\n")
    except urllib.error.HTTPError as error:
        sys.stdout.write(f"{error.code} {name}\\n")
    sys.stdout.flush()
for name in ("a", "b", "c"):
    post(name)
while True:
    time.sleep(1)
"""

GRADER = """
@pytest.fixture(scope="module")
def killed(submission, run, namespace):
    running = run(
        submission.program, env={"NAMESPACE": namespace}, rules=["kill-before create configmaps nth=3"]
    )
    running.wait_exit(60, "comes to its third ConfigMap")
    return running

@check("9.9.9/killed", title="It is killed before its third write", points=1, evidence="live")
def check_killed(killed, api, namespace, observe):
    names = {item["metadata"]["name"] for item in api.list("configmaps", namespace=namespace)["items"]}
    if not {"a", "b"} <= names or "c" in names:
        raise Fail("a and b, not c.", str(names))
    if killed.stdout_lines != ["made a", "made b"] or killed.exited.by != "grader":
        raise Fail("Two lines.", f"{killed.stdout_lines} {killed.exited}")
    observe("ended", str(killed.exited))

@check("9.9.9/again", title="It goes on where it was", points=1, evidence="live")
def check_again(killed, run, namespace):
    killed.restart()
    killed.wait_line(lambda line: line == "made c", 60, "makes the third")
    killed.require_running()
    writes = killed.timeline.writes(by="operator", resource="configmaps")
    if [write.status for write in writes] != [201, 201, None, 409, 409, 201]:
        raise Fail("These answers.", str([write.status for write in writes]))
    created = run.timeline.writes(by="operator", resource="configmaps", status=201)
    if len(created) != 3:
        raise Fail("Three.", str(len(created)))

@check("9.9.9/two", title="Two at once have a wire each", points=1, evidence="live")
def check_two(submission, run, new_namespace):
    first, second = (
        run(submission.program, name, env={"NAMESPACE": new_namespace()}) for name in ("one", "two")
    )
    third = run(submission.program, "one", env={"NAMESPACE": new_namespace()})
    for running in (first, second, third):
        running.wait_line(lambda line: line == "made c", 60, "makes three")
        if len(running.timeline.writes(status=201)) != 3:
            raise Fail("Three.", running.client)
    if first.wire.url == second.wire.url or first.run_dir == third.run_dir:
        raise Fail("Two wires.", first.wire.url)
"""

DEADLY = """
@check("9.9.9/before", title="Before", points=1, evidence="live")
def check_before(api):
    api.list("namespaces")

@check("9.9.9/meanwhile", title="It dies", points=1, evidence="live")
def check_meanwhile(cluster):
    cluster.processes()["{component}"].end()
    {then}

@check("9.9.9/after", title="After", points=1, evidence="live")
def check_after(api):
    api.list("namespaces")

@check("9.9.9/paper", title="It needs no cluster", points=1, evidence="claim")
def check_paper(submission):
    raise Fail("E.", "S.")
"""


@pytest.fixture
def submission_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace" / "9.9.9"
    folder.mkdir(parents=True)
    (folder / "program.toml").write_text('run = ["python3", "p.py"]\n')
    (folder / "p.py").write_text(PROGRAM)
    return folder


@pytest.fixture
def graded(tmp_path: Path, submission_dir: Path):
    def run(source: str, **options):
        path = tmp_path / "lab_9_9_9.py"
        path.write_text(HEAD + textwrap.dedent(source))
        return grade(
            Request(submission_dir, "9.9.9", path, tmp_path / "run", needs_cluster=True, **options)
        )

    return run


def verdicts(report):
    return {result.id.split("/")[1]: result.verdict for result in report.checks}


@pytest.mark.parametrize("isolation", ["none", "bwrap"])
def test_a_program_is_run_killed_and_run_again(graded, isolation):
    if isolation == "bwrap" and (why := sandbox.available()):
        pytest.skip(why)
    report = graded(GRADER, isolation=isolation)
    assert verdicts(report) == dict.fromkeys(("killed", "again", "two"), Verdict.PASS), report
    assert report.rules == ["kill-before create configmaps nth=3"]
    assert report.isolation == isolation and report.backend == "embedded"
    assert report.versions["kube-apiserver"]
    assert "SIGKILL" in report.observations[0].value


def test_a_grader_that_dies_leaves_no_program(graded, tmp_path):
    source = GRADER.split("@check")[0] + (
        "import psutil\n"
        '@check("9.9.9/c", title="It dies", points=1, evidence="live")\n'
        "def check_c(submission, run, namespace):\n"
        '    running = run(submission.program, env={"NAMESPACE": namespace})\n'
        '    running.wait_line(lambda line: line == "made c", 60, "makes three")\n'
        f"    open({str(tmp_path / 'env')!r}, 'w').write(psutil.Process(running.pid).environ()[{MARKER!r}])\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    report = graded(source)
    assert verdicts(report) == {"c": Verdict.UNKNOWN}
    assert marked(MARKER, (tmp_path / "env").read_text()) == []


@pytest.fixture
def mortal():
    yield "mortal"
    clusters.stop("mortal")


def test_a_cluster_that_dies_is_nobodys_fault(graded, mortal):
    deaths = {"kube-apiserver": "raise Fail('E.', 'It did nothing.')", "etcd": "pass"}
    for component, then in deaths.items():
        source = DEADLY.format(component=component, then=then)
        report = graded(source, cluster=mortal)
        # The next run finds it mended: its first check passes again.
        assert verdicts(report) == {
            "before": Verdict.PASS,
            "meanwhile": Verdict.UNKNOWN,
            "after": Verdict.UNKNOWN,
            "paper": Verdict.FAIL,
        }
        message = report.result("9.9.9/meanwhile").message
        assert component in message.seen and "says nothing about your work" in message.seen
        assert "again" in message.next and message.diagnosis == "cluster-died"
        assert "earlier check" in report.result("9.9.9/after").message.seen


def test_a_missing_folder_starts_no_cluster(graded, submission_dir):
    for path in submission_dir.iterdir():
        path.unlink()
    submission_dir.rmdir()
    source = (
        '@check("9.9.9/c", title="T", points=1, evidence="live")\n'
        "def check_c(submission, run):\n    pass\n"
    )
    report = graded(source, cluster="never-started")
    assert verdicts(report) == {"c": Verdict.NOT_GRADED}
    assert clusters.find("never-started") is None


def test_environment_of_a_program(graded, submission_dir):
    (submission_dir / "p.py").write_text(
        "import os, sys\nsys.stdout.write(open(os.environ['KUBECONFIG']).read().replace('\\n', ' '))\n"
    )
    source = (
        '@check("9.9.9/c", title="T", points=1, evidence="live")\n'
        "def check_c(submission, run, observe):\n"
        "    running = run(submission.program)\n"
        "    running.wait_exit(60)\n"
        "    observe('kubeconfig', str(running.stdout_lines))\n"
    )
    report = graded(source)
    seen = report.observations[0].value
    assert "127.0.0.1" in seen
    for secret in ("token", "client-key", "client-certificate", "password"):
        assert secret not in seen
