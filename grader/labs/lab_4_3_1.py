"""4.3.1 The API type you write, and the four things generated from it.

The CRD that was handed in is applied under a group of the run's own (the
cluster has the course's WebApps, and other people's), and probed. The program
shows its deep copy, and its typed client, informer and lister at work.
"""

from __future__ import annotations

import copy
import json
import random
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from grader.cluster.api import Api, ApiError
from grader.conformance import contract
from grader.labs import check
from grader.verdict import Fail
from grader.witness import describe

FILE = "operator_handwired/config/crd/phase4.example.com_webapps.yaml"
PATIENCE = 20.0


@dataclass
class Probe:
    """The learner's CRD, served; objects of it in a namespace."""

    api: Api
    group: str
    namespace: str

    def path(self, name: str = "", subresource: str = "") -> str:
        parts = [f"/apis/{self.group}/v1alpha1/namespaces/{self.namespace}/webapps"]
        return "/".join(part for part in (*parts, name, subresource) if part)

    def webapp(self, name: str, **spec: Any) -> dict:
        return {
            "apiVersion": f"{self.group}/v1alpha1",
            "kind": contract.KIND,
            "metadata": {"name": name},
            "spec": {"image": "shop:1", "host": "shop.example.com"} | spec,
        }

    def create(self, obj: dict) -> dict:
        return self.api.raw("POST", self.path(), body=obj)

    def put(self, obj: dict, subresource: str = "") -> dict:
        return self.api.raw("PUT", self.path(obj["metadata"]["name"], subresource), body=obj)

    def get(self, name: str) -> dict:
        return self.api.raw("GET", self.path(name))

    def refused(self, obj: dict) -> bool:
        """Whether the server calls the object invalid. What it takes in is taken away again."""
        try:
            made = self.create(obj)
        except ApiError as error:
            if error.status in (400, 422):
                return True
            raise
        self.api.raw("DELETE", self.path(made["metadata"]["name"]))
        return False


@pytest.fixture(scope="module")
def crd(submission):
    text = submission.text(FILE)
    try:
        found = [one for one in yaml.safe_load_all(text) if one is not None]
    except yaml.YAMLError as error:
        raise Fail(
            f"{FILE} is YAML.",
            f"It is not: {' '.join(str(error).split())[:200]}.",
            diagnosis="not-yaml",
        ) from None
    wanted = f"One CustomResourceDefinition {contract.WEBAPPS} is in {FILE}."
    if len(found) != 1 or not isinstance(found[0], dict):
        raise Fail(wanted, f"There are {len(found)} documents in it.", diagnosis="no-crd")
    one = found[0]
    names = (one.get("kind"), (one.get("metadata") or {}).get("name"))
    if names != ("CustomResourceDefinition", contract.WEBAPPS):
        raise Fail(wanted, f"It is a {names[0]} named {names[1]}.", diagnosis="no-crd")
    return one


@pytest.fixture(scope="module")
def probe(crd, api, namespace):
    group = f"lab{random.SystemRandom().randrange(16**6):06x}.{contract.GROUP}"
    mine = copy.deepcopy(crd)
    mine["metadata"] = {"name": f"webapps.{group}"}
    try:
        mine["spec"]["group"] = group
        api.create(mine)
        api.until(
            "customresourcedefinitions.apiextensions.k8s.io",
            mine["metadata"]["name"],
            None,
            lambda obj: obj and contract.condition(obj, "Established").get("status") == "True",
            PATIENCE,
            what="the CRD is established",
        )
    except (ApiError, KeyError, TypeError) as error:
        raise Fail(
            f"The API server accepts {FILE}.",
            f"It does not: {error}",
            next=f"`./phase4 kubectl apply --dry-run=server -f` says the same of {FILE}.",
            diagnosis="crd-refused",
        ) from None
    served = Probe(api, group, namespace)
    _wait_served(served)
    yield served
    api.delete("customresourcedefinitions.apiextensions.k8s.io", mine["metadata"]["name"])


def _wait_served(probe: Probe) -> None:
    """Established says that the name is ours; handler and storage may come a moment later."""
    import time

    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            probe.api.raw("GET", probe.path())
            return
        except ApiError as error:
            if error.status not in (404, 429, 503) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


