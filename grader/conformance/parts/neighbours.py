"""Functional, among others: what they wrote survives, and what they want is theirs to have."""

from __future__ import annotations

from grader.cluster.api import ApiError
from grader.conformance import contract
from grader.conformance.bench import SETTLE, Bench
from grader.conformance.contract import DNS_NAMESPACE, LABEL
from grader.conformance.scenario import scenario
from grader.verdict import Fail

_THEIRS = "example.com/theirs"


@scenario(
    "functional/foreign-keys",
    "On Pods, record and WebApp, whatever key others wrote survives the operator's own writes",
)
def foreign_keys(bench: Bench) -> None:
    namespace, name = bench.namespace(), bench.name()
    keeper = bench.api.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "keeper", "namespace": namespace},
        }
    )
    orphan = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "orphan",
            "namespace": namespace,
            "labels": {LABEL: name, "team": "red"},
            "annotations": {_THEIRS: "orphan"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": "keeper",
                    "uid": keeper["metadata"]["uid"],
                }
            ],
        },
        "spec": {"containers": [{"name": "web", "image": "shop:1"}]},
    }
    bench.api.create(orphan)
    app = bench.create(namespace, name, replicas=2, image="shop:1")
    bench.settled(app, "creating a WebApp next to a Pod with another, non-controller owner")
    bench.at_rest(app)
    record, marks = contract.record_name(app), {"labels": {"team": "red"}}
    theirs = {"metadata": {**marks, "annotations": {_THEIRS: "yes"}}}
    bench.patch("configmaps", record, {**theirs, "data": {"ttl": "60"}}, DNS_NAMESPACE)
    bench.patch(contract.WEBAPPS, name, theirs, namespace)
    _add_condition(bench, namespace, name)
    bench.settled(app, "others writing on the record and on the WebApp")
    bench.at_rest(app)
    # Something for the operator to write on each of the three, while they carry the marks.
    bench.patch("configmaps", record, {"data": {"host": "elsewhere.example.com"}}, DNS_NAMESPACE)
    bench.settled(app, "editing the host in a record that others wrote on as well")
    bench.patch("configmaps", record, {"data": {"owner": None}}, DNS_NAMESPACE)
    bench.settled(app, "removing the owner from a record that others wrote on as well")
    bench.patch("pods", "orphan", {"metadata": {"labels": {LABEL: None}}}, namespace)
    app = bench.change(app, replicas=3)
    bench.settled(app, "scaling up, and removing the label from a Pod that others wrote on")


def _add_condition(bench: Bench, namespace: str, name: str) -> None:
    """Somebody else's condition, with whatever is there kept."""
    while True:
        live = bench.api.get(contract.WEBAPPS, name, namespace)
        other = {
            "type": "Audited",
            "status": "True",
            "reason": "Audited",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        status = {
            **live.get("status", {}),
            "conditions": [*live.get("status", {}).get("conditions", []), other],
        }
        # The version guards against a status that the operator writes in between.
        meta = {"resourceVersion": live["metadata"]["resourceVersion"]}
        try:
            bench.patch(
                contract.WEBAPPS,
                name,
                {"metadata": meta, "status": status},
                namespace,
                subresource="status",
            )
            return
        except ApiError as error:
            if error.status != 409:
                raise


@scenario(
    "functional/same-host", "Two WebApps may have the same host, and each has its own DNS record"
)
def same_host(bench: Bench) -> None:
    namespace = bench.namespace()
    host = f"{bench.name()}.example.com"
    apps = [bench.create(namespace, name, replicas=1, host=host) for name in ("first", "second")]
    for app in apps:
        bench.settled(
            app,
            f"creating two WebApps with the host {host}",
            why="Whose host it is, is for whoever runs the DNS to say; a WebApp that is not "
            "served for it says nothing to anybody.",
            next="A record belongs to a UID, not to a host.",
            diagnosis="one-record-for-a-host",
        )
    bench.delete(contract.WEBAPPS, "first", namespace)
    bench.gone(apps[0], "deleting one of two WebApps with the same host")
    bench.at_rest(apps[1])
    kept = bench.until(namespace, lambda: bench.history.record(apps[1]["metadata"]["uid"]), SETTLE)
    if not kept:
        raise Fail(
            "With one of two WebApps of the same host deleted, the record of the other stays.",
            "It is gone as well.",
            why="A record belongs to a UID: the other WebApp is served for as long as it is there.",
            next="Delete the record by its name, record-UID, and by nothing else.",
            diagnosis="one-record-for-a-host",
        )
