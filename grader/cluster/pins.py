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

#: sha256 of what a release publishes for a binary, by name, version and platform.
#: Only what two sources that do not depend on each other agree on is here (for kwok:
#: the packages of nixpkgs and of the AUR, and a project that fetched it itself).
DIGESTS = {
    ("kwok", "v0.8.0", "darwin-arm64"): (
        "69a064ec98d37844d9d742b5b28ff57825659a983ccc3e208daa6948b94d64ba"
    ),
    ("kwok", "v0.8.0", "linux-amd64"): (
        "f5a4385a2ae1b9dd7f8acae18e002a75c0ebba124ae9d7259aa8dadb50711f46"
    ),
    ("kwok", "v0.8.0", "linux-arm64"): (
        "628f7d277860f524a2a775c217adcc58828e7b59ab0933680315784f1b8b0e37"
    ),
}


def digest(name: str) -> str:
    """The sha256 (hex) that is pinned for a binary's release on this machine; "" where none is."""
    return DIGESTS.get((name, VERSIONS[name], f"{goos()}-{goarch()}"), "")


def goos() -> str:
    """This machine's operating system as Go names it."""
    return {"win32": "windows"}.get(sys.platform, sys.platform)


def goarch() -> str:
    """This machine's architecture as Go names it."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm"}.get(machine, machine)
