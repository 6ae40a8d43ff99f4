"""The wrong operators fit the right ones, and name what there is to name."""

from __future__ import annotations

import threading
import xml.etree.ElementTree as ET
from collections import Counter

import pytest
from typer.testing import CliRunner

from grader import cut, exit_codes
from grader.cli.app import build
from grader.conformance import measure
from grader.conformance.parts import faults, killpoints
from grader.conformance.picture import kill_picture
from grader.conformance.scenario import Result, Scenario
from grader.conformance.suite import FIRST, Report, run_all, select
from grader.course import ROOT
from grader.evidence import citations
from grader.verdict import Message, NotGraded, Verdict
from grader.wire.records import Exchange
from tests.witness.builders import exchange

PODS = "/api/v1/pods"
WRONG = measure.wrong_operators()


@pytest.mark.parametrize("mistake", WRONG, ids=lambda m: m.name)
def test_each_wrong_operator_is_a_change_of_a_right_one(mistake, tmp_path):
    source = measure.laid_out(mistake.track, tmp_path)
    mistake.apply(source / measure.LAB_OF_OPERATORS)
    assert select([measure.scenario_of(mistake)]), mistake.fails
    for path in source.rglob("*.py"):
        compile(path.read_text(encoding="utf-8"), str(path), "exec")


def test_there_are_enough_of_both_languages():
    tracks = Counter(mistake.track for mistake in WRONG)
    assert len(WRONG) >= 25
    assert min(tracks["python"], tracks["go"]) >= 10


def test_a_name_that_is_no_part_of_the_suite_is_refused():
    with pytest.raises(ValueError, match="neither a part nor a scenario"):
        select(["functional/no-such"])


@pytest.mark.parametrize("diagnosis", ["never-acted", "operator-died", "program-not-started"])
def test_an_operator_that_does_nothing_is_tried_once(diagnosis):
    def run(one):
        return Result(one.id, one.title, Verdict.FAIL, Message("E.", "S.", diagnosis=diagnosis))

    chosen = select()
    assert [r.id for r in run_all(chosen, run, first=FIRST)] == [FIRST]
    # Where that scenario is not asked for, the others are tried.
    others = select(["quiet"])
    assert [r.id for r in run_all(others, run, first=FIRST)] == [one.id for one in others]


def test_an_operator_for_whose_first_webapp_nothing_converges_is_tried_once():
    def run(one):
        return Result(one.id, one.title, Verdict.FAIL, Message("E.", "S."), stuck=True)

    assert [r.id for r in run_all(select(), run, first=FIRST, stuck=True)] == [FIRST]
    # A lab gives points for each theme.
    assert len(run_all(select(), run, first=FIRST)) == len(select())


def test_what_is_alone_runs_beside_the_rest_where_there_is_a_second_cluster():
    both = threading.Barrier(2)

    def run(one):
        if one.id in ("restart/sigterm", "functional/scale"):
            both.wait(10)
        return Result(one.id, one.title, Verdict.PASS)

    chosen = select(["restart/sigterm", "functional/scale", "quiet"])
    found = run_all(chosen, run, at_once=True)
    assert [r.id for r in found] == [one.id for one in chosen]


def _report(*results: tuple[str, str]) -> Report:
    report = Report("x", 0, "embedded", {}, 0.0)
    for id, diagnosis in results:
        message = Message("E.", "S.", diagnosis=diagnosis)
        report.results.append(Result(id, "", Verdict.FAIL, message))
    return report


def test_one_cause_is_told_once():
    report = _report(("a", "stale-status"), ("b", ""), ("c", "stale-status"), ("d", ""))
    told = [(first.id, [one.id for one in others]) for first, others in report.causes()]
    assert told == [("a", ["c"]), ("b", []), ("d", [])]


def test_a_report_with_scenarios_still_to_come_is_no_pass():
    report = Report("x", 0, "embedded", {}, 0.0, results=[Result("a", "", Verdict.PASS)])
    assert report.verdict is Verdict.PASS
    report.not_tried = ["b"]
    assert report.verdict is Verdict.UNKNOWN


def _outcome(nth: int, converged: bool | None) -> killpoints.Outcome:
    point = killpoints.KillPoint("create", "create", "pods", nth, "before")
    return killpoints.Outcome(point, converged)


def test_a_kill_that_never_came_is_not_graded():
    # The second of a kind may rightly be left out in another run.
    killpoints.require_reached([_outcome(1, True), _outcome(2, None)])
    with pytest.raises(NotGraded, match="happens again"):
        killpoints.require_reached([_outcome(1, None), _outcome(2, True)])


def _asked(verb: str, namespace: str, t: float) -> Exchange:
    return exchange(verb, f"/api/v1/namespaces/{namespace}/pods" if namespace else PODS, t=t)


