"""``exercises/`` out of ``solutions/``: what a learner starts from is cut out of the answer."""

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
