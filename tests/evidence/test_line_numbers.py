"""Line numbers in the course's own words: each says of what it is, and is checked."""

from __future__ import annotations

import re

import pytest

from grader.cli import cite
from grader.course import ROOT
from grader.evidence import line_numbers, pinned

from .small import INDEX


def found(tmp_path, text, name="page.md"):
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return line_numbers.found(tmp_path, [file], INDEX)


@pytest.mark.parametrize(
    "text",
    [
        "pkg/queue.go:17 (Queue.Done)",
        "`queue.go:17` (`Done`)",
        "``Done`` (queue.go:17) does it",
        "queue/pkg/queue.go: ``Add`` (5), ``Done`` (line 17: the end).",
        "Upstream: pkg/queue.go,\n``Add``\n(5).",
        "`example.com/queue@v1.2.3/pkg/queue.go:8` `if q.has(item) {`",
        "```sh\ncite queue.go:17\n```\n\n`Done` (queue.go:17)",
    ],
)
def test_forms_in_which_a_number_is_checked(tmp_path, text):
    numbers = found(tmp_path, text)
    assert numbers and not any(number.fault for number in numbers)
    for digits in ("17", "5", "8"):
        wrong = re.sub(rf"(?<=[:(e ]){digits}\b(?!\.)", str(int(digits) + 1), text)
        if wrong != text:
            assert any(number.fault for number in found(tmp_path, wrong)), wrong


@pytest.mark.parametrize(
    "text",
    [
        "See queue.go:17.",
        "In `queue.go`, line 17, it ends.",
        "The lines 17–20 of queue.go.",
        "queue.go:17-20 (Queue.Done)",
        "pkg/queue.go (17)",
        "`pkg/queue.go` (17–20)",
        "`Done` (qeue.go:17)",
        "[it](https://github.com/example/queue/blob/v1/pkg/queue.go#L17)",
    ],
)
def test_a_number_that_nothing_checks_is_a_fault(tmp_path, text):
    assert any(number.fault for number in found(tmp_path, text))


@pytest.mark.parametrize("text", ["`Done` (409) of nothing", "line 12 of your answer", "10 (s)"])
def test_what_is_no_line_of_a_source_is_left_alone(tmp_path, text):
    assert found(tmp_path, text) == []


def test_only_prose_of_programs_is_looked_at(tmp_path):
    text = 'x = "queue.go:99"\n# ``Done`` (queue.go:17)\n'
    assert [number.number for number in found(tmp_path, text, "tests/t.py")] == [17]
    assert [number.number for number in found(tmp_path, text, "grader/g.py")] == [99, 17]
    go = "package a\n\nvar x = `queue.go:99`\n\n// Done, queue.go:17 (Queue.Done).\n"
    assert [number.number for number in found(tmp_path, go, "a.go")] == [17]


def test_a_number_whose_place_is_known_is_mended(tmp_path):
    text = "`Done` (queue.go:18), and queue.go:18 again; `Add` (queue.go:5)"
    corrected = line_numbers.corrected(text, found(tmp_path, text))
    assert corrected == "`Done` (queue.go:17), and queue.go:17 again; `Add` (queue.go:5)"


def test_a_line_of_the_courses_own_is_checked_as_a_learner_has_it(tmp_path):
    own = tmp_path / "solutions" / "artifacts" / "go" / "part" / "own.go"
    own.parent.mkdir(parents=True)
    own.write_text("package part\n\n// phase4:solution 4.3.2\nfunc Work() {\n}\n// phase4:end\n")
    (number,) = found(tmp_path, "`workspace/part/own.go:3` (`Work`)")
    assert not number.fault
    (number,) = found(tmp_path, "`workspace/part/own.go:4` (`Work`)")
    assert number.fault and number.to == 3


@pytest.mark.parametrize(
    "name",
    [
        "solutions/artifacts/python/machinery/reflector.py",
        "grader/hints/4.2.2.after.md",
        "docs/troubleshooting.md",
    ],
    ids=["docstring", "hint", "page"],
)
def test_dev_pins_is_red_once_one_number_is_moved(tmp_path, monkeypatch, cli, name):
    text = (ROOT / name).read_text()
    copy = tmp_path / name
    copy.parent.mkdir(parents=True)
    for top in ("README.md", "CONTRIBUTING.md"):
        (tmp_path / top).touch()
    monkeypatch.setattr(cite, "ROOT", tmp_path)
    copy.write_text(text)
    numbers = line_numbers.found(tmp_path, [copy], pinned.load())
    assert numbers
    assert cli("dev", "pins").exit_code == 0
    for each in numbers:
        end = each.start + len(str(each.number))
        copy.write_text(f"{text[: each.start]}{each.number + 1}{text[end:]}")
        result = cli("dev", "pins")
        assert result.exit_code == 1, each
        assert f"{name}:{each.line}" in result.stdout
