"""The command line of each component, and the files of a cluster.

Every component runs in the cluster's folder, and every file is named relative to it:
some of the flags are lists, in which a comma or a quote in a path would have a meaning.
etcd listens on unix sockets there, so that it takes no port and no other user of the
machine can talk to it; a socket's path may have about 100 bytes in any case.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.cluster import credentials, dirs

MANIFESTS = Path(__file__).parent / "manifests"

#: The manifests that components read; each cluster has a copy.
_CONFIGURATION = ("audit-policy.yaml", "stages.yaml")

#: What each component is to the API server: user, group. Members of system:masters are
#: let in before the API server has read its roles, so nobody backs off at the start.
#: The controllers go by their own service accounts, with the roles that those have.
IDENTITIES = {
    "admin": ("phase4-admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", "system:masters"),
    "kube-scheduler": ("system:kube-scheduler", "system:masters"),
    "kwok": ("system:kwok", "system:masters"),
}

#: Controllers that a course about controllers shows or leans on. The rest (volumes,
#: certificates, cloud, autoscaling, device claims) has nothing to do here.
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)

#: Soft limits for Go's heap: what keeps the whole below 650 MiB.
ENVIRONMENT: Mapping[str, Mapping[str, str]] = {
    "etcd": {"GOMEMLIMIT": "64MiB"},
    # Its start makes much garbage once: collecting later costs nothing below the limit.
    "kube-apiserver": {"GOMEMLIMIT": "240MiB", "GOGC": "400"},
    "kube-controller-manager": {"GOMEMLIMIT": "80MiB"},
    "kube-scheduler": {"GOMEMLIMIT": "48MiB"},
    "kwok": {"GOMEMLIMIT": "48MiB"},
}


@dataclass(frozen=True)
class Layout:
    """The files of the cluster in ``folder``."""

    folder: Path

    @property
    def record(self) -> Path:
        """What is recorded of the cluster besides its processes (JSON)."""
        return self.folder / "cluster.json"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    @property
    def etcd(self) -> Path:
        return self.folder / "etcd"

    @property
    def socket(self) -> Path:
        return self.folder / "etcd.sock"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit" / "audit.log"

    @property
    def paused(self) -> Path:
        """A file for each component that is halted, naming who halted it."""
        return self.folder / "paused"

    def log(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def kubeconfig_of(self, identity: str) -> Path:
        return self.kubeconfig if identity == "admin" else self.pki / f"{identity}.kubeconfig"

    def prepare(self) -> dict[str, str]:
        """Make the folders, the service account key and a token for each identity; returns the tokens.

        The serving certificate is not made here: the API server makes it where
        there is none yet.
        """
        for folder in (self.folder, self.pki, self.logs, self.paused, self.audit_log.parent):
            dirs.made(folder, private=True)
        dirs.write_atomically(self.pki / "sa.key", _ec_key(), mode=0o600)
        tokens = {identity: secrets.token_urlsafe(32) for identity in IDENTITIES}
        rows = [
            f"{tokens[identity]},{user},{user},{group}\n"
            for identity, (user, group) in IDENTITIES.items()
        ]
        dirs.write_atomically(self.pki / "tokens.csv", "".join(rows), mode=0o600)
        return tokens

    def lay_manifests(self) -> None:
        """Copy what the components read of the course's manifests into the cluster's folder."""
        for name in _CONFIGURATION:
            dirs.write_atomically(self.folder / name, (MANIFESTS / name).read_bytes())

    def write_kubeconfigs(self, server: str, tokens: Mapping[str, str]) -> None:
        """Write each identity's kubeconfig; the API server's certificate must be there."""
        ca = (self.pki / "apiserver.crt").read_text()
        for identity, token in tokens.items():
            text = credentials.kubeconfig(server, ca, token)
            dirs.write_atomically(self.kubeconfig_of(identity), text, mode=0o600)


def arguments(component: str, layout: Layout, port: int) -> list[str]:
    """The arguments of a component; ``port`` is the API server's, on loopback."""
    if component == "etcd":
        client, peer = "unix://etcd.sock", "unix://peer.sock"
        return [
            "--name=phase4",
            "--data-dir=etcd",
            # A machine that loses power may lose this cluster.
            "--unsafe-no-fsync",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=phase4={peer}",
            # There is no other instance.
            "--heartbeat-interval=10",
            "--election-timeout=100",
            "--quota-backend-bytes=2147483648",
            "--log-level=warn",
        ]
    if component == "kube-apiserver":
        return [
            "--etcd-servers=unix://etcd.sock",
            # Revisions stay until a lab compacts them.
            "--etcd-compaction-interval=0",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            "--cert-dir=pki",
            "--token-auth-file=pki/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=pki/sa.key",
            "--service-account-signing-key-file=pki/sa.key",
            "--service-cluster-ip-range=10.96.0.0/16",
            # No Pod runs, so nobody looks for the API server through a Service.
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
            "--audit-policy-file=audit-policy.yaml",
            "--audit-log-path=audit/audit.log",
            "--audit-log-mode=blocking",
            "--audit-log-maxsize=256",
            "--audit-log-maxbackup=1",
            "--profiling=false",
        ]
    kubeconfig = f"--kubeconfig={layout.kubeconfig_of(component).relative_to(layout.folder)}"
    if component == "kube-controller-manager":
        return [
            kubeconfig,
            "--leader-elect=false",
            "--secure-port=0",
            f"--controllers={','.join(CONTROLLERS)}",
            # The audit log then names the controller, not the manager.
            "--use-service-account-credentials=true",
            "--service-account-private-key-file=pki/sa.key",
            "--root-ca-file=pki/apiserver.crt",
            # A laptop that slept, or was busy, has not lost its node.
            "--node-monitor-grace-period=5m",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            "--profiling=false",
        ]
    if component == "kube-scheduler":
        return [
            kubeconfig,
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            "--profiling=false",
        ]
    if component == "kwok":
        return [
            kubeconfig,
            "--config=stages.yaml",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--node-ip=127.0.0.1",
            "--node-lease-duration-seconds=0",
        ]
    raise ValueError(f"no component is called {component}")


def _ec_key() -> str:
    """A fresh P-256 private key as PEM (RFC 5915, without the public part that follows from it)."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    scalar = (1 + secrets.randbelow(order - 1)).to_bytes(32, "big")
    # SEQUENCE { INTEGER 1, OCTET STRING scalar, [0] { OBJECT IDENTIFIER prime256v1 } }
    der = bytes.fromhex("30310201010420") + scalar + bytes.fromhex("a00a06082a8648ce3d030107")
    body = base64.b64encode(der).decode()
    lines = [body[start : start + 64] for start in range(0, len(body), 64)]
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""])
