"""A server that goes the further the less the clients agree."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Params, distance
from entrofed.core.parts import Sees, ServerRule
from entrofed.core.sums import weighted_sum
from entrofed.core.types import ClientTable, Context, PartState, Update, Weights
from entrofed.errors import ConfigError
from entrofed.servers.average import narrow
from entrofed.servers.momentum import displacement


@dataclass(frozen=True)
class Extrapolated(ServerRule):
    """FedExP: ``w = w + eta Delta``, ``eta = max(1, sum_k alpha_k |Delta_k|^2 / (2 (|Delta|^2 + epsilon)))``.

    ``Delta_k = w_k - w`` and ``Delta = sum_k alpha_k Delta_k``. Where clients pull in different directions their mean
    is far shorter than they are, and the step is made longer; where they agree it is FedAvg's. The paper has equal
    weights ``alpha_k = 1 / M``, and reports the mean of the last two models (server rule ``averaged``).
    ``beta``, an addition of ours: ``m = beta m + eta Delta``, ``w = w + m``. Trainable parameters only; float buffers
    take the weighted average, counters the maximum.
    """

    name: ClassVar[str] = "extrapolated"
    reference: ClassVar[str] = "Jhunjhunwala, Wang and Joshi, FedExP, ICLR 2023, Algorithm 1"
    sees: ClassVar[Sees] = "models"

    epsilon: float = 1e-3
    beta: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < float("inf") or not 0 <= self.beta < 1:
            raise ConfigError(
                f"server {self.name!r}: epsilon = {self.epsilon} must be above 0, beta = {self.beta} at least 0 and "
                "below 1"
            )

    def init(self, params: Params, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """No momentum."""
        return {"momentum": np.zeros(clients.trainable)} if self.beta else {}

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The average and what goes beyond it: ``w + m = (w + Delta) + (m - Delta)``."""
        delta = displacement(updates, weights, context)
        start = context.params.values[: len(delta)]
        far = [distance(update.params.values[: len(delta)], start) ** 2 for update in updates]
        longer = max(1.0, float(weights @ far) / (2 * (float(delta @ delta) + self.epsilon)))
        values = weighted_sum([update.params.values for update in updates], weights)
        momentum = longer * delta + (self.beta * state["momentum"] if self.beta else 0.0)
        values[: len(delta)] += momentum - delta
        return narrow(values, updates), {"momentum": momentum} if self.beta else state
