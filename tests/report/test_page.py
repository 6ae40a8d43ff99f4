"""The report to send: whole, in one file, and safe to open whatever a learner handed in."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from grader import course
from grader.report import page, store
from grader.report.model import CheckResult, LabReport, Observation
from grader.report.progress import progress
from grader.verdict import Message, Verdict

NASTY = '<script>alert(1)</script> "quoted" & `code`'


@pytest.fixture
def made(tmp_path: Path) -> str:
    first, *others = course.checks("4.1.2")
    told = Message(NASTY, f"Seen in {Path.home()}/secret.", "Why.", "Next.", "named", (NASTY,))
    results = [
        CheckResult(first.id, first.title, first.points, first.evidence, Verdict.FAIL, told),
        *(CheckResult(c.id, c.title, c.points, c.evidence, Verdict.PASS) for c in others),
    ]
    seen = [
        Observation(first.id, "gaps", {"predicted": NASTY, "measured": 4}),
        Observation(first.id, "drawn", {"svg": "<svg onload=alert(1)></svg>", "alt": NASTY}),
        Observation(first.id, "said", NASTY),
        Observation(first.id, "counted", {NASTY: [1, 2]}),
    ]
    report = LabReport(
        lab="4.1.2", seed=7, versions={"etcd": "3.7"}, checks=results, observations=seen
    )
    store.save(tmp_path, report)
    return page.whole(progress(tmp_path))


def test_everything_that_a_learner_wrote_is_text(made: str) -> None:
    assert "<script" not in made and "onload=alert" not in made
    assert made.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4
    assert "<code>code</code>" in made
    assert "&lt;/script&gt; &quot;quoted&quot; &amp; `code`: 1, 2</li>" in made


def test_it_loads_nothing_and_names_no_home(made: str) -> None:
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", made)
    assert "default-src 'none'" in made
    assert str(Path.home()) + "/" not in made and "~/secret" in made


def test_it_has_verdicts_messages_gate_and_what_it_was_made_with(made: str) -> None:
    for word in ("✗ FAIL", "✓ PASS", "expected", "seen", "why", "next", "named", "seed 7",
                 "etcd 3.7", "1. The kill loses nothing: not met yet", "0 of 34 labs passed"):  # fmt: skip
        assert word in made, word


def test_it_is_well_formed(made: str) -> None:
    open_tags: list[str] = []

    class Check(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "img", "br", "link"):
                open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    Check().feed(made)
    assert open_tags == []


def test_only_what_was_asked_for_is_shown_whole(tmp_path: Path) -> None:
    store.save(tmp_path, LabReport(lab="4.1.2"))
    assert "<h2>4.1.2" not in page.whole(progress(tmp_path), {"4.1.1"})
    assert "<h2>4.1.2" in page.whole(progress(tmp_path), {"4.1.2"})
