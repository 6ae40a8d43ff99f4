"""What the operating system says about a place becomes a sentence for a person."""

from __future__ import annotations

import errno
import os

import pytest

from grader.cluster import dirs
from grader.cluster.errors import EnvironmentProblem


def test_one_variable_moves_both_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path))
    assert dirs.cache() == tmp_path / "cache"
    assert dirs.clusters() == tmp_path / "state" / "clusters"
    monkeypatch.delenv("PHASE4_HOME")
    assert dirs.cache().name == dirs.state().name == "phase4"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a file system that refuses")
def test_a_read_only_home(monkeypatch):
    from grader import cluster

    # Not even root may make a folder there.
    monkeypatch.setenv("PHASE4_HOME", "/sys/kernel")
    with pytest.raises(EnvironmentProblem, match="cannot be written to.*Set PHASE4_HOME"):
        cluster.ensure()


def test_a_workspace_that_may_not_be_written_to_is_not_mended_by_another_home(tmp_path):
    with pytest.raises(EnvironmentProblem, match="cannot be written to.*Make it yours"):
        with dirs.writing(tmp_path):
            raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "runs"))


def test_a_file_where_a_folder_should_be(monkeypatch, tmp_path):
    (tmp_path / "home").write_text("")
    with pytest.raises(EnvironmentProblem, match="needed as a folder"):
        dirs.made(tmp_path / "home" / "state")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk(tmp_path, code):
    with pytest.raises(EnvironmentProblem, match=f"The disk that holds {tmp_path} is full"):
        with dirs.writing(tmp_path):
            raise OSError(code, "x")


def test_other_errors_pass(tmp_path):
    with pytest.raises(FileNotFoundError):
        with dirs.writing(tmp_path):
            open(tmp_path / "absent")


def test_private_folders_are_private(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir(mode=0o755)
    assert dirs.made(folder, private=True).stat().st_mode & 0o777 == 0o700


def test_a_write_is_whole_or_nothing(tmp_path):
    path = tmp_path / "f"
    dirs.write_atomically(path, "old", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(EnvironmentProblem):
        with dirs.writing(tmp_path):
            monkey = pytest.MonkeyPatch()
            with monkey.context() as patch:

                def full(*_):
                    raise OSError(errno.ENOSPC, "No space left on device")

                patch.setattr(os, "replace", full)
                dirs.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]
