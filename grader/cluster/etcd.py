"""Speaking to etcd through its JSON gateway, on the cluster's unix socket."""

from __future__ import annotations

import base64
import fcntl
import http.client
import json
import os
import socket
import tempfile
from pathlib import Path

from grader.cluster.errors import ClusterLost


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("etcd", timeout=timeout)
        self._socket_path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        # A socket's path may have about 100 bytes; a link makes any folder short.
        with tempfile.TemporaryDirectory(prefix="p4-") as folder:
            link = os.path.join(folder, "c")
            os.symlink(self._socket_path.parent.absolute(), link)
            self.sock.connect(os.path.join(link, self._socket_path.name))


def call(socket_path: Path, method: str, body: dict, *, timeout: float = 10.0) -> dict:
    """POST ``body`` to ``/v3/<method>`` and return the answer; int64s are strings there.

    Raises :class:`ClusterLost` where etcd does not answer or refuses.
    """
    connection = _UnixConnection(socket_path, timeout)
    try:
        connection.request("POST", f"/v3/{method}", json.dumps(body))
        response = connection.getresponse()
        data = json.loads(response.read() or b"{}")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ClusterLost(f"etcd did not answer {method} ({error}).") from error
    finally:
        connection.close()
    if response.status != 200:
        raise ClusterLost(f"etcd refused {method}: {data.get('message', response.status)}.")
    return data


def in_use(folder: Path) -> bool:
    """Whether an etcd has the data in ``folder`` open, be it one of another machine or container.

    etcd holds a lock on its database for as long as it runs.
    """
    try:
        with open(folder / "member" / "snap" / "db", "rb") as database:
            fcntl.flock(database, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # there is none, or this file system has no locks
    return False


def revision(socket_path: Path) -> int:
    """The revision of the store."""
    key = base64.b64encode(b"/").decode()
    return int(
        call(socket_path, "kv/range", {"key": key, "count_only": True})["header"]["revision"]
    )


def compact(socket_path: Path) -> int:
    """Compact up to the present revision, physically; returns that revision."""
    present = revision(socket_path)
    call(socket_path, "kv/compaction", {"revision": str(present), "physical": True})
    return present
