"""Which machine this is, by what no change of its name moves.

A process record says where its process runs. Three things tell whether that is here:
the boot, the namespace of process ids (a container has one of its own), and, for a
record of an earlier boot, the installation. A host name tells nothing: macOS changes
it by itself, and two machines may have the same.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import sys
import uuid
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """A machine as its processes see it. An empty field is one that cannot be known there."""

    #: The installation, hashed: a machine id is not to be spread.
    id: str
    #: This run of its kernel.
    boot: str
    #: The namespace that process ids are counted in.
    pids: str

    def sees(self, other: Machine) -> bool:
        """Whether a process of ``other`` is known here by its id, or has certainly ended.

        False for another machine that shares this home, and for another container: what
        runs there cannot be seen, and is to be left alone.
        """
        if self.boot and self.boot == other.boot:
            return self.pids == other.pids
        # An earlier boot of this machine: whatever ran then has ended.
        return bool(self.id) and self.id == other.id


@functools.cache
def here() -> Machine:
    """This machine."""
    if sys.platform == "linux":
        installation = _text("/etc/machine-id") or _text("/var/lib/dbus/machine-id")
        boot = _text("/proc/sys/kernel/random/boot_id")
        try:
            pids = os.readlink("/proc/self/ns/pid")
        except OSError:
            pids = ""
    else:
        installation, boot, pids = _host_uuid(), _sysctl("kern.bootsessionuuid"), ""
    # The word that systemd has there until the first boot is no name of a machine.
    known = installation and installation != "uninitialized"
    digest = hashlib.sha256(f"phase4 {installation}".encode()).hexdigest()[:16] if known else ""
    return Machine(digest, boot, pids)


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def _sysctl(name: str) -> str:
    """A text that the kernel of macOS knows under ``name``; empty where it does not."""
    try:
        libc = ctypes.CDLL(None)
        size = ctypes.c_size_t(256)
        value = ctypes.create_string_buffer(size.value)
        if libc.sysctlbyname(name.encode(), value, ctypes.pointer(size), None, 0) != 0:
            return ""
        return value.value.decode()
    except (AttributeError, OSError, UnicodeDecodeError):
        return ""


def _host_uuid() -> str:
    """The id of this hardware as macOS has it (IOPlatformUUID); empty elsewhere."""
    try:
        value = (ctypes.c_ubyte * 16)()
        # A struct timespec: how long (s, ns) it may take.
        if ctypes.CDLL(None).gethostuuid(value, (ctypes.c_long * 2)(1, 0)) != 0:
            return ""
        return str(uuid.UUID(bytes=bytes(value)))
    except (AttributeError, OSError):
        return ""
