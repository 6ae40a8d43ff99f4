"""What the machine does not give is one sentence about the machine."""

from __future__ import annotations

import errno
import os
import resource
import subprocess

import pytest

from grader import cluster as clusters
from grader.cluster import binaries, dirs, limits, template, waiting
from grader.cluster.components import Layout
from grader.cluster.errors import ClusterLost, EnvironmentProblem
from grader.cluster.process import records


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("accept: too many open files", "too few files.*`ulimit -n`"),
        ("file descriptor limit of etcd process is too low; please set higher", "ulimit -n"),
        ("error creating fsnotify watcher: too many open files", "inotify"),
        ("inotify_add_watch: no space left on device", "inotify"),
        ("failed to create WAL: no space left on device", "The disk is full"),
        ("Opening bbolt db failed: cannot allocate memory", "too little memory"),
        ("fatal error: runtime: out of memory", "too little memory"),
        ("runtime: failed to create new OS thread (have 5; errno=11)", "ulimit -u"),
        ("failed to create WAL: file too large", "ulimit -f"),
    ],
)
def test_what_a_component_says_of_a_limit(words, says):
    with pytest.raises(EnvironmentProblem, match=says):
        raise EnvironmentProblem(limits.named_in(words))


def test_what_is_no_limit():
    assert limits.named_in("dial unix etcd.sock: resource temporarily unavailable") == ""


@pytest.mark.parametrize("hard", [256, resource.RLIM_INFINITY])
def test_enough_files(monkeypatch, hard):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (16, hard))
    limits.check()


def test_too_few_files_are_known_before_anything_is_fetched(home, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (16, 128))
    monkeypatch.setattr(binaries, "ensure", lambda *_: pytest.fail("ten minutes of a build"))
    with pytest.raises(EnvironmentProblem, match="lets a process open too few files"):
        clusters.ensure("a")


@pytest.mark.parametrize(
    ("code", "says"),
    [(errno.EAGAIN, "ulimit -u"), (errno.EMFILE, "ulimit -n"), (errno.ENOMEM, "no memory left")],
)
def test_no_process_to_be_had(home, monkeypatch, code, says):
    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(EnvironmentProblem, match=says):
        records.start(["true"], name="x", kind="learner")
    assert records.all() == []


def test_no_file_to_be_had(tmp_path):
    with pytest.raises(EnvironmentProblem, match="ulimit -n"), dirs.writing(tmp_path):
        raise OSError(errno.EMFILE, "Too many open files")


def ended(home, name: str, script: str):
    files = Layout(home)
    files.logs.mkdir(parents=True)
    with files.log(name).open("wb") as log:
        one = records.start(["sh", "-c", script], name=name, kind="component", stdout=log)
    one.wait(20)
    with pytest.raises(EnvironmentProblem) as caught:
        waiting.raise_why_it_ended(one, files)
    return caught.value


def test_a_component_that_met_a_limit_is_not_lost(home):
    """So that neither the template nor a cluster's data is thrown away for it."""
    problem = ended(home, "etcd", "echo 'panic: write: no space left on device'; exit 2")
    assert not isinstance(problem, ClusterLost)
    assert str(problem).startswith("etcd could not work. The disk is full.")


def test_a_component_that_was_killed(home):
    problem = ended(home, "etcd", "echo served; kill -9 $$")
    assert "it was killed, as a machine that is out of memory does. Before that: served" in str(
        problem
    )


@pytest.mark.live
def test_a_shell_that_allows_little_leaves_nothing_running(own_home):
    clusters.ensure("a")
    clusters.stop("a")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(EnvironmentProblem, match="ulimit -f"):
            clusters.ensure("a")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert records.live() == [] and template.there()
