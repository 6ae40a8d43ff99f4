"""Reports are for the learner's own user: told by whose the other end of a connection is."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.site import peers

from .test_live import ask

STRANGER = 65534  # nobody
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
HERE, PEER = ("127.0.0.1", 8440), ("127.0.0.1", 50000)


@pytest.fixture
def connected() -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    """The two ends of a connection of ours."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as served,
    ):
        yield client.getsockname(), served.getsockname()


def _table(path: Path, *rows: str) -> Path:
    path.write_text("\n".join([HEAD, *rows, ""]), encoding="ascii")
    return path


def _row(local: str, remote: str, uid: int, inode: int = 4711) -> str:
    return f"   0: {local} {remote} 01 00000000:00000000 00:00000000 00000000 {uid:5} 0 {inode} 1 0"


little = pytest.mark.skipif(sys.byteorder != "little", reason="the rows are of such a machine")


@little
@pytest.mark.parametrize(
    ("rows", "ours"),
    [
        ([_row("0100007F:C350", "0100007F:20F8", 1000)], True),
        ([_row("0100007F:C350", "0100007F:20F8", 0)], True),
        ([_row("0100007F:C350", "0100007F:20F8", 1001)], False),
        # Closed by its process: it has no owner any more, and 0 in that column.
        ([_row("0100007F:C350", "0100007F:20F8", 0, inode=0)], False),
        # The server's own end, and another connection of ours.
        ([_row("0100007F:20F8", "0100007F:C350", 1000)], False),
        ([_row("0100007F:C351", "0100007F:20F8", 1000)], False),
        ([], False),
        (["nonsense"], False),
    ],
)
def test_the_owner_is_read_from_the_table(tmp_path, monkeypatch, rows, ours):
    monkeypatch.setattr(peers, "TABLES", (_table(tmp_path / "tcp", *rows),))
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert peers.is_ours(PEER, HERE) is ours


@little
def test_ipv4_through_ipv6(tmp_path, monkeypatch):
    mapped = "0000000000000000FFFF0000"
    row = _row(f"{mapped}0100007F:C350", f"{mapped}0100007F:20F8", 1000)
    tables = (_table(tmp_path / "tcp"), _table(tmp_path / "tcp6", row))
    monkeypatch.setattr(peers, "TABLES", tables)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert peers.is_ours(PEER, HERE)


@pytest.mark.parametrize("tables", ["of this machine", "none"])
def test_a_connection_of_ours_is_ours(connected, monkeypatch, tables):
    if tables == "none":  # as on macOS
        monkeypatch.setattr(peers, "TABLES", (Path("/nonexistent"),))
    peer, here = connected
    assert peers.is_ours(peer, here)
    assert not peers.is_ours((peer[0], 1), here)


def test_a_stranger_gets_the_pages_and_no_report(served, monkeypatch):
    monkeypatch.setattr(peers, "is_ours", lambda peer, here: False)
    assert ask(served, "/")[0] == 200
    for path in ("state", "events", "report/4.1.2", "answer/4.1.2", "nothing"):
        status, _, body = ask(served, f"/-/phase4/{path}")
        assert status == 403 and b"own user alone" in body


def test_an_encoded_path_is_no_way_round(served, monkeypatch):
    monkeypatch.setattr(peers, "is_ours", lambda peer, here: False)
    for path in ("/%2d/phase4/state", "/-/phase4%2fstate", "//-/phase4/state", "/./-/phase4/state"):
        assert b"standing" not in ask(served, path)[2]


@pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("curl") is None, reason="only root can be two users"
)
def test_another_user_of_the_machine(served):
    address = urllib.parse.urlsplit(served)

    def curl(user: int) -> str:
        words = ["curl", "-sS", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code}"]
        done = subprocess.run(
            [*words, f"http://{address.netloc}/-/phase4/state"],
            user=user,
            cwd="/",
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    assert (curl(STRANGER), curl(0)) == ("403", "200")


def test_the_refusal_says_the_port(served):
    port = urllib.parse.urlsplit(served).port
    status, _, body = ask(served, "/", Host="localhost:1")
    assert status == 421
    assert f"ssh -L {port}:127.0.0.1:{port}" in body.decode()
