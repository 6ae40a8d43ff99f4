"""The scenarios, a file for each part of the conformance suite."""

from __future__ import annotations

# Importing them registers their scenarios.
from grader.conformance.parts import (  # noqa: F401
    faults,
    functional,
    held,
    killpoints,
    lifecycle,
    neighbours,
    quiet,
    replicas,
    retries,
    walks,
)
from grader.conformance.scenario import Scenario, registered


def scenarios(part: str | None = None) -> list[Scenario]:
    """All scenarios, or those of a part, in the order in which they are written."""
    return registered(part)
