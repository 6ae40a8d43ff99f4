"""Measurements on several clusters: each its own, and only those ended that were started."""

from __future__ import annotations

import pytest

from grader import cluster as clusters
from grader.cluster.several import several


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of clusters that were ended; ``mine-3`` ran before."""
    ended: list[str] = []
    monkeypatch.setenv("PHASE4_CLUSTER", "mine")
    monkeypatch.setattr(clusters, "names", lambda backend=None: ["mine-3"])
    monkeypatch.setattr(clusters, "stop", lambda name, backend=None: ended.append(name))
    return ended


def test_each_has_a_name_of_its_own(stopped):
    with several(None, 3) as names, names.one() as a, names.one() as b, names.one() as c:
        assert [a, b, c] == ["mine", "mine-2", "mine-3"] and names.first == "mine"
    assert stopped == ["mine-2"]


def test_a_name_comes_back(stopped):
    with several("other", 1) as names:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError), names.one() as name:
                assert name == "other"
                raise ZeroDivisionError
    assert stopped == []


def test_they_are_ended_when_the_work_fails(stopped):
    with pytest.raises(KeyboardInterrupt), several("other", 2):
        raise KeyboardInterrupt
    assert stopped == ["other-2"]
