"""Troubleshooting answers to messages that exist, and knows all that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from docs_hooks import messages

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"


@pytest.fixture(scope="module")
def everything() -> list[messages.Told]:
    return messages.everything()


def said_by_the_code(everything: list[messages.Told]) -> str:
    """Every string in the code, each on a line, with … for what is put in."""
    lines = [(ROOT / "phase4").read_text(encoding="utf-8")]
    for path in (ROOT / "grader").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant | ast.JoinedStr):
                lines.append(messages.flat(node))
    lines += [one.text for one in everything]
    return re.sub(r"[ \t]+", " ", "\n".join(lines))


def test_what_is_explained_is_really_said(everything: list[messages.Told]) -> None:
    code = said_by_the_code(everything)
    gone = []
    for quoted in re.findall(r"^> (.*)$", PAGE.read_text(encoding="utf-8"), re.M):
        pieces = [piece.strip() for piece in quoted.split("…") if len(piece.strip()) > 3]
        if not all(piece in code for piece in pieces):
            gone.append(quoted)
    assert gone == []


def test_each_message_has_an_anchor_of_its_own(everything: list[messages.Told]) -> None:
    listed = messages.listed()
    anchors = re.findall(r'id="([^"]+)"', listed)
    assert len(anchors) == len(set(anchors)) == len(everything)
    assert len(anchors) > 60, "messages are no longer found in the code"


def test_a_message_is_for_a_person(everything: list[messages.Told]) -> None:
    for one in everything:
        assert "Traceback" not in one.text and "None" not in one.text.split(), one
