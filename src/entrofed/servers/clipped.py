"""The average of models that may not go far."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.parts import Sees, ServerRule
from entrofed.core.types import ClientTable, Context, PartState, Update, Weights
from entrofed.errors import ConfigError
from entrofed.servers.average import average

CUT = "cut"
"""How many steps were cut so far."""


@dataclass(frozen=True)
class Clipped(ServerRule):
    """The weighted average after each client's step is clipped to a norm: ``w_k = w + d_k min(1, norm / |d_k|)``.

    ``d_k = w_k - w`` over all trainable parameters, ``|d_k|`` its L2 norm. So one client moves the model by ``alpha_k
    norm`` at most. Float buffers are not cut: they take the plain weighted average; counters take the maximum. Where no
    step is longer than ``norm``, this is plain averaging, to the last bit.
    """

    name: ClassVar[str] = "clipped"
    reference: ClassVar[str] = "Sun et al., Can You Really Backdoor Federated Learning?, 2019, norm thresholding"
    sees: ClassVar[Sees] = "models"
    """To rely on clients to cut their own steps would be no defence."""

    norm: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.norm < float("inf"):
            raise ConfigError(f"server {self.name!r}: norm = {self.norm} must be above 0, and finite")

    def init(self, params: Params, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """Nobody was cut."""
        return {CUT: np.zeros((), np.int64)}

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The average of the clipped models."""
        start = context.params.values[: context.clients.trainable]
        clipped = [self._clip(update, start) for update in updates]
        cut = sum(after is not before for after, before in zip(clipped, updates, strict=True))
        return average(clipped, weights), {CUT: np.asarray(state.get(CUT, 0) + cut, np.int64)}

    def _clip(self, update: Update, start: NDArray[np.float32]) -> Update:
        step = np.subtract(update.params.values[: len(start)], start, dtype=np.float64)
        length = np.sqrt(np.square(step).sum())
        if length <= self.norm:
            return update
        values = update.params.values.copy()
        values[: len(start)] = start + step * (self.norm / length)
        return replace(update, params=Params(values, update.params.counters))
