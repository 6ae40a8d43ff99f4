"""4.2.5 The third layer of a failure you have met twice.

A real 410, at two layers (see :mod:`grader.labs.lab_4_2_5_expired`). Events (the kind)
have no watch cache, so that etcd itself refuses, right after its compaction.
ConfigMaps have one, which is empty of the past after the API server was started
again.
"""

from __future__ import annotations

import pytest

from grader.cluster.interface import Capability
from grader.evidence import answers as written
from grader.evidence import places
from grader.labs import check
from grader.labs.lab_4_2_5_expired import MOST_REQUESTS, PATIENCE, REFUSED, Episode, Story
from grader.verdict import Fail, Unknown

#: One check needs no other to have been run.
CHECKS_STAND_ALONE = True
#: What each layer says.
ETCD, CACHE = "The resourceVersion for the provided watch is too old", "too old resource version"
#: The headings of answers.md under which the chain is cited, from etcd to the client.
LAYERS = ("etcd says it", "The API server passes it on", "The client acts on it")
WHY = (
    "A 410 is the one error that waiting does not solve: that version will never come back. Each "
    "request for it gets the same answer."
)


@pytest.fixture(scope="module")
def of_events(submission, run, api, cluster, namespace) -> Story:
    cluster.require(Capability.COMPACT)
    return Story("etcd", "events", ETCD, run, submission.program, api, cluster, namespace)


@pytest.fixture(scope="module")
def of_configmaps(of_events, submission, run, api, cluster, namespace) -> Story:
    """A program that did not start for Events is not started again."""
    cluster.require(Capability.RESTART)
    parts = run, submission.program, api, cluster, namespace
    # As an API server without watch-lists, so that lists are asked for as well.
    rules = ["refuse-watchlist"]
    return Story("the watch cache", "configmaps", CACHE, *parts, rules=rules)


def _told(story: Story, observe, *, restart: bool) -> Episode:
    episode = story.tell(restart)
    observe(f"requests after a 410 of {story.layer}", episode.asked)
    if episode.said:
        observe(f"what {story.layer} said", episode.said[0])
    observe(f"a 410 of {story.layer}", story.picture())
    return episode


@pytest.fixture(scope="module")
def etcd_episode(of_events, observe) -> Episode:
    return _told(of_events, observe, restart=False)


@pytest.fixture(scope="module")
def cache_episode(of_configmaps, observe) -> Episode:
    return _told(of_configmaps, observe, restart=True)


def _require_recovery(episode: Episode, words: str) -> None:
    if episode.resumed and not any(words in said for said in episode.said):
        # The grader was refused a moment before.
        raise Unknown(
            f"The compacted resourceVersion is refused by {episode.layer}.",
            f"It said {episode.said[:3] or 'nothing'}.",
        )
    if episode.ended:
        raise Fail(
            "The program survives a 410.",
            f"It {episode.ended}.",
            why="A process that ends here is started again, lists everything, and has the same "
            "happen to it the next time that a watch resumes from a version that is gone.",
            next="What raises, and who catches it?",
            diagnosis="exits-on-410",
            evidence=[*episode.evidence, *episode.tail],
        )
    if episode.asked > MOST_REQUESTS:
        raise Fail(
            f"One 410 costs a few requests, at most {MOST_REQUESTS}.",
            f"There were {episode.asked}.",
            why="When an API server restarts, every controller's watch ends at once, and many "
            "resume from versions that it does not know. If each of them comes back without a "
            "pause, the API server does not.",
            next="Where is the pause between two attempts?",
            diagnosis="hot-loop",
            evidence=episode.evidence,
        )
    if episode.right:
        return
    if episode.resumed >= 2 and not episode.relisted:
        raise Fail(
            "After the 410 the whole state is asked for.",
            f"A version from before the compaction was asked for {episode.resumed} times, and "
            "nothing else.",
            why=WHY,
            next="Which version does the reflector ask for after a 410, and after the second?",
            diagnosis="resumes-the-dead-version",
            evidence=episode.evidence,
        )
    if episode.relisted and episode.relisted == episode.relisted_old:
        raise Fail(
            "Where even a list at the compacted version is refused, the newest state is asked for.",
            f"The whole state was asked for {episode.relisted} times, and always at a version from "
            "before the compaction.",
            why=WHY,
            next="After a list or a watch-list was refused with 410, which version is asked for?",
            diagnosis="lists-the-dead-version",
            evidence=episode.evidence,
        )
    raise Fail(
        f"Within {PATIENCE:g} s the cache has what the API server has.",
        f"It has {episode.cache}.",
        why="No event will deliver what happened while nobody watched. Only a list, "
        "or a watch-list, has it.",
        next="An ERROR event in a watch has a Status for an object: what becomes of it?",
        diagnosis="cache-stays-wrong",
        evidence=[*episode.evidence, *episode.tail],
    )


@check(
    "4.2.5/etcd",
    title="etcd refuses the compacted version: the cache is right soon afterwards, without a hot loop",
    points=3,
    evidence="live",
)
def check_etcd(etcd_episode):
    _require_recovery(etcd_episode, ETCD)


@check(
    "4.2.5/calm",
    title="An API server that refuses everything gets few requests, not a stream",
    points=2,
    evidence="live",
)
def check_calm(etcd_episode):
    if etcd_episode.while_refused > MOST_REQUESTS:
        raise Fail(
            f"While everything is answered 503, there are at most {MOST_REQUESTS} requests in "
            f"{REFUSED:g} s.",
            f"There were {etcd_episode.while_refused}, and the grader stopped counting.",
            why="After a restart of the API server every controller comes back at the same moment. "
            "Without pauses that is what keeps the API server down.",
            next="What does `run` do between two rounds?",
            diagnosis="no-pause",
            evidence=etcd_episode.refused,
        )
    if etcd_episode.ended:
        raise Fail(
            "The program survives an API server that refuses everything.",
            f"It {etcd_episode.ended}.",
            next="What raises, and who catches it?",
            diagnosis="exits-on-an-error",
            evidence=etcd_episode.tail,
        )


@check(
    "4.2.5/watch-cache",
    title="The watch cache refuses it: the cache is right soon afterwards, without a hot loop",
    points=3,
    evidence="live",
)
def check_watch_cache(cache_episode):
    _require_recovery(cache_episode, CACHE)


@pytest.fixture(scope="module")
def answers(submission):
    return written.parse(submission.text("answers.md"))


@check(
    "4.2.5/chain",
    title="The chain is cited at all three layers: compacted, 410, listed again",
    points=2,
    evidence="claim",
)
def check_chain(answers):
    for heading in LAYERS:
        places.of("4.2.5", heading).require(answers.require_section(heading))
