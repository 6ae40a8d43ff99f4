"""What ``run``, ``record`` and ``replay`` do: a program behind a wire, until it or its user ends."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grader import cut, exit_codes
from grader.cli import runs
from grader.cluster.errors import EnvironmentProblem
from grader.cluster.process import NotStarted
from grader.runner.interactive import InteractiveProgram, environment, read_run
from grader.wire import RuleError, Wire
from grader.witness import Timeline

if TYPE_CHECKING:
    from grader.cluster.interface import Cluster
    from grader.workspace.parts import Lending

#: What the person at the keyboard is called in a recording.
HAND = "learner"

_HELP = """  kubectl ...   break something, or look; in another terminal too
  stop          SIGTERM to the controller: it stays down until `start`
  kill          SIGKILL, as when a node loses power
  start         start it again
  status        is it running?
  fault RULE    add a fault to the controller's wire (fault remove all)
  note TEXT     a remark in the recording
  done          write the recording (Ctrl-D and Ctrl-C do the same)"""


class Interrupted(BaseException):
    """SIGINT, SIGTERM or SIGHUP arrived."""

    def __init__(self, number: int) -> None:
        self.number = number


class _Signals:
    """What the signals that end a command do: raise :class:`Interrupted`, or nothing."""

    def __init__(self) -> None:
        self.ignored = False

    def arrived(self, number: int, frame: object) -> None:
        if not self.ignored:
            raise Interrupted(number)


@contextmanager
def _signals() -> Iterator[_Signals]:
    """Have the signals that end a command raise :class:`Interrupted` in the main thread."""
    signals = _Signals()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signals.arrived) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            # Ignored to the end, so that a late signal does not interrupt the clean-up.
            signal.signal(number, signal.SIG_IGN if signals.ignored else handler)


def say(text: str) -> None:
    """Tell the person, on stderr: stdout is the program's own."""
    print(f"phase4: {text}", file=sys.stderr, flush=True)


def run(
    cluster: Cluster,
    name: str,
    argv: Sequence[str],
    rules: Sequence[str],
    *,
    seed: int = 0,
    restart: bool = False,
    later: Sequence[tuple[float, dict[str, Any]]] = (),
    lending: Lending = "auto",
) -> int:
    """Run a program behind a wire until it ends; returns its exit code as shells have it.

    ``lending`` says whose parts of the workspace's it runs on.

    ``later`` are requests to the wire, each with the seconds after the start at
    which it is made (for replay).
    """
    folder = runs.new(f"run-{name}")
    about = {"kind": "run", "cluster": cluster.name, "rules": list(rules), "restart": restart}
    with _signals():
        try:
            with Wire(cluster, name, folder, rules=rules, seed=seed) as wire:
                wire.rules.on_fired(lambda text: say(f"a rule acted: {text}"))
                env = _parts(argv, folder, lending)
                with InteractiveProgram(
                    wire, argv, folder, env=env, terminal=True, **about
                ) as program:
                    _start(program)
                    say(f"{name} runs behind a wire; faults: phase4 fault add ... --as {name}")
                    with _timed(wire, later):
                        code = _until_ended(program, restart)
        except Interrupted as interrupt:
            code = -interrupt.number
    _summary(folder, name)
    return 128 - code if code is not None and code < 0 else code or 0


def _parts(argv: Sequence[str], run_dir: Path, lending: Lending = "auto") -> dict[str, str]:
    """What a command gets to find the workspace's packages by; says what the course lends it."""
    from grader import workspace
    from grader.report import ownership
    from grader.workspace import lending as lent

    try:
        here = workspace.find()
    except workspace.WorkspaceError:
        return {}
    found = lent.for_command(here, argv, run_dir / "lent", lending)
    for sentence in ownership.sentences([use.to_json() for use in found.uses]):
        say(sentence)
    return found.environment


def _start(program: InteractiveProgram) -> None:
    try:
        program.start()
    except NotStarted as e:
        raise EnvironmentProblem(str(e)) from None


def _until_ended(program: InteractiveProgram, restart: bool) -> int | None:
    try:
        while True:
            code = program.wait()
            if not (restart and program.killed_by_rule()):
                return code
            say("a rule killed it; starting it again")
            _start(program)
    except Interrupted as interrupt:
        say("stopping it (Ctrl-C again kills it)")
        try:
            program.stop()
        except Interrupted:
            program.kill()
        # How the program handled the signal is not ours to judge: we were told to end.
        return -interrupt.number