WHY_SERVER = "Every operator has to expect, for ever, what the server does not refuse."


@check(
    "4.3.1/validation",
    title="The server refuses what a WebApp cannot be, and drops what it does not know",
    points=3,
    evidence="live",
)
def check_validation(probe):
    if probe.refused(probe.webapp("fine", replicas=0)):
        raise Fail(
            "A WebApp with image, host and 0 replicas is accepted.",
            "It is refused.",
            next="0 is a number: an operator can be told to stop everything.",
            diagnosis="refuses-what-is-right",
        )
    bare = probe.webapp("bare")
    del bare["spec"]["image"]
    wrong = {
        "without an image": bare,
        "with an empty image": probe.webapp("empty", image=""),
        "with -1 replicas": probe.webapp("minus", replicas=-1),
        "with 51 replicas": probe.webapp("many", replicas=51),
        "with replicas «three»": probe.webapp("word", replicas="three"),
        "with a host that is no DNS name": probe.webapp("host", host="Not a host!"),
    }
    taken = [what for what, obj in wrong.items() if not probe.refused(obj)]
    if taken:
        raise Fail(
            "The server refuses a WebApp that cannot be.",
            f"It accepts one {'; one '.join(taken)}.",
            why=WHY_SERVER,
            next="required, minLength, minimum, maximum, type, pattern: in the schema, so that the "
            "server refuses it.",
            diagnosis="not-validated",
        )
    if not probe.refused(probe.webapp("n" * 64)):
        raise Fail(
            "The server refuses a WebApp whose name has more than 63 characters.",
            "It accepts one of 64.",
            why="The name becomes the value of a label on every Pod, and that ends at 63: such a "
            "WebApp would never get a Pod.",
            next="A rule at the root of the schema can read self.metadata.name.",
            diagnosis="name-not-limited",
        )
    made = probe.create(probe.webapp("unknown", colour="red"))
    if "colour" in made["spec"]:
        raise Fail(
            "A field that the type does not have is dropped.",
            "spec.colour is stored.",
            why="A field that is stored and means nothing today will mean something in v1beta1.",
            next="Look for x-kubernetes-preserve-unknown-fields.",
            diagnosis="unknown-fields-kept",
        )


@check(
    "4.3.1/default",
    title="The server fills in 1 for replicas that are left out, and stores it",
    points=2,
    evidence="live",
)
def check_default(probe):
    probe.create(probe.webapp("defaulted"))
    replicas = probe.get("defaulted")["spec"].get("replicas")
    if replicas != 1:
        raise Fail(
            "A WebApp that was created without spec.replicas is stored with 1.",
            f"It has {'none' if replicas is None else replicas}.",
            why="A default that your code fills in is not there for kubectl, for other "
            "controllers, or for the one in the other language.",
            next="`default: 1` belongs in the schema.",
            diagnosis="not-defaulted-by-the-server",
        )


@check(
    "4.3.1/immutable",
    title="host cannot be changed after creation, and everything else can",
    points=2,
    evidence="live",
)
def check_immutable(probe):
    made = probe.create(probe.webapp("fixed"))
    made["spec"]["image"] = "shop:2"
    made = probe.put(made)
    made["spec"]["host"] = "elsewhere.example.com"
    try:
        probe.put(made)
    except ApiError as error:
        if error.status == 422:
            return
        raise
    raise Fail(
        "An update of spec.host is refused.",
        "It is accepted.",
        why="The record was made under the old host: an operator that does not know it will not "
        "delete it.",
        next="A CEL rule on the field: `self == oldSelf`.",
        diagnosis="host-can-be-changed",
    )


