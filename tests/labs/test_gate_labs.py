"""The labs that run parts of the gate: nothing of a part is left out, no check looks at nothing."""

from __future__ import annotations

import pytest

from grader import course
from grader.conformance.gate import select
from grader.conformance.scenario import scenarios
from grader.labs import lab_4_3_2, lab_4_3_5


@pytest.mark.parametrize(("lab", "grader"), [("4.3.2", lab_4_3_2), ("4.3.5", lab_4_3_5)])
def test_each_check_names_scenarios_that_there_are(lab, grader):
    assert list(grader.SCENARIOS) == [check.id for check in course.checks(course.load().lab(lab))]
    for ids in grader.SCENARIOS.values():
        assert len(select(ids)) == len(ids) > 0


def test_the_functional_part_is_judged_whole():
    judged = {id for ids in lab_4_3_2.SCENARIOS.values() for id in ids}
    assert {one.id for one in scenarios("functional")} <= judged
