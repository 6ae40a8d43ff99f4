"""4.3.6 Stage 2: the same binary, and a ClusterRole discovered one 403 at a time.

The operator runs as a ServiceAccount that may do what ``role.yaml`` grants, and
goes through everything it does in its life. Its wire shows each request with
the API server's answer: what was forbidden, and what was never asked for.
"""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from grader.cluster.api import ApiError
from grader.conformance import contract
from grader.conformance.bench import Bench
from grader.labs import check, suite_checks
from grader.labs import lab_4_3_6_role as rbac
from grader.verdict import Fail
from grader.wire import Identity
from grader.witness import describe

FILE = "operator_handwired/config/rbac/role.yaml"
#: Used by the admission plugin OwnerReferencesPermissionEnforcement, where it is on.
_BY_ADMISSION = (contract.GROUP, "webapps/finalizers", "update")
#: Seconds for one step. What is forbidden never comes.
STEP = 10.0
ELECTION = (
    "--leader-elect",
    "--lease-duration", "3s", "--renew-deadline", "2s", "--retry-period", "500ms",
)  # fmt: skip


@pytest.fixture(scope="module")
def manifest(submission):
    return rbac.parse(submission.text(FILE), FILE)


@pytest.fixture(scope="module")
def granted(manifest):
    return rbac.grants(manifest, FILE)


@pytest.fixture(scope="module")
def applied(manifest, granted, api):
    """The roles, under names of their own, for as long as the run takes."""
    suffix = f"-lab-{random.SystemRandom().randrange(16**6):06x}"
    named = {(o["kind"], o["metadata"].get("name")) for o in manifest}
    made = []
    try:
        for one in manifest:
            meta = {k: v for k, v in one["metadata"].items() if k in ("name", "namespace")}
            own = {**one, "metadata": {**meta, "name": f"{meta.get('name')}{suffix}"}}
            reference = one.get("roleRef") or {}
            if (reference.get("kind"), reference.get("name")) in named:
                own["roleRef"] = {**reference, "name": f"{reference['name']}{suffix}"}
            made.append(api.create(own))
        yield
    except ApiError as error:
        raise Fail(
            f"The API server accepts what is in {FILE}.",
            f"It does not: {error}",
            next=f"`./phase4 kubectl apply --dry-run=server -f {FILE}` says the same.",
            diagnosis="role-refused",
        ) from None
    finally:
        for one in made:
            group, _, _ = one["apiVersion"].rpartition("/")
            resource = f"{one['kind'].lower()}s.{group}"
            api.delete(resource, one["metadata"]["name"], one["metadata"].get("namespace"))


@pytest.fixture(scope="module")
def life(applied, submission, run, cluster, api, grading, phase4):
    """Everything an operator does, as the ServiceAccount: its exchanges, and what went wrong."""
    # Every wait in it has a limit of its own.
    with (
        phase4.untimed("an operator's whole life"),
        suite_checks.trial(submission, run, cluster, api, grading) as trial,
        Bench(trial, "life", alone=True) as bench,
    ):
        trouble: Fail | None = None
        try:
            _live(bench)
        except Fail as fail:
            trouble = fail
        exchanges = bench.exchanges()
    return exchanges, trouble


def _live(bench: Bench) -> None:
    try:
        bench.api.delete("leases.coordination.k8s.io", contract.LEASE, contract.LEASE_NAMESPACE)
    except ApiError as error:
        if error.status != 404:
            raise
    who = Identity.service_account(rbac.NAMESPACE, rbac.SERVICE_ACCOUNT)
    running = bench.start(*ELECTION, identity=who)
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=2)
    name = app["metadata"]["name"]
    world = bench.settled(app, "creating a WebApp", timeout=STEP)
    bench.delete("pods", world.standing[0]["metadata"]["name"], namespace)
    world = bench.settled(app, "deleting a Pod", timeout=STEP)
    stolen = world.standing[0]["metadata"]["name"]
    bench.patch("pods", stolen, {"metadata": {"labels": {contract.LABEL: None}}}, namespace)
    bench.settled(app, "taking the label off a Pod", timeout=STEP)
    orphan = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "orphan", "namespace": namespace, "labels": {contract.LABEL: name}},
        "spec": {"containers": [{"name": "web", "image": app["spec"]["image"]}]},
    }
    bench.api.create(orphan)
    bench.settled(bench.change(app, replicas=3), "scaling beside an orphan", timeout=STEP)
    bench.settled(bench.change(app, replicas=1), "scaling down", timeout=STEP)
    record = contract.record_name(app)
    bench.delete("configmaps", record, contract.DNS_NAMESPACE)
    bench.settled(app, "deleting its DNS record", timeout=STEP)
    changed = {"data": {"host": "elsewhere.example.com"}}
    bench.patch("configmaps", record, changed, contract.DNS_NAMESPACE)
    bench.settled(app, "editing its DNS record", timeout=STEP)
    # With caches that stand still, it meets its own work again and has to look at it.
    freeze = running.wire.rules.add("freeze watch pods,configmaps")
    blind = bench.create(namespace, replicas=1)
    meta = blind["metadata"]
    bench.history.until(namespace, lambda: bench.history.pods(blind), STEP)
    for number in range(3):
        touch = {"metadata": {"annotations": {"lab": str(number)}}}
        bench.patch(contract.WEBAPPS, meta["name"], touch, namespace)
        bench.history.quiet(namespace, 0.2, 3.0)
    freeze.remove()
    bench.settled(blind, "its watches stood still for a while", timeout=STEP)
    for one in (app, blind):
        bench.delete(contract.WEBAPPS, one["metadata"]["name"], namespace)
    for one in (app, blind):
        bench.gone(one, "deleting the WebApp", timeout=STEP)
    # A renewal, and the release.
    renewed = time.time()
    bench.wait_exchange(
        running, lambda e: e.resource == "leases" and e.t_request > renewed, timeout=5.0
    )
    running.terminate(grace=5.0)


