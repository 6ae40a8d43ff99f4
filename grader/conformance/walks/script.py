"""A failure for a person: what was done as commands to type, what differs, how to see it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grader.verdict import Fail

if TYPE_CHECKING:
    from grader.conformance.walks.tries import Finding

#: What the commands call the walk's namespace.
NAMESPACE = "walk"
_KUBECTL = f'kubectl() {{ ./phase4 kubectl -n {NAMESPACE} "$@"; }}'
#: Shell functions that commands use, by the words with which they are used.
_HELPERS = {
    "$(pod ": 'pod() { kubectl get pods -l phase4.example.com/webapp="$1" '
    '--sort-by=.metadata.creationTimestamp -o name | sed -n "$2p"; }',
    "$(record ": 'record() { echo "record-$(kubectl get webapp "$1" '
    "-o jsonpath='{.metadata.uid}')\"; }",
    "$(held ": 'held() { kubectl get "$@" -o '
    "jsonpath='{range .items[?(@.metadata.finalizers)]}{.kind}/{.metadata.name}{\"\\n\"}{end}' "
    "| head -n 1; }",
    "$(owner)": "owner() { kubectl get configmap someone -o jsonpath='{.metadata.uid}'; }",
}
#: Sentences of a failure that are shown; the rest is in the walk's file.
_SENTENCES = 4


def script(lines: list[str]) -> list[str]:
    """The commands with what they need before them, for a shell in the course's folder."""
    helpers = [text for used, text in _HELPERS.items() if any(used in line for line in lines)]
    return [_KUBECTL, *helpers, f"./phase4 kubectl create namespace {NAMESPACE}", *lines]


def failure(
    finding: Finding, seed: int, *, came_again: bool, alone: bool, command: str, file: str
) -> Fail:
    """The verdict on a walk. ``finding.walk`` is as short as it could be made."""
    texts = [one.text for one in finding.differences]
    said = " ".join(texts[:_SENTENCES])
    if len(texts) > _SENTENCES:
        said += f" And {len(texts) - _SENTENCES} more."
    if finding.died:
        said = f"The operator ended by itself. {said}".strip()
    scenario = "alone" if alone else "together"
    # The words after -- are the operator's.
    again = f"./phase4 conform --part walks/{scenario} --seed {seed} -- {command}"
    count = finding.walk.length
    operations = f"{count} operation{'s' if count != 1 else ''}"
    under = f", while {finding.under}" if finding.under else ""
    came = (
        f"It came again when no more than the {operations} below {'were' if count != 1 else 'was'} "
        "done."
        if came_again
        else "It did not come again when the same was done once more: it depends on which of two "
        "things is first, or on what else the operator had to do."
    )
    return Fail(
        f"After {operations} at random{under}, the operator comes to rest and everything is as "
        "the contract has it.",
        f"{said} {came}",
        why="Nobody wrote this case down. Whoever runs an operator meets such cases every day.",
        next=f"Type the commands below (they are in {file}, too) while `./phase4 run --as operator "
        f"-- {command}` runs in another terminal. The suite does the walk again, whole, by "
        f"`{again}`.",
        diagnosis="operator-died" if finding.died else "",
        evidence=[*script(finding.lines), "", *_differences(texts), *finding.evidence],
    )


def _differences(texts: list[str]) -> list[str]:
    return [f"differs: {text}" for text in texts]
