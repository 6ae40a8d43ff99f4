"""The drill of 4.4.5: an operator that may not delete its DNS records, and two WebApps stuck for it.

The operator runs as a ServiceAccount of its own. Its Role in ``dns`` lacks one verb, so
the delete of a record is answered 403. One WebApp is cleared by the learner's
``wrongly.sh``, the next one, of the same name, by ``rightly.sh``; a third one shows
whether the cause is mended.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from grader.cluster import binaries
from grader.cluster.api import Api
from grader.conformance import contract
from grader.labs import leftovers
from grader.runner import RunningProgram
from grader.runner.program import Program
from grader.verdict import Fail, NotGraded
from grader.wire import Identity
from grader.wire.records import Exchange
from grader.witness import describe

#: Seconds. For what a right operator does at once; a start on a busy machine; for a retry,
#: whose pause has doubled a few times while a script ran.
STEP, STARTING, RETRY = 20.0, 40.0, 60.0
#: So many refused deletes, the last so long (s) after a clearance, and it has cleared nothing.
REFUSED_AGAIN, AFTER = 3, 5.0
#: Seconds that a script of a few kubectl commands may take.
SCRIPT = 45.0
_RBAC = "rbac.authorization.k8s.io"
#: Rights that no cleanup of a record needs: verb, resource, namespace.
_UNRELATED = (
    ("delete", "secrets", contract.DNS_NAMESPACE),
    ("delete", "secrets", "kube-system"),
    ("delete", "configmaps", "kube-system"),
)


@dataclass
class Stuck:
    """A WebApp that was deleted and stays, and how it was found when that was certain."""

    app: dict
    refused: list[Exchange]

    @property
    def name(self) -> str:
        return self.app["metadata"]["name"]

    @property
    def record(self) -> str:
        return contract.record_name(self.app)


@dataclass
class Clearance:
    """What a script did about a stuck WebApp, and what was left afterwards."""

    stuck: Stuck
    client: str
    script: RunningProgram
    #: Who deleted the record and who took the finalizer off, by name on the wire; "" for nobody.
    record_deleted_by: str = ""
    finalizer_removed_by: str = ""
    app_left: dict | None = None
    record_left: bool = False
    writes: list[str] = field(default_factory=list)


class Drill:
    """One run of the drill; its objects are gone when the block is left."""

    def __init__(self, api: Api, run: Any, submission: Any, namespace: str) -> None:
        self.api, self.run, self.submission, self.namespace = api, run, submission, namespace
        self.account = f"operator-{random.SystemRandom().randrange(16**6):06x}"
        self.kubectl = binaries.ensure(["kubectl"])["kubectl"]
        self.operator: RunningProgram | None = None

    # -- the operator and its rights ---------------------------------------------------

    def grant(self) -> None:
        """All that any operator needs, but for one verb."""
        group = contract.GROUP
        everywhere = [
            _rule([group], ["webapps", "webapps/status", "webapps/finalizers"], ["*"]),
            _rule([""], ["pods", "pods/status"], ["*"]),
            _rule([""], ["configmaps", "namespaces"], ["get", "list", "watch"]),
            _rule(
                ["apiextensions.k8s.io"], ["customresourcedefinitions"], ["get", "list", "watch"]
            ),
            _rule(["", "events.k8s.io"], ["events"], ["create", "patch"]),
        ]
        records = [
            _rule([""], ["configmaps"], ["get", "list", "watch", "create", "update", "patch"])
        ]
        self._role("ClusterRole", everywhere, None)
        self._role("Role", records, contract.DNS_NAMESPACE)

    def _role(self, kind: str, rules: list[dict], namespace: str | None) -> None:
        meta: dict[str, Any] = {"name": self.account, "labels": leftovers.label("4.4.5")}
        if namespace:
            meta["namespace"] = namespace
        api_version = f"{_RBAC}/v1"
        self.api.create({"apiVersion": api_version, "kind": kind, "metadata": meta, "rules": rules})
        self.api.create(
            {
                "apiVersion": api_version,
                "kind": f"{kind}Binding",
                "metadata": meta,
                "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": self.account},
                "subjects": [
                    {
                        "kind": "ServiceAccount",
                        "name": self.account,
                        "namespace": contract.LEASE_NAMESPACE,
                    }
                ],
            }
        )

    def start_operator(self) -> None:
        who = Identity.service_account(contract.LEASE_NAMESPACE, self.account)
        self.operator = self.run(self.submission.program, "operator", identity=who)
        self.operator.until(
            lambda: self.operator.timeline.reads(resource="webapps", status=200),
            STARTING,
            "asks for the WebApps",
        )

    # -- WebApps -------------------------------------------------------------------------

    def made(self, name: str) -> dict:
        """A new WebApp, once it has its finalizer and its record, and is Ready."""
        app = self.api.create(contract.webapp(name, self.namespace, replicas=1))

        def ready() -> bool:
            live = self.find(app)
            return (
                live is not None
                and contract.condition(live, "Ready").get("status") == "True"
                and contract.FINALIZER in live["metadata"].get("finalizers", ())
                and self.record(app) is not None
            )

        self.operator.until(_seldom(ready), STEP, "has a new WebApp converge")
        return app

    def find(self, app: dict) -> dict | None:
        """That very WebApp, not another of its name."""
        live = self.api.find(contract.WEBAPPS, app["metadata"]["name"], self.namespace)
        return live if live and live["metadata"]["uid"] == app["metadata"]["uid"] else None

    def record(self, app: dict) -> dict | None:
        return self.api.find("configmaps", contract.record_name(app), contract.DNS_NAMESPACE)

    def stuck(self, name: str) -> Stuck:
        """A WebApp whose cleanup was refused twice, and which is still there."""
        app = self.made(name)
        self.api.delete(contract.WEBAPPS, name, self.namespace)

        def refused() -> list[Exchange]:
            return [e for e in self._deletes(app) if e.status == 403]

        def decided() -> bool:
            return len(refused()) > 1 or self.find(app) is None

        self.operator.until(_seldom(decided), STEP, "tries the refused delete of a record again")
        if self.find(app) is None:
            self._removed_early(app, refused())
        return Stuck(app, refused())

    def _deletes(self, app: dict) -> list[Exchange]:
        """The operator's tries to delete the record, one by one or with others."""
        tries = self.operator.timeline.writes(
            by="operator",
            verb=("delete", "deletecollection"),
            resource="configmaps",
            namespace=contract.DNS_NAMESPACE,
        )
        return [e for e in tries if e.name in ("", contract.record_name(app))]

    def _removed_early(self, app: dict, refused: list[Exchange]) -> None:
        raise Fail(
            "While the record can't be deleted, the operator's finalizer stays.",
            f"The WebApp is gone, and {contract.DNS_NAMESPACE}/{contract.record_name(app)} is "
            "still there.",
            why="The finalizer is the only thing that remembers the record. Removed before the "
            "cleanup is confirmed, it might as well not exist.",
            next="Remove it only after a GET of the record was answered 404.",
            diagnosis="finalizer-removed-early",
            evidence=[describe(e, self.operator.timeline.start) for e in refused[:3]],
        )

    # -- the scripts ----------------------------------------------------------------------

    def script(self, name: str, client: str, webapp: str) -> RunningProgram:
        """Run a script to its end. Raises Fail where it hangs, or ends with an error."""
        self.submission.file(name)
        if self.submission.untouched(name):
            raise NotGraded(
                f"{name} has your commands.",
                "It is as it was given.",
                next=f"`./phase4 show {self.submission.lab}` says what goes into it.",
                diagnosis="answer-missing",
            )
        program = Program(
            ("sh", name),
            self.submission.path,
            self.submission.path / ".phase4-build",
            root=self.submission.root,
        )
        running = self.run(
            program,
            client,
            env={
                "NAMESPACE": self.namespace,
                "WEBAPP": webapp,
                "OPERATOR": self.account,
                "KUBECACHEDIR": "/tmp/kubectl"
                if self.run.isolation == "bwrap"
                else str(self.run.run_dir / "kubectl-cache"),
            },
            tools={"kubectl": self.kubectl},
        )
        how = running.wait_exit(SCRIPT, "ends")
        if how.code != 0:
            raise Fail(
                f"`{running.shown}` ends with exit code 0.",
                f"It {how}." + _explained(how.code),
                next="Its error is below. Try the commands one by one with `./phase4 kubectl`.",
                diagnosis="script-failed",
                evidence=running.stderr_tail(6),
            )
        return running

    def cleared(self, name: str, client: str, stuck: Stuck, patience: float) -> Clearance:
        """Run a script against a stuck WebApp, wait until that is gone, and see who did what."""
        script = self.script(name, client, stuck.name)
        outcome = Clearance(stuck, client, script)
        self._wait_gone(stuck.app, patience)
        outcome.app_left = self.find(stuck.app)
        outcome.record_left = self.record(stuck.app) is not None
        everything = self.run.timeline
        mine = everything.writes(by=client)
        outcome.writes = [describe(e, everything.start) for e in mine][:6]
        for who in (client, "operator"):
            for e in everything.writes(by=who):
                if e.status is None or e.status >= 400 or not e.is_write:
                    continue
                if (
                    e.verb in ("delete", "deletecollection")
                    and e.resource == "configmaps"
                    and e.name in ("", stuck.record)
                ):
                    outcome.record_deleted_by = outcome.record_deleted_by or who
                if e.resource == "webapps" and e.name == stuck.name and _took_off(e, stuck):
                    outcome.finalizer_removed_by = outcome.finalizer_removed_by or who
        return outcome

    def _wait_gone(self, app: dict, patience: float) -> None:
        """Wait until a WebApp is gone, for so long, or until it is certain that it stays."""
        since, deadline = time.time(), time.monotonic() + patience

        def decided() -> bool:
            if time.monotonic() > deadline or self.find(app) is None:
                return True
            again = [e.t_request for e in self._deletes(app) if e.status == 403]
            again = [t for t in again if t > since]
            return len(again) >= REFUSED_AGAIN and again[-1] > since + AFTER

        self.operator.until(_seldom(decided), patience + STEP, "goes on running")

    def goes_by_itself(self, name: str) -> bool:
        """Whether a new WebApp, deleted, is gone in time, and its record with it."""
        app = self.made(name)
        self.api.delete(contract.WEBAPPS, name, self.namespace)
        self._wait_gone(app, RETRY)
        return self.find(app) is None and self.record(app) is None

    def leaked(self) -> list[str]:
        """The records of WebApps that are no more, by name: what nobody will ever remove."""
        alive = {app["metadata"]["uid"] for app in self.api.list(contract.WEBAPPS)["items"]}
        return [one for one in self.records() if one.removeprefix("record-") not in alive]

    def records(self) -> list[str]:
        """The names of all DNS records."""
        found = self.api.list("configmaps", contract.DNS_NAMESPACE)["items"]
        names = (item["metadata"]["name"] for item in found)
        return sorted(name for name in names if name.startswith("record-"))

    def may(self, verb: str, resource: str, namespace: str) -> bool:
        """Whether the operator's ServiceAccount is allowed that."""
        who = Identity.service_account(contract.LEASE_NAMESPACE, self.account)
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": who.user,
                "groups": list(who.groups),
                "resourceAttributes": {
                    "verb": verb,
                    "resource": resource,
                    "namespace": namespace,
                },
            },
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return self.api.raw("POST", path, body=review)["status"]["allowed"]

    def too_much(self) -> list[str]:
        """Rights that the operator has now, and that no cleanup of a record needs."""
        return [
            f"{verb} {resource} in {where}"
            for verb, resource, where in _UNRELATED
            if self.may(verb, resource, where)
        ]

    # -- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """Take everything away, whoever's finalizer is on it: no operator runs any more."""
        if self.operator is not None and self.operator.exited is None:
            self.operator.kill()
        for app in self.api.list(contract.WEBAPPS, self.namespace)["items"]:
            name = app["metadata"]["name"]
            leftovers.release(self.api, contract.WEBAPPS, name, self.namespace)
            leftovers.gone(self.api, contract.WEBAPPS, name, self.namespace)
        for record in self.api.list("configmaps", contract.DNS_NAMESPACE)["items"]:
            if (record.get("data") or {}).get("owner", "").startswith(f"{self.namespace}/"):
                leftovers.gone(
                    self.api, "configmaps", record["metadata"]["name"], contract.DNS_NAMESPACE
                )
        leftovers.sweep(self.api)
        self._revoke()

    def _revoke(self) -> None:
        """Delete what a script granted to the operator under names of its own."""
        for kind, role in (("rolebindings", "roles"), ("clusterrolebindings", "clusterroles")):
            for binding in self.api.list(f"{kind}.{_RBAC}")["items"]:
                subjects = binding.get("subjects") or ()
                if not any(one.get("name") == self.account for one in subjects):
                    continue
                meta, reference = binding["metadata"], binding["roleRef"]
                leftovers.gone(self.api, f"{kind}.{_RBAC}", meta["name"], meta.get("namespace"))
                if reference["kind"].lower() + "s" == role and reference["name"].startswith(
                    self.account
                ):
                    namespace = meta.get("namespace")
                    leftovers.gone(self.api, f"{role}.{_RBAC}", reference["name"], namespace)


@contextmanager
def drill(api: Api, run: Any, submission: Any, namespace: str) -> Iterator[Drill]:
    made = Drill(api, run, submission, namespace)
    try:
        made.grant()
        yield made
    finally:
        made.close()


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> dict:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


def _took_off(exchange: Exchange, stuck: Stuck) -> bool:
    """Whether this write left the WebApp without the operator's finalizer."""
    answer = exchange.answer
    if not isinstance(answer, dict) or answer.get("kind") != contract.KIND:
        return False
    meta = answer["metadata"]
    return meta["uid"] == stuck.app["metadata"]["uid"] and contract.FINALIZER not in (
        meta.get("finalizers") or ()
    )


def _explained(code: int | None) -> str:
    if code == 127:
        return " 127 is the shell's way of saying that a command in it is not on this machine."
    return ""


def _seldom(predicate: Any, seconds: float = 0.1) -> Any:
    """The predicate, asked at most so often: each time is a request or two."""
    last = [0.0, False]

    def asked() -> Any:
        if time.monotonic() - last[0] >= seconds:
            last[1] = predicate()
            last[0] = time.monotonic()
        return last[1]

    return asked
