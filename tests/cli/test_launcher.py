"""The launcher: a first use, one that was killed, two at once, no Python, no network."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader import bootstrap
from grader.course import ROOT
from tests.once import once

#: Small enough to install in a second; everything else is as in the course.
ONE_PACKAGE = """colorama==0.4.6 \\
    --hash=sha256:08695f5cb7ed6e0531a20572697297273c47b8cae5a63ffc6d6ed5c201be6e44 \\
    --hash=sha256:4f1d9991f5acc0ca119f9d443620b77f9d6b33703e51011c16baf57afb285fc6
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    return new_clone(tmp_path / "a clone")


@pytest.fixture
def used_clone(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """A clone after its first use, which was made once for all workers."""
    used = once(tmp_path_factory, "used-clone", use)
    # A virtual environment finds itself by where its pyvenv.cfg is: it may be copied.
    return shutil.copytree(used, tmp_path / "a clone", symlinks=True)


def use(root: Path) -> None:
    done = launch(new_clone(root))
    assert done.returncode == 0, done.stderr


def new_clone(root: Path) -> Path:
    """A clone whose command line only says that it runs, with one package to install."""
    (root / "grader" / "cli").mkdir(parents=True)
    for name in ("phase4", "grader/bootstrap.py", "grader/__main__.py", "requirements-uv.lock"):
        shutil.copy(ROOT / name, root / name)
    (root / "requirements.lock").write_text(ONE_PACKAGE)
    (root / "requirements-dev.lock").write_text("")
    (root / "grader" / "cli" / "app.py").write_text(
        "import os, sys, colorama\n\n\ndef main():\n    print('runs', *sys.argv[1:])\n"
        "    assert 'PHASE4_BROKEN' not in os.environ\n"
    )
    return root


def environment(**changes: str) -> dict[str, str]:
    return {**{k: v for k, v in os.environ.items() if not k.startswith("PHASE4_")}, **changes}


def launch(clone: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [clone / "phase4", *arguments],
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.network
def test_two_first_uses_at_once_then_a_warm_one_then_a_changed_lock_file(clone: Path) -> None:
    both = [
        subprocess.Popen(
            [clone / "phase4", "a b", "c"],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    ended = [(*process.communicate(timeout=300), process.returncode) for process in both]
    assert [(out, code) for out, _, code in ended] == [("runs a b c\n", 0)] * 2, ended
    assert sorted("first use" in err for _, err, _ in ended) == [False, True]
    assert any("another phase4 is setting up" in err for _, err, _ in ended)
    assert launch(clone, "x").stderr == ""
    link = clone.parent / "bin" / "phase4"
    link.parent.mkdir()
    link.symlink_to("../a clone/phase4")
    done = subprocess.run([link, "y"], env=environment(), capture_output=True, text=True)
    assert done.stdout == "runs y\n"
    (clone / "requirements.lock").write_text("# changed\n" + ONE_PACKAGE)
    again = launch(clone)
    assert again.returncode == 0 and "has changed" in again.stderr


@pytest.mark.network
@pytest.mark.slow
def test_a_killed_first_use_is_mended_by_the_next(clone: Path) -> None:
    rng = random.Random(4)
    for _ in range(4):
        process = subprocess.Popen(
            [clone / "phase4"], env=environment(), stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(rng.uniform(0.05, 4.0))
        # Only the launcher dies: its installer goes on for a while, holding the lock.
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = launch(clone)
    assert (done.returncode, done.stdout) == (0, "runs\n"), done.stderr


def test_no_python_is_said_with_what_to_do(clone: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cmp", "readlink"):
        (tools / name).symlink_to(shutil.which(name) or "")
    old = tools / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = launch(clone, PATH=str(tools))
    assert done.returncode == 5
    assert "needs Python 3.11 or newer" in done.stderr and "apt install" in done.stderr


def test_no_network_is_a_sentence(clone: Path) -> None:
    nowhere = "http://127.0.0.1:9/simple"
    done = launch(
        clone,
        PIP_INDEX_URL=nowhere,
        UV_DEFAULT_INDEX=nowhere,
        PIP_FIND_LINKS="",
        PIP_RETRIES="0",
        PIP_NO_CACHE_DIR="1",
    )
    assert done.returncode == 5
    assert "could not reach the Python package index" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_package_that_was_changed_is_not_installed(clone: Path) -> None:
    (clone / "requirements-uv.lock").write_text(
        f"uv==0.13.9 --hash=sha256:{'0' * 64}\n", encoding="utf-8"
    )
    done = launch(clone)
    assert done.returncode == 5
    assert "its hash differs" in done.stderr or "could not reach" in done.stderr
    assert not (clone / ".venv" / "phase4.lock").exists()


def test_a_read_only_clone_is_a_sentence(clone: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    clone.chmod(0o555)
    try:
        done = launch(clone)
    finally:
        clone.chmod(0o755)
    assert done.returncode == 5 and "cannot write" in done.stderr


def environment_of(clone: Path) -> Path:
    """Where the packages of a clone are."""
    return next((clone / ".venv" / "lib").glob("python*"))


@pytest.mark.network
@pytest.mark.parametrize("how", ["another version", "gone", "does not start", "packages gone"])
def test_python_that_was_replaced_is_noticed(used_clone: Path, how: str) -> None:
    clone = used_clone
    assert launch(clone).stderr == ""
    python = clone / ".venv" / "bin" / "python"
    if how == "another version":
        environment_of(clone).rename(clone / ".venv" / "lib" / "python3.1")
    elif how == "packages gone":
        shutil.rmtree(environment_of(clone) / "site-packages" / "colorama")
    elif how == "gone":
        python.unlink()
        python.symlink_to("/no/such/python3")
    else:
        python.unlink()
        python.write_text("#!/bin/sh\necho libpython is missing >&2\nexit 127\n")
        python.chmod(0o755)
        (clone / ".venv" / "phase4.python").write_text("/no/such/libpython.so\n")
    again = launch(clone, "x y")
    assert (again.returncode, again.stdout) == (0, "runs x y\n"), again.stderr
    assert "Python was replaced under .venv" in again.stderr and "Traceback" not in again.stderr
    assert launch(clone).stderr == ""


@pytest.mark.network
def test_an_environment_that_still_works_is_kept(used_clone: Path) -> None:
    """A file that the interpreter once needed may go, as with an update of Python."""
    clone = used_clone
    kept = clone / ".venv" / "kept"
    kept.touch()
    needed = clone / ".venv" / "phase4.python"
    for content in ("/no/such/file\n", None):
        needed.unlink() if content is None else needed.write_text(content)
        assert launch(clone).stderr == "" and kept.exists()
        assert "os.py" in needed.read_text()


@pytest.mark.network
def test_a_package_that_stays_missing_is_a_sentence(used_clone: Path) -> None:
    program = used_clone / "grader" / "cli" / "app.py"
    whole = program.read_text()
    program.write_text("import no_such_package\n")
    done = launch(used_clone)
    program.write_text(whole)
    assert done.returncode == 5 and done.stdout == ""
    assert "no_such_package cannot be imported" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.network
def test_the_users_settings_for_python_and_pip_are_for_their_programs(
    clone: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("colorama", "typer", "sitecustomize", "encodings"):
        (theirs / f"{name}.py").write_text("raise SystemExit('a file of the user was imported')\n")
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nrequire-virtualenv = true\n[install]\ntarget = {theirs}/t\n")
    settings = {
        "PYTHONPATH": str(theirs),
        "PYTHONHOME": "/no/such/folder",
        "PYTHONSAFEPATH": "1",
        "PIP_CONFIG_FILE": str(config),
        "PIP_USER": "1",
        "PIP_PREFIX": str(theirs / "p"),
        "PIP_NO_DEPS": "1",
        "UV_PYTHON": "3.8",
        "UV_PRERELEASE": "nonsense",
    }
    done = launch(clone, **settings)
    assert (done.returncode, done.stdout) == (0, "runs\n"), done.stderr
    assert not (theirs / "t").exists() and not (theirs / "p").exists()
    assert launch(clone, "z", **settings).stdout == "runs z\n"


def test_where_packages_come_from_is_the_users_to_say(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://files.example/simple\nuser = true\n"
        "trusted-host =\n    files.example\n    more.example\n"
    )
    theirs = {
        "PIP_CONFIG_FILE": str(config),
        "PIP_EXTRA_INDEX_URL": "https://more.example/simple",
        "PIP_TARGET": "/somewhere",
        "UV_INDEX_OURS_PASSWORD": "theirs",
    }
    cleared = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
    # In a process of its own: what pip says is asked once in each.
    asked = "import json; from grader import bootstrap; print(json.dumps(bootstrap.environment()))"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=ROOT,
        env={**cleared, **theirs},
        capture_output=True,
        check=True,
    )
    env = json.loads(done.stdout)
    assert env["PIP_INDEX_URL"] == env["UV_DEFAULT_INDEX"] == "https://files.example/simple"
    assert env["PIP_EXTRA_INDEX_URL"] == env["UV_INDEX"] == "https://more.example/simple"
    assert env["UV_INSECURE_HOST"] == "files.example more.example"
    assert env["UV_INDEX_OURS_PASSWORD"] == "theirs" and env["PIP_CONFIG_FILE"] == os.devnull
    assert not {"PIP_TARGET", "PIP_USER"} & env.keys()


def test_a_file_of_roots_after_one_sudo_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / ".venv.lock"
    lock.touch()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SystemExit) as stopped:
        bootstrap.explain_permission(lock)
    said = capsys.readouterr().err
    assert stopped.value.code == 5
    assert "as after a run with sudo" in said and "sudo chown -R" in said


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
@pytest.mark.parametrize("setting", ["core.autocrlf=true", "core.eol=crlf"])
def test_a_clone_has_unix_line_ends_whatever_git_is_set_to(setting: str, tmp_path: Path) -> None:
    ours, clone = tmp_path / "ours", tmp_path / "clone"
    ours.mkdir()
    for name in ("phase4", ".gitattributes"):
        shutil.copy(ROOT / name, ours / name)
    who = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=ours, check=True)
    subprocess.run(["git", "clone", "-q", "-c", setting, ours, clone], check=True)
    assert b"\r" not in (clone / "phase4").read_bytes()
