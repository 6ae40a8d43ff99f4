"""Written answers at the command line: who is asked, what is kept, what it counts for."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyte
import pytest

from grader import course, cut, workspace
from grader.course import ROOT
from grader.report import assessing, store
from grader.report.model import Assessment, CheckResult, LabReport
from grader.verdict import Verdict

PHASE4 = [sys.executable, "-I", "-X", "utf8", str(ROOT / "grader")]
VARIANT = ROOT / "solutions" / "4.1.2" / "variants" / "list-form" / "answers.md"
PAYMENT, ENQUEUE = "4.1.2/payment-why", "4.1.2/enqueue-why"
PROMPT = "Does your sentence say this? [y/n] "


@pytest.fixture
def environment(workspace_dir: Path) -> dict[str, str]:
    here, _ = workspace.init(workspace_dir, "python")
    shutil.copy(VARIANT, here.folder(course.load().lab("4.1.2")))
    ours = ("LC_", "COLUMNS", "LINES", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8"}


class Terminal:
    """A command on a terminal of so many columns, and what a person sees of it."""

    def __init__(self, words: list[str], columns: int, env: dict[str, str]) -> None:
        self.screen = pyte.Screen(columns, 300)
        self.stream = pyte.ByteStream(self.screen)
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.process = subprocess.Popen(
            [*PHASE4, *words], env=env, stdin=theirs, stdout=theirs, stderr=theirs,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(theirs)

    def read(self, seconds: float = 60.0) -> bool:
        """Take what comes; False at the end."""
        if not select.select([self.ours], [], [], seconds)[0]:
            raise TimeoutError(self.text)
        try:
            data = os.read(self.ours, 65536)
        except OSError:
            return False
        self.stream.feed(data)
        return bool(data)

    def asked(self, times: int) -> None:
        """Wait until it has asked that many times in all, and waits for an answer."""
        while self.flat.count(PROMPT.strip()) < times:
            assert self.read(), self.text

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def ended(self) -> int:
        while self.read():
            pass
        os.close(self.ours)
        return self.process.wait(timeout=60)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    @property
    def flat(self) -> str:
        """The text without its line breaks, however narrow the terminal is."""
        return " ".join(self.text.split())


def piped(*words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PHASE4, *words], env=env, capture_output=True, text=True, timeout=120,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def stored() -> LabReport:
    report = store.load(workspace.find().reports, "4.1.2")
    assert report is not None
    return report


def answer_all(terminal: Terminal, letters: str) -> None:
    for number, letter in enumerate(letters, start=1):
        terminal.asked(number)
        terminal.type(letter + "\n")


@pytest.mark.parametrize("columns", [40, 80])
def test_the_sentence_stands_beside_the_points_and_each_is_asked_for(
    columns: int, environment: dict[str, str]
) -> None:
    terminal = Terminal(["check", PAYMENT], columns, environment)
    terminal.asked(1)
    before = terminal.flat
    assert "only you can judge this sentence" in before
    assert "And what does it read, from where?" in before
    assert "│ - why: one lookup in the informer's indexer" in before
    assert "1 of 2 It reads from the informer's cache" in before and "2 of 2" not in before
    # Nothing runs over the terminal's edge: each line was broken by us, between words.
    assert all(len(line) <= columns for line in terminal.text.splitlines())
    terminal.type("maybe\n")
    while "y or n, or Enter for later." not in terminal.flat:
        assert terminal.read()
    terminal.asked(2)
    terminal.type("y\n")
    terminal.asked(3)
    assert "2 of 2 It gets the Foo as the cache has it" in terminal.flat
    terminal.type("Yes\n")
    assert terminal.ended() == 0
    assert "self-assessed: the mark is your instructor's" in terminal.flat
    assert "1 of 1 points · 1 of them self-assessed" in terminal.flat
    kept = workspace.find().record(assessing.RECORD)[PAYMENT]
    assert kept["said"] == ["from-the-cache", "as-it-is-now"] and len(kept["digest"]) == 64


def test_a_missing_point_is_not_yet_and_says_which(environment: dict[str, str]) -> None:
    terminal = Terminal(["check", PAYMENT], 80, environment)
    answer_all(terminal, "yn")
    assert terminal.ended() == 3
    assert "Not yet: by your own judgement the sentence does not say «It gets the Foo" in (
        terminal.flat
    )
    assert "FAIL" not in terminal.flat
    # The lab as a whole does not ask again about this sentence ...
    terminal = Terminal(["check", "4.1.2"], 80, environment)
    terminal.asked(1)
    assert ENQUEUE in terminal.flat
    terminal.type("\n")
    assert terminal.ended() == 3
    assert "points-missing" == stored().result(PAYMENT).message.diagnosis
    # ... and it alone does.
    terminal = Terminal(["check", PAYMENT], 80, environment)
    answer_all(terminal, "yy")
    assert terminal.ended() == 0
    assert stored().result(PAYMENT).self_assessed


def test_a_changed_sentence_is_asked_about_again_and_only_a_changed_one(
    environment: dict[str, str],
) -> None:
    terminal = Terminal(["check", "4.1.2"], 80, environment)
    answer_all(terminal, "yyyy")
    assert terminal.ended() == 0
    assert "5 of 6" not in terminal.flat and "7 of 7 points · 2 of them self-assessed" in (
        terminal.flat
    )
    assert piped("check", "4.1.2", env=environment).returncode == 0
    here = workspace.find()
    file = here.folder(course.load().lab("4.1.2")) / "answers.md"
    file.write_text(file.read_text().replace("one lookup", "one\nlookup"))
    assert piped("check", "4.1.2", env=environment).returncode == 0
    file.write_text(file.read_text().replace("one\nlookup", "a lookup"))
    done = piped("check", "4.1.2", env=environment)
    assert done.returncode == 3
    assert stored().result(PAYMENT).verdict is Verdict.NOT_GRADED
    assert stored().result(ENQUEUE).self_assessed
    assert stored().result(PAYMENT).assessment.said is None


@pytest.mark.parametrize("words", [[], ["--yes"], ["--json"]], ids=str)
def test_without_a_terminal_nobody_is_asked_and_nothing_is_passed(
    words: list[str], environment: dict[str, str]
) -> None:
    done = piped("check", "4.1.2", *words, env=environment)
    assert done.returncode == 3 and PROMPT not in done.stdout
    assert "not yet assessed" in done.stdout
    assert "`phase4 check 4.1.2/payment-why`" in " ".join(done.stdout.split())
    assert workspace.find().record(assessing.RECORD) == {}


def test_yes_says_yes_to_nothing_in_a_terminal_either(environment: dict[str, str]) -> None:
    terminal = Terminal(["check", PAYMENT, "--yes"], 80, environment)
    assert terminal.ended() == 3 and PROMPT.strip() not in terminal.flat
    assert workspace.find().record(assessing.RECORD) == {}


def test_what_is_left_for_later_is_kept_from_nobody(environment: dict[str, str]) -> None:
    terminal = Terminal(["check", PAYMENT], 40, environment)
    terminal.asked(1)
    terminal.type("y\n")
    terminal.asked(2)
    terminal.type("\x04")  # Ctrl-D
    assert terminal.ended() == 3 and "Left for later" in terminal.flat
    assert workspace.find().record(assessing.RECORD) == {}


def test_ctrl_c_at_the_question_ends_the_command(environment: dict[str, str]) -> None:
    terminal = Terminal(["check", PAYMENT], 80, environment)
    terminal.asked(1)
    terminal.type("\x03")
    assert terminal.ended() == 130 and "Traceback" not in terminal.text
    assert workspace.find().record(assessing.RECORD) == {}


def test_a_judgement_completes_the_lab_and_is_queued_for_the_instructor(
    environment: dict[str, str],
) -> None:
    assert piped("check", "4.1.2", env=environment).returncode == 3
    for check in (PAYMENT, ENQUEUE):
        terminal = Terminal(["check", check], 80, environment)
        answer_all(terminal, "yy")
        assert terminal.ended() == 0
    assert "4.1.2 passed." in terminal.flat
    assert stored().passed and "4.1.2" in workspace.find().record("passed")
    progress = json.loads(piped("progress", "--json", env=environment).stdout)
    assert progress["self_assessed"] == [ENQUEUE, PAYMENT] and progress["passed"] == 1
    assert ENQUEUE in piped("progress", env=environment).stdout
    page = workspace.find().root / "report.html"
    assert piped("report", "--to", str(page), env=environment).returncode == 0
    assert "For the instructor: self-assessed answers" in page.read_text()
    assert "one lookup in the informer" in page.read_text()


def test_the_gate_says_which_answers_are_self_assessed(environment: dict[str, str]) -> None:
    lab = course.load().lab("4.3.4")
    assert lab.gate
    about = Assessment("Why?", "Because it lists.", "0" * 64, (("a", "It lists."),), ("a",), 1.0)
    results = [
        CheckResult(
            check.id, check.title, check.points, check.evidence, Verdict.PASS,
            assessment=about if check.id == "4.3.4/why" else None,
        )
        for check in course.checks(lab)
    ]  # fmt: skip
    store.save(workspace.find().reports, LabReport(lab="4.3.4", checks=results))
    gate = json.loads(piped("gate", "--json", env=environment).stdout)
    named = {one["number"]: one["self_assessed"] for one in gate["conditions"]}
    assert named == {n: ["4.3.4/why"] if n in lab.gate else [] for n in named}
    assert "4.3.4" not in {
        one["lab"] for one in gate["conditions"][lab.gate[0] - 1]["missing"]["written"]
    }
    said = " ".join(piped("gate", env=environment).stdout.split())
    assert "Self-assessed, marked by your instructor: 4.3.4/why" in said


def test_one_that_is_known_is_never_asked_about(environment: dict[str, str]) -> None:
    here = workspace.find()
    lab = course.load().lab("4.1.2")
    shutil.copy(ROOT / "solutions" / "4.1.2" / "common" / "answers.md", here.folder(lab))
    terminal = Terminal(["check", PAYMENT], 80, environment)
    assert terminal.ended() == 0
    file = here.folder(lab) / "answers.md"
    file.write_text(
        "# A\n\n## The line that pays for it\n\nIt asks the API server for the newest Foo.\n"
    )
    terminal = Terminal(["check", PAYMENT], 80, environment)
    assert terminal.ended() == 1 and "no request leaves the process" in terminal.flat


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<!-- TODO -->", "only the placeholder"),
        ("", "only the placeholder"),
        ("Es liest das Foo aus dem lokalen Cache und nicht vom Server.", "another language"),
        ("the worker reads the Foo. " * 400, "at most"),
        ("It reads\x07 the Foo from the cache as it is now.", "U+0007"),
        (
            "A key says nothing about the object. Which line, later, pays for that? And what "
            "does it read, from where?",
            "it repeats the question",
        ),
    ],
    ids=lambda value: value[:12],
)
def test_what_nobody_can_judge_is_one_clear_sentence(
    text: str, wanted: str, environment: dict[str, str]
) -> None:
    file = workspace.find().folder(course.load().lab("4.1.2")) / "answers.md"
    file.write_text(f"# A\n\n## The line that pays for it\n\n{text}\n")
    done = piped("check", PAYMENT, env=environment)
    seen = " ".join(done.stdout.split())
    assert done.returncode == 3 and wanted in seen and "only you" not in seen
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "words",
    [["4.1.2/enqueue-line"], ["4.1.2/nothing"], ["x/y"], ["4.1.2", PAYMENT], [PAYMENT, "--watch"]],
    ids=str,
)
def test_only_written_answers_are_checked_alone(
    words: list[str], environment: dict[str, str]
) -> None:
    done = piped("check", *words, env=environment)
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_the_sentences_come_before_what_runs_and_cost_it_nothing(
    environment: dict[str, str], tmp_path: Path
) -> None:
    here = workspace.find()
    lab = course.load().lab("4.2.1")
    answered = cut.handed_in("4.2.1", "python", tmp_path / "answer", solutions=ROOT / "solutions")
    text = (answered / "answers.md").read_text()
    begin = text.index("With the queued keys alone")
    file = here.folder(lab) / "answers.md"
    file.write_text(text[:begin] + "Each answers a question that the other can't.\n")
    began = time.monotonic()
    terminal = Terminal(["check", "4.2.1"], 80, environment)
    terminal.asked(1)
    assert "4.2.1/dedup" not in terminal.flat and time.monotonic() - began < 60
    terminal.type("y\n")
    terminal.asked(2)
    terminal.type("n\n")
    assert terminal.ended() != 0
    report = store.load(here.reports, "4.2.1")
    assert [check.id for check in report.checks] == [c.id for c in course.checks(lab)]
    assert report.result("4.2.1/two-sets").message.diagnosis == "points-missing"
    # The rest was graded all the same.
    assert report.result("4.2.1/predictions").verdict is Verdict.PASS
