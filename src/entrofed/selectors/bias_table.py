"""The table of what the clients' updates did to the output layer's bias; who was never asked to train comes first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.output_layer import bias_moves, check_bias
from entrofed.core.params import Params
from entrofed.core.parts import Sees, Selector
from entrofed.core.types import ClientTable, PartState, Update

NOT_ASKED = "never asked before"


@dataclass(frozen=True)
class BiasTable(Selector):
    """Keeps something per client of what its updates did to the output layer's bias.

    Whoever was never asked to train comes before all others, in random order. Who was asked and did not answer is not
    tried first again. Each row is an entry of the state of its own: clients may join.
    """

    sees: ClassVar[Sees] = "models"

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """Nobody was asked."""
        start = check_bias(clients.output_bias, clients.classes, f"selector {self.name!r}")
        return {"bias": np.array([start, clients.classes]), "asked": np.zeros(0, np.int64)}

    def new(self, state: PartState, among: NDArray[np.int64], size: int, rng: np.random.Generator) -> list[int]:
        """Up to ``size`` of those who were never asked."""
        unknown: list[int] = rng.permutation(np.setdiff1d(among, state["asked"])).tolist()
        return unknown[:size]

    def moves(self, state: PartState, params: Params, updates: Sequence[Update]) -> dict[int, NDArray[np.float64]]:
        """How each update moved the bias."""
        start, classes = state["bias"].tolist()
        return bias_moves(start, classes, params, updates)


def row_key(client: int) -> str:
    """Where a client's row lies in the state."""
    return f"row/{client}"