@check(
    "4.3.1/status",
    title="The status is a subresource: the two endpoints each accept only their own half",
    points=3,
    evidence="live",
)
def check_status(probe):
    status = {
        "observedGeneration": 1,
        "replicas": 2,
        "readyReplicas": 1,
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "PodsNotReady",
                "message": "1 of 2",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 1,
            }
        ],
    }
    made = probe.create({**probe.webapp("told"), "status": status})
    try:
        told = probe.put(
            {**made, "status": status, "spec": {**made["spec"], "replicas": 9}}, "status"
        )
    except ApiError as error:
        raise Fail(
            "The status is written to …/status.",
            f"The server answers {error.status} to that."
            + (" There is no such subresource." if error.status == 404 else f" {error}"),
            why="Without the subresource, every status write is a write of the spec as well: "
            "the last writer wins, and the generation rises with each.",
            next="`subresources: {status: {}}`, and a schema for what the status holds.",
            diagnosis="no-status-subresource" if error.status == 404 else "status-refused",
        ) from None
    if made.get("status"):
        raise Fail(
            "A status that comes with the object itself is dropped.",
            "It is stored.",
            next="`subresources: {status: {}}`",
            diagnosis="no-status-subresource",
        )
    lost = [key for key in status if told.get("status", {}).get(key) != status[key]]
    if lost:
        raise Fail(
            "observedGeneration, replicas, readyReplicas and conditions are stored as written.",
            f"Of what was written, {', '.join(lost)} came back different or not at all.",
            why="What the schema does not have is dropped without an error.",
            next="Give status the same care as spec.",
            diagnosis="status-fields-dropped",
        )
    if told["spec"].get("replicas") == 9 or told["metadata"]["generation"] != 1:
        raise Fail(
            "A write to …/status changes the status alone.",
            f"spec.replicas is {told['spec'].get('replicas')}, the generation "
            f"{told['metadata']['generation']}.",
            diagnosis="no-status-subresource",
        )


@check(
    "4.3.1/columns",
    title="kubectl get wa shows host, wanted and ready replicas",
    points=1,
    evidence="live",
)
def check_columns(probe, crd):
    names = (crd.get("spec") or {}).get("names") or {}
    if "wa" not in (names.get("shortNames") or ()):
        raise Fail(
            "The short name is wa.",
            f"The short names are {names.get('shortNames') or 'none'}.",
            diagnosis="no-short-name",
        )
    versions = crd["spec"].get("versions") or [{}]
    columns = versions[0].get("additionalPrinterColumns") or ()
    paths = {str(column.get("jsonPath", "")) for column in columns}
    missing = {".spec.host", ".spec.replicas", ".status.readyReplicas"} - paths
    if missing:
        raise Fail(
            "kubectl's table has a column for the host, the wanted and the ready replicas.",
            f"There is none for {', '.join(sorted(missing))}.",
            why="On call you look at this table first.",
            next="additionalPrinterColumns.",
            diagnosis="columns-missing",
        )


OBJECTS = [
    {
        "apiVersion": contract.API_VERSION,
        "kind": contract.KIND,
        "metadata": {
            "name": "shop",
            "namespace": "ns",
            "labels": {"team": "red"},
            "annotations": {"note": "keep"},
            "finalizers": [contract.FINALIZER],
        },
        "spec": {"image": "shop:1", "host": "shop.example.com", "replicas": 3},
        "status": {
            "observedGeneration": 2,
            "replicas": 3,
            "readyReplicas": 1,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False",
                    "reason": "PodsNotReady",
                    "message": "1 of 3",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
        },
    },
]


@pytest.fixture(scope="module")
def copies(submission, run):
    program = submission.program_named("copies")
    # Another object in each run, so that no answer can be written down beforehand.
    objects = copy.deepcopy(OBJECTS)
    objects[0]["spec"]["image"] = f"shop:{random.SystemRandom().randrange(10**6)}"
    running = run(program, client="copies", env={"OBJECTS": json.dumps(objects)})
    running.wait_exit(PATIENCE, "prints its copies and ends")
    printed = []
    for line in running.stdout_lines:
        try:
            printed.append(json.loads(line))
        except ValueError:
            continue
    if len(printed) != len(objects) or not all(isinstance(one, dict) for one in printed):
        raise Fail(
            "For each object the program prints one line of JSON.",
            f"It printed {len(printed)} lines that are JSON.",
            diagnosis="no-copies",
            evidence=[*running.stdout_lines[-3:], *running.stderr_tail(5)],
        )
    return list(zip(objects, printed, strict=True))


