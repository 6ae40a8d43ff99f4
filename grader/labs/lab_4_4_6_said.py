"""What a learner's ``diagnose`` says of one namespace of 4.4.6, and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from grader.labs import lab_4_4_6_wedges as wedges
from grader.labs.lab_4_4_6_wedges import Hold, Wedge
from grader.verdict import Fail

FIELDS = ("why", "resource", "namespace", "object", "finalizer", "condition")
#: More lines than any namespace here has holders.
_MOST = 20
#: What a kind is called where the first word of its diagnosis is another.
_MISSED = {
    "chain": "misses-the-chain",
    "apiservice": "misses-the-apiservice",
    "webhook": "misses-the-webhook",
    "crd-version": "misses-the-version",
    "grace": "misses-the-grace",
    "own-finalizer": "misses-own-finalizer",
    "not-wedged": "sees-a-wedge",
    "recreated": "misses-the-uid",
    "operator-gone": "misses-the-object",
}
_LOOK = {
    "chain": "The object says in `status.waitingFor` what it waits for. Go there, and print a line "
    "for what holds that, too.",
    "apiservice": "The condition names a group. Which APIService is that, and what does its "
    "condition Available say?",
    "webhook": "The condition's message names the webhook. In which configuration is it?",
    "crd-version": "`metadata.managedFields` says through which version the finalizer was written. "
    "Does the CRD still serve that one?",
    "grace": "While there are Pods nothing else is deleted, and no condition speaks of them.",
    "own-finalizer": "`metadata.finalizers` of the Namespace; `spec.finalizers` is another list.",
    "not-wedged": "Has anybody asked for its end? `metadata.deletionTimestamp` says so.",
    "recreated": "Compare `metadata.uid` with NAMESPACE_UID, which is that of the namespace that was deleted.",
    "operator-gone": "The condition NamespaceContentRemaining names the resource. Which of its "
    "objects has a deletionTimestamp and a finalizer?",
}


@dataclass(frozen=True)
class Said:
    """A line of a diagnosis; what was left out or null is empty."""

    why: str
    resource: str = ""
    namespace: str = ""
    object: str = ""
    finalizer: str = ""
    condition: str = ""


def read(lines: Sequence[str]) -> list[Said]:
    """The lines that a program printed. Raises Fail for whatever is no line of a diagnosis."""
    expected = (
        "diagnose prints a line of JSON for each thing that holds the namespace: an object with "
        f"the keys {', '.join(FIELDS)}."
    )
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise Fail(
            expected,
            "It printed nothing.",
            next='Where nothing holds it, that is a line, too: {"why": "nothing"}',
            diagnosis="says-nothing",
        )
    if len(lines) > _MOST:
        raise Fail(
            expected,
            f"It printed {len(lines)} lines.",
            next="What it says besides belongs on its standard error.",
            diagnosis="rubbish",
            evidence=[line[:200] for line in lines[:3]],
        )
    return [_one(line, expected) for line in lines]


def _one(line: str, expected: str) -> Said:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Fail(
            expected,
            f"It printed «{line[:160]}», which is no JSON object.",
            next="One object a line, on its standard output; everything else belongs on its "
            "standard error.",
            diagnosis="rubbish",
        )
    found = {}
    for key in FIELDS:
        entry = value.get(key)
        if entry is not None and not isinstance(entry, str):
            raise Fail(
                expected,
                f"The value of «{key}» in «{line[:160]}» is no text.",
                next="A line for each object and finalizer, with one name in each value.",
                diagnosis="rubbish",
            )
        found[key] = (entry or "").strip()
    if found["why"] not in wedges.WORDS:
        raise Fail(
            expected,
            f"«why» is «{found['why']}».",
            next=f"It is one of: {', '.join(wedges.WORDS)}.",
            diagnosis="unknown-word",
        )
    return Said(**found)


def judge(wedge: Wedge, said: Sequence[Said]) -> None:
    """Raise Fail where the diagnosis of a namespace is not the truth, or not all of it."""
    left = list(said)
    for hold in wedge.holds:
        line = next((one for one in left if _is_about(one, hold)), None)
        if line is None:
            raise _fail(wedge, hold, _seen(said), _MISSED[wedge.kind], _LOOK[wedge.kind])
        left.remove(line)
        if line.finalizer != hold.finalizer:
            raise _fail(
                wedge,
                hold,
                f"The finalizer is «{line.finalizer}» there."
                if line.finalizer
                else "No finalizer is named.",
                "wrong-finalizer",
                "`metadata.finalizers` of that object has it, word for word.",
            )
        if hold.conditions is not None and (
            line.condition not in hold.conditions if hold.conditions else line.condition
        ):
            raise Fail(
                f"«{wedge.title}»: the diagnosis names the condition that says so: "
                + (" or ".join(sorted(hold.conditions)) or "none does, so it is left empty")
                + ".",
                f"It says «{line.condition}»." if line.condition else "It is left empty.",
                why="The condition is where a person looks first. One that is False speaks of "
                "nothing, and here some wedges are in no condition at all.",
                next="`kubectl get namespace NAME -o yaml`: which conditions are True?",
                diagnosis="wrong-condition",
            )
    if left:
        raise Fail(
            f"«{wedge.title}»: the diagnosis names what holds the namespace, and nothing else.",
            f"It says besides: {_text(left[0])}.",
            why="Who is told of two causes mends the wrong one first.",
            next="Is that in the way of the namespace's end? " + _LOOK[wedge.kind],
            diagnosis="sees-a-wedge" if wedge.kind == "not-wedged" else "says-too-much",
        )


def _is_about(line: Said, hold: Hold) -> bool:
    return (
        line.why == hold.why
        and _same_resource(line.resource, hold.resource)
        and (not hold.object or line.object == hold.object)
        and (not hold.namespace or line.namespace == hold.namespace)
    )


def _same_resource(said: str, right: str) -> bool:
    """Plural or singular, with the group or without; a version may stand between them."""
    if not right:
        return True
    plural, _, group = right.partition(".")
    word, _, rest = said.lower().partition(".")
    singular = plural[:-2] if plural.endswith("sses") else plural[:-1]
    return word in (plural, singular) and (not rest or rest == group or rest.endswith(f".{group}"))


def _fail(wedge: Wedge, hold: Hold, seen: str, diagnosis: str, next: str) -> Fail:
    return Fail(
        f"«{wedge.title}»: the diagnosis is {hold.shown}.",
        seen,
        why="A diagnosis that stops short of the object and the finalizer sends somebody to force "
        "the namespace away.",
        next=next,
        diagnosis=diagnosis,
    )


def _seen(said: Sequence[Said]) -> str:
    return "It says: " + "; ".join(_text(one) for one in said[:3]) + "."


def _text(line: Said) -> str:
    pairs = {key: getattr(line, key) for key in FIELDS}
    return json.dumps({key: value for key, value in pairs.items() if value})
