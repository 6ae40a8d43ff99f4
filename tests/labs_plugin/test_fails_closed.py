"""Whatever a grader does but return or raise an Outcome is UNKNOWN: never PASS, never FAIL."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from grader.course import CourseError
from grader.verdict import Verdict

from .conftest import checks

#: Seconds for a check that hangs. A check that only passes takes less on any machine.
LIMIT = 1.5


def verdicts(report):
    return {result.id.split("/")[1]: result.verdict for result in report.checks}


def test_outcomes_are_verdicts(graded):
    report = graded(
        checks(
            "pass",
            "raise Fail('Expected this.', 'Saw that.', why='W', next='N', diagnosis='d', "
            "evidence=['one', 'two'])",
            "raise NotGraded('E.', 'S.')",
            "raise Unknown('E.', 'S.')",
        ),
        seed=7,
    )
    assert list(verdicts(report).values()) == [
        Verdict.PASS, Verdict.FAIL, Verdict.NOT_GRADED, Verdict.UNKNOWN,
    ]  # fmt: skip
    message = report.result("9.9.9/c2").message
    assert (message.expected, message.seen, message.why, message.next, message.diagnosis) == (
        "Expected this.", "Saw that.", "W", "N", "d",
    )  # fmt: skip
    assert message.evidence == ("one", "two")
    assert (report.seed, report.lab, report.isolation) == (7, "9.9.9", "none")
    assert report.result("9.9.9/c1").message is None


@pytest.mark.parametrize(
    "body",
    [
        "1 / 0",
        "assert False",
        "pytest.fail('no')",
        "pytest.skip('not now')",
        "pytest.xfail('known')",
        "raise SystemExit(0)",
        "raise BaseException('odd')",
        "return False",
        "return True",
        "raise Exception('\\udcff')",
        "observe('x', object())",
        "observe('x', float('nan'))",
        "observe('x', {1: {2}})",
        "from grader.nothing import here",
        "yield",
    ],
)
def test_anything_else_is_unknown(graded, tmp_path, body):
    report = graded(checks(body, "pass"))
    assert verdicts(report) == {"c1": Verdict.UNKNOWN, "c2": Verdict.PASS} or (
        # A file that pytest will not collect says nothing about any check.
        body == "yield" and verdicts(report)["c1"] is Verdict.UNKNOWN
    )
    message = report.result("9.9.9/c1").message
    assert "says nothing about your work" in message.seen
    assert "Traceback" not in json.dumps(message.to_json())


def test_the_traceback_is_in_the_log_and_only_there(graded, tmp_path):
    report = graded(checks("raise KeyError('a detail of ours')"))
    message = report.result("9.9.9/c1").message
    assert "a detail of ours" not in message.seen
    log = Path(tmp_path / "run" / "grader.log").read_text()
    assert "a detail of ours" in log and "check_c1" in log and "_pytest" not in log
    assert str(tmp_path / "run" / "grader.log") in message.next


def test_a_process_that_exits_leaves_no_verdict(graded):
    report = graded(checks("pass", "os._exit(0)", "pass"))
    assert set(verdicts(report).values()) == {Verdict.UNKNOWN}
    assert "left no report" in report.checks[0].message.seen


def test_a_process_that_is_killed_leaves_no_verdict(graded):
    report = graded(checks("pass", "os.kill(os.getpid(), signal.SIGKILL)"))
    assert set(verdicts(report).values()) == {Verdict.UNKNOWN}
    assert "signal 9" in report.checks[0].message.seen


def test_an_interrupted_check_did_not_pass(graded):
    """pytest-json-report reports a test that ended in KeyboardInterrupt as passed."""
    report = graded(checks("pass", "raise KeyboardInterrupt", "pass"))
    assert verdicts(report) == {
        "c1": Verdict.PASS, "c2": Verdict.UNKNOWN, "c3": Verdict.UNKNOWN,
    }  # fmt: skip


def test_pytest_exit_in_a_check_is_unknown(graded):
    report = graded(checks("pytest.exit('enough', 0)", "pass"))
    assert set(verdicts(report).values()) == {Verdict.UNKNOWN}


def test_only_what_is_asked_for_is_run_and_told(graded, tmp_path):
    source = checks("raise Fail('x', 'y')", "pass", "pass")
    report = graded(source, only=["9.9.9/c2"])
    assert verdicts(report) == {"c2": Verdict.PASS}
    with pytest.raises(CourseError, match="has no check 9.9.9/c4"):
        graded(source, only=["9.9.9/c4"])


def test_no_check_is_unknown(graded):
    report = graded("")
    assert report.checks == [] and report.verdict is Verdict.UNKNOWN


def test_a_grader_that_cannot_be_read_is_unknown(graded):
    report = graded(checks("pass") + "\n)(\n")
    assert verdicts(report) == {"c1": Verdict.UNKNOWN}


def test_a_function_without_a_marker_is_a_fault_of_the_grader(graded):
    report = graded(checks("pass") + "def check_more():\n    pass\n")
    assert verdicts(report) == {"c1": Verdict.UNKNOWN}


def test_a_marked_function_that_pytest_does_not_collect_did_not_pass(graded):
    source = checks("pass") + checks("pass").replace("c1", "c2").replace("def check_", "def _")
    report = graded(source)
    assert verdicts(report)["c2"] is Verdict.UNKNOWN


def test_a_check_of_another_lab_is_a_fault_of_the_grader(graded):
    report = graded(checks("pass").replace("9.9.9/", "9.9.8/"))
    assert report.verdict is Verdict.UNKNOWN


def test_a_parametrised_check_has_no_single_verdict(graded):
    source = "@pytest.mark.parametrize('rng', [1, 2])\n" + checks("assert rng")
    # The decorator that counts has to be the one at the margin.
    report = graded(source)
    assert verdicts(report) == {"c1": Verdict.UNKNOWN}


FIXTURE = """
@pytest.fixture(scope="module")
def later(submission):
    {before}
    yield 1
    {after}

