"""Which versions make up the control plane."""

from __future__ import annotations

import platform
import sys

KUBERNETES = "v1.37.2"
ETCD = "v3.7.3"
KWOK = "v0.8.0"

#: The five processes of an embedded cluster, in the order in which they can start.
COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
)

#: Every binary the course needs, and the version it is pinned to.
VERSIONS = {
    "etcd": ETCD,
    "kube-apiserver": KUBERNETES,
    "kube-controller-manager": KUBERNETES,
    "kube-scheduler": KUBERNETES,
    "kubectl": KUBERNETES,
    "kwok": KWOK,
}


def goos() -> str:
    """This machine's operating system as Go names it."""
    return {"win32": "windows"}.get(sys.platform, sys.platform)


def goarch() -> str:
    """This machine's architecture as Go names it."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}.get(machine, machine)
