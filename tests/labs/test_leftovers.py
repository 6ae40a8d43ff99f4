"""What a check that was killed leaves behind for the whole cluster, and who takes it away."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from grader import cluster as clusters
from grader.cluster.api import Api, ApiError
from grader.labs import leftovers
from grader.labs.lab_4_4_6_kinds import KINDS
from grader.labs.lab_4_4_6_wedges import DISCOVERY, Names, wait

#: How long a test waits for what will come (s): a limit, which measures nothing.
PATIENCE = 240


class _Answers:
    """An API server that answers every list with one status."""

    def __init__(self, status: int) -> None:
        self.status = status

    def list(self, kind: str, **_: str) -> dict:
        raise ApiError(self.status, "", {})


@pytest.mark.parametrize("status", [403, 404])
def test_what_may_not_be_listed_was_not_made(status):
    assert leftovers.sweep(_Answers(status)) == []


def test_another_error_is_not_taken_for_nothing():
    with pytest.raises(ApiError):
        leftovers.sweep(_Answers(500))


def test_what_is_made_elsewhere_has_another_maker(tmp_path, monkeypatch):
    here = leftovers.label("4.4.6")
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path))
    assert leftovers.label("4.4.6") != here


@pytest.mark.live
def test_every_wedge_that_nobody_cleared_is_swept():
    with Api(clusters.ensure()) as api:
        leftovers.sweep(api)
        names = Names()
        wedges = [kind(api, names) for kind in KINDS]
        with ThreadPoolExecutor(len(wedges)) as pool:
            list(pool.map(lambda wedge: wedge.make(), wedges))
        dead = next(wedge for wedge in wedges if wedge.kind == "apiservice")
        wait("the APIService hurts", dead.stuck, PATIENCE)
        held = next(wedge for wedge in wedges if wedge.kind == "own-finalizer")
        wait("and others with it", lambda: DISCOVERY in held.true_conditions(), PATIENCE)

        assert leftovers.sweep(api)

        of_ours = {wedge.namespace for wedge in wedges}
        of_ours |= {other for wedge in wedges for other in wedge.others}

        def gone() -> bool:
            there = {one["metadata"]["name"] for one in api.list("namespaces")["items"]}
            return not of_ours & there

        wait("every namespace goes", gone, PATIENCE)
        for kind in leftovers.KINDS:
            wait(
                f"no {kind} is left",
                lambda kind=kind: not api.list(kind, label_selector=leftovers.LABEL)["items"],
                PATIENCE,
            )
        assert leftovers.sweep(api) == []
