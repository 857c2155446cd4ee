"""Choose by chance."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection


@dataclass(frozen=True)
class RandomSelection(Selector):
    """A uniform draw without replacement."""

    name: ClassVar[str] = "random"
    reference: ClassVar[str] = "McMahan et al., AISTATS 2017, Algorithm 1"
    sees: ClassVar[Sees] = "sum"
    sampling: ClassVar[Literal["poisson", "fixed"] | None] = "fixed"

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """``min(size, len(among))`` clients, every cohort equally likely."""
        return Selection(rng.choice(among, size=min(size, len(among)), replace=False).tolist(), state)
