"""4.3.2 Build artifact 1: every moving part wired by hand.

The functional part of the conformance suite (:mod:`grader.conformance`), a check a theme.
All of it runs once, against one process of the operator. Before that: five parts of it,
cited beside the same parts of sample-controller.
"""

from __future__ import annotations

import pytest

from grader.evidence import answers as written
from grader.evidence import citations, places
from grader.labs import check, suite_checks
from grader.labs.lab_4_3_2_roles import ROLES, Operator, Role
from grader.verdict import Fail

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


#: What an operator's sources end in.
_SOURCES = (".py", ".go")


@pytest.fixture(scope="module")
def answers(submission):
    return written.parse(submission.text("answers.md"))


@check(
    "4.3.2/five-own",
    title="Five parts of your own operator are cited: told, queued, taken, looked up, written",
    points=2,
    evidence="claim",
)
def check_five_own(answers, submission):
    root, folder = submission.root, submission.program_folder
    files = [p for p in (root / folder).rglob("*") if p.suffix in _SOURCES and p.is_file()]
    operator = Operator(
        {p.relative_to(root).as_posix(): p.read_text("utf-8", "replace") for p in files}
    )
    for role in ROLES:
        own = _first(answers, role, own=True)
        _require_own(role, citations.check(own, handed_in=root), operator, folder)


@check(
    "4.3.2/five-upstream",
    title="Beside each stands the line of sample-controller that does the same",
    points=1,
    evidence="claim",
)
def check_five_upstream(answers):
    for role in ROLES:
        upstream = citations.check(_first(answers, role, own=False))
        places.of("4.3.2", role.heading).judge(upstream)


def _first(answers: written.Answers, role: Role, *, own: bool) -> citations.Citation:
    """The first citation under a part's heading that is of one's own, or of upstream."""
    section = answers.require_section(role.heading)
    name = f"answers.md, «{role.heading}»"
    found = citations.required(section.source, name, first=section.body)
    for cited in found:
        if cited.is_own == own:
            return cited
    whose = "your own operator" if own else "sample-controller"
    raise Fail(
        f"Under «{role.heading}» stand two citations: your own line, and sample-controller's.",
        f"None is of {whose}.",
        why="Whoever can put each part of their own controller beside the same part of this one "
        "can read any controller that was wired by hand.",
        next="`./phase4 cite PATH:LINE` prints a citation ready to paste, of either.",
        diagnosis="one-side-missing",
        evidence=[f"line {each.at}: {each}" for each in found],
    )


def _require_own(role: Role, finding: citations.Finding, operator: Operator, folder: str) -> None:
    expected = f"Your own citation under «{role.heading}» is of {role.name}."
    finding.require_exact(expected)
    cited = finding.citation
    if cited.path not in operator.sources:
        raise Fail(
            expected,
            f"`{cited.place}` is no source of your operator, which is in {folder}.",
            next="Cite the line that runs.",
            diagnosis="not-your-operator",
        )
    answer = operator.judge(role, cited.path, cited.line)
    if answer.right is False:
        raise Fail(
            expected,
            f"`{cited.place}`, `{(cited.quote or '').strip()}`: {answer.seen}.",
            why="The five lines are where one part hands over to the next: whoever debugs an "
            "operator sets a breakpoint at one of them.",
            next="Follow an event of the watch through your operator, from the handler on.",
            diagnosis=answer.diagnosis,
        )


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
