"""A learner's program that behaves in every way it should not, and one that behaves."""

from __future__ import annotations

import functools
import os
import signal
import time

import psutil
import pytest

from grader.cluster.process import birth, end_marked, marked, records, wait_gone
from grader.runner import limits, subreaper
from grader.verdict import Fail

#: How long a test waits for what will come (s): a limit, which measures nothing.
PATIENCE = 60


def said(caught: pytest.ExceptionInfo[Fail]) -> str:
    """All of a message; it must be complete, and without a traceback of ours."""
    message = caught.value.message
    assert message.expected and message.seen and message.next and message.diagnosis
    text = " ".join([message.expected, message.seen, message.next])
    assert "Traceback" not in text and "python3 p0.py" in text
    return text


def gone(pid: int) -> bool:
    return birth(pid) is None


def test_lines_come_as_they_are_printed(program):
    running = program(
        """
        import time
        print("one", flush=True)
        print("two\\r", flush=True)
        print("thr", end="", flush=True)
        time.sleep(0.05)
        print("ee", flush=True)
        time.sleep(60)
        """
    )
    before = time.time()
    line = running.wait_line(lambda line: line == "three", PATIENCE, "prints three")
    assert before - 30 < line.t <= time.time()
    assert running.stdout_lines == ["one", "two", "three"]
    assert running.exited is None
    running.require_running()


def test_a_last_line_without_an_end_counts(program):
    running = program("print('no end', end='')")
    running.wait_exit(PATIENCE)
    assert running.stdout_lines == ["no end"]


def test_bytes_that_are_no_text_do_no_harm(program):
    running = program("import os; os.write(1, b'\\xff\\xfe\\0 end\\n')")
    assert running.wait_line(lambda line: line.endswith(" end"), PATIENCE)


def test_it_exits_at_once(program):
    running = program("import sys; print('cannot go on', file=sys.stderr); sys.exit(3)")
    with pytest.raises(Fail) as caught:
        running.wait_line(lambda line: True, PATIENCE, "prints a line")
    text = said(caught)
    assert "prints a line" in text and "exit code 3" in text and "phase4 run" in text
    assert caught.value.message.evidence == ("cannot go on",)
    assert caught.value.message.diagnosis == "program-exited"
    assert running.exited.code == 3 and running.exited.by == "itself"
    with pytest.raises(Fail):
        running.require_running()


def test_it_dies_of_a_signal(program):
    running = program("import os; os.abort()")
    running.wait_exit(PATIENCE)
    assert (running.exited.code, running.exited.signal) == (None, signal.SIGABRT)
    assert "SIGABRT" in str(running.exited)


def test_only_the_last_lines_of_its_errors_are_shown(program):
    running = program(
        "import sys\nfor n in range(1000): print(f'{n} ' + 'x' * 999, file=sys.stderr)\nsys.exit(1)"
    )
    with pytest.raises(Fail) as caught:
        running.wait_line(lambda line: False, PATIENCE)
    evidence = caught.value.message.evidence
    assert len(evidence) == 10 and evidence[-1].startswith("999 ")
    assert all(len(line) <= 300 for line in evidence)


def test_what_it_printed_before_its_end_counts(program):
    running = program("print('done', flush=True)")
    running.wait_exit(PATIENCE)
    assert running.wait_line(lambda line: line == "done", 0)


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["./not-here"], "is not there"),
        (["no-such-command-at-all"], "is not there"),
        (["./p0.py"], "is not executable"),
    ],
)
def test_it_does_not_start(program, argv, why):
    running = program("", argv=argv, start=False)
    with pytest.raises(Fail) as caught:
        running.start()
    assert why in said(caught) and caught.value.message.diagnosis == "program-not-started"


def test_it_is_no_program(program, tmp_path):
    running = program("", start=False, argv=["./garbage"])
    file = tmp_path / "lab" / "garbage"
    file.write_bytes(b"\x7fELF nonsense")
    file.chmod(0o755)
    running.start()
    with pytest.raises(Fail) as caught:
        running.wait_line(lambda line: True, PATIENCE, "prints a line")
    assert "exit code 126" in said(caught) or "exit code 2" in said(caught)


