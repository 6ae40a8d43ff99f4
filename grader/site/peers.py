"""Which user is at the other end of a connection on this machine.

A port on 127.0.0.1 is open to every user of the machine; a cookie would not distinguish
them, since a browser sends it to every port of the host.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

#: Linux' tables of TCP sockets; the second has those that speak IPv4 through IPv6.
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_MAPPED = "0000000000000000FFFF0000" if sys.byteorder == "little" else "00000000000000000000FFFF"

Address = tuple[str, int]


def is_ours(peer: Address, here: Address) -> bool:
    """Whether the process at ``peer``, connected to ``here``, is of this user or of root.

    Root reads every file anyway, and is what WSL forwards a Windows browser as.
    """
    tables = [table for table in TABLES if table.is_file()]
    if tables:
        return any(_owner(table, peer, here) in (os.getuid(), 0) for table in tables)
    return _one_of_our_processes_has(peer, here)


def _owner(table: Path, local: Address, remote: Address) -> int | None:
    """The user id of the socket between two addresses; None where the table has none."""
    wanted = {(_hex(local), _hex(remote)), (_MAPPED + _hex(local), _MAPPED + _hex(remote))}
    with table.open(encoding="ascii", errors="replace") as lines:
        next(lines, None)
        for line in lines:
            # sl local remote st queues tr:when retrnsmt uid timeout inode: a socket that
            # its process has closed has inode 0, and no owner either.
            words = line.split()
            if len(words) > 9 and (words[1], words[2]) in wanted and words[9] != "0":
                return int(words[7])
    return None


def _hex(address: Address) -> str:
    """``127.0.0.1:80`` as these tables have it, ``0100007F:0050``."""
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"


def _one_of_our_processes_has(local: Address, remote: Address) -> bool:
    """The same where there is no such table (macOS): a look at each process that we may look at."""
    return any(found == (local, remote) for found in _connections_of_ours())


def _connections_of_ours() -> Iterator[tuple[Address, Address]]:
    import psutil

    for process in psutil.process_iter():
        try:
            if process.uids().real != os.getuid():
                continue
            for one in process.net_connections("tcp4"):
                if one.raddr:
                    yield (one.laddr.ip, one.laddr.port), (one.raddr.ip, one.raddr.port)
        except psutil.Error:
            continue  # it has ended, or is of no concern of ours
