"""Answers the grader's traces with your work queue. Nothing to write here.

By hand, one trace a line:

    echo '{"structure": "workqueue", "ops": [["add", "a"], ["get"]]}' | python3 replay.py
"""

from machinery.replay.loop import serve
from machinery.replay.queue import replay_queue
from machinery.workqueue import WorkQueue

if __name__ == "__main__":
    serve({"workqueue": lambda trace: replay_queue(trace, WorkQueue())})
