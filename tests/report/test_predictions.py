"""A prediction is held against the truth, within what its lab's page states."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from grader.labs import (
    lab_4_2_1,
    lab_4_2_2,
    lab_4_2_3,
    lab_4_2_4,
    lab_4_2_6,
    lab_4_3_4,
)
from grader.report.predictions import compared, said

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs"


@pytest.mark.parametrize(
    ("predicted", "right", "how", "agrees"),
    [
        (0.08, 0.08, {"within": 0.1, "share": True}, True),
        (0.088, 0.08, {"within": 0.1, "share": True}, True),
        (0.0881, 0.08, {"within": 0.1, "share": True}, False),
        (0.1, 0.08, {"within": 0.1, "share": True}, False),
        (5.0, 7, {"within": 2}, True),
        (4.0, 7, {"within": 2}, False),
        (1.0, 1, {}, True),
        (2.0, 1, {}, False),
        ("true", "true", {}, True),
        ("false", "true", {}, False),
        (0.0, 0, {"within": 0.1, "share": True}, True),
        ("index.go", "store.go", {"agrees": True}, True),
    ],
)
def test_agreement(predicted, right, how, agrees):
    assert compared(predicted, right, **how)["agrees"] is agrees


def test_what_was_measured_decides_nothing():
    assert compared(0.08, 0.08, measured=0.082)["agrees"] is True
    assert compared(0.08, 0.08, measured=30.0)["agrees"] is True
    assert compared(30.0, 0.08, measured=30.0)["agrees"] is False


def test_words():
    within = {"within": 0.1, "share": True}
    assert said(compared(0.08, 0.08, measured=0.082, **within)) == (
        "predicted 0.08: right within 10%; measured 0.082"
    )
    assert said(compared(1.0, 3, measured=0)) == "predicted 1.0: it is 3; measured 0"
    assert said(compared("update", "update")) == "predicted update: right"
    # Of a report that was written before predictions had a truth beside them.
    assert said({"predicted": 1, "measured": 2}) == "predicted 1, measured 2"


def test_no_grader_holds_a_prediction_against_a_measurement_by_itself():
    """All go through ``compared``; the one that has no truth to show says so with two keys."""
    by_hand = []
    for path in sorted((ROOT / "grader" / "labs").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            keys = [k.value for k in getattr(node, "keys", ()) if isinstance(k, ast.Constant)]
            if "predicted" in keys:
                by_hand.append(path.name)
    assert by_hand == ["lab_4_3_4.py"]


class _Seen:
    """What a check observes."""

    def __init__(self) -> None:
        self.values: dict[str, dict] = {}

    def __call__(self, name, value):
        self.values[name] = value

    def agrees(self) -> set[bool]:
        return {v["agrees"] for v in self.values.values() if "agrees" in v}


class _Answers:
    """``answers.md`` whose every prediction is right."""

    def __init__(self, right) -> None:
        self.right = right

    def require_prediction(self, name, **_how):
        value = self.right[name]

        class Entry:
            def __init__(self) -> None:
                self.value = value

            def number(self) -> float:
                return float(value)

        return Entry()


def test_a_broken_program_makes_no_right_prediction_wrong():
    seen = _Seen()
    nothing = {name: [] for name in lab_4_2_1.MEASURED}
    lab_4_2_1.check_predictions(_Answers(lab_4_2_1.PREDICTIONS), nothing, seen)
    assert len(seen.values) == 5 and seen.agrees() == {True}

    seen = _Seen()
    slow = lab_4_2_2.Measured([9.0] * 7, [9.0] * 3, [9.0] * 2, [])
    lab_4_2_2.check_predictions(lab_4_2_2.PREDICTIONS, slow, seen)
    assert len(seen.values) == 4 and seen.agrees() == {True}
    assert seen.values["gap 4"]["measured"] == 9.0

    seen = _Seen()
    empty = dict.fromkeys(("one key", "real", "waiting", "waiting, real"), [])
    lab_4_2_3.check_predictions(_Answers(lab_4_2_3.PREDICTIONS), empty, seen)
    assert len(seen.values) == 4 and seen.agrees() == {True}

    seen = _Seen()

    class Relisted:
        behind = 0
        frozen = relisted = ()

    predicted = {
        "behind": float(lab_4_2_6.WRITES),
        "HasSynced while frozen": "true",
        "HasSynced after a 410 and a relist": "true",
    }
    lab_4_2_6.check_predictions(predicted, Relisted, seen)
    assert len(seen.values) == 3 and seen.agrees() == {True}


def test_a_gap_of_82_milliseconds_is_one_of_80():
    seen = _Seen()
    right = list(lab_4_2_2.PREDICTIONS.values())
    gaps = lab_4_2_2.Measured([0.082, 0, 0, right[1], 0, 0, right[2]], [], [0.081], [])
    lab_4_2_2.check_predictions(lab_4_2_2.PREDICTIONS, gaps, seen)
    assert seen.agrees() == {True}


def test_4_2_4_compares_with_what_client_go_tells(monkeypatch):
    told = {"seen": "delete", "hidden": "tombstone", "replaced": "update"}
    monkeypatch.setattr(lab_4_2_4.written, "parse", lambda text: _Answers(told))

    class Submission:
        def text(self, name):
            return ""

    seen = _Seen()
    lab_4_2_4.check_predictions(Submission(), seen)
    assert len(seen.values) == 3 and seen.agrees() == {True}


@pytest.mark.parametrize(
    ("mode", "predicted", "lost", "agrees"),
    [
        ("level", 0, {"level": 3, "edge": 7}, True),
        ("level", 3, {"level": 3, "edge": 7}, False),
        ("edge", 5, {"level": 0, "edge": 7}, True),
        ("edge", 4, {"level": 0, "edge": 7}, False),
        ("edge", 9, {"edge": 7}, True),
        # Nothing is known of an operator that is broken.
        ("edge", 7, {"level": 3, "edge": 7}, None),
        ("edge", 7, {"level": 0, "edge": 0}, None),
    ],
)
def test_kill_points(mode, predicted, lost, agrees):
    assert lab_4_3_4.compared_lost(mode, predicted, lost, lost.get(mode, 0)).get("agrees") is agrees


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("4.1/4.1.5.md", "A prediction is right if it says"),
        ("4.2/4.2.1.md", "only the exact number is right"),
        ("4.2/4.2.2.md", "right within a tenth"),
        ("4.2/4.2.3.md", "only the exact number is right"),
        ("4.2/4.2.4.md", "only the exact word is right"),
        ("4.2/4.2.6.md", "only the exact number or word is right"),
        ("4.2/4.2.7.md", "the right number is that of the children"),
        ("4.3/4.3.4.md", "right within two"),
    ],
)
def test_each_page_states_its_tolerance(page, words):
    assert words in (PAGES / page).read_text(encoding="utf-8")
    assert (lab_4_2_2.WITHIN, lab_4_3_4.EDGE_WITHIN) == (0.1, 2)
