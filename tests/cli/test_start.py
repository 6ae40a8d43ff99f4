"""``start`` without its cluster: the folder, the site, a taken port, again and again."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.course import ROOT


@pytest.fixture
def env(tmp_path: Path, workspace_dir: Path) -> Iterator[dict[str, str]]:
    """A home of its own, in which nothing runs at the end."""
    env = {**os.environ, "PHASE4_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}
    yield env
    phase4(env, "site", "--stop")


def phase4(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "grader"), *arguments],
        env=env,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
    )


def address(said: str) -> tuple[str, int]:
    found = re.search(r"http://(127\.0\.0\.1):(\d+)", said)
    assert found, said
    return found[1], int(found[2])


def test_start_again_is_fine_and_a_taken_port_gives_way(
    env: dict[str, str], workspace_dir: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        first = phase4(env, "start", "--no-cluster", "--port", str(port))
        assert first.returncode == 0, first.stderr
        assert (workspace_dir / "phase4.toml").exists()
        assert "Next: phase4 show" in first.stdout
        host, other = address(first.stdout)
        assert other > port
    again = phase4(env, "start", "--no-cluster")
    assert address(again.stdout) == (host, other)
    connection = http.client.HTTPConnection(host, other, timeout=60)
    for path, status in (("/", 200), ("/.built-from", 404), ("/%2e%2e/README.md", 404)):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        assert (path, answer.status) == (path, status)
    for host_header in ("evil.example", f"evil.example:{other}", ""):
        connection.request("GET", "/", headers={"Host": host_header})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 421, host_header
    connection.close()


def test_a_killed_server_is_started_anew(env: dict[str, str]) -> None:
    assert phase4(env, "site").returncode == 0
    said = phase4(env, "status", "--json").stdout
    (pid,) = re.findall(r'"kind": "site", "pid": (\d+)', said)
    os.kill(int(pid), signal.SIGKILL)
    address(phase4(env, "site").stdout)
    assert "has ended" in phase4(env, "site", "--stop").stdout
    assert "not being served" in phase4(env, "site", "--stop").stdout


def test_ctrl_c_while_it_sets_up_is_a_sentence_and_leaves_nothing(
    env: dict[str, str], workspace_dir: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "grader"), "start", "--no-cluster"],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 300
    while not (workspace_dir / "phase4.toml").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=300)
    assert process.returncode in (0, 130), said
    assert "Traceback" not in said
    assert phase4(env, "start", "--no-cluster").returncode == 0


def test_without_a_control_plane_the_rest_is_there(
    env: dict[str, str], workspace_dir: Path
) -> None:
    nothing = {"PHASE4_BACKEND": "kubeconfig", "PHASE4_KUBECONFIG": str(workspace_dir / "none")}
    done = phase4({**env, **nothing}, "start")
    assert done.returncode == 5
    address(done.stdout)
    assert "There is no kubeconfig" in done.stderr and "Traceback" not in done.stderr
    assert "labs without a cluster: 4.1.1" in done.stdout