def test_it_hangs(program):
    running = program("import time; print('up', flush=True); time.sleep(600)")
    running.wait_line(lambda line: line == "up", PATIENCE)
    with pytest.raises(Fail) as caught:
        running.wait_line(lambda line: line == "more", 0.2, "prints more")
    text = said(caught)
    assert "prints more within 0.2 s" in text and "printed 1 lines" in text and "flush" in text
    assert caught.value.message.evidence == ("up",)
    assert caught.value.message.diagnosis == "program-hangs"


def test_sigterm_ends_it(program):
    running = program(
        """
        import os, signal, sys, time
        def stop(*_):
            # Not print(): the signal may come while the main program is in one.
            os.write(1, b"stopping\\n")
            sys.exit(0)
        signal.signal(signal.SIGTERM, stop)
        print("up", flush=True)
        time.sleep(600)
        """
    )
    running.wait_line(lambda line: line == "up", PATIENCE)
    how = running.terminate(PATIENCE)
    assert (how.code, how.obeyed, how.by) == (0, True, "grader")
    assert running.stdout_lines[-1] == "stopping"


def test_it_ignores_sigterm(program):
    running = program(
        """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("up", flush=True)
        time.sleep(600)
        """
    )
    running.wait_line(lambda line: line == "up", PATIENCE)
    how = running.terminate(0.2)
    assert how.signal == signal.SIGKILL and not how.obeyed


def test_sigterm_without_a_handler_is_not_a_clean_end(program):
    running = program("import time; print('up', flush=True); time.sleep(600)")
    running.wait_line(lambda line: line == "up", PATIENCE)
    how = running.terminate(PATIENCE)
    assert how.signal == signal.SIGTERM and how.obeyed


@pytest.mark.parametrize("stream", ["out", "err"])
def test_it_prints_without_end(program, stream, monkeypatch):
    monkeypatch.setattr(limits, "OUTPUT_BYTES", 1024 * 1024)
    running = program(f"import sys\nwhile True: print('x' * 99, file=sys.std{stream})")
    with pytest.raises(Fail) as caught:
        running.wait_line(lambda line: False, PATIENCE, "prints an end")
    assert "printed more than 1 MiB" in said(caught)
    assert caught.value.message.diagnosis == "program-over-limit"
    assert running.exited.by == "limit"
    path = running.stdout_path if stream == "out" else running.stderr_path
    assert path.stat().st_size < limits.FILE_BYTES


def test_the_kernel_holds_the_last_line_of_defence(program, monkeypatch, tmp_path):
    """Should the watching be late: no file grows beyond its limit."""
    smaller = functools.partial(limits.preexec, file_bytes=256 * 1024)
    monkeypatch.setattr(limits, "preexec", smaller)
    running = program(
        """
        import sys
        try:
            with open("big", "wb") as file:
                while True:
                    file.write(b"x" * 65536)
        except OSError as error:
            print(error.errno, flush=True)
        """
    )
    assert running.wait_line(lambda line: line == "27", PATIENCE)
    assert (tmp_path / "lab" / "big").stat().st_size == 256 * 1024


def test_one_long_line_without_end(program, monkeypatch):
    monkeypatch.setattr(limits, "OUTPUT_BYTES", 1024 * 1024)
    running = program("import sys\nwhile True: sys.stdout.write('x' * 9999)")
    running.wait_exit(PATIENCE)
    assert running.exited.by == "limit"


FORKS = """
import os, time, sys
def child(sid):
    if os.fork() == 0:
        if sid:
            os.setsid()
            if os.fork():
                os._exit(0)
        {inside}
        sys.stdout.write(f"child {{os.getpid()}}\\n")
        sys.stdout.flush()
        time.sleep(600)
        os._exit(0)
child(False)
child(True)
{after}
"""


def children(running) -> list[int]:
    running.until(lambda: len(running.stdout_lines) == 2, PATIENCE, "prints its children")
    pids = [int(line.split()[1]) for line in running.stdout_lines]
    assert all(psutil.pid_exists(pid) for pid in pids)
    return pids


def test_what_it_forked_ends_with_it(program):
    running = program(FORKS.format(inside="pass", after="time.sleep(600)"))
    pids = children(running)
    running.kill()
    assert all(gone(pid) for pid in pids)


def test_what_it_left_behind_ends_when_it_ends(program, tmp_path):
    after = 'while not os.path.exists("go"): time.sleep(0.01)'
    running = program(FORKS.format(inside="pass", after=after))
    pids = children(running)
    (tmp_path / "lab" / "go").touch()
    running.wait_exit(PATIENCE)
    assert all(gone(pid) for pid in pids)