"""


def test_an_outcome_in_a_shared_fixture_is_that_of_each_check(graded):
    fixture = FIXTURE.format(before="raise Fail('E.', 'S.', diagnosis='shared')", after="pass")
    report = graded(fixture + checks("later", "later", "pass"))
    assert verdicts(report) == {"c1": Verdict.FAIL, "c2": Verdict.FAIL, "c3": Verdict.PASS}
    assert report.result("9.9.9/c2").message.diagnosis == "shared"


def test_an_error_in_a_shared_fixture_is_unknown_for_each_check(graded):
    fixture = FIXTURE.format(before="1 / 0", after="pass")
    report = graded(fixture + checks("later", "later", "pass"))
    assert verdicts(report) == {"c1": Verdict.UNKNOWN, "c2": Verdict.UNKNOWN, "c3": Verdict.PASS}


def test_a_clean_up_that_fails_takes_a_pass_away_and_leaves_a_fail(graded):
    fixture = FIXTURE.format(before="pass", after="1 / 0").replace(', scope="module"', "")
    fixture = fixture.replace('scope="module"', "")
    report = graded(fixture + checks("later", "later; raise Fail('E.', 'S.')", "pass"))
    assert verdicts(report) == {"c1": Verdict.UNKNOWN, "c2": Verdict.FAIL, "c3": Verdict.PASS}


def test_a_check_that_hangs_is_stopped_and_the_others_go_on(graded):
    report = graded(checks("while True:\n    time.sleep(9)", "pass"), check_seconds=LIMIT)
    assert verdicts(report) == {"c1": Verdict.UNKNOWN, "c2": Verdict.PASS}
    assert report.checks[0].message.diagnosis == "grader-timed-out"


def test_a_check_that_catches_everything_is_stopped_as_well(graded):
    body = """\
