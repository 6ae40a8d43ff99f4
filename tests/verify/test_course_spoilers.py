"""No starter of the course has the answer of a lab that is still to come."""

from __future__ import annotations

from grader import course
from grader.course import ROOT
from grader.verify import spoilers

#: A starter and the lab whose answer it shares lines with, and why that gives nothing away.
GIVEN_ANYWAY = {
    ("artifacts/common/foo_controller/controller.py", "4.2.2"): "what becomes of a key is read in "
    "sample-controller, in 4.1; 4.2.2 asks what the limiter does with it",
    ("artifacts/python/machinery/real_fifo.py", "4.2.3"): "how any queue waits on a condition",
    ("artifacts/python/operator_handwired/webapp_operator/pods.py", "4.3.2"): "how a failure of "
    "one Pod is noted, the same in the parts that are given",
}


def test_no_starter_gives_a_later_answer_away() -> None:
    order = [lab.id for lab in course.load().labs]
    root = ROOT.resolve()
    found = spoilers.spoilers(
        spoilers.starters_of(root / "exercises", order),
        spoilers.answers_of([root / "solutions"], root, order),
        order,
    )
    seen = {(one.path.as_posix(), lab) for one in found for lab in one.answer.labs}
    assert [str(one) for one in found if _pair(one) not in GIVEN_ANYWAY] == []
    assert seen == set(GIVEN_ANYWAY), "an exception that is no more"


def _pair(one: spoilers.Spoiler) -> tuple[str, str]:
    return one.path.as_posix(), one.answer.labs[0]
