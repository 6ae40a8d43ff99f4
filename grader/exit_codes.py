"""What ``phase4`` exits with. Documented, and part of the interface: scripts may rely on them."""

from __future__ import annotations

from grader.verdict import Verdict

#: Every check passed, or the command did what it was asked.
OK = 0
#: A check failed: the submission is wrong, and the message shows why.
FAIL = 1
#: The command line was wrong: an unknown command, lab, option or rule.
USAGE = 2
#: Nothing was handed in, this backend cannot show it, or a sentence waits for your judgement.
NOT_GRADED = 3
#: The grader or the cluster failed; says nothing about the submission.
UNKNOWN = 4
#: The command could not run here: no workspace, no cluster, no network, no disk.
ENVIRONMENT = 5
#: Ended by Ctrl-C, as shells have it (128 + SIGINT).
INTERRUPTED = 130

_OF_VERDICT = {
    Verdict.PASS: OK,
    Verdict.FAIL: FAIL,
    Verdict.NOT_GRADED: NOT_GRADED,
    Verdict.UNKNOWN: UNKNOWN,
}


def of(verdict: Verdict) -> int:
    """The exit code that says this verdict."""
    return _OF_VERDICT[verdict]
