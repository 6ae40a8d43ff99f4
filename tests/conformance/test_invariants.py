"""What must hold at every moment, on histories made up for it."""

from __future__ import annotations

import copy

import pytest

from grader.conformance import invariants
from grader.conformance.history import State
from grader.verdict import Fail
from tests.conformance import stories, worlds
from tests.conformance.worlds import UID


class History:
    """States in the order given; revisions count from 1."""

    def __init__(self, *states):
        self._states = [
            State(revision, type, resource, copy.deepcopy(obj), float(revision))
            for revision, (type, resource, obj) in enumerate(states, start=1)
        ]

    def states(self, *, uid=None, resource=None):
        return [s for s in self._states if uid in (None, s.uid) and resource in (None, s.resource)]

    def pods_of(self, uid):
        return [
            s
            for s in self.states(resource="pods")
            if s.object["metadata"]["ownerReferences"][0]["uid"] == uid
        ]

    def replay(self):
        live = {"webapps": {}, "pods": {}, "configmaps": {}}
        for state in self._states:
            live[state.resource].pop(state.uid, None)
            if state.type != "DELETED":
                live[state.resource][state.uid] = state.object
            yield state, live


def bare():
    app = worlds.app()
    app["metadata"]["finalizers"] = []
    return app


def going(finalizers):
    app = worlds.app()
    app["metadata"] |= {"deletionTimestamp": "now", "finalizers": finalizers}
    return app


WITH = ("MODIFIED", "webapps", worlds.app())
RECORD = ("ADDED", "configmaps", worlds.record())
UNRECORDED = ("DELETED", "configmaps", worlds.record())


def fails(check, states, *args, **keywords):
    with pytest.raises(Fail) as failed:
        check(History(*states), worlds.app(), *args, **keywords)
    return failed.value.message.diagnosis


def test_finalizer_and_record():
    start = ("ADDED", "webapps", bare())
    invariants.finalizer_before_record(History(start, WITH, RECORD), worlds.app())
    late = fails(invariants.finalizer_before_record, (start, RECORD, WITH))
    assert late == "finalizer-after-record"


def test_cleanup_and_finalizer():
    mine = worlds.app()["metadata"]["finalizers"]
    marked, let_go = ("MODIFIED", "webapps", going(mine)), ("MODIFIED", "webapps", going([]))
    right = (WITH, RECORD, marked, UNRECORDED, let_go)
    invariants.record_gone_before_finalizer(History(*right), worlds.app())
    for wrong in ((WITH, RECORD, marked, let_go, UNRECORDED), (WITH, RECORD, marked, let_go)):
        assert fails(invariants.record_gone_before_finalizer, wrong) == "finalizer-removed-early"


def test_nothing_is_made_while_terminating():
    marked = ("MODIFIED", "webapps", going(["x"]))
    made = ("ADDED", "pods", worlds.pod("shop-0"))
    invariants.nothing_made_while_terminating(History(WITH, made, marked), worlds.app())
    other = ("ADDED", "pods", worlds.pod("other", owner="another"))
    invariants.nothing_made_while_terminating(History(marked, other), worlds.app())
    assert (
        fails(invariants.nothing_made_while_terminating, (marked, made))
        == "made-children-while-terminating"
    )


def test_too_many_pods_at_any_moment():
    pods = [("ADDED", "pods", worlds.pod(f"shop-{n}")) for n in range(3)]
    invariants.never_more_pods_than(History(*pods), worlds.app(), 3)
    replaced = (*pods[:2], ("DELETED", "pods", worlds.pod("shop-0")), pods[2])
    invariants.never_more_pods_than(History(*replaced), worlds.app(), 2)
    assert fails(invariants.never_more_pods_than, pods, 2) == "over-created"
    invariants.never_more_pods_than(History(*pods), worlds.app(), 2, slack=1)


def test_a_status_that_was_true_and_one_that_was_early():
    pods = [("ADDED", "pods", worlds.pod(f"shop-{n}")) for n in range(2)]
    invariants.status_is_correct(History(RECORD, *pods, WITH), worlds.app())
    assert (
        fails(invariants.status_is_correct, (RECORD, pods[0], WITH)) == "observed-generation-early"
    )
    old = [("ADDED", "pods", worlds.pod(f"shop-{n}", image="shop:0")) for n in range(2)]
    assert fails(invariants.status_is_correct, (RECORD, *old, WITH)) == "observed-generation-early"
    lagging = ("MODIFIED", "webapps", worlds.app(generation=2, observed=1))
    invariants.status_is_correct(History(RECORD, lagging), worlds.app())


def test_transition_times():
    later = worlds.app()
    later["status"]["conditions"][0]["lastTransitionTime"] = "u"
    churn = (WITH, ("MODIFIED", "webapps", later))
    assert fails(invariants.transition_times, churn) == "transition-time-churn"
    changed = copy.deepcopy(later)
    changed["status"]["conditions"][0]["status"] = "False"
    invariants.transition_times(History(WITH, ("MODIFIED", "webapps", changed)), worlds.app())
    assert UID == worlds.app()["metadata"]["uid"]


def test_what_a_restart_does_again_is_counted():
    app = worlds.app()
    undisturbed = invariants.work_done(stories.converged().past(), app)
    assert +undisturbed == {"Pods created": 2, "records created": 1}
    story = stories.converged()
    story.wrote("delete", "pods", stories.ours("shop-0"), "DELETED")
    story.wrote("create", "pods", {**stories.another("shop-0")}, "ADDED")
    with pytest.raises(Fail) as failed:
        invariants.no_more_work_than(story.past(), app, undisturbed)
    assert failed.value.message.diagnosis == "did-it-again-after-kill"


def test_a_pod_that_somebody_else_took_away_is_no_work_done_again():
    app = worlds.app()
    undisturbed = invariants.work_done(stories.converged().past(), app)
    story = stories.converged()
    story.stored("pods", stories.ours("shop-0"), "DELETED")
    story.wrote("create", "pods", stories.another("shop-0"), "ADDED")
    invariants.no_more_work_than(story.past(), app, undisturbed)
    # A DELETE whose answer nobody has may have been the one.
    killed = story.asked("delete", "pods", stories.ours("shop-0"), status=0)
    killed.response_body, killed.withheld_body = None, None
    with pytest.raises(Fail):
        invariants.no_more_work_than(story.past(), app, undisturbed)
