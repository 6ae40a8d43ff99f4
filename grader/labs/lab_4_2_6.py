"""4.2.6 HasSynced is a promise about one moment, not about being current.

The program says ten times a second what HasSynced says and what its cache has.
The wire first holds the list back, then lets it come to a slow handler, then
freezes the watch while objects are changed, and at last ends the watch with a 410.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

import pytest

from grader.evidence import answers as written
from grader.evidence import questions
from grader.labs import check
from grader.report import pictures
from grader.report.predictions import compared
from grader.verdict import Fail

#: No check needs what another one left behind.
CHECKS_STAND_ALONE = True

OBJECTS, WRITES = 12, 5
#: Seconds that the handler takes for each object: twelve of them are a while.
SLOW = 0.1
#: Seconds until the program says something, and until what it waits for has come over the wire.
STARTING, PATIENCE = 40.0, 25.0
#: So many lines without any progress, and nothing more is to come: two seconds of the program's own.
STUCK = 20


@dataclass
class Status:
    t: float
    handler: bool
    informer: bool
    #: What the registration says of which there is nothing to see, and whether a thread that
    #: waits was told. A program that says neither is not judged by them.
    empty: bool | None
    waited: bool | None
    #: How many updates the handler was told of, where the program says it.
    updated: int | None
    seen: int
    cache: dict[str, str]


def _parse(lines) -> list[Status]:
    found = []
    for line in lines:
        try:
            value = json.loads(line)
            found.append(
                Status(
                    line.t,
                    bool(value["handler"]),
                    bool(value["informer"]),
                    value.get("empty"),
                    value.get("waited"),
                    value.get("updated"),
                    int(value["seen"]),
                    dict(value["cache"]),
                )
            )
        except (ValueError, KeyError, TypeError):
            continue
    return found


class Story:
    """The program's run. Each part of it is a fixture of its own, and goes on where the last ended."""

    def __init__(self, running, api, namespace: str) -> None:
        self.running, self.api, self.namespace = running, api, namespace
        self.held: list[Status] = []
        self.filling: list[Status] = []
        self.frozen: list[Status] = []
        self.resumed: list[Status] = []
        self.relisted: list[Status] = []
        self.behind: int | None = None
        self.truth: dict[str, str] = {}
        self.caught_up = False
        self.polls: list[str] = []
        self._taken = 0

    def statuses(self) -> list[Status]:
        """What was said since the last part ended."""
        return _parse(self.running.stdout_lines[self._taken :])

    def part(self) -> list[Status]:
        lines = self.running.stdout_lines[self._taken :]
        self._taken += len(lines)
        return _parse(lines)

    def more(self, count: int) -> None:
        """Wait for that many more lines of status."""
        before = len(self.statuses())
        self.running.until(
            lambda: len(self.statuses()) >= before + count, STARTING, "says what HasSynced says"
        )

    def reached(self, come, reached, progress, what: str) -> bool:
        """Whether a status is reached: after what it waits for has ``come`` over the wire.

        The program's own lines are the clock: a slow machine makes them late as
        well. When ``progress(status)`` has been the same for so many, it is stuck.
        """
        self.running.until(come, PATIENCE, what)
        start = len(self.statuses())

        def over() -> bool:
            statuses = self.statuses()
            if any(map(reached, statuses)):
                return True
            last = statuses[max(start, len(statuses) - STUCK) :]
            return len(last) == STUCK and len({str(progress(s)) for s in last}) == 1

        self.running.until(over, 2 * PATIENCE, what)
        return any(map(reached, self.statuses()))

    def brought(self, name: str, version: str) -> bool:
        """Whether the wire has delivered that version of an object."""
        events = self.running.timeline.events(by="status", resource="configmaps")
        return any(
            e.object.get("metadata", {}).get("resourceVersion") == version
            for e in events
            if e.object.get("metadata", {}).get("name") == name
        )

    def versions(self) -> dict[str, str]:
        found = self.api.list("configmaps", namespace=self.namespace, label_selector="kind=lab")
        return {i["metadata"]["name"]: i["metadata"]["resourceVersion"] for i in found["items"]}

    def reads(self) -> int:
        """How many lists and watches were answered."""
        reads = self.running.timeline.reads(by="status", resource="configmaps")
        return sum(e.status == 200 for e in reads)


