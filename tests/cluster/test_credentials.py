"""Kubeconfigs as they are met in the wild."""

from __future__ import annotations

import base64
import sys

import pytest
import yaml

from grader.cluster import credentials
from grader.cluster.errors import EnvironmentProblem


def write(path, user: dict, cluster: dict | None = None, **changes):
    config = {
        "current-context": "c",
        "contexts": [
            {"name": "other", "context": {"cluster": "other", "user": "other"}},
            {"name": "c", "context": {"cluster": "k", "user": "u"}},
        ],
        "clusters": [{"name": "k", "cluster": {"server": "https://h:1/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
        **changes,
    }
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "kubeconfig"


def test_a_token(path):
    found = credentials.load(write(path, {"token": "t"}))
    assert found.server == "https://h:1"
    assert found.headers() == {"Authorization": "Bearer t"}


def test_files_are_beside_the_kubeconfig(path):
    (path.parent / "token").write_text("from-file\n")
    (path.parent / "ca.crt").write_text("CA")
    found = credentials.load(
        write(path, {"tokenFile": "token"}, {"certificate-authority": "ca.crt"})
    )
    assert (found.token, found.ca) == ("from-file", "CA")


def test_inline_certificates(path):
    data = {
        f"client-{part}-data": base64.b64encode(part.encode()).decode()
        for part in ("certificate", "key")
    }
    found = credentials.load(write(path, data))
    assert (found.client_certificate, found.client_key) == ("certificate", "key")
    assert found.headers() == {}


def test_basic_authentication(path):
    found = credentials.load(write(path, {"username": "a", "password": "b"}))
    assert found.headers() == {"Authorization": "Basic YTpi"}


def test_a_plugin(path):
    answer = '{"status": {"token": "plugged"}}'
    plugin = {"command": sys.executable, "args": ["-c", f"print({answer!r})"], "env": None}
    assert credentials.load(write(path, {"exec": plugin})).token == "plugged"


@pytest.mark.parametrize(
    "plugin",
    [{"command": "no-such-plugin"}, {"command": "false"}, {"command": "echo", "args": ["{}"]}],
)
def test_a_plugin_that_fails(path, plugin):
    with pytest.raises(EnvironmentProblem, match="did not give one"):
        credentials.load(write(path, {"exec": plugin}))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a: [", "is not valid YAML .line "),
        (b"", "has no current context"),
        (b"current-context: x\ncontexts: []\n", "contexts/x"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_broken_kubeconfig_gets_a_sentence(path, content, says):
    path.write_bytes(content)
    with pytest.raises(EnvironmentProblem, match=says):
        credentials.load(path)


def test_what_is_not_there(path, tmp_path):
    with pytest.raises(EnvironmentProblem, match=f"no kubeconfig at {path}"):
        credentials.load(path)
    write(path, {}, {"certificate-authority": "gone.crt"})
    with pytest.raises(EnvironmentProblem, match=r"refers to .*gone.crt, which cannot be read"):
        credentials.load(path)


def test_what_is_written_can_be_read(path):
    path.write_text(credentials.kubeconfig("https://127.0.0.1:1", "CA\n", "t"))
    found = credentials.load(path)
    assert (found.server, found.ca, found.token) == ("https://127.0.0.1:1", "CA\n", "t")
