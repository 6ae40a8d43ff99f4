"""Which line puts a key back is seen from the operator without it, whatever it is called."""

from __future__ import annotations

import shutil

import pytest

from grader import course, cut
from grader.labs.grading import grade
from grader.labs.grading_request import Request
from grader.verdict import Verdict

pytestmark = [pytest.mark.live, pytest.mark.slow]

PYTHON, GO = (
    "operator_handwired/webapp_operator/controller.py",
    "operator_handwired/controller.go",
)
#: The same operators with a helper that has a name of somebody's own.
HELPER = {
    PYTHON: [
        ("self.queue.add_rate_limited(key)\n", "self.retry(key)\n"),
        (
            "    def _process(self",
            "    def retry(self, key: str) -> None:\n"
            "        self.queue.add_rate_limited(key)\n\n    def _process(self",
        ),
    ],
    GO: [
        ("\t\tc.queue.AddRateLimited(key)\n", "\t\tagain := c.later(key)\n\t\t_ = again\n"),
        (
            "// processNext takes",
            "func (c *Controller) later(key cache.ObjectName) bool {\n"
            "\tc.queue.AddRateLimited(key)\n\treturn true\n}\n\n// processNext takes",
        ),
    ],
}
RETURNED = [
    (
        "            self.queue.add_rate_limited(key)\n            _report(key, error)\n",
        "            _report(key, error)\n            return self.retry(key)\n",
    ),
    HELPER[PYTHON][1],
]
#: A failure that is given, and not raised: dropped, it is no longer known to anybody.
GIVEN = [
    ("            self._reconciler.reconcile(key)\n", "            self.checked(key)\n"),
    (
        "    def _process(self",
        "    def checked(self, key: str) -> None:\n"
        "        try:\n            self._reconciler.reconcile(key)\n"
        "        except Exception as error:\n            self.passed_on(error)\n\n"
        "    def passed_on(self, error: Exception) -> None:\n        raise error\n\n"
        "    def _process(self",
    ),
]


def graded(tmp_path, file, quote, changes=(), only="4.3.4/requeue-line"):
    """What the check says of that line as the requeue line of the reference, changed so."""
    track = "python" if file.endswith(".py") else "go"
    if track == "go" and shutil.which("go") is None:
        pytest.skip("there is no Go on this machine")
    folder = cut.handed_in("4.3.4", track, tmp_path / "workspace")
    source = folder.parent / file
    text = source.read_text()
    for find, replace in changes:
        assert text.count(find) == 1, find
        text = text.replace(find, replace)
    source.write_text(text)
    lines = [line.strip() for line in text.split("\n")]
    assert lines.count(quote) == 1, quote
    answers = folder / "answers.md"
    written = answers.read_text().split("## The line that puts the key back")
    cited = f"`{file}:{lines.index(quote) + 1}` `{quote}`"
    after = written[1].partition("\n## ")[2]
    answers.write_text(f"{written[0]}## The line that puts the key back\n\n{cited}\n\n## {after}")
    lab = course.load().lab("4.3.4")
    report = grade(Request.of(lab, folder, tmp_path / "run", track=track, only=(only,)))
    return report.result(only)


@pytest.mark.parametrize(
    ("file", "quote", "changes"),
    [
        (PYTHON, "self.retry(key)", HELPER[PYTHON]),
        (PYTHON, "return self.retry(key)", RETURNED),
        (GO, "again := c.later(key)", HELPER[GO]),
    ],
    # The references' own lines are in what `phase4 dev verify 4.3.4` judges.
    ids=["python-helper", "python-returned", "go-helper"],
)
def test_the_line_without_which_a_failure_is_final_is_right(tmp_path, file, quote, changes):
    result = graded(tmp_path, file, quote, changes)
    assert result.verdict is Verdict.PASS, result.message


@pytest.mark.parametrize(
    ("file", "quote", "changes", "seen"),
    [
        (PYTHON, "self._reconciler.reconcile(key)", (), "does not even try"),
        (PYTHON, "self.queue.forget(key)", (), "all the same"),
        (PYTHON, "self.queue.done(key)", (), "never worked on again"),
        (GO, "c.queue.Add(key)", (), "does not even try"),
        (GO, "defer c.queue.Done(key)", (), "never worked on again"),
    ],
)
def test_a_line_that_does_something_else_is_refused_and_named(tmp_path, file, quote, changes, seen):
    result = graded(tmp_path, file, quote, changes)
    assert result.verdict is Verdict.FAIL, result.message
    assert result.message.diagnosis == "not-the-requeue-line"
    assert seen in result.message.seen, result.message.seen


def test_a_line_that_only_passes_the_failure_on_is_refused(tmp_path):
    result = graded(tmp_path, PYTHON, "self.passed_on(error)", GIVEN)
    assert result.verdict is Verdict.FAIL, result.message
    assert result.message.diagnosis == "only-reports-the-failure"


def test_an_operator_that_never_retries_is_no_ground_for_a_verdict(tmp_path):
    changes = [("            self.queue.add_rate_limited(key)\n", "            pass\n")]
    result = graded(tmp_path, PYTHON, "self.queue.forget(key)", changes)
    assert result.verdict is Verdict.UNKNOWN, result.message
