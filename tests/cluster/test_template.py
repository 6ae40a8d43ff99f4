"""Copies that leave out the zeros are the same files."""

from __future__ import annotations

import errno
import os

import pytest

from grader.cluster import template
from grader.cluster.errors import EnvironmentProblem


def test_a_copy_is_the_same_and_smaller(home, tmp_path):
    source = tmp_path / "etcd" / "member"
    source.mkdir(parents=True)
    content = b"a" * 10 + bytes(5 << 20) + b"b" + bytes(3 << 20)
    (source / "wal").write_bytes(content)
    (source / "empty").write_bytes(b"")
    assert not template.there() and not template.restore(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    template.capture(tmp_path / "etcd")
    assert template.there()
    assert template.restore(tmp_path / "copy")
    copy = tmp_path / "copy" / "member"
    assert (copy / "wal").read_bytes() == content
    assert (copy / "empty").read_bytes() == b""
    assert os.stat(copy / "wal").st_blocks * 512 < len(content)
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o700


def test_the_first_one_stays(home, tmp_path):
    for text in ("first", "second"):
        (tmp_path / text).mkdir()
        (tmp_path / text / "db").write_text(text)
        template.capture(tmp_path / text)
    template.restore(tmp_path / "copy")
    assert (tmp_path / "copy" / "db").read_text() == "first"
    assert [entry.name for entry in template.folder().parent.iterdir()] == [template.folder().name]


def test_an_older_courses_template_goes(home, tmp_path):
    (tmp_path / "etcd").mkdir()
    old = template.folder().parent / "older"
    old.mkdir(parents=True)
    template.capture(tmp_path / "etcd")
    assert not old.exists() and template.there()


def test_one_that_cannot_be_read_goes(home, tmp_path):
    template.folder().parent.mkdir(parents=True)
    template.folder().write_text("a file where a folder should be")
    assert not template.restore(tmp_path / "copy")
    assert not (tmp_path / "copy").exists() and not template.folder().exists()


@pytest.mark.parametrize(("code", "says"), [(errno.ENOSPC, "is full"), (errno.EFBIG, "ulimit -f")])
def test_a_limit_of_the_machine_is_not_the_templates_fault(home, tmp_path, monkeypatch, code, says):
    (tmp_path / "etcd").mkdir()
    (tmp_path / "etcd" / "db").write_text("data")
    template.capture(tmp_path / "etcd")

    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(template, "open", refuse, raising=False)
    with pytest.raises(EnvironmentProblem, match=says):
        template.restore(tmp_path / "copy")
    assert template.there()
