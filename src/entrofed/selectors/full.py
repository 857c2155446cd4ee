"""Choose everybody."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection


@dataclass(frozen=True)
class FullSelection(Selector):
    """Every available client takes part in every round; the cohort size is not used."""

    name: ClassVar[str] = "full"
    sees: ClassVar[Sees] = "sum"

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """All of ``among``, in their task."""
        return Selection(among.tolist(), state)
