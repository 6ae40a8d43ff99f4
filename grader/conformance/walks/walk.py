"""What a walk is made of: plain data that can be compared, drawn, shrunk and printed."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Op:
    """One operation: ``kind`` is a name in :data:`grader.conformance.walks.hand.KINDS`.

    ``app`` and ``pod`` are numbers, taken modulo what there is when it is carried out;
    what ``value`` means is the kind's own.
    """

    kind: str
    app: int = 0
    pod: int = 0
    value: int = 0


@dataclass(frozen=True)
class Burst:
    """Operations in a row. ``fault`` is a name in :data:`~.wirefaults.FAULTS`, "" for none."""

    ops: tuple[Op, ...]
    fault: str = ""


@dataclass(frozen=True)
class Walk:
    """``replicas`` of each WebApp that is there when the walk begins, and what is done to them."""

    replicas: tuple[int, ...]
    bursts: tuple[Burst, ...]

    def up_to(self, burst: int) -> Walk:
        """The walk that ends with that burst, counted from 0."""
        return replace(self, bursts=self.bursts[: burst + 1])

    @property
    def length(self) -> int:
        """How many operations it has."""
        return sum(len(burst.ops) for burst in self.bursts)


#: What the WebApps of a walk are called, in their order.
NAMES = ("shop", "blog", "wiki", "mail", "chat")
