"""4.3.2 Build artifact 1: every moving part wired by hand.

The functional part of the conformance suite (:mod:`grader.conformance`), a check a theme.
All of it runs once, against one process of the operator.
"""

from __future__ import annotations

import pytest

from grader.labs import check, suite_checks

#: What each check looks at.
SCENARIOS = {
    "4.3.2/converges": (
        "functional/create",
        "functional/default",
        "functional/long-names",
        "functional/same-host",
    ),
    "4.3.2/changes": ("functional/scale", "functional/image"),
    "4.3.2/drift": (
        "functional/pod-deleted",
        "functional/pod-failed",
        "functional/pod-edited",
        "functional/record-drift",
    ),
    "4.3.2/ownership": ("functional/adoption", "functional/label-stolen", "functional/recreated"),
    "4.3.2/others": (
        "functional/foreign-fields",
        "functional/foreign-keys",
        "functional/others-finalizer",
    ),
    "4.3.2/cleanup": ("functional/delete",),
    "4.3.2/status": ("functional/status", "functional/pod-not-ready"),
    "4.3.2/load": ("functional/burst", "functional/fifty"),
    "4.3.2/process": ("restart/sigterm",),
}
#: One check runs its own scenarios, and no others.
CHECKS_STAND_ALONE = True


@pytest.fixture(scope="module")
def suite(submission, run, cluster, api, grading, observe, phase4):
    # Every wait of the suite has a limit of its own.
    with (
        phase4.untimed("the functional part of the conformance suite"),
        suite_checks.trial(submission, run, cluster, api, grading) as trial,
    ):
        found = suite_checks.results(
            trial, suite_checks.asked_for(grading, SCENARIOS), first="functional/create"
        )
    observe("seconds by scenario", {id: round(r.duration, 1) for id, r in found.items()})
    if fifty := found.get("functional/fifty"):
        observe("50 WebApps with 3 replicas", fifty.measured)
    return found


@check(
    "4.3.2/converges",
    title="A new WebApp gets its Pods, its DNS record, its finalizer and a true status",
    points=3,
    evidence="live",
)
def check_converges(suite):
    suite_checks.require(suite, *SCENARIOS["4.3.2/converges"])


@check(
    "4.3.2/changes",
    title="Scaling adds or removes the difference; a new image reaches every Pod",
    points=3,
    evidence="live",
)
def check_changes(suite):
    suite_checks.require(suite, *SCENARIOS["4.3.2/changes"])


@check(
    "4.3.2/drift",
    title="A Pod or a record that is deleted, edited or has failed is repaired",
    points=3,
    evidence="live",
)
def check_drift(suite):
    suite_checks.require(suite, *SCENARIOS["4.3.2/drift"])


@check(
    "4.3.2/ownership",
    title="Pods are told apart by their controller's UID: adopted, kept, or left alone",
    points=3,
    evidence="live",
)
def check_ownership(suite):
    suite_checks.require(suite, *SCENARIOS["4.3.2/ownership"])


@check(
    "4.3.2/others",
    title="Labels, annotations and finalizers of others survive",
    points=2,
    evidence="live",
)
def check_others(suite):
    suite_checks.require(suite, *SCENARIOS["4.3.2/others"])


@check(
    "4.3.2/cleanup",
    title="A deleted WebApp goes when its record is gone, and nothing is created meanwhile",
    points=3,
    evidence="live",
)
def check_cleanup(suite):
    suite_checks.require(suite, *SCENARIOS["4.3.2/cleanup"])


@check(
    "4.3.2/status",
    title="The status is true at every moment, and its times move only when it does",
    points=2,
    evidence="live",
)
def check_status(suite):
    suite_checks.require(suite, *SCENARIOS["4.3.2/status"])


@check(
    "4.3.2/load",
    title="Thirty edits in a row end in the last one, and fifty WebApps at once converge",
    points=2,
    evidence="live",
)
def check_load(suite):
    suite_checks.require(suite, *SCENARIOS["4.3.2/load"])


@check(
    "4.3.2/process",
    title="SIGTERM ends it within five seconds, with exit code 0",
    points=1,
    evidence="build",
)
def check_process(suite):
    suite_checks.require(suite, *SCENARIOS["4.3.2/process"])
