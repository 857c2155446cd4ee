"""How much each update counts."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from entrofed.core.parts.part import Part
from entrofed.core.types import Context, Update, Weighing


@runtime_checkable
class Weigher(Part, Protocol):
    """Says how much each update counts. Sees the whole cohort at once."""

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """A weight for each update."""
        ...
