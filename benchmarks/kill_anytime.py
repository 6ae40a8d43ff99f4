"""kill -9 of the command line at random moments, and what is left afterwards.

    python benchmarks/kill_anytime.py [--times 50] [--seed 1] [--only start,check]

Each round runs one of ``start``, ``check``, ``up``, ``down`` and ``run`` in a home of its
own and kills the command line (that process alone, as the out-of-memory killer
would) at a random moment of the time which the command usually takes. Then it asserts

1. that no file of the workspace or of the state is half written: all JSON and TOML
   parses, every record is whole;
2. that the next command works;
3. that after ``phase4 down`` nothing of the round is left running.

Exit code 1 with the round's number and seed where one of them does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"
#: Seconds for what was killed to notice it: a child that waits for its parent's pipe.
GRACE = 3.0


class Broken(Exception):
    """One of the three assertions does not hold."""


class Home:
    """A home, a workspace and the control plane's binaries, away from the user's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.state = folder / "home"
        self.env = {
            **os.environ,
            "PHASE4_HOME": str(self.state),
            "PHASE4_WORKSPACE": str(self.workspace),
            "KUBEBUILDER_ASSETS": os.environ.get("KUBEBUILDER_ASSETS") or str(self._assets()),
            "NO_COLOR": "1",
        }
        (folder / "program.py").write_text(PROGRAM)

    def _assets(self) -> Path:
        """The user's cached binaries in one folder, so that no round builds them."""
        sys.path.insert(0, str(ROOT))
        from grader.cluster import binaries

        folder = self.folder / "assets"
        folder.mkdir()
        for name, path in binaries.ensure().items():
            (folder / name).symlink_to(path)
        return folder

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(ROOT / "grader"), *arguments],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> float:
        """Run a command to its end; :class:`Broken` for another exit code. Returns seconds."""
        began = time.monotonic()
        process = self.start(*arguments)
        try:
            said, _ = process.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Broken(f"`phase4 {' '.join(arguments)}` hangs") from None
        if process.returncode not in ok:
            raise Broken(f"`phase4 {' '.join(arguments)}` exits {process.returncode}:\n{said}")
        return time.monotonic() - began

    def left_running(self) -> list[str]:
        """Every process whose environment names this home."""
        wanted = f"PHASE4_HOME={self.state}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    if line:
                        found.append(f"{entry.name} {line.strip()}")
            except OSError:
                continue
        return found

    def check_files(self) -> None:
        """All that was written is whole."""
        for root in (self.workspace, self.state):
            for path in root.rglob("*"):
                # Runs are logs of a process that was killed: their last line may be torn.
                if path.name.startswith(".") or not path.is_file() or "runs" in path.parts:
                    continue
                try:
                    if path.suffix == ".json":
                        json.loads(path.read_text())
                    elif path.suffix == ".toml":
                        tomllib.loads(path.read_text())
                except FileNotFoundError:
                    continue
                except ValueError as error:
                    raise Broken(f"half written: {path}: {error}") from error
        for lab in self.workspace.glob("4.*"):
            stubs = ROOT / "exercises" / lab.name / "common"
            for stub in stubs.rglob("*"):
                mine = lab / stub.relative_to(stubs)
                if stub.is_file() and not mine.exists():
                    raise Broken(f"{lab} was laid without {mine.name}")


def commands(home: Home) -> dict[str, list[str]]:
    """The commands that are killed, by name."""
    found = {
        "start": ["start"],
        "check": ["check", "4.1.1", "4.1.4"],
        "up": ["up"],
        "down": ["down"],
    }
    if (ROOT / "grader" / "cli" / "drive.py").exists():
        found["run"] = ["run", "--as", "program", "--", sys.executable, "program.py"]
    return found


def prepare(home: Home, name: str) -> None:
    """What has to be there for the command to do its work."""
    home.run("init")
    if name in ("down", "check", "run"):
        home.run("up")


def usual_seconds(home: Home, name: str, arguments: list[str]) -> float:
    """How long the command takes when nobody kills it."""
    prepare(home, name)
    if name == "run":
        return 3.0
    if name == "start":
        (ROOT / "site" / ".built-from").unlink(missing_ok=True)
    return home.run(*arguments, ok=(0, 1, 3))


def one_round(home: Home, name: str, arguments: list[str], after: float, fresh: bool) -> None:
    """Kill the command ``after`` seconds and look at what is left."""
    if fresh:
        home.run("down")
        shutil.rmtree(home.workspace, ignore_errors=True)
        if name == "start":  # as in a new clone: the site has to be built
            (ROOT / "site" / ".built-from").unlink(missing_ok=True)
    if name != "start":
        prepare(home, name)
    process = home.start(*arguments)
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.wait()
    home.check_files()
    # The next command: the same one where it ends by itself, then one that reads it all.
    if name == "run":
        home.run("status")
    else:
        home.run(*arguments, ok=(0, 1, 3))
    home.run("progress")
    home.check_files()
    home.run("down")
    deadline = time.monotonic() + GRACE
    while left := home.left_running():
        if time.monotonic() > deadline:
            raise Broken("left running after down:\n  " + "\n  ".join(left))
        time.sleep(0.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="start,check,up,down,run")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="phase4-kill-") as folder:
        home = Home(Path(folder))
        chosen = commands(home)
        if options.only:
            chosen = {name: chosen[name] for name in options.only.split(",")}
        usual = {name: usual_seconds(home, name, words) for name, words in chosen.items()}
        home.run("down")
        print(
            "usual seconds:", {name: round(value, 2) for name, value in usual.items()}, flush=True
        )
        for number in range(1, options.times + 1):
            name = list(chosen)[(number - 1) % len(chosen)]
            after = rng.uniform(0, usual[name])
            try:
                one_round(home, name, chosen[name], after, fresh=rng.random() < 0.5)
            except Broken as problem:
                failures += 1
                print(f"{number:3} {name:<6} killed after {after:.2f} s: BROKEN\n{problem}")
                home.start("down").wait()
            else:
                print(f"{number:3} {name:<6} killed after {after:.2f} s: whole", flush=True)
        home.start("down").wait()
    print(f"{options.times - failures} of {options.times} rounds left nothing behind")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
