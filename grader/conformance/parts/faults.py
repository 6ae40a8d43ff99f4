"""Faults: one thing goes wrong on the way, and the world ends as the spec says all the same."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from grader.conformance import contract, invariants
from grader.conformance.bench import Bench
from grader.conformance.scenario import scenario
from grader.verdict import Fail, NotGraded
from grader.wire.records import WRITE_VERBS
from grader.witness import describe

if TYPE_CHECKING:
    from grader.wire import RuleHandle

#: Each write of a WebApp's life, as the wire's rules name it.
WRITES = {
    "the finalizer is stored": "update,patch webapps",
    "the record is made": "create configmaps",
    "a Pod is made": "create,patch pods",
    "the status is written": "update,patch webapps/status",
}
LAST_WRITES = {
    "a Pod is deleted": "delete,deletecollection pods",
    "the record is deleted": "delete configmaps",
    "the finalizer is removed": "update,patch webapps",
}
#: More than once where one success of another write would bring the operator back by luck:
#: each write that gets through is an event.
ERRORS = (
    "answer 409 times=3",
    "answer 500 times=6",
    "answer 429 retry-after=1",
    "timeout",
    "drop-answer",
)
#: Seconds. Backoff may have grown while one fault followed another.
RECOVERY = 20.0


def _rule(error: str, target: str, options: str = "") -> str:
    action, _, rest = error.partition(" ")
    code, _, extra = rest.partition(" ")
    # What follows a code belongs behind the target.
    code, extra = (code, extra) if code.isdigit() else ("", rest)
    words = [action, code, target, extra, options]
    return " ".join(word for word in words if word)


@scenario("faults/errors-on-create", "An error on any write of a new WebApp is got over")
def errors_on_create(bench: Bench) -> None:
    tried = [
        (when, error, target, *_created_under(bench, error, target))
        for when, target in WRITES.items()
        for error in ERRORS
    ]
    table: dict[str, str] = {}
    for when, error, target, app, rule in tried:
        bench.settled(app, f"«{rule.text}» hit it, as {when}", timeout=RECOVERY)
        table[f"{error} / {when}"] = "converged" if rule.fired else "never happened"
        rule.remove()
        invariants.finalizer_before_record(bench.history, app)
        invariants.never_more_pods_than(bench.history, app, 2, slack=_slack(error, target))
    bench.measured["converged"] = table


def _created_under(bench: Bench, error: str, target: str) -> tuple[dict, RuleHandle]:
    """A new WebApp, and the rule that lets an error hit that kind of write of it alone."""
    namespace = bench.namespace()
    if not target.endswith("configmaps"):
        rule = bench.rule(_rule(error, target, f"ns={namespace}"))
        return bench.create(namespace, replicas=2), rule
    # Its record's name is known when it is made: until then it gets no further than the finalizer.
    held = bench.rule(f"hold update,patch webapps ns={namespace}")
    app = bench.create(namespace, replicas=2)
    rule = _hit(bench, error, target, app)
    held.remove()
    return app, rule


def _hit(bench: Bench, error: str, target: str, app: dict) -> RuleHandle:
    """The rule that lets an error hit that kind of write for this WebApp alone."""
    if target.endswith("configmaps"):
        return bench.rule(_rule(error, target, f"name={contract.record_name(app)}"))
    return bench.rule(_rule(error, target, f"ns={app['metadata']['namespace']}"))


def _slack(error: str, target: str) -> int:
    # Where the answer to a create is lost, an operator whose Pods have generated
    # names cannot know; one too many for a moment is then no mistake.
    return 1 if error in ("drop-answer", "timeout") and "pods" in target else 0


@scenario("faults/errors-on-delete", "An error on any write of a WebApp's end is got over")
def errors_on_delete(bench: Bench) -> None:
    cases = [(when, target, error) for when, target in LAST_WRITES.items() for error in ERRORS]
    apps = [bench.create(bench.namespace(), replicas=2) for _ in cases]
    for app in apps:
        bench.settled(app, "creating a WebApp")
    tried = [
        (when, error, target, app, _hit(bench, error, target, app))
        for (when, target, error), app in zip(cases, apps, strict=True)
    ]
    smaller = {
        id(app): bench.change(app, replicas=1) for _, _, target, app, _ in tried if _pods(target)
    }
    for when, _, target, app, rule in tried:
        if _pods(target):
            doing = f"«{rule.text}» hit it, as {when}"
            bench.settled(smaller[id(app)], doing, timeout=RECOVERY)
    for *_, app, _ in tried:
        meta = app["metadata"]
        bench.delete(contract.WEBAPPS, meta["name"], meta["namespace"])
    table: dict[str, str] = {}
    for when, error, _, app, rule in tried:
        bench.gone(app, f"«{rule.text}» hit it, as {when}", timeout=RECOVERY)
        table[f"{error} / {when}"] = "converged" if rule.fired else "never happened"
        rule.remove()
        invariants.record_gone_before_finalizer(bench.history, app)
        invariants.nothing_made_while_terminating(bench.history, app)
    bench.measured["converged"] = table


def _pods(target: str) -> bool:
    return target.endswith("pods")


@scenario(
    "faults/backoff", "What fails again and again is tried again with growing pauses", alone=True
)
def backoff(bench: Bench) -> None:
    # Alone: where workers are busy with other WebApps, tries without a pause are as few as
    # tries with one.
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
        bench.measured[f"attempts in {window:g} s: {target}"] = often
        if often > _TOO_OFTEN or _is_flat(seen):
            raise _no_backoff(seen, often, window)
        bench.settled(app, "the API server answered 500 for a while", timeout=60.0)


#: Tries of one write within the window that no growing pause would allow.
_TOO_OFTEN = 30


def _is_flat(attempts: list) -> bool:
    """Whether short pauses do not grow: seen also where a busy machine lets few tries through."""
    gaps = [b.t_request - a.t_request for a, b in zip(attempts, attempts[1:], strict=False)]
    if len(gaps) < 6:
        return False
    return max(gaps[-3:]) < 0.25 and max(gaps[-3:]) < 3 * sorted(gaps[:3])[1]


def _no_backoff(attempts: list, most: int, window: float) -> Fail:
    gaps = [b.t_request - a.t_request for a, b in zip(attempts, attempts[1:], strict=False)]
    return Fail(
        "A write that fails is tried again after pauses that grow.",
        f"It was sent {most} times in at most {window:g} s, the last pauses being "
        f"{', '.join(f'{gap * 1000:.0f} ms' for gap in gaps[-4:])}.",
        why="A server that is in trouble gets more of it from every client that will not wait.",
        next="AddRateLimited, not Add; and Forget only after a success.",
        diagnosis="no-backoff",
        evidence=[describe(e) for e in attempts[-6:]],
    )


@scenario(
    "faults/edited-while-failing",
    "What is tried again is what is wanted now, not what was wanted at the first try",
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
            "Scaling up makes Pods, so that a failure can be put in the way.",
            "No Pod was made.",
            diagnosis="never-acted",
        )
    app = bench.change(app, replicas=2)
    # Long enough for the news to arrive, and for some tries in vain.
    bench.ended_within(bench.operator, 1.5)
    rule.remove()
    bench.settled(
        app,
        "scaling to 4, failing, and changing one's mind to 2",
        timeout=RECOVERY,
        diagnosis="retried-old-payload",
    )
    made = {state.uid for state in bench.history.pods_of(app["metadata"]["uid"])}
    if len(made) > 2:
        raise Fail(
            "Once the spec says 2 replicas, the retry of a create makes 2 Pods in all.",
            f"{len(made)} were made: the work of the spec that was withdrawn was done first.",
            why="A retry that carries the old object does what nobody wants any more, possibly "
            "long after a newer one was handled.",
            next="Put the key back, not the object; on the next try, read what is wanted now.",
            diagnosis="retried-old-payload",
        )


@scenario(
    "faults/expired", "A 410 in every watch is got over, without a flood of lists", alone=True
)
def expired(bench: Bench) -> None:
    bench.stop_shared()
    running = bench.start()
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=2)
    bench.settled(app, "creating a WebApp")
    since = time.time()
    for resource in ("webapps", "pods", "configmaps"):
        running.wire.rules.add(f"error 410 watch {resource}")
    app = bench.change(app, replicas=4)
    bench.settled(
        app, "every watch was answered 410 Gone", timeout=30.0, diagnosis="watch-dead-after-410"
    )
    lists = Counter(
        e.resource
        for e in bench.exchanges(running.client)
        if e.verb in ("list", "watch") and e.t_request >= since
    )
    bench.measured["lists and watches"] = dict(lists)
    running.kill()
    if lists and max(lists.values()) > 25:
        resource, count = lists.most_common(1)[0]
        raise Fail(
            "After a 410 a client lists again, once or twice, and goes on.",
            f"It sent {count} lists and watches of {resource}.",
            why="A 410 comes to all clients at once, after a restart of the API server.",
            next="Pause before listing again, and start from no resourceVersion.",
            diagnosis="relist-hot-loop",
        )


@scenario("faults/hidden-delete", "A delete that no watch delivered is found out", alone=True)
def hidden_delete(bench: Bench) -> None:
    bench.stop_shared()
    running = bench.start()
    namespace = bench.namespace()
    # One Pod, and no other of its owner whose events would tell by the way.
    app = bench.create(namespace, replicas=1)
    bench.settled(app, "creating a WebApp")
    world = bench.at_rest(app)
    victim = world.standing[0]["metadata"]["name"]
    hide = running.wire.rules.add(f"hide DELETED watch pods name={victim} ns={namespace}")
    # Before it goes it is seen to be on its way out; that is hidden as well.
    more = running.wire.rules.add(
        f"hide MODIFIED watch pods name={victim} ns={namespace} times=always"
    )
    bench.delete("pods", victim, namespace)
    # An operator that does not watch has nothing to miss: no rule fires, and
    # what is asked of it is the same.
    if bench.fires(running, hide, 10.0):
        more.remove()
        bench.fires(running, running.wire.rules.add("error 410 watch pods"), 10.0)
    running.wire.rules.clear()
    bench.settled(
        app,
        "a Pod was deleted, the event was lost, and the watch had to be started anew",
        timeout=30.0,
        diagnosis="operator-died" if running.exited else "missed-delete",
    )
    running.kill()


@scenario(
    "faults/frozen-cache", "With a cache that stands still, nothing is made twice", resyncing=True
)
def frozen_cache(bench: Bench) -> None:
    # The caches must be full before they can be stale.
    warm = bench.create(bench.namespace(), replicas=1)
    bench.settled(warm, "creating a WebApp")
    namespace = bench.namespace()
    # For everybody: only what resyncs goes on meanwhile, and that must do nothing anyway.
    frozen = bench.rule("freeze watch pods")
    app = bench.create(namespace, replicas=3)
    bench.history.until(namespace, lambda: len(bench.history.pods(app)) >= 3, 10.0)
    for number in range(5):
        # Reasons to look again, while the cache knows of no Pod.
        bench.patch(
            contract.WEBAPPS,
            app["metadata"]["name"],
            {"metadata": {"annotations": {"gate": str(number)}}},
            namespace,
        )
        bench.history.quiet(namespace, 0.15, 3.0)
    invariants.never_more_pods_than(bench.history, app, 3)
    frozen.remove()
    bench.settled(app, "the watch of Pods stood still for a while", timeout=30.0)
    invariants.never_more_pods_than(bench.history, app, 3)


@scenario("faults/stale-spec", "Nothing is destroyed on a spec that is out of date", resyncing=True)
def stale_spec(bench: Bench) -> None:
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=1)
    bench.settled(app, "creating a WebApp")
    frozen = bench.rule("freeze watch webapps")
    # A second operator's work, or this one's from before a restart: the spec went
    # up to 3 and the Pods are there, and this cache has heard of the Pods alone.
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
            f"Pod {deleted[0].name} was: the operator's cache still said 1 replica.",
            why="A cache may be old; a delete cannot be taken back.",
            next="Before you delete, ask the API server for the live object, and compare UID and "
            "generation with what you decided on.",
            diagnosis="acted-on-stale-spec",
        )
    bench.settled(app, "the watch of WebApps stood still for a while", timeout=30.0)


@scenario(
    "faults/slow-server", "With an API server that takes its time, the same comes out", alone=True
)
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


@scenario("faults/no-cache-yet", "Before the first list is there, nothing is written", alone=True)
def no_cache_yet(bench: Bench) -> None:
    bench.stop_shared()
    first = bench.start()
    namespace = bench.namespace()
    app = bench.create(namespace, replicas=2)
    bench.settled(app, "creating a WebApp")
    first.kill()
    since = time.time()
    # All at once: who waits for a cache does nothing that the others could see.
    waiting = {
        held: bench.start(rules=[f"hold list {held}"]) for held in ("pods", "webapps", "configmaps")
    }
    for held, running in list(waiting.items()):
        if not bench.fires(running, next(iter(running.wire.rules)), 10.0):
            # It never asks for them: it has no such cache to wait for.
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
                f"While the first list of {held} has not come, nothing is written.",
                f"There were {len(writes)} writes.",
                why="An empty cache says that nothing exists: a controller that believes it makes "
                "everything again, or deletes everything.",
                next="Wait until every cache that you read from has synced, and look at the result "
                "of that wait.",
                diagnosis="acted-before-sync",
                evidence=[describe(e) for e in writes[:6]],
            )
        if ended[held] is not None:
            raise Fail(
                f"While the first list of {held} has not come, the operator waits.",
                f"It {ended[held]}.",
                next="A slow API server is no reason to exit.",
                diagnosis="exits-before-sync",
                evidence=running.stderr_tail(5),
            )