@check(
    "4.3.1/copies",
    title="An object goes through the type unchanged, and a deep copy shares nothing with it",
    points=3,
    evidence="build",
)
def check_copies(copies):
    for given, printed in copies:
        original, changed = printed.get("original"), printed.get("copy")
        if _without_empty(changed) == _without_empty(given) or changed is None:
            raise Fail(
                "The copy is changed in every part before both are printed.",
                "The copy is as it was: nothing is shown by that.",
                next="Keep the starter's `change` as it is.",
                diagnosis="copy-not-changed",
            )
        before = printed.get("round_trip")
        if _without_empty(before) != _without_empty(given):
            raise Fail(
                "What the type reads it writes again, whole.",
                "Something was lost or changed on the way: "
                + "; ".join(_differences(given, before)[:3]),
                why="An update of an object that lost a field on the way takes that field away "
                "from everybody.",
                next="Does the type have every field of the schema, under its JSON name?",
                diagnosis="field-lost-on-the-way",
            )
        if _without_empty(original) != _without_empty(given):
            raise Fail(
                "A change of the copy leaves the original as it was.",
                "It changed the original: " + "; ".join(_differences(given, original)[:3]),
                why="The original is the cache's, and every other reader's: a change of it is "
                "an object that no API server has ever seen.",
                next="A map, a list and a pointer are shared unless you copy what is behind them.",
                diagnosis="shallow-copy",
            )


def _without_empty(value: Any) -> Any:
    """The same without null and empty values: languages differ in what they leave out."""
    if isinstance(value, dict):
        kept = {key: _without_empty(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one not in (None, {}, [], "")}
    if isinstance(value, list):
        return [_without_empty(one) for one in value]
    return value


def _differences(wanted: Any, seen: Any, at: str = "") -> list[str]:
    if isinstance(wanted, dict) and isinstance(seen, dict):
        keys = sorted(wanted.keys() | seen.keys())
        return [d for k in keys for d in _differences(wanted.get(k), seen.get(k), f"{at}.{k}")]
    return [] if _without_empty(wanted) == _without_empty(seen) else [f"{at} is {seen!r}"]


@check(
    "4.3.1/client",
    title="The typed client writes, the informer gets the events, the lister reads without a request",
    points=3,
    evidence="live",
)
def check_client(submission, run, api, namespace):
    name = f"typed-{random.SystemRandom().randrange(10**6)}"
    running = run(
        submission.program_named("client"),
        client="typed",
        env={"NAMESPACE": namespace, "NAME": name},
    )
    running.wait_exit(PATIENCE + 10.0, "creates, lists, writes a status, deletes, and ends")
    stages = []
    for line in running.stdout_lines:
        try:
            stages.append(json.loads(line))
        except ValueError:
            continue
    told = [one.get("stage") for one in stages if isinstance(one, dict)]
    writes = running.timeline.writes(resource=["webapps", "webapps/status"], namespace=namespace)
    start = running.timeline.start
    shown = [describe(exchange, start) for exchange in writes]
    if told != ["created", "ready", "gone"]:
        raise Fail(
            "The program prints the stages created, ready and gone, as its lister shows them.",
            f"It printed {', '.join(map(str, told)) or 'none of them'}.",
            diagnosis="stage-missing",
            evidence=[*shown, *running.stderr_tail(6)],
        )
    if stages[0].get("replicas") != 1:
        raise Fail(
            "The lister shows the object as the server stored it: with replicas 1, the default.",
            f"It shows {stages[0].get('replicas')}.",
            why="What you sent is not what is stored.",
            next="Read it from the lister, after the informer's event.",
            diagnosis="not-from-the-lister",
        )
    if not any(e.verb == "update" and e.subresource == "status" and e.applied for e in writes):
        raise Fail(
            "The typed client writes the status to …/status.",
            "There was no such write.",
            diagnosis="status-not-written",
            evidence=shown,
        )
    reads = [
        e
        for e in running.timeline.exchanges(resource="webapps", namespace=namespace)
        if e.verb == "get"
    ]
    watched = running.timeline.exchanges(verb="watch", resource="webapps")
    if reads or not list(watched):
        raise Fail(
            "The lister reads the informer's cache; the server is asked once, by list and watch.",
            f"There were {len(reads)} GETs of the object."
            if reads
            else "There was no watch of WebApps.",
            why="A controller that sends a request for each look-up is a load test.",
            next="Wait for the informer's event, then look the object up by the lister.",
            diagnosis="asked-the-server",
            evidence=[describe(e, start) for e in reads[:4]],
        )
