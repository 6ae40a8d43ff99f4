"""``check --watch``: a verdict at once, another at each save, a clean end at Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader import course, workspace
from grader.cli import watch
from grader.course import ROOT, Lab

#: How long a test waits for what will come (s): a limit, which measures nothing.
PATIENCE = 120


class Watching:
    """A ``check --watch`` that runs, and its lines as they come."""

    def __init__(self, lab: Lab, env: dict[str, str], around: list[str]) -> None:
        self.process = subprocess.Popen(
            [*around, sys.executable, "-u", str(ROOT / "grader"), "check", lab.id, "--watch"],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._rounds = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("Watching for a save"):
                with self._changed:
                    self._rounds += 1
                    self._changed.notify_all()

    def until_rounds(self, wanted: int) -> None:
        with self._changed:
            there = self._changed.wait_for(lambda: self._rounds >= wanted, timeout=PATIENCE)
        assert there, f"{self._rounds} rounds, not {wanted}"


@pytest.fixture
def lab() -> Lab:
    """A lab that needs no cluster and can be graded."""
    for lab in course.load().labs:
        if lab.built and not lab.needs and course.checks(lab):
            return lab
    pytest.skip("no such lab yet")


@pytest.fixture(params=["events", "polling", "no watchers left", "no watches left"])
def watching(request, lab: Lab, workspace_dir: Path) -> Iterator[Watching]:
    workspace.init(workspace_dir, "python")
    forced = {"WATCHFILES_FORCE_POLLING": "true"} if request.param == "polling" else {}
    around = []
    if request.param.startswith("no "):
        which = {"no watchers left": "instances", "no watches left": "watches"}[request.param]
        limit = f"echo 0 > /proc/sys/user/max_inotify_{which}"
        around = ["unshare", "-Ur", "sh", "-c", f'{limit} && exec "$@"', "sh"]
        if subprocess.run([*around, "true"], stderr=subprocess.DEVNULL).returncode:
            pytest.skip("this user may make no user namespace")
    running = Watching(lab, forced, around)
    yield running
    running.process.kill()
    running.process.wait()


def test_each_save_is_another_round(watching: Watching, lab: Lab, workspace_dir: Path) -> None:
    watching.until_rounds(1)
    answer = workspace_dir / lab.id / "answers.md"
    second = int(time.time()) * 1_000_000_000
    for number in (2, 3):
        answer.write_text(f"# round {number}\n", encoding="utf-8")
        # Both within one second, which is all that a watcher that polls looks at.
        os.utime(answer, ns=(second + number, second + number))
        watching.until_rounds(number)
    # As editors save: another file, renamed over it.
    aside = answer.with_name(".answers.swp")
    aside.write_text("# renamed\n", encoding="utf-8")
    aside.rename(answer)
    watching.until_rounds(4)
    watching.process.send_signal(signal.SIGINT)
    assert watching.process.wait(timeout=PATIENCE) in (0, 130)


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ("/dev/sda / ext4 rw 0 0\n", None),
        ("/dev/sda / ext4 rw 0 0\nC:\\134 /mnt/c 9p rw 0 0\n", True),
        ("/dev/sda / ext4 rw 0 0\nsrv:/h /mnt nfs4 rw 0 0\n", True),
        ("srv:/h / nfs4 rw 0 0\n/dev/sda /mnt/c ext4 rw 0 0\n", None),
    ],
)
def test_where_events_do_not_arrive_it_polls(
    mounts: str, expected: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WATCHFILES_FORCE_POLLING", raising=False)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: mounts)
    assert watch.needs_polling(Path("/mnt/c/users/me")) is expected
