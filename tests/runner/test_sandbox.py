"""What a program in the sandbox can see and reach: its folder, its interpreter, its wire."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

import psutil
import pytest

from grader.cluster.errors import EnvironmentProblem
from grader.cluster.process import birth, records
from grader.runner import sandbox
from grader.runner.build import build
from grader.runner.limits import inherited
from grader.runner.program import Program
from grader.runner.running import RunningProgram
from grader.verdict import Fail

#: How long a test waits for what will come (s): a limit, which measures nothing.
PATIENCE = 60

pytestmark = pytest.mark.skipif(bool(sandbox.available()), reason=sandbox.available() or "-")


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_) -> None:
        pass

    def do_GET(self) -> None:
        body = b"y" * int(self.path[1:] or 0) + b"end"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        body = str(len(data)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def wire(tmp_path_factory) -> Iterator[Path]:
    """A server on a unix socket in the wire's place."""
    path = tmp_path_factory.mktemp("s") / "wire.sock"
    server = _Server(str(path), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield path
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def inside(tmp_path: Path, wire: Path, monkeypatch) -> Iterator:
    """``inside(source)`` runs a Python program in the sandbox."""
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    made: list[RunningProgram] = []
    lab = tmp_path / "workspace" / "9.9.9"
    lab.mkdir(parents=True)

    def run(
        source: str, command: tuple[str, ...] = ("python3", "p.py"), **env: str
    ) -> RunningProgram:
        (lab / "p.py").write_text(textwrap.dedent(source))
        program = Program(command, lab, tmp_path / "out")
        folder = tmp_path / "run"
        folder.mkdir(exist_ok=True)
        running = RunningProgram(
            "p",
            program.shown,
            lambda: sandbox.run_argv(program, folder, wire),
            folder=lab,
            run_dir=folder,
            env={**sandbox.environment(inherited()), **env},
            wire=None,
            sandboxed=True,
        )
        made.append(running)
        return running.start()

    yield run
    for running in made:
        running.kill()


def family() -> list[psutil.Process]:
    """All that the record's process has started, the sandbox's own processes among them."""
    (recorded,) = records.live(kind="learner")
    return psutil.Process(recorded.pid).children(recursive=True)


def printed(running: RunningProgram) -> str:
    how = running.wait_exit(PATIENCE)
    assert how.code == 0, running.stderr_tail()
    return running.stdout_lines[-1]


def test_the_wire_is_the_only_way_out(inside, tmp_path):
    outside = socket.create_server(("127.0.0.1", 0))
    port = outside.getsockname()[1]
    running = inside(
        f"""
        import os, socket, urllib.request, yaml
        server = yaml.safe_load(open(os.environ["KUBECONFIG"]))["clusters"][0]["cluster"]["server"]
        said = [len(urllib.request.urlopen(server + "/5000000").read())]
        request = urllib.request.Request(server, data=b"z" * 3000000)
        said.append(int(urllib.request.urlopen(request).read()))
        for target in [("127.0.0.1", {port}), ("1.1.1.1", 53)]:
            try:
                socket.create_connection(target, 2)
                said.append("reached")
            except OSError:
                said.append("no")
        print(said)
        """
    )
    assert printed(running) == "[5000003, 3000000, 'no', 'no']"
    outside.close()


def test_many_connections_at_once(inside):
    running = inside(
        """
        import concurrent.futures, urllib.request
        def get(n):
            return len(urllib.request.urlopen(f"http://127.0.0.1:8001/{n * 10000}").read())
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            print(list(pool.map(get, range(60))) == [n * 10000 + 3 for n in range(60)])
        """
    )
    assert printed(running) == "True"


def test_a_connection_that_is_half_closed(inside):
    running = inside(
        """
        import socket
        end = socket.create_connection(("127.0.0.1", 8001))
        end.sendall(b"GET /10 HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
        end.shutdown(socket.SHUT_WR)
        data = b""
        while chunk := end.recv(4096):
            data += chunk
        print(data.endswith(b"yend"))
        """
    )
    assert printed(running) == "True"


def test_files_of_the_machine_are_not_there(inside, tmp_path):
    (tmp_path / "secret").write_text("other student")
    repository = Path(__file__).resolve().parents[2]
    places = [
        str(tmp_path / "secret"),
        str(tmp_path),
        str(repository / "solutions"),
        str(repository / "grader"),
        str(Path.home() / ".kube"),
        "/etc/passwd",
        "/etc/shadow",
        "/tmp/pytest-of-root",
    ]
    running = inside(f"import os; print([p for p in {places!r} if os.path.exists(p)])")
    assert printed(running) == "[]"


def test_nothing_can_be_changed(inside):
    running = inside(
        """
        import os
        said = []
        for place in [".", "/usr", "/run/phase4/kubeconfig", "/workspace", "/etc"]:
            try:
                open(place if place.endswith("config") else place + "/new", "w")
                said.append(place)
            except OSError:
                pass
        open("/tmp/mine", "w").write("fine")
        print(said)
        """
    )
    # The root of a sandbox is memory of its own: only what is mounted matters.
    assert printed(running) in ("[]", "['/etc']")


def test_processes_and_environment_of_others_are_not_seen(inside, monkeypatch):
    monkeypatch.setenv("PHASE4_SECRET", "for nobody")
    running = inside(
        """
        import glob
        environ = b"".join(open(p, "rb").read() for p in glob.glob("/proc/[0-9]*/environ"))
        print(b"PHASE4_SECRET" in environ, len(glob.glob("/proc/[0-9]*")))
        """
    )
    assert printed(running) == "False 2"


def test_exit_codes_and_signals_come_through(inside):
    running = inside("raise SystemExit(7)")
    assert running.wait_exit(PATIENCE).code == 7
    running = inside("import os; os.kill(os.getpid(), 11)")
    how = running.wait_exit(PATIENCE)
    assert (how.code, how.signal) == (None, 11)


def test_a_program_that_is_not_there(inside):
    running = inside("", ("no-such-command",))
    with pytest.raises(Fail) as caught:
        running.wait_line(lambda line: True, PATIENCE, "prints a line")
    assert "exit code 127" in caught.value.message.seen
    assert "no-such-command: No such file or directory" in caught.value.message.evidence[-1]


def test_sigterm_reaches_the_program(inside):
    running = inside(
        """
        import os, signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"stopping\\n"), sys.exit(0)))
        print("up", flush=True)
        time.sleep(600)
        """
    )
    running.wait_line(lambda line: line == "up", PATIENCE)
    assert running.terminate(PATIENCE).obeyed
    assert running.stdout_lines[-1] == "stopping"


def test_a_program_that_ignores_sigterm_is_gone_with_all_it_forked(inside):
    running = inside(
        """
        import os, signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                break
        print("up", flush=True)
        time.sleep(600)
        """
    )
    running.until(lambda: len(running.stdout_lines) == 4, PATIENCE, "prints four lines")
    processes = family()
    assert len(processes) == 5
    assert not running.terminate(0.2).obeyed
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE)
    assert alive == []


