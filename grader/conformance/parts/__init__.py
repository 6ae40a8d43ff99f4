"""The scenarios, a file per part of the gate. Importing this registers all of them."""

from grader.conformance.parts import (  # noqa: F401
    faults,
    functional,
    killpoints,
    lifecycle,
    quiet,
    replicas,
)