@pytest.fixture(scope="module")
def held(submission, run, api, namespace) -> Story:
    """The first list is held back."""
    for i in range(OBJECTS):
        metadata = {"name": f"object-{i}", "namespace": namespace, "labels": {"kind": "lab"}}
        api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    running = run(
        submission.program,
        "status",
        env={"NAMESPACE": namespace, "SLOW": str(SLOW)},
        rules=["hold list configmaps"],
    )
    story = Story(running, api, namespace)
    running.until(
        lambda: len(story.statuses()) >= 4 and story.running.timeline.marks("rule_fired"),
        STARTING,
        "asks for the list, and says what HasSynced says",
    )
    story.held = story.part()
    return story


@pytest.fixture(scope="module")
def filled(held) -> Story:
    """The list comes, and goes to a slow handler."""
    story = held
    story.running.wire.rules.clear()
    story.reached(
        lambda: story.reads() > 0,
        lambda s: s.seen >= 2,
        lambda s: s.seen,
        "gets the list",
    )
    # While the handler has the list in hand, one more comes that is none of it.
    metadata = {"name": "late", "namespace": story.namespace, "labels": {"kind": "lab"}}
    story.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    story.reached(
        lambda: story.reads() > 0,
        lambda s: s.handler and s.seen > OBJECTS and s.empty is not False and s.waited is not False,
        lambda s: (s.seen, s.handler, s.empty, s.waited),
        "gets the list",
    )
    story.more(2)
    story.filling = story.part()
    unwritten = [line for line in story.running.stderr_tail(20) if "is not written yet" in line]
    if unwritten and not any(s.handler for s in story.filling):
        raise Fail(
            "The registration's HasSynced is written.",
            f"It is not yet: {unwritten[-1].partition(': ')[2]}",
            next="Start with the page of the lab, and its first hint.",
            diagnosis="not-written",
        )
    return story


@pytest.fixture(scope="module")
def resumed(filled, observe) -> Story:
    """The watch is frozen, objects are changed, and it goes on."""
    story, running = filled, filled.running
    freeze = running.wire.rules.add("freeze watch configmaps")
    before, changed = story.versions(), []
    frozen_at = time.time()
    for i in range(WRITES):
        patch = {"data": {"changed": "yes"}}
        story.api.patch("configmaps", f"object-{i}", patch, namespace=story.namespace)
        changed.append((time.time(), f"object-{i}"))
    truth = story.truth = story.versions()
    story.more(4)
    story.frozen = story.part()
    last = story.frozen[-1].cache
    story.behind = sum(last.get(name) != version for name, version in truth.items())
    story.polls = [
        running.timeline.line(e)
        for e in running.timeline.exchanges(by="status")
        if e.verb in ("get", "list") and e.t_request > frozen_at
    ][:6]
    freeze.remove()
    story.caught_up = story.reached(
        lambda: all(story.brought(name, truth[name]) for name in list(truth)[:WRITES]),
        lambda s: s.cache == truth and (s.updated is None or s.updated >= WRITES),
        lambda s: (sorted(s.cache.items()), s.updated),
        "gets what was held back",
    )
    story.resumed = story.part()
    _picture(story, before, changed, truth, observe)
    return story


@pytest.fixture(scope="module")
def relisted(resumed) -> Story:
    """The watch ends with a 410."""
    story = resumed
    before = story.reads()
    story.running.wire.rules.add("error 410 watch configmaps")
    story.running.until(
        lambda: story.reads() > before, PATIENCE, "asks for the state again after a 410"
    )
    story.more(4)
    story.relisted = story.part()
    return story


