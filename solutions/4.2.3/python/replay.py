"""Answers the grader's traces with the two queues. Nothing to write here.

By hand, one trace a line:

    echo '{"structure": "delta_fifo", "known_objects": true, "ops":
           [["add", {"metadata": {"name": "a"}}], ["pop"]]}' | tr -d '\n' | python3 replay.py
"""

from machinery.delta_fifo import DeltaFIFO
from machinery.real_fifo import RealFIFO
from machinery.replay.deltas import replay_deltas
from machinery.replay.loop import Trace, serve
from machinery.store import Store


def delta_fifo(trace: Trace):
    known = Store()
    return replay_deltas(trace, DeltaFIFO(known if trace.get("known_objects") else None), known)


def real_fifo(trace: Trace):
    known = Store()
    return replay_deltas(trace, RealFIFO(None if trace.get("atomic") else known), known)


if __name__ == "__main__":
    serve({"delta_fifo": delta_fifo, "real_fifo": real_fifo})
