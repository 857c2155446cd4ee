"""Weigh everybody alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from entrofed.core.parts import Sees, Weigher
from entrofed.core.types import Context, Update, Weighing


@dataclass(frozen=True)
class Uniform(Weigher):
    """Equal weights, ``alpha_k = 1 / |R|``: the control that every other weigher has to beat."""

    name: ClassVar[str] = "uniform"
    sees: ClassVar[Sees] = "sum"

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """Equal shares."""
        return Weighing(np.full(len(updates), 1 / len(updates)))
