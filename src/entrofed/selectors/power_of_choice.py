"""Choose the clients that the current model serves worst."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Fact, Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.errors import ConfigError
from entrofed.facts.loss import Loss


@dataclass(frozen=True)
class PowerOfChoice(Selector):
    """The largest losses among a few candidates.

    ``pool`` clients are drawn without replacement with probability proportional to their size (None: all are
    candidates), each says its mean loss ``F_k(w_t)``, and the M largest are taken, ties by lower number. A loss that
    is not finite counts as minus infinity.
    """

    name: ClassVar[str] = "power_of_choice"
    reference: ClassVar[str] = "Cho, Wang and Joshi, AISTATS 2022, Algorithm 1"
    facts: ClassVar[tuple[Fact, ...]] = (Loss(),)
    sees: ClassVar[Sees] = "scalars"
    """Losses."""

    pool: int | None = None

    def __post_init__(self) -> None:
        if self.pool is not None and self.pool < 1:
            raise ConfigError(f"power_of_choice: pool = {self.pool}: at least one candidate is needed")

    def candidates(
        self, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """A draw by size, at least as many as the cohort needs."""
        wanted = len(among) if self.pool is None else max(self.pool, size)
        if wanted >= len(among):
            return among
        shares = clients.sizes[among] / clients.sizes[among].sum()
        return np.sort(rng.choice(among, size=wanted, replace=False, p=shares))

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """The candidates with the largest losses, the largest first."""
        told = clients.told(Loss.name, f"selector {self.name!r}")
        losses = np.array([np.nan if told[k] is None else told[k] for k in among.tolist()], np.float64)
        losses = np.where(np.isfinite(losses), losses, -np.inf)
        order = np.lexsort((among, -losses))
        picked = [int(among[i]) for i in order[:size]]
        reasons = []
        for place in range(len(picked)):
            after = order[place + 1] if place + 1 < len(order) else None
            reasons.append(
                {
                    "client": picked[place],
                    "score": float(losses[order[place]]),
                    "runner_up": None if after is None else int(among[after]),
                    "runner_up_score": None if after is None else float(losses[after]),
                    "pool": len(among) - place,
                }
            )
        return Selection(picked, state, reasons)
