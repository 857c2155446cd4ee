"""Weigh by how often a client was drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from entrofed.core.parts import Sees, Weigher
from entrofed.core.types import Context, Update, Weighing


@dataclass(frozen=True)
class Draws(Weigher):
    """In proportion to how often the selector drew the client; equal weights if it draws nobody twice.

    With clustered sampling, which draws client k ``m n_k / n`` times in expectation, the aggregate is then what all
    clients together, weighed by size, would make, in expectation.
    """

    name: ClassVar[str] = "draws"
    reference: ClassVar[str] = "Fraboni et al., Clustered Sampling, ICML 2021"
    sees: ClassVar[Sees] = "sum"

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """Shares of the draws."""
        draws = np.array([context.draws.get(update.client, 1) for update in updates], np.float64)
        return Weighing(draws / draws.sum(), [{"draws": int(number)} for number in draws] if context.draws else [])
