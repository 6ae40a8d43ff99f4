"""Troubleshooting answers to messages that exist, and knows all that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from docs_hooks import messages

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"


def said_by_the_code() -> str:
    """Every string in the code, each on a line, with … for what is put in."""
    lines = [(ROOT / "phase4").read_text(encoding="utf-8")]
    for path in (ROOT / "grader").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant | ast.JoinedStr):
                lines.append(messages.flat(node))
    lines += [one.text for one in messages.everything()]
    return re.sub(r"[ \t]+", " ", "\n".join(lines))


def test_what_is_explained_is_really_said() -> None:
    code = said_by_the_code()
    gone = []
    for quoted in re.findall(r"^> (.*)$", PAGE.read_text(encoding="utf-8"), re.M):
        pieces = [piece.strip() for piece in quoted.split("…") if len(piece.strip()) > 3]
        if not all(piece in code for piece in pieces):
            gone.append(quoted)
    assert gone == []


def test_each_message_has_an_anchor_of_its_own() -> None:
    listed = messages.listed()
    anchors = re.findall(r'id="([^"]+)"', listed)
    assert len(anchors) == len(set(anchors)) == len(messages.everything())
    assert len(anchors) > 60, "messages are no longer found in the code"


def test_a_message_is_for_a_person() -> None:
    for one in messages.everything():
        assert "Traceback" not in one.text and "None" not in one.text.split(), one
