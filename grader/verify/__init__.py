"""The graders, measured like the classifiers that they are: ``phase4 dev verify``."""

from grader.verify.measure import measure
from grader.verify.model import Case, LabResult, Row, VerifyReport
from grader.verify.subject import Subject, VerifyError, find, subjects

__all__ = [
    "Case",
    "LabResult",
    "Row",
    "Subject",
    "VerifyError",
    "VerifyReport",
    "find",
    "measure",
    "subjects",
]
