"""Lab 4.1.4's rules of order, on lines made up for the purpose."""

from __future__ import annotations

import json

import pytest

from grader.labs import lab_4_1_4_lines as stage_lines
from grader.labs.lab_4_1_4_lines import Heard
from grader.verdict import Fail

NAMESPACE = "ns"
KEY = "ns/a"


def line(stage: str, version: int | None = None, **more) -> str:
    found = {"stage": stage, "key": KEY, **more}
    if version is not None:
        found["resourceVersion"] = str(version)
    return json.dumps(found)


def passing(version: int, *, deleted: bool = False) -> list[str]:
    """The lines of one change up to the work queue."""
    cached = None if deleted else str(version)
    return [
        line("reflector", version),
        line("queue", version),
        line("indexer", version),
        line("handler", version, cached=cached),
        line("enqueue"),
    ]


def parsed(lines: list[str]) -> list[stage_lines.StageLine]:
    return stage_lines.parse(lines, NAMESPACE)


def heard(*versions: int, deleted: int = 0) -> list[Heard]:
    found = [Heard(KEY, version, "MODIFIED", float(version)) for version in versions]
    return found + ([Heard(KEY, deleted, "DELETED", float(deleted))] if deleted else [])


def judge(lines: list[str], events: list[Heard], failed_writes: int = 0) -> str:
    """All rules one after another; the diagnosis of the first that is broken, empty for none."""
    try:
        found = parsed(lines)
        stage_lines.require_true(found, events)
        stage_lines.require_order(found, events)
        stage_lines.require_cached(found, events)
        stage_lines.require_enqueued(found)
        stage_lines.require_worker(found, events, failed_writes=failed_writes)
    except Fail as fail:
        return fail.message.diagnosis
    return ""


def worked(version: int | None) -> list[str]:
    return [line("dequeue"), line("reconcile", version)]


def test_one_change_after_another_is_right():
    assert judge(passing(5) + worked(5) + passing(6) + worked(6), heard(5, 6)) == ""


def test_two_changes_may_be_one_reconcile():
    assert judge(passing(5) + passing(6) + worked(6), heard(5, 6)) == ""


def test_a_queue_that_merges_nothing_is_right_too():
    assert judge(passing(5) + passing(6) + worked(6) + worked(6), heard(5, 6)) == ""


def test_a_delete_ends_in_a_reconcile_that_finds_nothing():
    lines = passing(5) + worked(5) + passing(7, deleted=True) + worked(None)
    assert judge(lines, heard(5, deleted=7)) == ""


def test_a_handler_may_run_after_the_object_was_deleted():
    first, second = passing(5), passing(7, deleted=True)
    late = line("handler", 5, cached=None)
    lines = [*first[:3], *second[:3], late, line("enqueue"), *second[3:], *worked(None)]
    assert judge(lines, heard(5, deleted=7)) == ""
    early = [*first[:3], late, line("enqueue"), *second, *worked(None)]
    assert judge(early, heard(5, deleted=7)) == "cache-behind-handler"


def test_a_worker_may_see_a_delete_before_the_indexer_line_says_so():
    # It looks up after the removal, which is before the line about it.
    lines = passing(5) + [line("dequeue"), line("reconcile")] + passing(7, deleted=True)
    assert judge(lines + worked(None), heard(5, deleted=7)) == ""


def test_a_retry_after_a_refused_write_needs_no_handler():
    lines = passing(5) + worked(5) + worked(5)
    assert judge(lines, heard(5)) == "dequeue-without-enqueue"
    assert judge(lines, heard(5), failed_writes=1) == ""


def test_keys_may_be_printed_in_two_parts_and_other_objects_are_passed_over():
    split = json.dumps({"stage": "dequeue", "key": {"namespace": "ns", "name": "a"}})
    other = json.dumps({"stage": "handler", "kind": "Deployment", "key": "ns/d"})
    assert [x.key for x in parsed(["hello", "{}", "[1]", split, other])] == [KEY]


@pytest.mark.parametrize(
    ("lines", "events", "diagnosis"),
    [
        ([line("reflector", 6)], heard(5), "line-without-an-event"),
        (passing(5) + worked(5), heard(5, 6), "event-without-a-line"),
        (
            [line("reflector", 5), line("reflector", 6), *passing(6), *worked(6)],
            heard(5, 6),
            "coalesced-before-enqueue",
        ),
        ([x for x in passing(5) if '"queue"' not in x], heard(5), "stage-skipped"),
        (
            [passing(5)[i] for i in (0, 1, 3, 4, 2)],
            heard(5),
            "handler-before-indexer",
        ),
        ([passing(5)[i] for i in (1, 0, 2, 3, 4)], heard(5), "stages-out-of-order"),
        (
            passing(5)[:3] + [line("handler", 5, cached="4"), line("enqueue"), *worked(5)],
            heard(5),
            "cache-behind-handler",
        ),
        (passing(5)[:3] + [line("handler", 5)], heard(5), "cached-missing"),
        (passing(5)[:4] + passing(6) + worked(6), heard(5, 6), "handler-without-enqueue"),
        (
            passing(5)[:4] + [line("enqueue", object={"metadata": {}}), *worked(5)],
            heard(5),
            "object-in-enqueue",
        ),
        (passing(5) + [line("dequeue"), *worked(5)], heard(5), "dequeued-twice"),
        (passing(5) + [line("reconcile", 5)], heard(5), "reconcile-without-dequeue"),
        (passing(5) + passing(6) + worked(5), heard(5, 6), "acted-on-event-payload"),
        (passing(5) + worked(None), heard(5), "reconcile-without-version"),
        (passing(5) + worked(5) + passing(6), heard(5, 6), "last-change-lost"),
        (passing(5) + [line("dequeue")], heard(5), "reconcile-missing"),
        ([json.dumps({"stage": "enqueued", "key": KEY})], heard(), "unknown-stage"),
        ([json.dumps({"stage": "queue", "key": "a"})], heard(), "key-is-no-key"),
        ([json.dumps({"stage": "enqueue", "key": {"kind": "Foo"}})], heard(), "object-in-enqueue"),
        ([line("queue", None, resourceVersion="x")], heard(), "resource-version-unreadable"),
    ],
)
def test_what_is_wrong_is_called_by_its_name(lines, events, diagnosis):
    assert judge(lines, events) == diagnosis
