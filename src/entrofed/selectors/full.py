"""Choose everybody."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.types import PartState


@dataclass(frozen=True)
class FullSelection:
    """Every available client takes part in every round; the cohort size is not used."""

    name: ClassVar[str] = "full"
    reference: ClassVar[str] = ""

    def init(self, clients: int) -> PartState:
        """Nothing to remember."""
        return {}

    def select(
        self, state: PartState, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> tuple[list[int], PartState]:
        """All of ``among``, in their order."""
        return among.tolist(), state