end = time.time() + 60
while time.time() < end:
    try:
        time.sleep(9)
    except Exception:
        pass"""
    report = graded(checks(body), check_seconds=LIMIT)
    assert verdicts(report) == {"c1": Verdict.UNKNOWN}


def test_a_fixture_that_hangs_is_stopped(graded):
    fixture = FIXTURE.format(before="time.sleep(99)", after="pass")
    report = graded(fixture + checks("later", "pass"), check_seconds=LIMIT)
    assert verdicts(report) == {"c1": Verdict.UNKNOWN, "c2": Verdict.PASS}


def test_the_callers_environment_has_no_say(graded, tmp_path, submission_dir, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    monkeypatch.setenv("PYTEST_PLUGINS", "not_a_plugin_at_all")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "json.py").write_text("raise SystemExit('imported a file of the learner')\n")
    (tmp_path / "conftest.py").write_text("raise SystemExit('a conftest was read')\n")
    (submission_dir / "conftest.py").write_text("raise SystemExit('a conftest was read')\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_functions = nothing\n")
    assert verdicts(graded(checks("pass"))) == {"c1": Verdict.PASS}


def test_no_installed_plugin_is_loaded(graded):
    body = """\
import sys
names = {name.partition('.')[0] for name in sys.modules}
found = names & {'xdist', 'hypothesis', '_hypothesis_pytestplugin', 'anyio', 'aiohttp'}
if found:
    raise Fail('none', str(found))
if 'kubernetes' in names:
    raise Fail('no client', 'kubernetes')"""
    assert verdicts(graded(checks(body))) == {"c1": Verdict.PASS}


def test_an_old_report_is_not_taken_for_a_new_one(graded):
    assert graded(checks("pass")).verdict is Verdict.PASS
    assert graded(checks("os._exit(0)")).verdict is Verdict.UNKNOWN


def test_observations_are_kept_with_their_check(graded):
    report = graded(checks("observe('n', 1); observe('m', {'svg': '<svg/>', 'alt': 'a'})", "pass"))
    assert [(seen.check, seen.name, seen.value) for seen in report.observations] == [
        ("9.9.9/c1", "n", 1),
        ("9.9.9/c1", "m", {"svg": "<svg/>", "alt": "a"}),
    ]


def test_a_seed_repeats_the_random_numbers(graded):
    body = "observe('r', rng.random())"
    values = [graded(checks(body), seed=5).observations[0].value for _ in range(2)]
    assert values[0] == values[1]
    drawn = graded(checks(body))
    assert drawn.seed != 5 and drawn.observations[0].value != values[0]


def test_progress_names_each_check(graded):
    told: list[str] = []
    graded(checks("pass", "pass"), progress=told.append)
    assert told == ["Check 1", "Check 2"]


def test_a_second_check_of_the_same_folder_waits(graded, tmp_path):
    """Two at once: the second says that it waits, and both come to their verdicts."""
    go = tmp_path / "go"
    body = f"""\
open({str(tmp_path / "begun")!r}, 'a').write('x')
while not os.path.exists({str(go)!r}):
    time.sleep(0.02)"""
    source = checks(body)
    told: list[str] = []
    reports = []
    first = threading.Thread(target=lambda: reports.append(graded(source)))
    first.start()
    while not (tmp_path / "begun").exists():
        assert first.is_alive()

    def tell(line: str) -> None:
        told.append(line)
        if "waiting" in line:
            go.touch()

    second = graded(source, progress=tell, run_dir=tmp_path / "run2")
    first.join()
    assert told[0] == "another check of 9.9.9 is running, waiting"
    assert second.verdict is Verdict.PASS and reports[0].verdict is Verdict.PASS


def test_what_the_machine_lacks_is_said_as_it_is(graded):
    body = """\
from grader.cluster.errors import EnvironmentProblem
raise EnvironmentProblem('The disk is full.')"""
    report = graded(checks(body))
    message = report.checks[0].message
    assert report.verdict is Verdict.UNKNOWN and message.diagnosis == "environment"
    assert message.seen.startswith("The disk is full. ") and "doctor" in message.next


def test_an_isolation_that_is_not_there_ends_before_anything_starts(graded):
    from grader.cluster.errors import EnvironmentProblem

    with pytest.raises(EnvironmentProblem, match="none or bwrap"):
        graded(checks("pass"), isolation="chroot")


def test_only_a_file_that_is_there_is_to_be_sent_along(graded, tmp_path):
    report = graded(checks("os._exit(0)"))
    advice = report.checks[0].message.next
    assert "report it" in advice and "grader.log" not in advice
    named = [word.rstrip(".") for word in advice.split() if word.startswith("/")]
    assert all(Path(word).is_file() for word in named), advice
