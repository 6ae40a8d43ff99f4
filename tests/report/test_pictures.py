"""Pictures are well-formed SVG with words for screen readers, whatever numbers they get."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.report.pictures import WIDTH, Lane, Moment, Series, Span, axis_ticks, chart, lanes

SVG = "{http://www.w3.org/2000/svg}"
numbers = st.floats(-1e9, 1e9, allow_nan=False)
points = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12)


def read(picture):
    root = ET.fromstring(picture["svg"])
    assert root.find(f"{SVG}title").text and root.find(f"{SVG}desc").text
    assert root.get("role") == "img" and picture["alt"]
    return root


@settings(max_examples=60, deadline=None)
@given(points, points, st.sampled_from(["line", "steps", "points"]))
def test_any_points_stay_inside_the_picture(one, two, form):
    root = read(chart("T", "D", [Series("a", one, form), Series("b", two, "points")], x="n", y="s"))
    for mark in root.iter(f"{SVG}circle"):
        assert 0 <= float(mark.get("cx")) <= WIDTH
        assert 0 <= float(mark.get("cy")) <= float(root.get("height"))


@settings(max_examples=60, deadline=None)
@given(numbers, numbers)
def test_ticks_enclose_what_is_drawn(a, b):
    low, high = sorted((a, b))
    ticks = axis_ticks(low, high)
    slack = 1e-6 * max(1.0, abs(low), abs(high))
    assert ticks[0] <= low + slack and ticks[-1] >= high - slack and 2 <= len(ticks) <= 12


def test_words_are_escaped():
    picture = chart('<b> & "q"', "a < b", [Series("<script>", [(1, 1)])], x="&", y="<")
    root = read(picture)
    assert root.find(f"{SVG}title").text == '<b> & "q"' and "<script>" not in picture["svg"]


def test_a_logarithmic_axis_leaves_out_what_it_cannot_show():
    gaps = [(n, 0.005 * 2**n) for n in range(12)] + [(12, 0.0), (13, math.inf), (14, math.nan)]
    root = read(chart("Gaps", "D", [Series("gaps", gaps, "points")], x="retry", y="s", log=True))
    assert len(list(root.iter(f"{SVG}circle"))) == 12 + 2  # and two in the key


def test_nothing_to_draw_is_an_error():
    with pytest.raises(ValueError, match="no points"):
        chart("T", "D", [Series("a", [(1, math.nan)])], x="n", y="s")
    with pytest.raises(ValueError, match="nothing"):
        lanes("T", "D", [Lane("a")])


def test_lanes():
    rows = [
        Lane(
            "leader",
            [Span(0, 12, "holds the lease", "A"), Span(15, 20, "cut off")],
            [Moment(12, "SIGKILL")],
        ),
        Lane("follower", [Span(14.2, 30, "holds the lease", "B")], [Moment(29.9, "end")]),
    ]
    root = read(lanes("Failover", "B takes over 2.2 s after A dies.", rows))
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert {"leader", "follower", "SIGKILL", "holds the lease", "cut off", "A", "B"} <= set(texts)
    assert len(list(root.iter(f"{SVG}rect"))) == 3 + 2
