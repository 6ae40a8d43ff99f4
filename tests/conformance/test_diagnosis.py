"""The kind of a fault, told from exchanges alone; and no kind where there is none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from grader.conformance import contract, diagnosis
from grader.conformance.contract import World
from tests.conformance import worlds
from tests.conformance.worlds import UID, exchange

CREATED = exchange("create", "pods", 201, body=worlds.pod("shop-0"))


class _History:
    def __init__(self, world):
        self._world = world

    def world_of(self, app):
        return self._world

    def record(self, uid):
        return self._world.record

    def states(self, **_):
        return []


def named(exchanges, world, *, ended=None):
    program = SimpleNamespace(exited=ended, stderr_tail=lambda n: ())
    return diagnosis.of_stuck(worlds.app(), _History(world), exchanges, [program]).name


ONE_POD = worlds.world(pods=[worlds.pod("shop-0")])
FAILED = exchange("create", "pods", 500, body=worlds.pod("shop-1"))
CONFLICT = {"kind": "Status", "reason": "Conflict", "code": 409}
EXISTS = {"kind": "Status", "reason": "AlreadyExists", "code": 409}


def test_nothing_written_at_all():
    assert named([], ONE_POD) == "never-acted"


def test_a_process_that_died_by_itself():
    assert named([CREATED], ONE_POD, ended=SimpleNamespace(by="itself")) == "operator-died"


def test_one_that_the_grader_killed_did_not_die():
    assert named([CREATED], ONE_POD, ended=SimpleNamespace(by="grader")) != "operator-died"


def test_a_failed_create_of_a_pod_that_is_missing():
    assert named([CREATED, FAILED], ONE_POD) == "swallowed-error"


def test_a_lost_answer_counts_as_a_failure():
    lost = exchange(
        "create", "pods", None, body=worlds.pod("shop-1"), error="a rule dropped the answer"
    )
    assert named([CREATED, lost], ONE_POD) == "swallowed-error"


def test_a_process_that_was_killed_swallowed_nothing():
    cut = exchange(
        "create", "pods", None, body=worlds.pod("shop-1"),
        error="a rule killed the process before this was forwarded",
    )  # fmt: skip
    assert named([CREATED, cut], ONE_POD) == ""


def test_a_failure_of_something_that_is_there_now_is_not_the_reason():
    failed = exchange("update", "webapps/status", 409, name="shop", answer=CONFLICT)
    assert named([CREATED, failed], ONE_POD) == ""


def test_another_webapps_failure_is_none_of_this_ones():
    theirs = exchange("create", "pods", 500, body=worlds.pod("beta-0", owner="another"))
    assert named([CREATED, theirs], ONE_POD) == ""


def test_already_exists_again_and_again():
    tries = [exchange("create", "configmaps", 409, body={"metadata": {"name": f"record-{UID}"}},
                      answer=EXISTS)] * 3  # fmt: skip
    assert named([CREATED, *tries], ONE_POD) == "gave-up-on-already-exists"


def test_a_conflict_for_ever():
    tries = [exchange("update", "webapps", 409, name="shop", answer=CONFLICT)] * 5
    assert named([CREATED, *tries], ONE_POD) == "conflict-for-ever"


def test_forbidden():
    refused = exchange("update", "webapps/status", 403, name="shop")
    assert named([CREATED, refused], ONE_POD) == "forbidden"


def test_a_status_that_the_main_resource_dropped():
    sent = {"metadata": {"name": "shop"}, "status": {"replicas": 2}}
    dropped = exchange("update", "webapps", 200, name="shop", body=sent, answer={"status": {}})
    assert named([CREATED, dropped], ONE_POD) == "status-through-main-resource"


def test_only_the_status_lags():
    assert named([CREATED], worlds.world(webapp=worlds.app(ready=0))) == "stale-status"


def test_a_webapp_that_went_before_its_record():
    gone = World(None, record=worlds.record())
    assert named([CREATED], gone) == "finalizer-removed-early"


def test_a_webapp_on_its_way_out_is_not_called_stale():
    going = worlds.app(ready=0)
    going["metadata"]["deletionTimestamp"] = "now"
    assert named([CREATED], worlds.world(webapp=going)) == ""


@pytest.mark.parametrize("body", [None, "text", [], {}, {"metadata": None}, {"metadata": {}}])
def test_any_body_can_be_looked_at(body):
    odd = exchange("patch", "pods", 500, name="x", body=body)
    assert named([odd], ONE_POD) in ("", "swallowed-error")
    assert contract.GROUP


NO_STATUS = worlds.world(webapp={**worlds.app(), "status": {}})


def test_a_body_that_merely_has_the_field_carries_no_status():
    zero = {"replicas": 0, "readyReplicas": 0, "conditions": None}
    sent = {"metadata": {"name": "shop"}, "status": zero}
    put = exchange("update", "webapps", 200, name="shop", body=sent, answer={"spec": {}})
    assert named([put, CREATED], NO_STATUS) == "stale-status"


def test_a_status_that_was_sent_along_unchanged_is_no_status_that_was_dropped():
    status = worlds.app()["status"]
    put = exchange(
        "update", "webapps", 200, name="shop", body={"status": status}, answer={"status": status}
    )
    assert named([put, CREATED], worlds.world(webapp=worlds.app(ready=0))) == "stale-status"


NOT_FOUND = {"kind": "Status", "reason": "NotFound", "code": 404}


def going() -> World:
    app = worlds.app()
    app["metadata"]["deletionTimestamp"] = "now"
    return worlds.world(webapp=app, record=None)


def test_a_record_that_is_gone_and_is_still_being_deleted():
    name = f"record-{UID}"
    gone = exchange("delete", "configmaps", 404, name=name, answer=NOT_FOUND)
    assert named([CREATED, gone, gone], going()) == "gave-up-on-not-found"
    later = exchange("update", "webapps", 409, name="shop", answer=CONFLICT)
    assert "gave-up-on-not-found" not in named([CREATED, gone, later], going())


def test_where_two_fit_both_are_told():
    sent = {"metadata": {"name": "shop"}, "status": {"replicas": 2}}
    dropped = exchange("update", "webapps", 200, name="shop", body=sent, answer={"status": {}})
    both = named([CREATED, FAILED, dropped], ONE_POD)
    assert both == "status-through-main-resource or swallowed-error"


def test_a_pause_that_is_not_over_is_no_swallowed_error(monkeypatch):
    times = [100.0, 101.0, 103.0, 107.0, 115.0]
    failed = [exchange("create", "pods", 500, body=worlds.pod("shop-1"), t=t) for t in times]
    monkeypatch.setattr(diagnosis.time, "time", lambda: 120.0)
    assert named([CREATED, *failed], ONE_POD) == "pauses-too-long"
    monkeypatch.setattr(diagnosis.time, "time", lambda: 160.0)
    assert named([CREATED, *failed], ONE_POD) == "swallowed-error"


@pytest.mark.parametrize(
    ("name", "problem", "fits"),
    [
        ("kept-old-image", "Pod shop-0 runs shop:1.", True),
        ("kept-old-image", "The DNS record dns/record-1 does not exist.", False),
        ("ignored-record-drift", "The DNS record says host 'a', the spec 'b'.", True),
        ("ignored-record-drift", "There are 1 active Pods instead of 2.", False),
        ("a-name-without-a-sign", "There are 1 active Pods instead of 2.", True),
    ],
)
def test_what_a_scenario_calls_it_must_be_what_is_missing(name, problem, fits):
    assert diagnosis.fits(name, [problem]) is fits
