"""Every command in every locale: what a terminal cannot show is shown as the nearest it can."""

from __future__ import annotations

import locale
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader import workspace
from grader.cli import encoding
from grader.course import ROOT

PHASE4 = [sys.executable, "-I", "-X", "utf8", str(ROOT / "grader")]


@pytest.fixture
def environment(workspace_dir: Path) -> dict[str, str]:
    workspace.init(workspace_dir, "python")
    return {name: value for name, value in os.environ.items() if not name.startswith("LC_")}


@pytest.mark.parametrize(
    "changes",
    [{"LC_ALL": "POSIX"}, {"PYTHONIOENCODING": "latin-1"}, {"PYTHONIOENCODING": "ascii"}],
)
@pytest.mark.parametrize("isolated", [True, False])
def test_every_command_that_shows_something_does_so_in_every_locale(
    isolated: bool, changes: dict[str, str], environment: dict[str, str]
) -> None:
    command = PHASE4 if isolated else [sys.executable, str(ROOT / "grader")]
    codes = {"gate": 1, "nonsense": 2}
    for words in ("list", "progress", "gate", "show 4.1.1", "nonsense"):
        done = subprocess.run(
            [*command, *words.split()], env={**environment, **changes}, capture_output=True
        )
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        assert done.returncode == codes.get(words, 0), said
        assert "fault of the course" not in said and "UnicodeEncodeError" not in said


@pytest.mark.parametrize(
    ("named", "used"),
    [
        ("ANSI_X3.4-1968", "utf-8"),
        ("US-ASCII", "utf-8"),
        ("ISO-8859-1", "iso8859-1"),
        ("made-up", "utf-8"),
    ],
)
def test_a_locales_encoding_is_kept_where_it_names_one(
    named: str, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locale, "getencoding", lambda: named)
    monkeypatch.setattr(encoding, "sys", SimpleNamespace(flags=SimpleNamespace(utf8_mode=1)))
    assert encoding.of(SimpleNamespace(encoding="utf-8")) == used


def test_what_an_encoding_lacks_becomes_the_nearest_that_it_has() -> None:
    encoding.fit_streams()
    text = "a — b… «é» ✓ ✗ → ü ﬁ \u4e2d"
    assert text.encode("latin-1", "phase4.nearest") == "a - b... «é» + x -> ü fi ?".encode(
        "latin-1"
    )
    assert text.encode("ascii", "phase4.nearest") == b'a - b... "e" + x -> u fi ?'
