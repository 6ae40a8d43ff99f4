"""Ports of this machine: a free one, and who listens on one."""

from __future__ import annotations

import random
import socket


def free() -> int:
    """A free port below those that the system gives to outgoing connections.

    One of those could be taken while the API server is being restarted, be it by a
    client that dials the very port it is given.
    """
    while True:
        port = random.randint(20000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def listens(pid: int, port: int) -> bool:
    """Whether the process ``pid`` listens at a TCP port; False as well once it has ended."""
    import psutil

    try:
        connections = psutil.Process(pid).net_connections("tcp4")
    except psutil.Error:
        return False  # it is ending
    return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in connections)
