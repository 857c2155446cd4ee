"""Everybody decides by a coin of its own."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection


@dataclass(frozen=True)
class PoissonSampling(Selector):
    """Each client takes part with probability ``q = M / K``, independently of the others: on average ``M`` of ``K``.

    A cohort may be of any size, an empty one included. This is the sampling for which the amplification of privacy is
    known most tightly; ``random`` draws cohorts of one size, which hide less.
    """

    name: ClassVar[str] = "poisson"
    reference: ClassVar[str] = (
        "Abadi et al., Deep Learning with Differential Privacy, CCS 2016; of clients: McMahan et al., Learning "
        "Differentially Private Recurrent Language Models, ICLR 2018, Algorithm 1"
    )
    sees: ClassVar[Sees] = "sum"
    sampling: ClassVar[Literal["poisson", "fixed"] | None] = "poisson"

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """How many may take part: the rate depends on it, and not on who is there."""
        return {"clients": np.array(len(participants))}

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """Those whose coin says so."""
        rate = min(size / int(state["clients"]), 1.0)
        return Selection(among[rng.random(len(among)) < rate].tolist(), state)
