"""A small repository with one lab, to be put right or wrong by a test."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

GRADER = '''
"""A lab about a colour and a number."""

from grader.labs import check
from grader.verdict import Fail, NotGraded


def lines(submission):
    text = submission.text("answers.md")
    if "TODO" in text:
        raise NotGraded("An answer.", "It is still the starter's.")
    return dict(line.split(": ") for line in text.splitlines() if ": " in line)


@check("9.9.9/colour", title="The colour is right", points=2, evidence="claim")
def check_colour(submission):
    seen = lines(submission).get("colour", "")
    if seen != "blue":
        raise Fail("It is blue.", f"It is {seen}.", diagnosis=f"colour-{seen or 'missing'}")


@check("9.9.9/number", title="The number is right", points=1, evidence="claim")
def check_number(submission):
    seen = lines(submission).get("number", "")
    if int(seen) != 7:
        raise Fail("It is 7.", f"It is {seen}.", diagnosis="wrong-number")
'''

ANSWER = """\
# Answers

<!-- phase4:solution -->
colour: blue
number: 7
<!-- phase4:stub -->
<!-- colour: TODO -->
<!-- phase4:end -->
"""

MISTAKE = """\
title = "{title}"
fails = "{fails}"
diagnosis = "{diagnosis}"

[[change]]
file = "answers.md"
find = "{find}"
replace = "{replace}"
"""


class Repository:
    """Writes the files of lab 9.9.9 into a root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("grader/labs/lab_9_9_9.py", GRADER)
        self.write("solutions/9.9.9/common/answers.md", ANSWER)
        self.write("solutions/9.9.9/variants/spaced/answers.md", "number: 7\n\ncolour: blue\n")
        self.write("grader/hints/9.9.9.md", "## 1\na\n## 2\nb\n## 3\nc\n")
        self.write(
            "grader/course.toml",
            """
            [[module]]
            id = "9.9"
            title = "Nine"
            [[lab]]
            id = "9.9.9"
            slug = "nines"
            title = "Nines"
            module = "9.9"
            built = true
            """,
        )
        self.write("docs/9.9/9.9.9.md", "# Nines\n")
        self.mistake("red", "9.9.9/colour", "colour-red", "colour: blue", "colour: red")
        self.mistake("green", "9.9.9/colour", "colour-green", "colour: blue", "colour: green")
        self.mistake("eight", "9.9.9/number", "wrong-number", "number: 7", "number: 8")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))

    def mistake(self, name: str, fails: str, diagnosis: str, find: str, replace: str) -> None:
        text = MISTAKE.format(
            title=name, fails=fails, diagnosis=diagnosis, find=find, replace=replace
        )
        self.write(f"grader/mistakes/9.9.9/{name}.toml", text)

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.read(name)
        assert old in text
        self.write(name, text.replace(old, new))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setenv("PHASE4_HOME", str(tmp_path / "home"))
    return Repository(tmp_path / "repository")
