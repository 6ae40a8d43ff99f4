"""Faults: something fails on the way, and the WebApp converges all the same."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from grader.conformance import contract, invariants
from grader.conformance.bench import Bench
from grader.conformance.scenario import scenario
from grader.verdict import Fail, NotGraded
from grader.wire.records import WRITE_VERBS
from grader.witness import describe

if TYPE_CHECKING:
    from grader.runner import RunningProgram
    from grader.wire import RuleHandle
    from grader.wire.records import Exchange

#: Each write of a WebApp's life, as the wire's rules name it.
WRITES = {
    "the finalizer is stored": "update,patch webapps",
    "the record is created": "create configmaps",
    "a Pod is created": "create,patch pods",
    "the status is written": "update,patch webapps/status",
}
LAST_WRITES = {
    "a Pod is deleted": "delete,deletecollection pods",
    "the record is deleted": "delete configmaps",
    "the finalizer is removed": "update,patch webapps",
}
#: More than once where another write that succeeds would wake the operator by chance: each
#: one causes an event.
ERRORS = (
    "answer 409 times=3",
    "answer 500 times=6",
    "answer 429 retry-after=1",
    "timeout",
    "drop-answer",
)
#: Seconds. The backoff may have grown, as one fault follows another.
RECOVERY = 20.0


def _rule(error: str, target: str, options: str = "") -> str:
    action, _, rest = error.partition(" ")
    code, _, extra = rest.partition(" ")
    # What follows a code belongs behind the target.
    code, extra = (code, extra) if code.isdigit() else ("", rest)
    words = [action, code, target, extra, options]
    return " ".join(word for word in words if word)


@scenario(
    "faults/errors-on-create", "It recovers from an error on any write while a WebApp is created"
)
def errors_on_create(bench: Bench) -> None:
    tried = [
        (when, error, target, *_created_under(bench, error, target))
        for when, target in WRITES.items()
        for error in ERRORS
    ]
    table: dict[str, str] = {}
    for when, error, target, app, rule in tried:
        bench.settled(app, f"the rule «{rule.text}» acted when {when}", timeout=RECOVERY)
        table[f"{error} / {when}"] = "converged" if rule.fired else "never happened"
        rule.remove()
        invariants.finalizer_before_record(bench.history, app)
        invariants.never_more_pods_than(bench.history, app, 2, slack=_slack(error, target))
    bench.measured["converged"] = table


def _created_under(bench: Bench, error: str, target: str) -> tuple[dict, RuleHandle]:
    """A new WebApp, and the rule that makes that kind of write fail for it alone."""
    namespace = bench.namespace()
    if not target.endswith("configmaps"):
        rule = bench.rule(_rule(error, target, f"ns={namespace}"))
        return bench.create(namespace, replicas=2), rule
    # Its DNS record's name is known once it is created: until then its finalizer is held.
    held = bench.rule(f"hold update,patch webapps ns={namespace}")
    app = bench.create(namespace, replicas=2)
    rule = _failing(bench, error, target, app)
    held.remove()
    return app, rule


def _failing(bench: Bench, error: str, target: str, app: dict) -> RuleHandle:
    """The rule that makes that kind of write fail for this WebApp alone."""
    if target.endswith("configmaps"):
        return bench.rule(_rule(error, target, f"name={contract.record_name(app)}"))
    return bench.rule(_rule(error, target, f"ns={app['metadata']['namespace']}"))


def _slack(error: str, target: str) -> int:
    # Where the response to a create is lost, an operator whose Pods have generated
    # names cannot tell; one Pod too many for a moment is then no mistake.
    return 1 if error in ("drop-answer", "timeout") and "pods" in target else 0


@scenario(
    "faults/errors-on-delete", "It recovers from an error on any write while a WebApp is deleted"
)
def errors_on_delete(bench: Bench) -> None:
    cases = [(when, target, error) for when, target in LAST_WRITES.items() for error in ERRORS]
    apps = [bench.create(bench.namespace(), replicas=2) for _ in cases]
    for app in apps:
        bench.settled(app, "creating a WebApp")
    tried = [
        (when, error, target, app, _failing(bench, error, target, app))
        for (when, target, error), app in zip(cases, apps, strict=True)
    ]
    smaller = {
        id(app): bench.change(app, replicas=1) for _, _, target, app, _ in tried if _pods(target)
    }
    for when, _, target, app, rule in tried:
        if _pods(target):
            doing = f"the rule «{rule.text}» acted when {when}"
            bench.settled(smaller[id(app)], doing, timeout=RECOVERY)
    for *_, app, _ in tried:
        meta = app["metadata"]
        bench.delete(contract.WEBAPPS, meta["name"], meta["namespace"])
    table: dict[str, str] = {}
    for when, error, _, app, rule in tried:
        bench.gone(app, f"the rule «{rule.text}» acted when {when}", timeout=RECOVERY)
        table[f"{error} / {when}"] = "converged" if rule.fired else "never happened"
        rule.remove()
        invariants.record_gone_before_finalizer(bench.history, app)
        invariants.nothing_made_while_terminating(bench.history, app)
    bench.measured["converged"] = table


def _pods(target: str) -> bool:
    return target.endswith("pods")


@scenario(
    "faults/backoff", "A write that keeps failing is retried with growing backoff", alone=True
)
def backoff(bench: Bench) -> None:
    # Alone: where workers are busy with other WebApps, retries without backoff are as few as
    # retries with it.
    bench.stop_shared()
    running = bench.start()
    window = 4.0
    tried = []
    for target in ("create,patch pods", "update,patch webapps/status"):
        namespace = bench.namespace()
        rule = running.wire.rules.add(f"answer 500 {target} ns={namespace} times=always")
        tried.append((target, namespace, rule, bench.create(namespace, replicas=1)))

    def attempts(namespace: str) -> list:
        return [e for e in bench.exchanges() if e.namespace == namespace and e.status == 500]

    def most(seen: list) -> int:
        return max(Counter((e.verb, e.target, e.name) for e in seen).values(), default=0)

    # 5 ms doubling makes ten in four seconds; a fixed 100 ms makes forty.
    bench.ended_within(
        running,
        window,
        unless=lambda: any(most(attempts(namespace)) > _TOO_OFTEN for _, namespace, *_ in tried),
    )
    for _, _, rule, _ in tried:
        rule.remove()
    for target, namespace, _, app in tried:
        seen = attempts(namespace)
        often = most(seen)
        if not seen:
            raise NotGraded(
                f"A new WebApp makes a write of the kind «{target}», so that it can be made to fail.",
                f"Within {window:g} s none was sent.",
                diagnosis="never-acted",
            )
        bench.measured[f"attempts in {window:g} s: {target}"] = often
        if often > _TOO_OFTEN or _is_flat(seen):
            raise _no_backoff(seen, often, window)
        bench.settled(app, "the API server answered 500 for a while", timeout=60.0)


#: Attempts at one write within the window that no growing backoff would allow.
_TOO_OFTEN = 30


def _is_flat(attempts: list) -> bool:
    """Whether short pauses do not grow: visible also where a busy machine allows few attempts."""
    gaps = [b.t_request - a.t_request for a, b in zip(attempts, attempts[1:], strict=False)]
    if len(gaps) < 6:
        return False
    return max(gaps[-3:]) < 0.25 and max(gaps[-3:]) < 3 * sorted(gaps[:3])[1]


def _no_backoff(attempts: list, most: int, window: float) -> Fail:
    gaps = [b.t_request - a.t_request for a, b in zip(attempts, attempts[1:], strict=False)]
    return Fail(
        "A write that fails is retried with growing backoff.",
        f"It was sent {most} times within {window:g} s; the last pauses were "
        f"{', '.join(f'{gap * 1000:.0f} ms' for gap in gaps[-4:])}.",
        why="A client that does not back off makes an overloaded server worse.",
        next="Use AddRateLimited, not Add, and Forget only after a success.",
        diagnosis="no-backoff",
        evidence=[describe(e) for e in attempts[-6:]],
    )


@scenario(
    "faults/edited-while-failing",
    "A retry writes what the spec says now, not what it said at the first attempt",
)
def edited_while_failing(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=1)
    bench.settled(app, "creating a WebApp")
    rule = bench.rule(f"answer 500 create,patch pods ns={namespace} times=always")
    bench.change(app, replicas=4)
    if not bench.until(namespace, lambda: rule.fired, 10.0):
        rule.remove()
        raise NotGraded(
            "Scaling up creates Pods, so that a create can be made to fail.",
            "No Pod was created.",
            diagnosis="never-acted",
        )
    app = bench.change(app, replicas=2)
    # Long enough for the event to arrive, and for some attempts to fail.
    bench.ended_within(bench.operator, 1.5)
    rule.remove()
    bench.settled(
        app,
        "scaling to 4, failing, and scaling to 2",
        timeout=RECOVERY,
        diagnosis="retried-old-payload",
    )
    made = {state.uid for state in bench.history.pods_of(app["metadata"]["uid"])}
    if len(made) > 2:
        raise Fail(
            "Once the spec says 2 replicas, retries create 2 Pods in all.",
            f"{len(made)} were created: the old spec was carried out first.",
            why="A retry that carries the old object does what is no longer wanted, possibly long "
            "after a newer one was handled.",
            next="Requeue the key, not the object, and read the current spec in each attempt.",
            diagnosis="retried-old-payload",
        )


@scenario(
    "faults/expired",
    "It recovers where the versions that it knows have expired, without a flood of lists",
    alone=True,
)
def expired(bench: Bench) -> None:
    bench.stop_shared()
    running = bench.start()
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=2)
    bench.settled(app, "creating a WebApp")
    since = time.time()
    for replicas, verbs in ((4, ("watch",)), (3, ("watch", "list"))):
        app = _expire(bench, running, app, replicas, verbs)
        asked = "watch nor list" if len(verbs) > 1 else "watch"
        bench.settled(
            app,
            f"every version that it knew had expired (410 Gone to each {asked} from one)",
            timeout=30.0,
            diagnosis="operator-died" if running.exited else "watch-dead-after-410",
        )
        running.wire.rules.clear()
    lists = of_caches(bench.exchanges(running.client), since)
    bench.measured["lists and watches"] = dict(lists)
    running.kill()
    if lists and max(lists.values()) > 25:
        resource, count = lists.most_common(1)[0]
        raise Fail(
            "After a 410 a client lists again, once or twice, and continues.",
            f"It sent {count} lists and watches of {resource}.",
            why="After a restart of the API server, many clients get a 410 at the same moment.",
            next="Back off before asking again. Ask for a state not older than the last one seen, "
            "and for the newest (no resourceVersion) where that is refused as well.",
            diagnosis="relist-hot-loop",
        )


def _expire(
    bench: Bench, running: RunningProgram, app: dict, replicas: int, verbs: tuple[str, ...]
) -> dict:
    """Change all three resources unseen, and have the API server no longer know what came before.

    From then on each request of ``verbs`` that asks for an older version is refused.
    Returns the changed WebApp.
    """
    rules, namespace = running.wire.rules, app["metadata"]["namespace"]
    resources = ("webapps", "pods", "configmaps")
    frozen = [rules.add(f"freeze watch {resource}") for resource in resources]
    victim = bench.world(app).standing[0]["metadata"]["name"]
    bench.delete("pods", victim, namespace)
    bench.delete("configmaps", contract.record_name(app), contract.DNS_NAMESPACE)
    app = bench.change(app, replicas=replicas)
    now = app["metadata"]["resourceVersion"]
    for resource in resources:
        if "list" in verbs:
            rules.add(f"answer 410 list {resource} before={now} times=always")
        rules.add(f"error 410 watch {resource} before={now} times=always")
    for rule in frozen:
        rule.remove()
    return app


def of_caches(exchanges: Iterable[Exchange], since: float) -> Counter[str]:
    """How often each resource was listed or watched, in the scope of one of its watches.

    Who reads one namespace live, and watches all of them, does not fill a cache by that.
    """
    asked = [e for e in exchanges if e.verb in ("list", "watch")]
    watched = {(e.resource, e.namespace) for e in asked if e.verb == "watch"}
    return Counter(
        e.resource for e in asked if e.t_request >= since and (e.resource, e.namespace) in watched
    )


@scenario("faults/hidden-delete", "It detects a delete that no watch delivered", alone=True)
def hidden_delete(bench: Bench) -> None:
    bench.stop_shared()
    running = bench.start()
    namespace = bench.namespace()
    # One Pod: the events of a second one would trigger a reconcile as well.
    app = bench.create(namespace, replicas=1)
    bench.settled(app, "creating a WebApp")
    world = bench.at_rest(app)
    victim = world.standing[0]["metadata"]["name"]
    hide = running.wire.rules.add(f"hide DELETED watch pods name={victim} ns={namespace}")
    # Before it is gone it is terminating; that event is hidden as well.
    more = running.wire.rules.add(
        f"hide MODIFIED watch pods name={victim} ns={namespace} times=always"
    )
    bench.delete("pods", victim, namespace)
    # An operator that does not watch misses nothing: no rule fires, and it must
    # converge all the same.
    if bench.fires(running, hide, 10.0):
        more.remove()
        bench.fires(running, running.wire.rules.add("error 410 watch pods"), 10.0)
    running.wire.rules.clear()
    bench.settled(
        app,
        "a Pod was deleted, the event was lost, and the watch was restarted",
        timeout=30.0,
        diagnosis="operator-died" if running.exited else "missed-delete",
    )
    running.kill()


@scenario("faults/frozen-cache", "With a stale cache, nothing is created twice", resyncing=True)
def frozen_cache(bench: Bench) -> None:
    # The caches must be full before they can be stale.
    warm = bench.create(bench.namespace(), replicas=1)
    bench.settled(warm, "creating a WebApp")
    namespace = bench.namespace()
    # For all scenarios: only what resyncs runs meanwhile, and that must not act anyway.
    frozen = bench.rule("freeze watch pods")
    app = bench.create(namespace, replicas=3)
    bench.history.until(namespace, lambda: len(bench.history.pods(app)) >= 3, 10.0)
    for number in range(5):
        # Reasons to reconcile, while the cache knows of no Pod.
        bench.patch(
            contract.WEBAPPS,
            app["metadata"]["name"],
            {"metadata": {"annotations": {"touched": str(number)}}},
            namespace,
        )
        bench.history.quiet(namespace, 0.15, 3.0)
    invariants.never_more_pods_than(bench.history, app, 3)
    frozen.remove()
    bench.settled(app, "the watch of Pods was frozen for a while", timeout=30.0)
    invariants.never_more_pods_than(bench.history, app, 3)


@scenario("faults/stale-spec", "Nothing is deleted because of a stale spec", resyncing=True)
def stale_spec(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=1)
    bench.settled(app, "creating a WebApp")
    frozen = bench.rule("freeze watch webapps")
    # A second operator's work, or this one's from before a restart: the spec says 3
    # and the Pods exist, and this cache has the Pods alone.
    app = bench.change(app, replicas=3)
    template = bench.world(app).standing[0]
    made = []
    for number in range(2):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{app['metadata']['name']}-by-another-{number}",
                "namespace": namespace,
                "labels": template["metadata"]["labels"],
                "ownerReferences": template["metadata"]["ownerReferences"],
            },
            "spec": {"containers": [{"name": "web", "image": app["spec"]["image"]}]},
        }
        made.append(bench.api.create(pod)["metadata"]["uid"])
    bench.history.quiet(namespace, 1.0, 10.0)
    deleted = [
        s
        for s in bench.history.states(resource="pods")
        if s.namespace == namespace and (s.type == "DELETED" or contract.is_terminating(s.object))
    ]
    frozen.remove()
    if deleted:
        raise Fail(
            "While the live spec says 3 replicas, none of 3 Pods is deleted.",
            f"Pod {deleted[0].name} was: "
            + (
                "the operator's cache still said 1 replica."
                if any(e.verb == "watch" and e.resource == "webapps" for e in bench.exchanges())
                else "the operator went by an answer from before the spec was changed."
            ),
            why="What was read a while ago may be stale; a delete cannot be undone.",
            next="Before you delete, get the live object from the API server, and compare its UID "
            "and generation with those you decided on.",
            diagnosis="acted-on-stale-spec",
        )
    bench.settled(app, "the watch of WebApps was frozen for a while", timeout=30.0)


@scenario("faults/slow-server", "It converges on a slow API server as well", alone=True)
def slow_server(bench: Bench) -> None:
    bench.stop_shared()
    running = bench.start(rules=["delay 150ms any"])
    app = bench.create(bench.namespace(), replicas=2)
    bench.settled(app, "creating a WebApp on a slow API server", timeout=40.0)
    bench.settled(
        bench.change(app, image="shop:2"), "changing the image on a slow API server", timeout=40.0
    )
    invariants.never_more_pods_than(bench.history, app, 2)
    running.kill()


@scenario("faults/no-cache-yet", "Nothing is written before the caches have synced", alone=True)
def no_cache_yet(bench: Bench) -> None:
    bench.stop_shared()
    first = bench.start()
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=2)
    bench.settled(app, "creating a WebApp")
    first.kill()
    since = time.time()
    # All at once: an operator that waits for a cache does nothing that the others could see.
    waiting = {
        held: bench.start(rules=[f"hold list {held}"]) for held in ("pods", "webapps", "configmaps")
    }
    for held, running in list(waiting.items()):
        if not bench.fires(running, next(iter(running.wire.rules)), 10.0):
            # It never lists them: it has no such cache to wait for.
            waiting.pop(held).kill()
    for running in list(waiting.values())[-1:]:
        bench.ended_within(running, 1.5)
    ended = {held: running.exited for held, running in waiting.items()}
    for running in waiting.values():
        running.kill()
    for held, running in waiting.items():
        writes = [
            e
            for e in bench.exchanges(running.client)
            if e.verb in WRITE_VERBS and e.namespace in (namespace, "dns") and e.t_request >= since
        ]
        if writes:
            raise Fail(
                f"Nothing is written until the first list of {held} has been answered.",
                f"There were {len(writes)} writes.",
                why="An empty cache looks as if nothing existed: a controller that acts on it "
                "creates everything again, or deletes everything.",
                next="Wait until every cache that you read from has synced, and check the result "
                "of that wait.",
                diagnosis="acted-before-sync",
                evidence=[describe(e) for e in writes[:6]],
            )
        if ended[held] is not None:
            raise Fail(
                f"The operator waits until the first list of {held} has been answered.",
                f"It {ended[held]}.",
                next="A slow API server is not a reason to exit.",
                diagnosis="exits-before-sync",
                evidence=running.stderr_tail(5),
            )
