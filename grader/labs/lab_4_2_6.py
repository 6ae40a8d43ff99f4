"""4.2.6 HasSynced is a promise about one moment, not about being current.

The program says five times a second what HasSynced says and what its cache has.
The wire first holds the list back, then lets it come to a slow handler, then
freezes the watch while objects are changed, and at last ends the watch with a 410.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from grader.evidence import answers as written
from grader.evidence.rubric import Concept, Rubric, WrongClaim
from grader.labs import check
from grader.report import pictures
from grader.verdict import Fail

OBJECTS, WRITES = 12, 5
#: Seconds that the handler takes for each object: twelve of them are a while.
SLOW = 0.15
STARTING, PATIENCE = 40.0, 25.0

PROMISE = Rubric(
    (
        Concept(
            "what is known: the initial list was in the cache (or seen by the handler) once",
            ("initial list", "first list", "once", "initial", "one full list", "at some moment"),
            diagnosis="what-is-promised-missing",
        ),
        Concept(
            "what is not known: that the cache is current",
            (
                "current",
                "up-to-date",
                "behind",
                "stale",
                "latest",
                "lag*",
                "old*",
                "newer",
                "still under way",
            ),
            diagnosis="not-current-missing",
        ),
    ),
    (
        WrongClaim(
            "the cache is current once synced",
            ("is up-to-date now", "is always current", "equals the API server", "is in sync with"),
            "HasSynced stays true while the cache falls behind: you have just seen it.",
            diagnosis="claims-current",
        ),
    ),
)


@dataclass
class Status:
    t: float
    handler: bool
    informer: bool
    seen: int
    cache: dict[str, str]


@dataclass
class Story:
    held: list[Status] = field(default_factory=list)
    filling: list[Status] = field(default_factory=list)
    frozen: list[Status] = field(default_factory=list)
    thawed: list[Status] = field(default_factory=list)
    relisted: list[Status] = field(default_factory=list)
    behind: int | None = None
    caught_up: bool = False
    polls: list[str] = field(default_factory=list)

    @property
    def after(self) -> list[Status]:
        return self.frozen + self.thawed + self.relisted


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
                    int(value["seen"]),
                    dict(value["cache"]),
                )
            )
        except (ValueError, KeyError, TypeError):
            continue
    return found


@pytest.fixture(scope="module")
def story(submission, run, api, namespace, observe) -> Story:
    def versions() -> dict[str, str]:
        items = api.list("configmaps", namespace=namespace, label_selector="kind=lab")["items"]
        return {i["metadata"]["name"]: i["metadata"]["resourceVersion"] for i in items}

    for i in range(OBJECTS):
        metadata = {"name": f"object-{i}", "namespace": namespace, "labels": {"kind": "lab"}}
        api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    running = run(
        submission.program,
        "status",
        env={"NAMESPACE": namespace, "SLOW": str(SLOW)},
        rules=["hold list configmaps"],
    )
    told = Story()
    taken = 0
    patience = PATIENCE

    def statuses() -> list[Status]:
        return _parse(running.stdout_lines[taken:])

    def part() -> list[Status]:
        nonlocal taken
        lines = running.stdout_lines[taken:]
        taken += len(lines)
        return _parse(lines)

    def reached(condition, what: str) -> bool:
        nonlocal patience
        try:
            running.until(condition, patience, what)
        except Fail:
            if running.exited:
                raise
            patience = 4.0
            return False
        return True

    def more(count: int, what: str) -> None:
        """Wait for that many more lines of status."""
        before = len(statuses())
        reached(lambda: len(statuses()) >= before + count, what)

    running.until(lambda: len(statuses()) >= 4, STARTING, "says what HasSynced says")
    told.held = part()
    running.wire.rules.thaw()
    reached(lambda: any(s.handler for s in statuses()), "says that the handler has synced")
    reached(lambda: any(s.seen >= OBJECTS for s in statuses()), "shows the handler every object")
    more(2, "says what HasSynced says")
    told.filling = part()

    running.wire.rules.add("freeze watch configmaps")
    frozen_at = statuses()[-1].t if statuses() else 0.0
    for i in range(WRITES):
        patch = {"data": {"changed": "yes"}}
        api.patch("configmaps", f"object-{i}", patch, namespace=namespace)
    truth = versions()
    more(4, "says what HasSynced says")
    told.frozen = part()
    if told.frozen:
        last = told.frozen[-1].cache
        told.behind = sum(last.get(name) != version for name, version in truth.items())
    told.polls = [
        running.timeline.line(e)
        for e in running.timeline.exchanges(by="status")
        if e.verb in ("get", "list") and e.t_request > frozen_at > 0
    ][:6]
    running.wire.rules.thaw()
    told.caught_up = reached(
        lambda: bool(statuses()) and statuses()[-1].cache == truth, "has caught up"
    )
    told.thawed = part()
    running.wire.rules.add("error 410 watch configmaps")
    watches = len(running.timeline.reads(by="status", resource="configmaps"))
    reached(
        lambda: len(running.timeline.reads(by="status", resource="configmaps")) > watches,
        "asks for the state again",
    )
    more(3, "says what HasSynced says")
    told.relisted = part()
    running.terminate()
    _picture(told, truth, observe)
    return told


def _picture(told: Story, truth: dict[str, str], observe) -> None:
    points = told.filling + told.frozen + told.thawed
    if not points:
        return
    start = points[0].t
    same = [
        (s.t - start, sum(s.cache.get(name) == version for name, version in truth.items()))
        for s in points
    ]
    synced = [(s.t - start, OBJECTS if s.handler else 0) for s in points]
    observe(
        "cache against truth",
        pictures.chart(
            "Cache against truth",
            f"How many of {OBJECTS} objects the cache has as they are in the end: it fills, is "
            f"behind by {WRITES} while the watch is frozen, and catches up. HasSynced is true "
            "from when the handler has seen the first list, and stays so.",
            [
                pictures.Series("objects as they are", same, "steps"),
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
def check_not_before_the_list(story):
    early = next((s for s in story.held if s.handler or s.informer), None)
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
def check_handlers_saw_it(story):
    everything = story.filling + story.after
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
            why="Whoever waits for it waits for ever.",
            next="After the last object of the list, who looks whether that was all?",
            diagnosis="never-true",
        )
    early = next((s for s in story.filling if s.informer and len(s.cache) < OBJECTS), None)
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
def check_stays(story):
    for what, statuses in (
        ("while the watch was frozen", story.frozen),
        ("after the watch had caught up", story.thawed),
        ("in the relist after a 410", story.relisted),
    ):
        back = next((s for s in statuses if not s.handler or not s.informer), None)
        if back:
            who = "handler's" if not back.handler else "informer's"
            raise Fail(
                "HasSynced is never false again.",
                f"The {who} was false {what}.",
                why="It is a promise about one moment, and that moment is over. Code that waits "
                "for it at the start does not look again; what flips back is believed by no one.",
                next="Remember that it was true, and do not work it out anew.",
                diagnosis="flips-back" if any(s.handler for s in story.filling) else "never-true",
            )


@check(
    "4.2.6/behind",
    title="While the watch is frozen the cache is behind by as many writes as were made, and catches up",
    points=2,
    evidence="live",
)
def check_behind(story, observe):
    observe("behind", {"measured": story.behind})
    if story.polls:
        raise Fail(
            "HasSynced and the cache are read without a request.",
            "Requests were sent while the watch was frozen.",
            why="An informer is there so that nobody has to ask. Five times a second, over a "
            "thousand controllers, it is the API server that pays.",
            next="What the cache has is known without asking anybody.",
            diagnosis="polls-the-api",
            evidence=story.polls,
        )
    if story.behind != WRITES:
        raise Fail(
            f"{WRITES} objects were changed while the watch was frozen: the cache has {WRITES} old "
            "versions.",
            f"It has {story.behind}.",
            why="Only what the cache says is a picture of the cache.",
            next="Print what the informer's store has, and nothing else.",
            diagnosis="not-the-cache",
        )
    if not story.caught_up:
        raise Fail(
            "When the watch goes on, the cache gets every change.",
            f"It did not, within {PATIENCE:g} s.",
            next="Look at the last line printed, and at `phase4 timeline`.",
            diagnosis="never-catches-up",
        )


@check(
    "4.2.6/predictions",
    title="Three predictions were written down first",
    points=1,
    evidence="written",
)
def check_predictions(submission, story, observe):
    answers = written.parse(submission.text("answers.md"))
    entry = answers.require_prediction("behind", section="Predictions", number=True)
    observe("behind, predicted", {"predicted": entry.number(), "measured": story.behind})
    for name, statuses in (
        ("HasSynced while frozen", story.frozen),
        ("HasSynced after a 410 and a relist", story.relisted),
    ):
        entry = answers.require_prediction(name, section="Predictions", choices=("true", "false"))
        measured = str(all(s.handler for s in statuses)).lower() if statuses else None
        observe(name, {"predicted": entry.value, "measured": measured})


@check(
    "4.2.6/promise",
    title="A sentence says what HasSynced promises and what it does not",
    points=1,
    evidence="written",
)
def check_promise(submission):
    answers = written.parse(submission.text("answers.md"))
    PROMISE.require(
        answers.require_section("What it promises"),
        expected="The answer says what is known once HasSynced is true, and what is not.",
        why="A controller that takes it for read-your-writes creates things twice: see the GPU "
        "driver whose second POST came before its own watch event.",
    )
