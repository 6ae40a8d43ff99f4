"""Wire records and audit log as one typed timeline, with queries over it.

:class:`Timeline` is what graders are written with; :mod:`grader.witness.objects`
has the small questions about objects that go with it.
"""

from grader.wire.records import Exchange, Mark, Record, WatchEnd, WatchEvent
from grader.witness.knowledge import Knowledge, Known
from grader.witness.timeline import NotObserved, Timeline
from grader.witness.trace import Trace
from grader.witness.wording import describe

__all__ = [
    "Exchange",
    "Knowledge",
    "Known",
    "Mark",
    "NotObserved",
    "Record",
    "Timeline",
    "Trace",
    "WatchEnd",
    "WatchEvent",
    "describe",
]
