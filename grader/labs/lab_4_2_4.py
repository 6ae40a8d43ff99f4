"""4.2.4 The delete you never saw, delivered anyway.

The janitor's wire hides DELETED events, and then ends the watch with a 410, so
that it has to ask for the whole state again. What it concluded from that is
seen in the records that it removes, and in the cache that it prints.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import pytest

from grader.evidence import answers as written
from grader.labs import check
from grader.report.predictions import compared
from grader.verdict import Fail
from grader.witness import describe

#: One check needs no other to have been run.
CHECKS_STAND_ALONE = True
#: Seconds until the program is ready; that it has for each step (a relist's pause included);
#: and that it has once it could know: the event, or the answer with the whole state, is out.
STARTING, PATIENCE, KNOWN = 40.0, 20.0, 3.0
APPS = ("seen", "hidden", "replaced", "stays")
WHY_TOMBSTONE = (
    "A delete that was missed is delivered as a tombstone, a different type than the object. The "
    "ClickHouse operator panicked on one (Altinity/clickhouse-operator#1882), and Grafana's app SDK "
    "dropped it, so that nothing was cleaned up (grafana/grafana-app-sdk#1352)."
)


@dataclass
class Run:
    """What became of each record (True: removed), and what the program printed and did."""

    removed: dict[str, bool]
    ended: str
    cache_right: bool
    cache_seen: str
    truth: dict[str, str]
    writes: list[str]
    tail: list[str]


def _app(name: str, namespace: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {"kind": "app"}},
    }


@pytest.fixture(scope="module")
def story(submission, run, api, namespace) -> Run:
    def make(name: str) -> str:
        uid = api.create(_app(name, namespace))["metadata"]["uid"]
        record = _app(f"record-{uid}", namespace)
        record["metadata"]["labels"] = {"kind": "record"}
        api.create(record)
        return uid

    uids = {name: make(name) for name in APPS}
    running = run(submission.program, "janitor", env={"NAMESPACE": namespace})
    running.wait_line(lambda line: line == "synced", STARTING, "prints synced")
    removed: dict[str, bool] = {}

    def gone(uid: str) -> bool:
        return api.find("configmaps", f"record-{uid}", namespace=namespace) is None

    def told(name: str) -> float | None:
        """When the program was told of the delete of ``name``."""
        events = running.timeline.events(by="janitor", type="DELETED", name=name, fate="delivered")
        return events[0].t if events else None

    def relisted(since: float) -> float | None:
        """When it first got the whole state after a moment."""
        lists = running.timeline.lists(by="janitor", resource="configmaps")
        return next((e.t_end for e in lists if e.t >= since and e.status == 200), None)

    def waited(condition, known, what: str) -> bool:
        """Whether it came true; given up a while after the program could have ``known``."""

        def over() -> bool:
            if condition():
                return True
            t = known()
            return t is not None and time.time() > t + KNOWN

        try:
            running.until(over, PATIENCE, what)
        except Fail:
            pass
        return bool(condition())

    def cache() -> dict[str, str]:
        for line in reversed(running.stdout_lines):
            if line.startswith("{"):
                try:
                    return json.loads(line)["cache"]
                except (ValueError, KeyError, TypeError):
                    return {}
        return {}

    def pass_by() -> None:
        """A change of another app, so that the watch is past what was hidden."""
        api.patch("configmaps", "stays", {"data": {"changed": "yes"}}, namespace=namespace)
        version = api.get("configmaps", "stays", namespace=namespace)["metadata"]["resourceVersion"]
        waited(
            lambda: any(
                event.object.get("metadata", {}).get("resourceVersion") == version
                for event in running.timeline.events(by="janitor", resource="configmaps")
            ),
            lambda: None,
            "is told of a change",
        )

    api.delete("configmaps", "seen", namespace=namespace)
    removed["seen"] = waited(lambda: gone(uids["seen"]), lambda: told("seen"), "removes the record")

    for name in ("hidden", "replaced"):
        running.wire.rules.add(f"hide DELETED watch configmaps name={name}")
    running.wire.rules.add("hide ADDED watch configmaps name=replaced")
    api.delete("configmaps", "hidden", namespace=namespace)
    api.delete("configmaps", "replaced", namespace=namespace)
    new = make("replaced")
    pass_by()
    mark = time.time()
    running.wire.rules.add("error 410 watch configmaps")

    def known() -> float | None:
        return relisted(mark)

    removed["hidden"] = waited(lambda: gone(uids["hidden"]), known, "removes the record")
    removed["replaced, old"] = waited(lambda: gone(uids["replaced"]), known, "removes the record")
    truth = {f"{namespace}/replaced": new, f"{namespace}/stays": uids["stays"]}
    right = waited(lambda: cache() == truth, known, "has the right cache")
    removed["replaced, new"] = gone(new)
    removed["stays"] = gone(uids["stays"])
    ended = str(running.exited) if running.exited else ""
    if not ended:
        running.terminate()
    writes = running.timeline.writes(by="janitor")
    start = running.timeline.start
    return Run(
        removed,
        ended,
        right,
        json.dumps(cache()),
        truth,
        [describe(each, start) for each in writes][-8:],
        list(running.stderr_tail(4)),
    )


@check(
    "4.2.4/seen",
    title="The program cleans up after a delete that the watch delivered",
    points=1,
    evidence="live",
)
def check_seen(story):
    if not story.removed["seen"]:
        raise Fail(
            "When an app is deleted, its record is removed.",
            "It was not.",
            next="The record's name has the UID of the app: `record-<uid>`.",
            diagnosis="delete-ignored",
            evidence=[*story.writes, *story.tail],
        )


@check(
    "4.2.4/tombstone",
    title="The program cleans up after a delete that the watch never delivered, and survives it",
    points=3,
    evidence="live",
)
def check_tombstone(story):
    if story.removed["hidden"]:
        return
    if story.ended:
        raise Fail(
            "The program survives a delete that it did not see.",
            f"It {story.ended}, after the relist.",
            why=WHY_TOMBSTONE,
            next="Look at the type of what the delete handler is given before you use it.",
            diagnosis="dies-on-tombstone",
            evidence=story.tail,
        )
    raise Fail(
        "After the relist the record of the app that is not there any more is removed.",
        "It is still there; the program runs.",
        why=WHY_TOMBSTONE,
        next="Does the informer notice what is in its cache and not in the list? And what does "
        "the handler do with a tombstone?",
        diagnosis="tombstone-dropped",
        evidence=[*story.writes, *story.tail],
    )


@check(
    "4.2.4/new-uid",
    title="An object of the same name with a new UID is another object: the old one's record goes, its own stays",
    points=3,
    evidence="live",
)
def check_new_uid(story):
    if story.removed["replaced, new"] or story.removed["stays"]:
        raise Fail(
            "Only records of apps that are gone are removed.",
            "The record of an app that is there was removed.",
            why="Cleaning up by name hits whoever has that name now. That is how zookeeper-operator "
            "could delete the volumes of a running cluster: pravega/zookeeper-operator#312.",
            next="Which UID do you clean up after: that of the last known state, or that of the "
            "object that is in the cache now?",
            diagnosis="cleaned-up-the-new-object",
            evidence=story.writes,
        )
    if not story.removed["replaced, old"]:
        raise Fail(
            "An app was deleted and made again unseen: the old one's record is removed.",
            "It is still there." if not story.ended else f"The program {story.ended}.",
            why="No DELETED event and no tombstone report this delete: it arrives as an update.",
            next="Compare the UIDs of old and new in the update handler.",
            diagnosis="new-uid-not-noticed",
            evidence=[*story.writes, *story.tail],
        )


@check(
    "4.2.4/cache",
    title="In the end the cache has what the API server has",
    points=1,
    evidence="live",
)
def check_cache(story):
    if not story.cache_right:
        raise Fail(
            f"The last cache printed is {json.dumps(story.truth)}.",
            f"It is {story.cache_seen}.",
            why="Everything a controller does it concludes from its cache. It keeps working on "
            "whatever stays in there.",
            next="After a list the cache is the list, and nothing else.",
            diagnosis="cache-wrong",
            evidence=story.tail,
        )


@check(
    "4.2.4/predictions",
    title="How each of three deletes reaches the handler was written down first",
    points=1,
    evidence="written",
)
def check_predictions(submission, observe):
    answers = written.parse(submission.text("answers.md"))
    told = {"seen": "delete", "hidden": "tombstone", "replaced": "update"}
    for name, right in told.items():
        entry = answers.require_prediction(
            name, section="Predictions", choices=("delete", "tombstone", "update", "nothing")
        )
        observe(name, compared(entry.value, right))