def test_a_child_that_ignores_sigterm_ends_too(program):
    inside = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    running = program(FORKS.format(inside=inside, after="time.sleep(600)"))
    pids = children(running)
    running.terminate(PATIENCE)
    assert all(gone(pid) for pid in pids)


@pytest.mark.skipif(not subreaper.adopt(), reason="needs a subreaper")
def test_a_stray_without_group_parent_or_mark_is_found(program):
    """It left its group, its parent is gone, and it cleared its environment."""
    inside = (
        "if sid: os.execve(sys.executable, [sys.executable, '-c', "
        "'import os,time; os.write(1, b\"child %d\\\\n\" % os.getpid()); time.sleep(600)'], {})"
    )
    running = program(FORKS.format(inside=inside, after="time.sleep(600)"))
    pids = children(running)
    running.kill()
    subreaper.end_strays()
    assert all(gone(pid) for pid in pids)


def test_too_many_processes(program, monkeypatch):
    monkeypatch.setattr(limits, "PROCESSES", 20)
    running = program(
        """
        import os, time
        print(os.environ["PHASE4_PROCESS"], flush=True)
        for _ in range(60):
            if os.fork() == 0:
                time.sleep(600)
        time.sleep(600)
        """
    )
    mark = running.wait_line(lambda line: True, PATIENCE)
    with pytest.raises(Fail) as caught:
        running.wait_line(lambda line: False, PATIENCE, "prints an end")
    assert "processes (20 are allowed)" in said(caught)
    assert marked("PHASE4_PROCESS", mark) == []


def test_it_can_be_started_again(program):
    running = program("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    running.wait_line(lambda line: True, PATIENCE)
    first = running.pid
    running.kill_now()
    assert gone(first)
    assert running.wait_exit(PATIENCE).by == "grader"
    with pytest.raises(RuntimeError, match="was killed"):
        running.wait_line(lambda line: False, PATIENCE)
    running.restart()
    running.until(lambda: len(running.stdout_lines) == 2, PATIENCE, "prints again")
    assert running.starts == 2 and running.pid != first
    with pytest.raises(RuntimeError, match="running already"):
        running.start()


def test_it_can_be_paused(program):
    running = program(
        """
        import time
        while True:
            print(time.monotonic(), flush=True)
            time.sleep(0.01)
        """
    )
    running.wait_line(lambda line: True, PATIENCE)
    running.pause()
    process = psutil.Process(running.pid)
    running.until(lambda: process.status() == psutil.STATUS_STOPPED, PATIENCE, "stands still")
    running.resume()
    count = len(running.stdout_lines)
    running.until(lambda: len(running.stdout_lines) > count, PATIENCE, "goes on")


def test_no_record_is_left(program):
    running = program("import time; time.sleep(600)")
    assert [one.name for one in records.live(kind="learner")] == ["p0"]
    running.kill()
    assert records.all(kind="learner") == []


def test_the_environment_has_nothing_of_ours(program, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/admin")
    monkeypatch.setenv("PHASE4_SECRET", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    running = program("import os; print(' '.join(sorted(os.environ)), flush=True)")
    names = running.wait_line(lambda line: True, PATIENCE).split()
    assert not {"KUBECONFIG", "PHASE4_SECRET", "AWS_SECRET_ACCESS_KEY"} & set(names)


def test_marked_processes_are_found_and_ended(program):
    running = program(
        "import time; print('up', flush=True); time.sleep(600)", PHASE4_GRADING="one-run"
    )
    running.wait_line(lambda line: True, PATIENCE)
    assert [pid for pid, _ in marked("PHASE4_GRADING", "one-run")] == [running.pid]
    assert marked("PHASE4_GRADING", "one") == []
    born = [(running.pid, birth(running.pid))]
    assert end_marked("PHASE4_GRADING", "one-run") == 1
    assert wait_gone(born, PATIENCE)
    assert os.getpid() not in [pid for pid, _ in marked("PATH", os.environ["PATH"])]


def test_a_line_of_output_can_be_copied_into_a_message():
    from grader.runner.running import Line

    fail = Fail("x", "y", evidence=[Line("it said so", 1.5)])
    assert fail.message.to_json()["evidence"] == ["it said so"]
