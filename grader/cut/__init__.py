"""Makes ``exercises/`` from ``solutions/``: a learner's starting files are cut out of the answers."""

from grader.cut.regions import CutError, Side, render
from grader.cut.tree import (
    ARTIFACTS,
    Difference,
    artifacts,
    differences,
    handed_in,
    labs,
    lay_artifacts,
    place,
    planned,
    starter,
    tracks,
    variants,
    write,
)

__all__ = [
    "ARTIFACTS",
    "CutError",
    "Difference",
    "Side",
    "artifacts",
    "differences",
    "handed_in",
    "labs",
    "lay_artifacts",
    "place",
    "planned",
    "render",
    "starter",
    "tracks",
    "variants",
    "write",
]