@contextmanager
def _timed(wire: Wire, later: Sequence[tuple[float, dict[str, Any]]]) -> Iterator[None]:
    """Send each request to the wire at its time, until the block is left."""
    from grader.wire import control

    ended = threading.Event()
    began = time.monotonic()

    def work() -> None:
        for after, request in later:
            if ended.wait(max(0.0, began + after - time.monotonic())):
                return
            try:
                control.ask(wire.control_socket, request)
            except (control.NoWire, RuleError) as e:
                say(str(e))

    thread = threading.Thread(target=work, name="replay", daemon=True)
    if later:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if later:
            thread.join()


def _summary(folder: Path, name: str) -> None:
    timeline = Timeline(folder)
    writes = timeline.writes(by=name)
    say(
        f"{len(timeline.exchanges(by=name))} requests ({len(writes)} writes) and "
        f"{len(timeline.events(by=name))} watch events are recorded; "
        f"to see them: phase4 timeline {folder.name}"
    )


def replay(folder: Path, ensure: Callable[[], Cluster]) -> int:
    """Run again what a run's folder says was run."""
    known = read_run(folder)
    if known is None:
        return _check_again(folder)
    if known.get("kind") == "record":
        raise EnvironmentProblem(
            "A recording is made by hand, so it cannot be replayed; "
            f"phase4 timeline {folder.name} shows it."
        )
    timeline = Timeline(folder)
    started = timeline.marks("process_started", by=known["client"]).first
    by_hand = []
    for mark in timeline.marks(("rule_added", "rule_removed"), by=known["client"]):
        if started is None or mark.t <= started.t:
            continue
        if mark.what == "rule_added":
            request = {"op": "add", "rule": mark.data["text"]}
        else:
            request = {"op": "remove", "rule": mark.data["rule"]}
        by_hand.append((mark.t - started.t, request))
    say(f"again: {shlex.join(known['argv'])}" + (f" (in {known['cwd']})" if "cwd" in known else ""))
    os.chdir(known.get("cwd", "."))
    return run(
        ensure(),
        known["client"],
        known["argv"],
        known.get("rules", []),
        seed=known.get("seed", 0),
        restart=known.get("restart", False),
        later=by_hand,
    )


def _check_again(folder: Path) -> int:
    """The same for the run of a check: its lab, with its seed."""
    try:
        request = json.loads((folder / "request.json").read_text())
        lab, seed = request["lab"], request["seed"]
    except (OSError, ValueError, KeyError):
        raise runs.NoRun(f"{folder} has no note of what was run in it.") from None
    root = Path(__file__).resolve().parents[2]
    say(f"replaying: phase4 check {lab} --seed {seed}")
    return subprocess.call(
        [
            sys.executable,
            "-I",
            "-X",
            "utf8",
            str(root / "grader"),
            "check",
            lab,
            "--seed",
            str(seed),
        ]
    )


# record ------------------------------------------------------------------------------


def record(cluster: Cluster, lab: str, argv: Sequence[str], folder: Path) -> int:
    """Record a controller and what is done by hand, until its user says done; writes the file.

    ``argv`` is empty for the course's own Foo controller.
    """
    run_dir = runs.new(f"record-{lab}")
    argv, env = (argv, _parts(argv, run_dir)) if argv else _foo_controller(run_dir / "course")
    id = cluster_id(cluster)
    started = time.time()
    with (
        _signals() as when_interrupted,
        Wire(cluster, "controller", run_dir) as wire,
        Wire(cluster, HAND, run_dir) as hand,
        InteractiveProgram(
            wire,
            argv,
            run_dir,
            env=env,
            kind="record",
            lab=lab,
            cluster=cluster.name,
        ) as program,
    ):
        _start(program)
        try:
            Session(program, hand).read()
        except Interrupted:
            print(file=sys.stderr)
        program.on_exit = lambda code: None
        when_interrupted.ignored = True
        say("writing the recording")
        # What the controller is in the middle of belongs to it.
        _settle(Timeline.of(wire, hand))
        program.kill()
        return _keep(cluster, id, lab, argv, folder, run_dir, started)


def _foo_controller(into: Path) -> tuple[list[str], dict[str, str]]:
    """The course's Foo controller with all that it imports: its command and its environment.

    As lab 4.1.4 starts from it: stage lines would get between the lines of the session.
    """
    into = into.absolute()
    cut.lay_artifacts("python", into, stubs=lambda path: path.startswith("foo_controller/"))
    return ["python3", str(into / "foo_controller" / "controller.py")], {"PYTHONPATH": str(into)}


def _settle(timeline: Timeline) -> None:
    try:
        timeline.quiet_for(0.5, timeout=5)
    except TimeoutError:
        pass  # a controller that never stops writing is recorded as it is