def _picture(story: Story, before: dict, changed: list, truth: dict, observe) -> None:
    points = story.held + story.filling + story.frozen + story.resumed
    start = points[0].t

    def current(status: Status) -> int:
        """How many objects the cache had as the API server had them then."""
        new = {name for t, name in changed if t <= status.t}
        right = {name: truth[name] if name in new else before[name] for name in before}
        return sum(status.cache.get(name) == version for name, version in right.items())

    same = [(s.t - start, current(s)) for s in points]
    synced = [(s.t - start, OBJECTS if s.handler else 0) for s in points]
    observe(
        "cache against API server",
        pictures.chart(
            "Cache against API server",
            f"How many of {OBJECTS} objects the cache has as the API server has them: it fills, is "
            f"behind by {WRITES} while the watch is frozen, and catches up. HasSynced is true "
            "from when the handler has seen the first list, and stays so.",
            [
                pictures.Series("objects as the API server has them", same, "steps"),
                pictures.Series("HasSynced (up: true)", synced, "steps"),
            ],
            x="seconds",
            y="objects",
        ),
    )


@check(
    "4.2.6/not-before-the-list",
    title="While the list is held back, nothing has synced",
    points=2,
    evidence="live",
)
def check_not_before_the_list(held):
    early = next((s for s in held.held if s.handler or s.informer), None)
    if early:
        raise Fail(
            "HasSynced is false until there was a list.",
            f"It was true with {len(early.cache)} of {OBJECTS} objects in the cache, while the "
            "list was held back.",
            why="A controller that starts now concludes that nothing exists.",
            next="Who says that the informer has synced, and after what?",
            diagnosis="true-before-the-list",
        )


@check(
    "4.2.6/handlers-saw-it",
    title="The registration's HasSynced is true only when the handler has seen the initial list",
    points=3,
    evidence="live",
)
def check_handlers_saw_it(filled):
    everything = filled.filling
    early = next((s for s in everything if s.handler and s.seen < OBJECTS), None)
    if early:
        raise Fail(
            f"When the handler's HasSynced is true, it has seen all {OBJECTS} objects.",
            f"It was true when the handler had seen {early.seen}.",
            why="The informer's cache is full long before a slow handler is through. Whoever keeps "
            "something of their own in the handler (a count, a map) acts on half of it.",
            next="Count what is given to the handler as part of the initial list, and what it has "
            "finished; both, before you look.",
            diagnosis="true-before-handlers-saw",
        )
    if not any(s.handler for s in everything):
        raise Fail(
            "Some time after the list the handler's HasSynced is true.",
            f"It never was; the handler had seen {max((s.seen for s in everything), default=0)} of "
            f"{OBJECTS} objects.",
            why="A controller that waits for it waits for ever.",
            next="After the last object of the list, who looks whether that was all?",
            diagnosis="never-true",
        )
    last = everything[-1]
    if last.empty is False:
        raise Fail(
            "Where the list has no object, HasSynced is true as soon as there was a list.",
            "It is still false, of a registration that has nothing to see.",
            why="In an empty namespace a controller would wait for ever.",
            next="Nothing is left for the handler to finish: who looks at that, when it is called "
            "for nothing?",
            diagnosis="never-true",
        )
    if last.waited is False:
        raise Fail(
            "Whoever waits for HasSynced is told when it becomes true.",
            "HasSynced is true, and a thread in wait_for_sync still waits.",
            why="A controller waits there before it starts its workers: it never starts them.",
            next="wait_for_sync() looks again when it is woken. Who wakes it?",
            diagnosis="waits-for-ever",
        )
    early = next((s for s in everything if s.informer and len(s.cache) < OBJECTS), None)
    if early:
        raise Fail(
            "When the informer's HasSynced is true, its cache has held the whole list.",
            f"It was true with {len(early.cache)} of {OBJECTS} objects.",
            next="It is about the cache: set it after the list was processed.",
            diagnosis="true-before-the-list",
        )


