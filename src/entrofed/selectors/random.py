"""Choose by chance."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.types import PartState


@dataclass(frozen=True)
class RandomSelection:
    """A uniform draw without replacement."""

    name: ClassVar[str] = "random"
    reference: ClassVar[str] = "McMahan et al., AISTATS 2017, Algorithm 1"

    def init(self, clients: int) -> PartState:
        """Nothing to remember."""
        return {}

    def select(
        self, state: PartState, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> tuple[list[int], PartState]:
        """``min(size, len(among))`` clients, every cohort equally likely."""
        return rng.choice(among, size=min(size, len(among)), replace=False).tolist(), state
