"""Nothing that was started outlives its record, and no record reaches a stranger."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from grader.cluster import machine, process
from grader.cluster.machine import Machine
from grader.cluster.process import NotStarted, Records, birth, records, wait_gone


def run_and_die(home: Path, body: str) -> subprocess.CompletedProcess:
    """Run a Python program that starts something and ends, in whatever way."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body)],
        env={**os.environ, "PHASE4_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def seen(condition, timeout: float = 10.0):
    """Wait for a condition that nothing announces."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)
    return value


def test_a_process_is_written_down_and_gone_after_its_end(home):
    one = records.start(["sleep", "60"], name="sleeper", kind="learner", owner="x")
    on_disk = json.loads((home / "state" / "processes" / f"{one.id}.json").read_text())
    assert (on_disk["pid"], on_disk["born"]) == (one.pid, birth(one.pid))
    assert os.getpgid(one.pid) == one.pid == os.getsid(one.pid)
    assert [found.id for found in records.live(kind="learner", owner="x")] == [one.id]
    one.end()
    assert not one.alive() and one.returncode == -signal.SIGKILL
    assert records.all() == []


def test_exit_code_and_output_come_through(home, tmp_path):
    with open(tmp_path / "out", "wb") as out:
        one = records.start(
            [sys.executable, "-c", "import sys; print(sys.stdin.read() == ''); sys.exit(3)"],
            name="short",
            kind="learner",
            stdout=out,
        )
    assert one.wait(20) == 3
    assert (tmp_path / "out").read_text() == "True\n"


def test_wait_says_what_still_runs(home):
    one = records.start(["sleep", "60"], name="sleeper", kind="learner")
    with pytest.raises(TimeoutError, match="sleeper still runs after 0.05 s"):
        one.wait(0.05)


def test_an_environment_of_its_own(home, tmp_path):
    with open(tmp_path / "out", "wb") as out:
        one = records.start(
            ["/usr/bin/env"], name="env", kind="learner", env={"A": "1"}, cwd=tmp_path, stdout=out
        )
    one.wait(20)
    lines = (tmp_path / "out").read_text().splitlines()
    assert "A=1" in lines and f"{process.MARKER}={one.id}" in lines
    assert not any(line.startswith("PHASE4_HOME") for line in lines)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["no-such-program"], "no-such-program is not there"),
        (["./absent"], "absent is not there"),
        (["./data"], "data is not executable"),
    ],
)
def test_a_program_that_cannot_start_gets_a_sentence(home, tmp_path, argv, says):
    (tmp_path / "data").write_text("x")
    with pytest.raises(NotStarted, match=f"^it cannot be started: .*{says}"):
        records.start(argv, name="it", kind="learner", cwd=tmp_path)
    assert records.all() == []


def test_a_relative_program_is_meant_from_its_folder(home, tmp_path):
    (tmp_path / "go").write_text("#!/bin/sh\nexit 7\n")
    (tmp_path / "go").chmod(0o755)
    one = records.start(["./go"], name="go", kind="learner", cwd=tmp_path)
    assert one.wait(20) == 7


def test_killed_between_fork_and_record_leaves_no_process(home, tmp_path):
    mark = tmp_path / "ran"
    done = run_and_die(
        home,
        f"""
        import os, signal
        from grader.cluster import dirs, process
        def die(*_, **__):
            os.kill(os.getpid(), signal.SIGKILL)
        process.dirs.write_atomically = die
        process.records.start(["touch", {str(mark)!r}], name="x", kind="learner")
        """,
    )
    assert done.returncode == -signal.SIGKILL
    # The shell that waited for the line has ended without becoming the program.
    seen(lambda: not _with_text(str(mark)))
    assert not mark.exists()


def test_killed_after_the_start_leaves_a_record_that_ends_it(home):
    done = run_and_die(
        home,
        """
        import os, signal
        from grader.cluster.process import records
        print(records.start(["sleep", "60"], name="x", kind="learner").pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    pid = int(done.stdout)
    born = birth(pid)
    assert born is not None
    (left,) = records.live()
    assert left.pid == pid and not left.starter_alive() and left.returncode is None
    assert records.reap("learner", orphans=True) == [left]
    assert birth(pid) != born
    assert records.all() == []


def test_orphans_are_told_from_those_in_use(home):
    mine = records.start(["sleep", "60"], name="mine", kind="learner")
    assert records.reap("learner", orphans=True) == []
    assert mine.alive()


def test_a_stale_record_never_kills_a_stranger(home):
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        one = records.start(["true"], name="gone", kind="learner")
        one.wait(20)
        path = home / "state" / "processes" / f"{one.id}.json"
        # As if the number had been given to another process since; births of the same
        # hundredth of a second look alike, so one from longer ago is written.
        data = {**json.loads(path.read_text()), "pid": stranger.pid, "pgid": stranger.pid}
        path.write_text(json.dumps({**data, "born": birth(os.getppid())}))
        assert records.reap() == []
        assert stranger.poll() is None
        assert not path.exists()
    finally:
        stranger.kill()
        stranger.wait()


def rewritten(one, **changes) -> Path:
    """The record of a process, with some fields as another machine would have written them."""
    path = records.folder / f"{one.id}.json"
    data = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
    return path


@pytest.fixture
def sleeper(home):
    return records.start(["sleep", "60"], name="x", kind="learner")


def test_the_machine_is_the_same_under_another_name(sleeper, as_renamed):
    as_renamed()
    (found,) = records.live()
    assert found.id == sleeper.id and records.reap() == [found]
    assert not sleeper.alive() and records.all() == []


def test_an_older_versions_record_is_known_though_the_name_changed(sleeper):
    rewritten(sleeper, machine=None, host="the-name-before")
    assert [one.id for one in records.reap()] == [sleeper.id] and not sleeper.alive()


HERE = machine.here()


@pytest.mark.parametrize(
    "where",
    [
        Machine("another", "another boot", HERE.pids),
        Machine("", "another boot", HERE.pids),
        Machine(HERE.id, HERE.boot, "pid:[1]"),
        None,
    ],
    ids=["machine", "machine without an id", "container", "machine of an older version"],
)
def test_anothers_record_is_left_alone(sleeper, where):
    """Though its process id is that of a stranger here."""
    changes = {"machine": where and asdict(where), "born": "another boot:1"}
    path = rewritten(sleeper, **changes, host="elsewhere")
    assert records.all() == [] and records.reap() == [] and path.exists()
    assert [one.host for one in records.all(here=False)] == ["elsewhere"]
    assert sleeper.alive()
    sleeper.end()


def test_a_record_of_before_the_last_boot_goes(sleeper, monkeypatch):
    known = Machine("installation", "now", "pid:[1]")
    monkeypatch.setattr(machine, "here", lambda: known)
    before = asdict(Machine("installation", "before", "pid:[2]"))
    path = rewritten(sleeper, machine=before, born="before:1", pid=os.getppid())
    assert records.reap() == [] and not path.exists()


class MacLibrary:
    """What the C library of macOS is asked."""

    def sysctlbyname(self, name, value, size, *_):
        assert (name, size.contents.value) == (b"kern.bootsessionuuid", 256)
        value.value = b"A-BOOT"
        return 0

    def gethostuuid(self, value, patience):
        assert list(patience) == [1, 0]
        value[:] = range(16)
        return 0


@pytest.mark.parametrize(
    ("library", "boot"), [(MacLibrary(), "A-BOOT"), (object(), "")], ids=["macOS", "another"]
)
def test_what_tells_a_machine_without_proc(monkeypatch, library, boot):
    monkeypatch.setattr(machine.sys, "platform", "darwin")
    monkeypatch.setattr(machine.ctypes, "CDLL", lambda _: library)
    found = machine.here.__wrapped__()
    assert (found.boot, found.pids, len(found.id)) == (boot, "", 16 if boot else 0)
    # Where nothing tells a machine, the records fall back to its name.
    assert found.sees(found) == bool(boot)


def test_what_tells_a_machine():
    assert HERE == machine.here() and HERE.boot
    if sys.platform == "linux":
        assert birth(os.getpid()).startswith(HERE.boot) and HERE.pids.startswith("pid:[")
    else:
        assert HERE.id


def test_a_broken_record_is_removed(home):
    folder = home / "state" / "processes"
    folder.mkdir(parents=True)
    (folder / "x.json").write_text("{half")
    (folder / "y.json").write_text('{"id": 1}')
    assert records.all() == []
    assert list(folder.iterdir()) == []


def test_the_group_ends_with_its_leader(home, tmp_path):
    one = records.start(
        ["sh", "-c", f"sleep 61 & echo $! > {tmp_path}/child; wait"], name="forks", kind="learner"
    )
    child = int(seen(lambda: _text(tmp_path / "child")))
    born = birth(child)
    one.end()
    assert wait_gone([(child, born)], 5)


def test_what_left_the_group_ends_too(home, tmp_path):
    program = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open({str(tmp_path / "daemon")!r}, "w").write(str(os.getpid()) + "\\n")
        time.sleep(60)
    os._exit(0)
os.wait()
time.sleep(60)
"""
    one = records.start([sys.executable, "-c", program], name="daemon", kind="learner")
    daemon = int(seen(lambda: _text(tmp_path / "daemon")))
    born = birth(daemon)
    assert os.getpgid(daemon) != one.pgid
    one.end()
    assert birth(daemon) != born


def test_what_is_left_of_a_group_ends_though_its_leader_is_gone(home, tmp_path):
    one = records.start(
        ["sh", "-c", f"sleep 62 & echo $! > {tmp_path}/child"], name="leaves", kind="learner"
    )
    one.wait(20)
    child = int(seen(lambda: _text(tmp_path / "child")))
    born = birth(child)
    assert born is not None
    records.reap()
    assert birth(child) != born


def test_sigterm_first_sigkill_after(home, tmp_path):
    polite = records.start(
        [
            "sh",
            "-c",
            f"trap 'echo bye > {tmp_path}/bye; exit 0' TERM; touch {tmp_path}/up; while :; do sleep 0.05; done",
        ],
        name="polite",
        kind="learner",
    )
    seen((tmp_path / "up").exists)
    polite.end(grace=5)
    assert polite.returncode == 0 and (tmp_path / "bye").exists()
    deaf = records.start(
        ["sh", "-c", f"trap '' TERM; touch {tmp_path}/up2; while :; do sleep 0.05; done"],
        name="deaf",
        kind="learner",
    )
    seen((tmp_path / "up2").exists)
    deaf.end(grace=0.1)
    assert deaf.returncode == -signal.SIGKILL


def test_a_halted_process_can_be_ended(home):
    one = records.start(["sleep", "60"], name="x", kind="learner")
    one.halt()
    assert process.stopped(one.pid)
    one.end(grace=0.5)
    assert not one.alive()


def test_a_zombie_has_ended():
    popen = subprocess.Popen(["true"])
    seen(lambda: birth(popen.pid) is None)
    assert wait_gone([(popen.pid, "x")], 0.1)
    popen.wait()


def test_a_process_whose_first_thread_has_ended_still_runs(home):
    program = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    one = records.start([sys.executable, "-c", program], name="headless", kind="learner")
    if sys.platform == "linux":
        seen(lambda: Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    assert birth(one.pid) == one.born and one.alive()
    assert not wait_gone([(one.pid, one.born)], 0.1)
    one.end()
    assert birth(one.pid) is None


def test_records_elsewhere(tmp_path):
    own = Records(tmp_path / "r")
    one = own.start(["sleep", "60"], name="x", kind="learner")
    assert [found.id for found in own.live()] == [one.id]
    own.reap()
    assert not one.alive()


def _text(path: Path) -> str:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return ""
    return text if text.endswith("\n") else ""


def _with_text(text: str) -> list[str]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                line = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if text.encode() in line and b"-c" not in line[:40]:
                found.append(entry)
    return found
