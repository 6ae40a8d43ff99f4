"""What a person reads: order, words beside colours, nothing cut off, nothing said twice."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from grader import course, mistakes
from grader.evidence import answers
from grader.labs import lab_4_1_2
from grader.report.model import CheckResult, LabReport
from grader.report.terminal import EVIDENCE_LINES, lab_report, mark
from grader.verdict import Fail, Message, Verdict


def shown(report: LabReport, width: int = 100) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False, emoji=False).print(
        lab_report(report, "A lab")
    )
    return out.getvalue()


def failed(name: str, told: Message, verdict: Verdict = Verdict.FAIL) -> CheckResult:
    return CheckResult(f"4.1.2/{name}", f"Check {name}", 1, "live", verdict, told)


def test_expected_seen_why_next_in_this_order() -> None:
    told = Message("EXPECTED.", "SEEN.", "WHY.", "NEXT.", evidence=("PUT /foos/a 409",))
    text = shown(LabReport("4.1.2", checks=[failed("a", told)]))
    places = [text.index(word) for word in ("EXPECTED.", "SEEN.", "PUT /foos/a", "WHY.", "NEXT.")]
    assert places == sorted(places)
    assert "FAIL" in text and "0 of 1 points" in text


def test_what_several_checks_say_alike_is_said_once() -> None:
    told = Message("A cluster.", "It died.")
    text = shown(
        LabReport("4.1.2", checks=[failed(name, told, Verdict.UNKNOWN) for name in ("a", "b", "c")])
    )
    assert text.count("It died.") == 1
    assert "4.1.2/a, 4.1.2/b, 4.1.2/c" in text
    assert "not your work" in text


def test_what_looks_like_markup_is_shown_as_it_is() -> None:
    told = Message("[red]x[/red] :smile:", "[/] [bold]", evidence=("[link=x]y",))
    text = shown(LabReport("4.1.2", checks=[failed("a", told)]))
    assert "[red]x[/red] :smile:" in text and "[/] [bold]" in text and "[link=x]y" in text


def test_long_lines_wrap_and_long_evidence_says_what_is_left_out() -> None:
    told = Message("word " * 80, "x" * 500, evidence=tuple(f"line {n}" for n in range(100)))
    text = shown(LabReport("4.1.2", checks=[failed("a", told)]), width=60)
    assert text.count("word") == 80 and text.count("x") >= 500
    assert all(len(line) <= 60 for line in text.splitlines())
    assert f"and {100 - EVIDENCE_LINES} more lines" in text


def test_marks_have_a_plain_form() -> None:
    assert mark("PASS", "utf-8") == "✓" and mark("PASS", "ascii") == "+"
    assert mark("FAIL", "latin-1") == "x"


def test_the_verdict_in_the_readme_is_what_that_mistake_gets() -> None:
    root = Path(__file__).parents[2]
    readme = (root / "README.md").read_text(encoding="utf-8")
    sample = readme.split("what to look at next:\n\n```\n")[1].split("```")[0]
    mistake = next(m for m in mistakes.load("4.1.2") if m.name == "call-of-enqueue")
    # The lines that are given in answers.md stand as they are; those between markers go.
    (change,) = mistake.changes
    text = (root / "solutions/4.1.2/common/answers.md").read_text(encoding="utf-8")
    text = text.replace(change.find, change.replace).replace("<!-- phase4:solution -->\n", "")
    declared = next(c for c in course.checks("4.1.2") if c.id == "4.1.2/enqueue-line")
    with pytest.raises(Fail) as failed_:
        lab_4_1_2.check_enqueue_line(answers.parse(text))
    result = CheckResult(
        declared.id, declared.title, 2, "claim", Verdict.FAIL, failed_.value.message
    )
    assert " ".join(sample.split()) in " ".join(shown(LabReport("4.1.2", checks=[result])).split())