@check(
    "4.2.6/stays",
    title="Once true it stays true: while the watch is frozen, and through a relist",
    points=2,
    evidence="live",
)
def check_stays(relisted):
    for what, statuses in (
        ("while the watch was frozen", relisted.frozen),
        ("after the watch had caught up", relisted.resumed),
        ("in the relist after a 410", relisted.relisted),
    ):
        back = next((s for s in statuses if not s.handler or not s.informer), None)
        if back:
            who = "handler's" if not back.handler else "informer's"
            raise Fail(
                "HasSynced is never false again.",
                f"The {who} was false {what}.",
                why="It is a promise about one moment, and that moment is over. Code that waits "
                "for it at the start does not look again; a value that flips back helps nobody.",
                next="Remember that it was true; do not compute it again.",
                diagnosis="flips-back"
                if any(s.handler for s in relisted.filling)
                else "never-true",
            )


@check(
    "4.2.6/behind",
    title="While the watch is frozen the cache is behind by as many writes as were made, and catches up",
    points=2,
    evidence="live",
)
def check_behind(resumed):
    if resumed.polls:
        raise Fail(
            "HasSynced and the cache are read without a request.",
            "Requests were sent while the watch was frozen.",
            why="An informer is there so that nobody has to ask. Ten times a second, over a "
            "thousand controllers, it is the API server that pays.",
            next="What the cache has is known without asking anybody.",
            diagnosis="polls-the-api",
            evidence=resumed.polls,
        )
    if resumed.behind != WRITES:
        raise Fail(
            f"{WRITES} objects were changed while the watch was frozen: the cache has {WRITES} old "
            "versions.",
            f"It has {resumed.behind}.",
            why="Only what the cache says is a picture of the cache.",
            next="Print what the informer's store has, and nothing else.",
            diagnosis="not-the-cache",
        )
    last = resumed.resumed[-1]
    if not resumed.caught_up and last.cache == resumed.truth:
        raise Fail(
            f"When the watch goes on, the handler is told of all {WRITES} updates.",
            f"The cache has them, and the handler was told of {last.updated}.",
            why="What keys are queued, handlers say. One that is not told any more leaves a "
            "controller that never does anything again, with a cache that is right.",
            next="What does the listener do with a notification that is no Added?",
            diagnosis="handler-not-told",
        )
    if not resumed.caught_up:
        raise Fail(
            "When the watch goes on, the cache gets every change.",
            "It did not: they came over the wire, and the cache printed stayed as it was.",
            next="Look at the last line printed, and at `phase4 timeline`.",
            diagnosis="never-catches-up",
        )


@pytest.fixture(scope="module")
def predicted(submission) -> dict[str, float | str]:
    answers = written.parse(submission.text("answers.md"))
    found = {
        "behind": answers.require_prediction("behind", section="Predictions", number=True).number()
    }
    for name in ("HasSynced while frozen", "HasSynced after a 410 and a relist"):
        entry = answers.require_prediction(name, section="Predictions", choices=("true", "false"))
        found[name] = entry.value
    return found


@check(
    "4.2.6/predictions",
    title="Three predictions were written down first",
    points=1,
    evidence="written",
)
def check_predictions(predicted, relisted, observe):
    observe("writes behind", compared(predicted["behind"], WRITES, measured=relisted.behind))
    for name, statuses in (
        ("HasSynced while frozen", relisted.frozen),
        ("HasSynced after a 410 and a relist", relisted.relisted),
    ):
        measured = str(all(s.handler for s in statuses)).lower()
        observe(name, compared(predicted[name], "true", measured=measured))


@check(
    "4.2.6/promise",
    title="A sentence says what HasSynced promises and what it does not",
    points=1,
    evidence="written",
)
def check_promise(submission):
    answers = written.parse(submission.text("answers.md"))
    question = questions.of("4.2.6/promise")
    question.require(answers.require_section(question.heading))
