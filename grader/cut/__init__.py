"""``exercises/`` out of ``solutions/``: what a learner starts from is cut out of the answer."""

from grader.cut.regions import CutError, Side, render
from grader.cut.tree import (
    Difference,
    differences,
    handed_in,
    labs,
    planned,
    starter,
    tracks,
    variants,
    write,
)

__all__ = [
    "CutError",
    "Difference",
    "Side",
    "differences",
    "handed_in",
    "labs",
    "planned",
    "render",
    "starter",
    "tracks",
    "variants",
    "write",
]
