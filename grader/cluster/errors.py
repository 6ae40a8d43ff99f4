"""What can be wrong with the machine rather than with anybody's work."""

from __future__ import annotations


class EnvironmentProblem(Exception):
    """This machine cannot do what was asked; the message says so.

    ``str()`` of it is one clear sentence (what is wrong), followed where there
    is one by a second (what to do). The command line prints it as it is and ends
    with the exit code for the environment; a grader that meets it is UNKNOWN.
    """


class ClusterLost(EnvironmentProblem):
    """The control plane died, or does not answer, in the middle of what was asked of it."""


class Untrusted(EnvironmentProblem):
    """The API server answers, but its certificate is refused: waiting does not help."""