def test_killing_it_takes_all_of_it(inside):
    running = inside("import time; print('up', flush=True); time.sleep(600)")
    running.wait_line(lambda line: line == "up", PATIENCE)
    processes = family()
    running.kill_now()
    assert processes and not any(birth(process.pid) for process in processes)


def test_no_new_namespaces(inside):
    running = inside(
        """
        import ctypes
        print(ctypes.CDLL(None).unshare(0x10000000))
        """
    )
    assert printed(running) == "-1"


GO_BUILD = ["go", "build", "-o", "{out}/x", "."]


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_a_build_inside_reads_the_caches_and_writes_only_its_result(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    lab = tmp_path / "workspace" / "9.9.9"
    lab.mkdir(parents=True)
    (lab.parent / "go.mod").write_text("module m\n\ngo 1.21\n")
    (lab / "main.go").write_text("package main\n\nfunc main() { println(42) }\n")
    program = Program(("{out}/x",), lab, tmp_path / "out", tuple(GO_BUILD), root=lab.parent)
    build(program, tmp_path / "log", isolation="bwrap")
    assert subprocess.run([tmp_path / "out" / "x"], capture_output=True).stderr == b"42\n"
    assert sorted(os.listdir(lab)) == ["main.go"]

    (lab / "main.go").write_text("package main\n\nfunc main() { undefined() }\n")
    with pytest.raises(Fail) as caught:
        build(program, tmp_path / "log", isolation="bwrap")
    assert caught.value.message.diagnosis == "build-failed"
    assert "undefined: undefined" in " ".join(caught.value.message.evidence)


def test_a_build_cannot_reach_the_network(tmp_path, monkeypatch):
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    lab = tmp_path / "9.9.9"
    lab.mkdir()
    script = "import os, socket; print(os.environ['GOPROXY']); socket.create_connection(('1.1.1.1', 53), 2)"
    program = Program(("x",), lab, tmp_path / "out", ("python3", "-c", script))
    with pytest.raises(Fail) as caught:
        build(program, tmp_path / "log", isolation="bwrap")
    assert "off" in caught.value.message.evidence
    assert "unreachable" in " ".join(caught.value.message.evidence)


def test_without_bubblewrap_there_is_a_sentence(monkeypatch):
    sandbox.available.cache_clear()
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    with pytest.raises(EnvironmentProblem, match="bwrap is not installed"):
        sandbox.checked("bwrap")
    sandbox.available.cache_clear()
    with pytest.raises(EnvironmentProblem, match="none or bwrap"):
        sandbox.checked("docker")