def _forbidden(exchanges: list[Any]) -> list[Any]:
    return [e for e in exchanges if e.status == 403]


@check(
    "4.3.6/nothing-forbidden",
    title="In a full life of the operator, as its ServiceAccount, no request is forbidden",
    points=4,
    evidence="live",
)
def check_nothing_forbidden(life):
    exchanges, trouble = life
    refused = _forbidden(exchanges)
    if refused:
        missing = sorted({_asked(e) for e in refused})
        sub = next((m for m in missing if "/" in m.split()[1]), "")
        raise Fail(
            "The role allows everything that the operator asks for.",
            f"Forbidden: {'; '.join(missing[:4])}.",
            why="A subresource is a resource of its own: a rule for webapps says nothing about "
            "webapps/status."
            if sub
            else "Without it the WebApp stays as it is, and no log says why.",
            next=f"Grant the first of these, run again, and look for the next; where: {FILE}.",
            diagnosis="subresource-forbidden" if sub else "verb-forbidden",
            evidence=[describe(e, exchanges[0].t) for e in refused[:4]],
        )
    if trouble is not None:
        raise trouble


def _asked(exchange: Any) -> str:
    return str(rbac.Grant(exchange.group, exchange.target, exchange.verb, exchange.namespace))


@check(
    "4.3.6/nothing-unused",
    title="No verb on no resource is granted that the operator never used",
    points=3,
    evidence="live",
)
def check_nothing_unused(life, granted, observe):
    exchanges, trouble = life
    if trouble is not None:
        raise trouble
    unused = sorted(grant for grant in granted if not _used(grant, exchanges))
    observe("verbs granted", len(granted))
    if unused:
        raise Fail(
            "Every verb that is granted is used in a full life of the operator.",
            f"Never used: {'; '.join(str(grant) for grant in unused[:4])}"
            + (f"; and {len(unused) - 4} more." if unused[4:] else "."),
            why="Whatever is granted and not needed is open to an attacker, or to a fault.",
            next="Remove it, and run again.",
            diagnosis="unused-rule",
            evidence=[str(grant) for grant in unused],
        )


def _used(grant: rbac.Grant, exchanges: list[Any]) -> bool:
    if (grant.group, grant.resource, grant.verb) == _BY_ADMISSION:
        return True
    return any(
        grant.covers(e.group, e.target, verb, e.namespace)
        for e in exchanges
        # A LIST that comes as a watch still needs both where the server has no watch-list.
        for verb in ({"list", "watch"} if e.verb in ("list", "watch") else {e.verb})
    )


@check(
    "4.3.6/narrow",
    title="No wildcard, no role from elsewhere; records and lease are granted in their namespaces",
    points=3,
    evidence="build",
)
def check_narrow(granted):
    wide = sorted(
        grant
        for grant in granted
        if grant.namespace == rbac.EVERYWHERE and grant.resource in ("configmaps", "leases")
    )
    if wide:
        raise Fail(
            "ConfigMaps are granted in dns alone, Leases in phase4-system alone.",
            f"{wide[0]}, for one.",
            why="ConfigMaps everywhere are other people's configuration; Leases everywhere are "
            "every other controller's leadership.",
            next="A Role and a RoleBinding in that namespace, in place of the ClusterRole's rule.",
            diagnosis="too-wide",
            evidence=[str(grant) for grant in wide],
        )
