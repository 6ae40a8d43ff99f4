"""The graders, a file per lab: ``lab_4_1_2.py`` grades lab 4.1.2."""

from grader.labs.marker import check

__all__ = ["check"]
