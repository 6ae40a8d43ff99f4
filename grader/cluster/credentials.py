"""What a kubeconfig holds: where an API server is and how to speak to it as its user."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from grader.cluster.certificate import shared, trusting
from grader.cluster.errors import EnvironmentProblem


@dataclass(frozen=True)
class Credentials:
    """A server and the credential of one user, read out of a kubeconfig.

    ``ca``, ``client_certificate`` and ``client_key`` are PEM. An empty field is
    one that the kubeconfig does not have.
    """

    server: str
    ca: str = ""
    token: str = ""
    client_certificate: str = ""
    client_key: str = ""
    username: str = ""
    password: str = ""
    insecure: bool = False
    tls_server_name: str = ""

    def headers(self) -> dict[str, str]:
        """The headers that carry the credential (none when it is a client certificate)."""
        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        if self.username:
            pair = f"{self.username}:{self.password}".encode()
            return {"Authorization": "Basic " + base64.b64encode(pair).decode()}
        return {}

    def ssl_context(self) -> ssl.SSLContext | None:
        """A context that trusts this server alone and shows the client certificate; None for http."""
        if not self.server.startswith("https:"):
            return None
        if self.ca:
            context = trusting(self.ca)
        else:
            context = shared()
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.client_certificate:
            # The ssl module reads certificates from files only.
            with tempfile.TemporaryDirectory(prefix="phase4-") as folder:
                path = Path(folder) / "client.pem"
                path.touch(mode=0o600)
                path.write_text(self.client_certificate + "\n" + self.client_key)
                context.load_cert_chain(path)
        return context


def load(path: str | os.PathLike) -> Credentials:
    """The credentials of a kubeconfig's current context.

    Understands certificates and tokens, inline or in files (relative to the
    kubeconfig), basic authentication and exec plugins that print a token. Raises
    :class:`EnvironmentProblem` where the file cannot be read or lacks something.
    """
    where = Path(path)
    try:
        text = where.read_text()
    except FileNotFoundError:
        raise EnvironmentProblem(f"There is no kubeconfig at {where}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentProblem(f"The kubeconfig {where} cannot be read: {error}.") from error
    try:
        data = json.loads(text)
    except ValueError:
        import yaml

        try:
            data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except yaml.YAMLError as error:
            line = getattr(getattr(error, "problem_mark", None), "line", None)
            at = f" (line {line + 1})" if line is not None else ""
            raise EnvironmentProblem(f"The kubeconfig {where} is not valid YAML{at}.") from error
    try:
        context = _named(data, "contexts", data["current-context"])["context"]
        cluster = _named(data, "clusters", context["cluster"])["cluster"]
        user = _named(data, "users", context["user"])["user"] if context.get("user") else {}
        server = cluster["server"].rstrip("/")
    except (KeyError, TypeError, AttributeError) as error:
        raise EnvironmentProblem(
            f"The kubeconfig {where} has no current context with a cluster and a user "
            f"(missing: {error})."
        ) from error
    token = user.get("token") or ""
    if not token and user.get("tokenFile"):
        token = _beside(where, user["tokenFile"]).decode().strip()
    certificate = _pem(where, user, "client-certificate")
    key = _pem(where, user, "client-key")
    if not token and not certificate and user.get("exec"):
        token, certificate, key = _from_plugin(where, user["exec"])
    return Credentials(
        server=server,
        ca=_pem(where, cluster, "certificate-authority"),
        token=token,
        client_certificate=certificate,
        client_key=key,
        username=user.get("username") or "",
        password=user.get("password") or "",
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=cluster.get("tls-server-name") or "",
    )


def kubeconfig(server: str, ca: str, token: str, *, name: str = "phase4") -> str:
    """The text of a kubeconfig with one cluster, one user and one context called ``name``."""
    ca_data = base64.b64encode(ca.encode()).decode()
    return (
        "apiVersion: v1\nkind: Config\n"
        f"current-context: {name}\n"
        f"clusters:\n- name: {name}\n  cluster:\n    server: {server}\n"
        f"    certificate-authority-data: {ca_data}\n"
        f"users:\n- name: {name}\n  user:\n    token: {token}\n"
        f"contexts:\n- name: {name}\n  context:\n    cluster: {name}\n    user: {name}\n"
    )


def _named(data: dict, kind: str, name: str) -> dict:
    for item in data[kind]:
        if item["name"] == name:
            return item
    raise KeyError(f"{kind}/{name}")


def _beside(kubeconfig_path: Path, name: str) -> bytes:
    path = kubeconfig_path.parent / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise EnvironmentProblem(
            f"The kubeconfig {kubeconfig_path} refers to {path}, which cannot be read "
            f"({error.strerror})."
        ) from error


def _pem(kubeconfig_path: Path, holder: dict, field: str) -> str:
    if data := holder.get(f"{field}-data"):
        return base64.b64decode(data).decode()
    if name := holder.get(field):
        return _beside(kubeconfig_path, name).decode()
    return ""


def _from_plugin(kubeconfig_path: Path, plugin: dict) -> tuple[str, str, str]:
    """Token, certificate and key that an exec plugin prints (client.authentication.k8s.io)."""
    command = [plugin["command"], *(plugin.get("args") or [])]
    extra = {item["name"]: item["value"] for item in plugin.get("env") or []}
    info = {"apiVersion": plugin.get("apiVersion"), "kind": "ExecCredential", "spec": {}}
    info["spec"]["interactive"] = False
    environment = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=60, stdin=subprocess.DEVNULL
        )
        status = json.loads(done.stdout)["status"]
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(
            f"The kubeconfig {kubeconfig_path} gets its credential from `{command[0]}`, which did "
            f"not give one ({type(error).__name__}). Try `kubectl version` with it first."
        ) from error
    return (
        status.get("token") or "",
        status.get("clientCertificateData") or "",
        status.get("clientKeyData") or "",
    )
