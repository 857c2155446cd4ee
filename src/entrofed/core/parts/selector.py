"""Who takes part in a round."""

from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.parts.part import Part
from entrofed.core.types import ClientTable, PartState, Selection, Update


@runtime_checkable
class Selector(Part, Protocol):
    """Chooses the cohort of a round."""

    sampling: ClassVar[Literal["poisson", "fixed"] | None] = None
    """How a cohort is drawn, if chance alone decides: everybody by a coin of its own, or so many without replacement.
    Only then does sampling make noise go further; whoever chooses by data, or by what clients did, says None."""

    def gap(self, clients: ClientTable, participants: int, size: int) -> int:
        """The fewest rounds from one participation of a client to its next."""
        return 1

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """What is remembered before the first round."""
        return {}

    def candidates(
        self, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """The clients to ask for facts before the round; by default all that are available."""
        return among

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """The cohort: different clients out of ``among``, usually ``size`` of them."""
        ...

    def observe(self, state: PartState, params: Params, updates: Sequence[Update]) -> PartState:
        """The selector's state after the cohort has answered; ``params`` is the model it started from."""
        return state
