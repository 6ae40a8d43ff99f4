"""4.3.5 The error you returned, and the retry that never came.

The faults part of the suite, as far as it is about errors
(:mod:`grader.conformance.parts.faults`), against the operator handed in.
"""

from __future__ import annotations

import pytest

from grader.labs import check, suite_checks

#: What each check looks at.
SCENARIOS = {
    "4.3.5/create": ("functional/create", "faults/errors-on-create"),
    "4.3.5/delete": ("faults/errors-on-delete",),
    "4.3.5/backoff": ("faults/backoff",),
    "4.3.5/newest": ("faults/edited-while-failing",),
}
#: One check runs its own scenarios, and no others.
CHECKS_STAND_ALONE = True


@pytest.fixture(scope="module")
def suite(submission, run, cluster, api, grading, observe, phase4):
    # Every wait of the suite has a limit of its own.
    with (
        phase4.untimed("errors at every write"),
        suite_checks.trial(submission, run, cluster, api, grading) as trial,
    ):
        found = suite_checks.results(
            trial, suite_checks.asked_for(grading, SCENARIOS), first="functional/create"
        )
    for name in ("create", "delete"):
        if one := found.get(f"faults/errors-on-{name}"):
            observe(f"errors on the writes of a {name}", one.measured.get("converged") or {})
    if one := found.get("faults/backoff"):
        observe("tries of a write that keeps failing", one.measured)
    return found


@check(
    "4.3.5/create",
    title="It recovers from 409, 500, 429, a timeout and a lost response on any write of a new WebApp, "
    "and nothing is created twice",
    points=4,
    evidence="live",
)
def check_create(suite):
    suite_checks.require(suite, *SCENARIOS["4.3.5/create"])


@check(
    "4.3.5/delete",
    title="The same at any write of its end, and the cleanup is done before the finalizer goes",
    points=3,
    evidence="live",
)
def check_delete(suite):
    suite_checks.require(suite, *SCENARIOS["4.3.5/delete"])


@check(
    "4.3.5/backoff",
    title="What keeps failing is retried with growing pauses",
    points=2,
    evidence="live",
)
def check_backoff(suite):
    suite_checks.require(suite, *SCENARIOS["4.3.5/backoff"])


@check(
    "4.3.5/newest",
    title="A retry does what is wanted now, not what was wanted at the first try",
    points=3,
    evidence="live",
)
def check_newest(suite):
    suite_checks.require(suite, *SCENARIOS["4.3.5/newest"])
