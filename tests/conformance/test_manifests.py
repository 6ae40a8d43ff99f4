"""The operators' manifests: an API server takes them as they are, and Pod security has no objection."""

from __future__ import annotations

import subprocess
import uuid

import pytest

from grader import cluster as clusters
from grader.cluster import binaries
from grader.course import ROOT

pytestmark = pytest.mark.live

CONFIG = ROOT / "solutions" / "artifacts" / "common" / "operator_handwired" / "config"


@pytest.fixture(scope="module")
def kubectl():
    program = binaries.ensure(["kubectl"])["kubectl"]
    kubeconfig = clusters.ensure().kubeconfig

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [program, f"--kubeconfig={kubeconfig}", *arguments],
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_all_of_it_is_applied_with_no_unknown_field(kubectl):
    said = kubectl("apply", "-k", str(CONFIG), "--dry-run=server", "--validate=strict", "-oname")
    assert {
        "customresourcedefinition.apiextensions.k8s.io/webapps.phase4.example.com",
        "deployment.apps/webapp-operator",
        "clusterrole.rbac.authorization.k8s.io/webapp-operator",
        "role.rbac.authorization.k8s.io/webapp-operator-records",
    } <= set(said.split())


def test_the_pods_are_what_restricted_allows(kubectl, tmp_path):
    """A Pod of the template, in a namespace that enforces it: the Deployment itself is never refused."""
    import yaml

    deployment = yaml.safe_load((CONFIG / "manager" / "deployment.yaml").read_text())
    template = deployment["spec"]["template"]
    template["spec"]["serviceAccountName"] = "default"
    namespace = f"restricted-{uuid.uuid4().hex[:8]}"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "operator", "namespace": namespace},
        "spec": template["spec"],
    }
    file = tmp_path / "pod.json"
    file.write_text(yaml.safe_dump(pod))
    # Labelled from the first: an API server may hear of a label that is added later after the Pod.
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    place = tmp_path / "namespace.json"
    place.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": namespace, "labels": labels},
            }
        )
    )
    kubectl("create", "-f", str(place))
    try:
        kubectl("wait", "--for=create", "serviceaccount/default", "-n", namespace, "--timeout=60s")
        kubectl("apply", "-f", str(file), "--dry-run=server", "--validate=strict")
    finally:
        kubectl("delete", "namespace", namespace, "--wait=false")
