"""Weigh by the number of training examples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from entrofed.core.parts import Sees, Weigher
from entrofed.core.types import Context, Update, Weighing


@dataclass(frozen=True)
class DataSize(Weigher):
    """In proportion to the number of training examples: ``alpha_k = n_k / sum_j n_j``."""

    name: ClassVar[str] = "data_size"
    reference: ClassVar[str] = "McMahan et al., AISTATS 2017, Algorithm 1"
    sees: ClassVar[Sees] = "sum"

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """Shares of the cohort's examples."""
        sizes = np.array([update.num_examples for update in updates], np.float64)
        return Weighing(sizes / sizes.sum())
