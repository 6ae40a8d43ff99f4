"""The manifest's loader, and checks read from a grader's source without importing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import course
from grader.course import CourseError, NoSuchName

GRADER = '''
"""A grader."""
import nothing_that_exists
from grader.labs import check

@check("9.1/one", title="One (of two)", points=2, evidence="live")
def check_one(submission): ...

@check(
    "9.1/two",
    title="Two, "
    "over lines",
    points=3,
    evidence="claim",
)
# a comment
async def check_two(): ...
'''


def test_checks_are_read_from_the_source(tmp_path: Path) -> None:
    path = tmp_path / "lab_9_1.py"
    path.write_text(GRADER)
    one, two = course.checks_in(path)
    assert (one.id, one.title, one.points, one.evidence, one.function) == (
        "9.1/one",
        "One (of two)",
        2,
        "live",
        "check_one",
    )
    assert (two.title, two.function) == ("Two, over lines", "check_two")


@pytest.mark.parametrize(
    "call",
    ['check(NAME, title="x", points=1, evidence="live")', 'check("9.1/x", title="x", points=1)'],
)
def test_a_check_that_is_not_literal_is_refused(tmp_path: Path, call: str) -> None:
    path = tmp_path / "lab_9_2.py"
    path.write_text(f"@{call}\ndef check_x(): ...\n")
    with pytest.raises(CourseError, match=r"lab_9_2\.py:1"):
        course.checks_in(path)


def test_an_id_used_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lab_9_3.py"
    path.write_text(GRADER.replace("9.1/two", "9.1/one"))
    with pytest.raises(CourseError, match="twice"):
        course.checks_in(path)


def test_labs_by_id_slug_and_module() -> None:
    loaded = course.load()
    lab = loaded.lab("4.1.2")
    assert loaded.lab(lab.slug) is lab
    assert [one.id for one in loaded.select(["4.1.3", "4.1"])] == [
        one.id for one in loaded.labs_of("4.1")
    ]
    with pytest.raises(NoSuchName, match="phase4 list"):
        loaded.lab("zzzz")


def test_the_whole_course_is_there() -> None:
    loaded = course.load()
    assert len(loaded.labs) == 34
    assert [condition.number for condition in loaded.gate] == [1, 2, 3]
    for lab in loaded.labs:
        if lab.built:
            assert course.points(lab) >= 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x =", "cannot read"),
        ('[[lab]]\nid = "1"\n', "lacks 'slug'"),
        ('[[lab]]\nid="1"\nslug="a"\ntitle="A"\nmodule="7"\n', "module 7, which is not there"),
    ],
)
def test_a_wrong_manifest_says_where(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "course.toml"
    path.write_text(text)
    with pytest.raises(CourseError, match=said):
        course.load(path)
