"""Why a WebApp has not converged, told from the exchanges alone."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grader.conformance import contract
from grader.conformance.contract import is_ready, shortfalls, status_shortfalls
from grader.wire.records import WRITE_VERBS
from grader.witness import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grader.conformance.history import History
    from grader.runner import RunningProgram
    from grader.wire.records import Exchange

#: Exchanges shown below a message.
_SHOWN = 8


@dataclass(frozen=True)
class Diagnosis:
    """``name`` is empty where the fault has no name."""

    name: str = ""
    why: str = ""
    next: str = ""
    evidence: tuple[str, ...] = ()


def of_stuck(
    app: dict,
    history: History,
    exchanges: Iterable[Exchange],
    programs: Sequence[RunningProgram],
) -> Diagnosis:
    """Why a WebApp did not converge: ``exchanges`` are what its operator's ``programs`` said.

    Looks, in this order, for: a process that died; no write at all; a finalizer
    removed before the cleanup, a record made after the end; a write that was
    forbidden. Then at all of these: a status sent to the main resource; a create
    that keeps being answered AlreadyExists, a DELETE NotFound, an update Conflict;
    a write that failed, was not retried, and is the one that is missing. Where two
    fit, both are told.
    """
    meta = app["metadata"]
    owners = _owners(history, meta["namespace"])
    concerned = [e for e in exchanges if _concerns(e, meta, owners)]
    writes = [e for e in concerned if e.verb in WRITE_VERBS]
    shown = tuple(describe(e) for e in writes[-_SHOWN:])

    for program in programs:
        ended = program.exited
        if ended is not None and ended.by == "itself":
            said = program.stderr_tail(8)
            return Diagnosis(
                "operator-died",
                "An operator that crashes does nothing until it is restarted, and then most likely "
                "crashes on the same object.",
                "The end of its standard error is shown here."
                if said
                else "It wrote nothing to its standard error.",
                (f"The operator {ended}.", *said),
            )
    if not writes:
        return Diagnosis(
            "never-acted",
            "Nothing was written for this WebApp at all.",
            "Does one of its events put the key into the queue, and does a worker get it?",
            tuple(describe(e) for e in concerned[-_SHOWN:]),
        )
    if history.world_of(app).webapp is None and history.record(meta["uid"]):
        if (late := _made_after_the_end(history, meta["uid"], writes)) is not None:
            return Diagnosis(
                "wrote-for-a-gone-webapp",
                "The record was made after the end of its WebApp: nobody is left to clean it up.",
                "A key that is no longer in the cache has nothing to be brought about.",
                (describe(late),),
            )
        return Diagnosis(
            "finalizer-removed-early",
            "The finalizer is the only thing that keeps the WebApp until the cleanup is done: "
            "with the WebApp gone, nobody will ever retry it.",
            "Delete the record, check that it is gone, then remove the finalizer.",
            shown,
        )
    forbidden = [e for e in writes if e.status == 403]
    if forbidden:
        terminating = "being terminated" in str(forbidden[-1].answer)
        return Diagnosis(
            "namespace-terminating" if terminating else "forbidden",
            "The API server forbids this write.",
            "Compare the verb and the resource, subresources too, with the operator's role.",
            tuple(describe(e) for e in forbidden[-3:]),
        )
    missing = _targets_missing(history, app)
    possible = list(_of_attempts(writes, missing))
    if _status_shortfalls(history, app):
        possible = [*_of_status_through_main(writes), *possible]
    if possible:
        return _either(possible)
    if _only_the_status_lags(history, app):
        return Diagnosis(
            "stale-status",
            "The Pods and the DNS record match the spec, and the status is out of date: users, "
            "and everything that waits for Ready, rely on the status.",
            "Which event triggers the next reconcile? A Pod that becomes Ready is one.",
            shown,
        )
    return Diagnosis(evidence=shown)


def _either(possible: list[Diagnosis]) -> Diagnosis:
    """The one that it is; where the exchanges fit two, both of them."""
    by_name = list({one.name: one for one in possible}.values())[:2]
    if len(by_name) == 1:
        return by_name[0]
    first, second = by_name
    return Diagnosis(
        f"{first.name} or {second.name}",
        f"Two things may be the cause. The first: {first.why} The second: {second.why}",
        f"{first.next} Then: {second.next}",
        (*first.evidence, *second.evidence),
    )


def _of_status_through_main(writes: list[Any]) -> Iterator[Diagnosis]:
    lost = _status_through_main(writes)
    if lost is not None:
        yield Diagnosis(
            "status-through-main-resource",
            "With the status subresource enabled, the API server ignores .status in a write to "
            "the object itself: it answers 200 and drops the status.",
            "Send the status to …/status.",
            (describe(lost),),
        )


def _of_attempts(writes: list[Any], missing: set[str]) -> Iterator[Diagnosis]:
    """What became of the last attempts at what is still missing."""
    by_target: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for exchange in writes:
        by_target[exchange.verb, exchange.target, _name(exchange)].append(exchange)
    for (verb, target, name), attempts in by_target.items():
        last = attempts[-1]
        exists = [e for e in attempts if _reason(e) == "AlreadyExists"]
        if len(exists) >= 3 and exists[-1] is last:
            yield Diagnosis(
                "gave-up-on-already-exists",
                "AlreadyExists means that an earlier attempt succeeded.",
                "Treat it as done: read the existing object, and continue with the next step.",
                (f"{len(exists)} × {verb} {target} {name} answered AlreadyExists",)
                + tuple(describe(e) for e in exists[-3:]),
            )
            continue
        absent = [e for e in attempts if verb == "delete" and _reason(e) == "NotFound"]
        if len(absent) >= 2 and absent[-1] is last and writes[-1] is last:
            yield Diagnosis(
                "gave-up-on-not-found",
                "NotFound, in answer to a DELETE, means that what was to go is gone.",
                "Treat it as done, and continue with the next step.",
                (f"…and after this nothing but the same: {verb} {target} {name}",)
                + tuple(describe(e) for e in absent[-3:]),
            )
            continue
        refused = [e for e in attempts if e.status in (400, 422)]
        if len(refused) >= 3 and refused[-1] is last:
            second = "Only one reference can have Controller" in str(last.answer)
            yield Diagnosis(
                "second-controller" if second else "refused-again-and-again",
                "Only one owner reference may have controller: true."
                if second
                else "The API server rejects the content of this write: sent again, it is rejected "
                "again.",
                "Read the message in the responses below.",
                tuple(describe(e) for e in refused[-3:]),
            )
            continue
        stale = [e for e in attempts[-5:] if _reason(e) == "Conflict"]
        if len(stale) == 5:
            yield Diagnosis(
                "conflict-for-ever",
                "Conflict means that the object has changed since it was read. The same body sent "
                "again is just as stale.",
                "On a retry, read the object again and compute the change from its current state.",
                (f"{verb} {target} {name}", *(describe(e) for e in stale[-3:])),
            )
        elif target in missing and _failed(last) and (pause := _pausing(attempts)):
            yield Diagnosis(
                "pauses-too-long",
                "The write failed, and the next attempt is not due yet: the pause between two of "
                f"them had grown to {pause:.0f} s.",
                "Let the pauses have a limit, and start small again after each success.",
                tuple(describe(e) for e in attempts[-4:]),
            )
        elif target in missing and _failed(last):
            yield Diagnosis(
                "swallowed-error",
                "The write failed and was not retried, and a write that never happened causes no "
                "event.",
                "Return the error to the worker, and let it requeue the key with backoff.",
                (describe(last), f"…and nothing after it to {verb} {target} {name}."),
            )


def _pausing(attempts: list[Any]) -> float | None:
    """The last pause between attempts, where they were growing and the next may still come."""
    failed = [e.t_request for e in attempts if _failed(e)]
    pauses = [later - earlier for earlier, later in zip(failed, failed[1:], strict=False)]
    growing = len(pauses) >= 3 and pauses[-1] > 1.0 and pauses[-1] > 1.5 * pauses[-2]
    waiting = growing and time.time() - failed[-1] < 4 * pauses[-1]
    return pauses[-1] if waiting else None


#: What must be wrong for a name that a scenario expects: one of these, in a sentence of what is
#: missing. A scenario about images may fail over its record, and is then about no image.
_SHOWS = {
    "ignored-deleted-pod": ("active Pods instead", "terminating"),
    "ignored-record-drift": ("DNS record",),
    "kept-edited-pod": (" runs ", "active Pods instead"),
    "kept-failed-pod": ("has finished", "active Pods instead"),
    "kept-old-image": (" runs ",),
    "lost-last-edit": ("active Pods instead", "observedGeneration"),
    "lost-unlabelled-pod": ("has the label", "active Pods instead"),
    "names-cut-off": ("active Pods instead",),
    "not-adopted": ("was not adopted", "active Pods instead"),
    "one-record-for-a-host": ("DNS record",),
}


def fits(name: str, problems: Iterable[str]) -> bool:
    """Whether what is missing can be what a scenario calls it."""
    words = _SHOWS.get(name)
    return words is None or any(word in text for text in problems for word in words)


def _failed(exchange: Any) -> bool:
    """Whether the process was told, or left to find out, that a write did not happen."""
    if exchange.status is None:
        # A process that was killed or ended cannot retry; the next one starts from scratch.
        return "the process" not in exchange.error
    return exchange.status >= 500 or (
        exchange.status in (409, 422, 429) and _reason(exchange) != "AlreadyExists"
    )


def _targets_missing(history: History, app: dict) -> set[str]:
    """What is still to be written, as rules name it."""
    world = history.world_of(app)
    live = world.webapp
    if live is None or contract.is_terminating(live):
        found = {"configmaps"} if history.record(app["metadata"]["uid"]) else set()
        return found | ({"webapps"} if live is not None else set())
    status = _status_shortfalls(history, app)
    rest = [text for text in shortfalls(world) if text not in status]
    found = {
        "configmaps" if "DNS record" in text else "webapps" if "finalizer" in text else "pods"
        for text in rest
    }
    return found or {"webapps/status"}


def _status_shortfalls(history: History, app: dict) -> list[str]:
    world = history.world_of(app)
    if world.webapp is None:
        return []
    return status_shortfalls(world.webapp, len(world.standing), sum(map(is_ready, world.standing)))


def _only_the_status_lags(history: History, app: dict) -> bool:
    world = history.world_of(app)
    if world.webapp is None or contract.is_terminating(world.webapp):
        return False
    status = _status_shortfalls(history, app)
    return bool(status) and shortfalls(world) == status


def _made_after_the_end(history: History, uid: str, writes: list[Any]) -> Any | None:
    """The create of a record that came after its WebApp was gone."""
    gone = next((s for s in history.states(uid=uid) if s.type == "DELETED"), None)
    for e in writes:
        made = e.verb == "create" and e.resource == "configmaps" and isinstance(e.answer, dict)
        version = (e.answer.get("metadata") or {}).get("resourceVersion") if made else None
        if gone is not None and version and int(version) > gone.revision:
            return e
    return None


def _owners(history: History, namespace: str) -> dict[str, str]:
    """Of each Pod that a namespace had, the UID of its (last) controller; "" for none."""
    return {
        state.name: (contract.controller_of(state.object) or {}).get("uid", "")
        for state in history.states(resource="pods")
        if state.namespace == namespace
    }


def _concerns(exchange: Any, meta: dict, owners: dict[str, str]) -> bool:
    """Whether an exchange has to do with the WebApp, as far as its request tells."""
    name = _name(exchange)
    if exchange.namespace == contract.DNS_NAMESPACE:
        return meta["uid"] in name
    if exchange.namespace != meta["namespace"]:
        return False
    if exchange.resource == "webapps":
        return name in ("", meta["name"])
    body = exchange.request_body
    whole = isinstance(body, dict) and isinstance(body.get("metadata"), dict)
    sent = contract.controller_of(body) if whole else None
    owner = (sent or {}).get("uid") or owners.get(name, "")
    return owner in ("", meta["uid"])


def _name(exchange: Any) -> str:
    if exchange.name:
        return exchange.name
    body = exchange.request_body
    return body.get("metadata", {}).get("name", "") if isinstance(body, dict) else ""


def _reason(exchange: Any) -> str:
    answer = exchange.answer
    return answer.get("reason", "") if isinstance(answer, dict) else ""


def _status_through_main(writes: list[Any]) -> Any | None:
    """A write to the WebApp itself that carried a status which the server dropped.

    A body that merely has the field, with nothing in it, carries none: so a typed
    client sends every object.
    """
    if any(e.resource == "webapps" and e.subresource == "status" for e in writes):
        return None
    for exchange in writes:
        if exchange.target != "webapps" or exchange.verb not in ("update", "patch"):
            continue
        sent, got = exchange.request_body, exchange.answer
        if not isinstance(sent, dict) or not isinstance(got, dict):
            continue
        status = _without_zeros(sent.get("status"))
        if status and status != _without_zeros(got.get("status")):
            return exchange
    return None


def _without_zeros(value: Any) -> Any:
    """Without what says nothing: 0, "", null, and what is empty without those."""
    if isinstance(value, dict):
        kept = {key: _without_zeros(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one}
    if isinstance(value, list):
        return [_without_zeros(one) for one in value]
    return value or None
