"""Which run is the last one, wherever the clock's zone was meanwhile."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from grader import workspace
from grader.cli import runs


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PHASE4_WORKSPACE", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    return runs.places()[-1]


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch):
    def move(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def record(run: Path, wire: str, t: float | None) -> None:
    (run / wire).mkdir(parents=True)
    first = "" if t is None else json.dumps({"kind": "mark", "seq": 0, "t": t})
    (run / wire / "wire.jsonl").write_text(f"{first}\n{json.dumps({'t': 9e9})}\n")


def test_a_run_is_named_in_utc(place, zone, tmp_path):
    stamps = set()
    for name in ("UTC0", "AAA-14", "BBB+12"):
        zone(name)
        before = time.strftime("%Y%m%dT%H%M", time.gmtime())
        for made in (runs.new("x"), workspace.Workspace(tmp_path / "w").new_run("4.1.2")):
            assert made.name >= before and "Z-" in made.name
            stamps.add(made.name[:11])
    assert len(stamps) <= 2, "two where the hour has struck in between"


def test_the_last_run_is_the_one_that_began_last(place):
    """Whatever it is called: by an older version, in local time, in the second before another."""
    record(place / "20261201-090000-run-flown-west", "x", 3000.0)
    record(place / "20261201-180000-run-in-the-east", "x", 1000.0)
    record(place / "20261201T080000Z-run-y-10", "x", 2000.0)
    record(place / "20261201T080000Z-run-y-9", "x", 1900.0)
    assert [run.name.partition("-run-")[2] for run in runs.all_runs()] == [
        "in-the-east",
        "y-9",
        "y-10",
        "flown-west",
    ]
    assert runs.find("last").name == "20261201-090000-run-flown-west"
    assert runs.find("20261201-18").name == "20261201-180000-run-in-the-east"


def test_a_run_with_several_wires_began_with_the_first(place):
    record(place / "a", "one", 50.0)
    record(place / "a", "two", 10.0)
    record(place / "b", "one", 20.0)
    assert [run.name for run in runs.all_runs()] == ["a", "b"]


def test_a_run_that_was_killed_before_its_first_line(place):
    record(place / "a", "one", None)
    os.utime(place / "a" / "one", (100.0, 100.0))
    record(place / "b", "one", 50.0)
    assert [run.name for run in runs.all_runs()] == ["b", "a"]