def test_a_live_read_of_a_namespace_fills_no_cache():
    traffic = [_asked("watch", "", 1.0), *(_asked("list", "a", 2.0) for _ in range(30))]
    assert faults.of_caches(traffic, 0.0) == {"pods": 1}
    traffic += [_asked("list", "", 3.0) for _ in range(3)]
    assert faults.of_caches(traffic, 2.5) == {"pods": 3}


def test_an_operator_that_fails_the_first_scenario_otherwise_is_tried_on():
    def run(one):
        return Result(one.id, one.title, Verdict.FAIL, Message("E.", "S.", diagnosis="pods-late"))

    chosen = select()
    assert [r.id for r in run_all(chosen, run, first=FIRST)] == [one.id for one in chosen]


def test_an_interrupted_suite_ends_what_runs_before_it_waits_for_it():
    stopped = threading.Event()

    def run(one):
        if one.id == "quiet/b":
            raise KeyboardInterrupt
        assert stopped.wait(10), "the other one was waited for, and nobody had told it to end"
        return Result(one.id, one.title, Verdict.PASS)

    chosen = [Scenario(f"quiet/{name}", "quiet", "", print) for name in "ba"]
    with pytest.raises(KeyboardInterrupt):
        run_all(chosen, run, stop=stopped.set)
    assert stopped.is_set()


@pytest.mark.parametrize(
    ("command", "says"), [("./no-such", "is not there"), ("README.md", "is not executable")]
)
def test_a_command_that_is_none_is_one_sentence(command, says, monkeypatch):
    monkeypatch.chdir(ROOT)
    ended = CliRunner().invoke(build(), ["conform", "--", command])
    assert ended.exit_code == exit_codes.USAGE and says in " ".join(ended.output.split())


def test_scenarios_that_share_nothing_run_one_after_the_other():
    under_way: set[str] = set()
    met: dict[str, set[str]] = {}

    def run(one):
        under_way.add(one.id)
        # Long enough for those that run together to meet.
        barrier.wait(5) if one.id in together else None
        met[one.id] = set(under_way)
        under_way.remove(one.id)
        return Result(one.id, one.title, Verdict.PASS)

    chosen = [
        Scenario("functional/a", "functional", "", print),
        Scenario("functional/b", "functional", "", print),
        Scenario("faults/own", "faults", "", print, alone=True),
        Scenario("faults/resyncing", "faults", "", print, resyncing=True),
        Scenario("quiet/resyncing", "quiet", "", print, resyncing=True),
        Scenario("quiet/own", "quiet", "", print, alone=True),
    ]
    barrier = threading.Barrier(2)
    together = {"functional/a", "functional/b", "faults/resyncing", "quiet/resyncing"}
    assert [one.id for one in run_all(chosen, run)] == [one.id for one in chosen]
    assert met["faults/own"] == {"faults/own"} and met["quiet/own"] == {"quiet/own"}
    assert not any(id.startswith("functional/") for id in met["quiet/resyncing"])


def test_scenarios_that_ran_together_count_once():
    report = Report("op", 0, "embedded", {}, 0.0)
    for started, duration in ((10.0, 4.0), (12.0, 1.0), (13.0, 3.0), (20.0, 2.0)):
        report.results.append(
            Result("quiet/x", "", Verdict.PASS, duration=duration, started=started)
        )
    assert report.seconds_of("quiet") == 6.0 + 2.0
    assert report.to_json()["seconds of parts"] == {"quiet": 8.0}


@pytest.mark.parametrize("track", ["python", "go"])
def test_the_line_that_the_reference_cites_is_there(track, tmp_path):
    folder = cut.handed_in("4.3.4", track, tmp_path)
    (cited,) = citations.find((folder / "answers.md").read_text(encoding="utf-8"))
    assert citations.check(cited, handed_in=folder.parent).exact


def test_the_picture_of_kill_points_says_in_words_what_it_shows():
    right = {"step": "create", "shown": "after POST a Pod", "side": "after", "converged": True}
    lost = {**right, "shown": "before POST a Pod", "side": "before", "converged": False}
    never = {**right, "step": "delete", "shown": "before DELETE a Pod", "converged": None}
    lost["missing"] = "1 of 2 Pods"
    drawn = kill_picture("Killed <here>", {"edge: no list": [lost, right, never], "level": [right]})
    words = [element.text for element in ET.fromstring(drawn["svg"]).iter() if element.text]
    assert {"Killed <here>", "1 of 2 Pods", "1 of 2", "0 of 1", "no such write"} <= set(words)
    assert "3 kill points were tried" in drawn["alt"]
    assert "edge, create: before POST a Pod (1 of 2 Pods)" in drawn["alt"]