def _keep(
    cluster: Cluster,
    id: str,
    lab: str,
    argv: Sequence[str],
    folder: Path,
    run_dir: Path,
    started: float,
) -> int:
    from grader.cluster.interface import Capability
    from grader.witness import recording

    lines: list[bytes] = []
    for path in sorted(run_dir.glob("**/wire.jsonl")):
        lines += path.read_bytes().splitlines()
    # Read last: what a wire has the answer to is in it by now, so each write is confirmed.
    audited = Capability.AUDIT in cluster.capabilities
    events = list(cluster.audit(started)) if audited else []
    target = folder / "recording.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    if target.exists():
        target.replace(folder / "recording.previous.jsonl")
    header = {
        "lab": lab,
        "cluster": {
            "id": id,
            "name": cluster.name,
            "backend": cluster.backend,
            "versions": dict(cluster.versions),
        },
        "client": "controller",
        "hand": HAND,
        "argv": list(argv),
        "started": started,
        "ended": time.time(),
        "audit": audited,
    }
    count = recording.write(target, header, lines, events)
    say(f"{target} holds the recording ({count} lines). Now: phase4 check {lab}")
    return exit_codes.OK


class Session:
    """The commands of a recording, one a line, from a terminal or from a script."""

    def __init__(self, program: InteractiveProgram, hand: Wire) -> None:
        self._program = program
        self._hand = hand
        self._done = False
        program.on_exit = self._ended
        self._stopping = False

    def read(self) -> None:
        """Read commands until ``done`` or the end of the input."""
        interactive = sys.stdin.isatty()
        say(
            f"the controller runs (process {self._program.pid}) and is recorded. Break what it "
            "made; `help` lists the commands."
        )
        if interactive:
            say(f"In another terminal: export KUBECONFIG={self._hand.kubeconfig.absolute()}")
            import readline  # noqa: F401 - gives input() its editing
        while not self._done:
            try:
                # input() shows a prompt and edits; both say the end of input their own way.
                line = input("record> ") if interactive else sys.stdin.readline()
            except EOFError:
                return
            if not line and not interactive:
                return
            self.obey(line.strip())

    def obey(self, line: str) -> None:
        """Do what one line says."""
        try:
            words = shlex.split(line, comments=True)
        except ValueError as e:
            say(f"that line cannot be read ({e})")
            return
        if not words:
            return
        verb, rest = words[0], words[1:]
        does: dict[str, Callable[[], object]] = {
            "help": lambda: print(_HELP, file=sys.stderr),
            "kubectl": lambda: self._kubectl(rest),
            "stop": self._stop,
            "kill": lambda: self._stop(kill=True),
            "start": self._start,
            "status": lambda: say("it runs" if self._program.running else "it is down"),
            "note": lambda: self._program.wire.mark("note", text=" ".join(rest)),
            "fault": lambda: self._fault(" ".join(rest)),
            "done": lambda: setattr(self, "_done", True),
        }
        if verb not in does:
            say(f"unknown command “{verb}”; `help` lists the commands")
            return
        does[verb]()

    def _kubectl(self, words: list[str]) -> None:
        from grader.cluster import binaries

        program = str(binaries.ensure(["kubectl"])["kubectl"])
        subprocess.call([program, *words], env=environment(self._hand))

    def _stop(self, kill: bool = False) -> None:
        self._stopping = True
        self._program.kill() if kill else self._program.stop()
        self._stopping = False
        say("the controller is down")

    def _start(self) -> None:
        if self._program.running:
            say("it runs already")
            return
        _start(self._program)
        say(f"the controller runs again (process {self._program.pid})")

    def _fault(self, text: str) -> None:
        from grader.wire import control

        first, _, rest = text.partition(" ")
        request = {"op": "add", "rule": text}
        if first == "remove":
            request = {"op": "remove", "rule": rest}
        try:
            reply = control.ask(self._program.wire.control_socket, request)
        except RuleError as e:
            say(str(e))
            return
        if "added" in reply:
            say(f"armed: {reply['added']['rule']}")
        else:
            say(f"removed: {', '.join(reply['removed']) or 'nothing'}")

    def _ended(self, code: int | None) -> None:
        if not self._stopping:
            say(f"the controller has ended by itself ({_how(code)}); `start` starts it again")


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"


def cluster_id(cluster: Cluster) -> str:
    """An id that no other cluster has: kept in the cluster itself, made when it is first asked for.

    The UIDs of what a cluster is born with do not serve: clusters that are made
    from one template share them.
    """
    from grader.cluster.api import Api, ApiError

    wanted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "phase4-cluster", "namespace": "kube-system"},
        "data": {"id": str(uuid.uuid4())},
    }
    with Api(cluster) as api:
        try:
            return api.create(wanted)["data"]["id"]
        except ApiError as e:
            if e.status != 409:
                raise
            return api.get("configmaps", "phase4-cluster", "kube-system")["data"]["id"]
