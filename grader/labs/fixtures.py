"""What a check can ask for. A check names what it needs as a parameter, as pytest has it.

Every shared fixture may raise an :class:`~grader.verdict.Outcome`: each check
that depends on it then ends with that verdict and that message.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from grader.labs.grading_request import MARKER
from grader.runner.submission import Submission
from grader.verdict import NotGraded, Unknown

if TYPE_CHECKING:
    from grader.cluster.api import Api
    from grader.cluster.interface import Cluster
    from grader.labs.grading_request import Request
    from grader.labs.plugin import Measurements, Plugin
    from grader.runner import Runner


@pytest.fixture(scope="session")
def phase4(pytestconfig: pytest.Config) -> Plugin:
    """The session's plugin; for other fixtures."""
    return pytestconfig.phase4  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def grading(phase4: Plugin) -> Request:
    """The request of this run; ``grading.run_dir`` is where a grader may put files."""
    return phase4.request


@pytest.fixture(scope="session")
def submission(grading: Request) -> Submission:
    """What was handed in: a :class:`~grader.runner.submission.Submission`."""
    if not grading.submission.is_dir():
        raise NotGraded(
            f"The folder {grading.submission.name} is handed in.",
            "It is not there."
            if not grading.submission.exists()
            else "There is a file of that name, not a folder.",
            next=f"`phase4 init` makes the folder with its starter; "
            f"`phase4 show {grading.lab}` says what goes into it.",
            diagnosis="nothing-handed-in",
        )
    return Submission(grading.submission, grading.lab, grading.track, out=grading.run_dir / "build")


@pytest.fixture(scope="session")
def seed(grading: Request) -> int:
    """The run's seed, as in its report."""
    return grading.seed


@pytest.fixture(scope="module")
def rng(seed: int) -> random.Random:
    """Random numbers for inputs that a submission cannot know beforehand, from the run's seed."""
    return random.Random(seed)


@pytest.fixture(scope="session")
def live() -> bool:
    """Whether the grader is asked to do by itself what the learner may do by hand (``--live``)."""
    return os.environ.get("PHASE4_LIVE") == "1"


@pytest.fixture(scope="session")
def observe(phase4: Plugin) -> Measurements:
    """``observe(name, value)`` puts a measured value or a picture into the report."""
    return phase4.observe


@pytest.fixture(scope="session")
def facts(grading: Request) -> Iterator[dict[str, Any]]:
    """What is true of the run as a whole; for other fixtures. Written down as it changes."""
    known = _Facts(grading)
    yield known
    known.save()


class _Facts(dict):
    """A dict that is on disk after each assignment: a session may end at any moment."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self._request = request

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self.save()

    def save(self) -> None:
        self._request.facts.write_text(json.dumps(self, default=str) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def cluster(phase4: Plugin, grading: Request, facts: dict[str, Any]) -> Iterator[Cluster]:
    """The running cluster, started where none runs. ``cluster.require(…)`` ends in NOT GRADED.

    It is this session's alone until its end: controllers look at all
    namespaces, and one of another check would repair what this one breaks.
    """
    from grader import cluster as clusters
    from grader.cluster import dirs, locks

    name = grading.cluster or clusters.default_name()
    waits = f"another check uses the cluster {name}, waiting"
    lock = dirs.made(dirs.state() / "locks") / f"cluster-{name}-graded.lock"
    untimed = partial(phase4.untimed, waits)
    with locks.alone(lock, lambda sentence: None, waits, while_waiting=untimed):
        found = clusters.ensure(grading.cluster or None, backend=grading.backend or None)
        facts["backend"] = found.backend
        facts["versions"] = dict(found.versions)
        components = set(_running(found))
        phase4.troubles.append(lambda: _trouble(found, components))
        _sweep(found)
        yield found


def _sweep(cluster: Cluster) -> None:
    """Take away what a check that was killed has left for the whole cluster."""
    from grader.cluster.api import Api
    from grader.labs import leftovers

    with Api(cluster) as api:
        leftovers.sweep(api)


def _require_nobody_else() -> None:
    """Unknown where somebody drives a program by hand: it may repair what a check breaks."""
    from grader.cluster.process import records

    for each in records.live(kind="learner"):
        if each.owner.startswith("drive/"):
            raise Unknown(
                "No other program of yours writes to the cluster while your work is graded.",
                f"«{each.name}» (process {each.pid}) runs behind a wire of `phase4 run` or "
                "`phase4 record`.",
                why="It may repair what the grader breaks, or break what is being judged.",
                next="End it with Ctrl-C where it runs (or all of them with `phase4 down`), then "
                "check again.",
                diagnosis="another-program-runs",
            )


def _running(cluster: Cluster) -> dict[str, Any]:
    """The components that run, by name, where the backend knows of processes."""
    return getattr(cluster, "processes", dict)()


def _trouble(cluster: Cluster, components: set[str]) -> str:
    """What is wrong with the cluster, as half a sentence; empty when it is whole."""
    from grader.cluster.api import Api

    for component in sorted(components - _running(cluster).keys()):
        return f"{component} of the cluster {cluster.name} died"
    try:
        with Api(cluster) as api:
            api.raw("GET", "/readyz")
    except Exception as error:  # whatever the client's way of saying that nobody answers
        return f"The API server of cluster {cluster.name} stopped answering ({_short(error)})"
    return ""


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:160]}"


@pytest.fixture(scope="session")
def api(cluster: Cluster) -> Api:
    """The grader's own hands at the API server, as admin: not on any learner's wire."""
    from grader.cluster.api import Api

    return Api(cluster)


@pytest.fixture(scope="module")
def new_namespace(api: Api, seed: int, grading: Request) -> Iterator[Any]:
    """A factory: each call makes a fresh namespace and returns its name.

    All of them are deleted after the module's last check; nobody waits for it.
    """
    made: list[str] = []
    unique = random.SystemRandom()

    def make() -> str:
        name = f"lab-{grading.lab.replace('.', '-')}-{unique.randrange(16**6):06x}"
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        made.append(name)
        return name

    yield make
    for name in made:
        api.delete("namespaces", name)


@pytest.fixture(scope="module")
def namespace(new_namespace: Any) -> str:
    """One fresh namespace, shared by the checks of this run, deleted afterwards."""
    return new_namespace()


@pytest.fixture(scope="module")
def run(
    phase4: Plugin, cluster: Cluster, grading: Request, facts: dict[str, Any]
) -> Iterator[Runner]:
    """Start programs, each on a wire of its own: see :class:`grader.runner.Runner`.

    Everything that was started is gone after the module's last check.
    """
    from grader.runner import Runner

    _require_nobody_else()
    with Runner(
        cluster,
        grading.run_dir,
        seed=grading.seed,
        isolation=grading.isolation,
        marker=f"{MARKER}={grading.marker}",
        building=phase4.untimed,
    ) as runner:
        phase4.troubles.append(runner.trouble)
        yield runner
        facts["rules"] = runner.rules
        facts["isolation"] = grading.isolation
