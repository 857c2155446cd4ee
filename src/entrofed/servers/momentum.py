"""A server that keeps going in the direction of earlier rounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.parts import Sees, ServerRule
from entrofed.core.sums import weighted_sum
from entrofed.core.types import ClientTable, Context, PartState, Update, Weights
from entrofed.errors import ConfigError
from entrofed.servers.average import narrow


@dataclass(frozen=True)
class Momentum(ServerRule):
    """FedAvgM: ``m = beta m + Delta``, ``w = w + lr m`` with ``Delta = sum_k alpha_k w_k - w`` and ``m = 0`` at first.

    Trainable parameters only; float buffers take the weighted average, counters the maximum. The momentum is kept in
    float64. ``beta = 0``, ``lr = 1`` is plain averaging, to the last bit. ``warmup``: in the first so many rounds beta
    rises in equal steps, ``beta t / warmup`` in round t from 0 on, because early updates disagree most. ``growth``:
    from round ``hold`` on the rate is ``lr growth^(t - hold)``. Where clients' rates fall by ``lr_decay`` per
    round, ``growth = 1 / lr_decay`` keeps the product of both constant: clients drift less and less, and the server's
    steps stay as long. ``anneal``: in the last ``anneal`` of T rounds (all, if T is smaller) the rate falls linearly,
    so that the model comes to rest: in round t it is multiplied by ``min((T - t) / anneal, 1)``.
    """

    name: ClassVar[str] = "momentum"
    reference: ClassVar[str] = (
        "Hsu, Qi and Brown, Measuring the Effects of Non-Identical Data Distribution for Federated Visual "
        "Classification, 2019"
    )
    sees: ClassVar[Sees] = "sum"

    beta: float = 0.9
    lr: float = 1.0
    warmup: int = 0
    growth: float = 1.0
    hold: int = 0
    anneal: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1 or not 0 < self.lr < float("inf"):
            raise ConfigError(
                f"server {self.name!r}: beta = {self.beta} must be at least 0 and below 1, lr = {self.lr} above 0"
            )
        for key, rounds in (("warmup", self.warmup), ("anneal", self.anneal)):
            if rounds < 0:
                raise ConfigError(f"server {self.name!r}: {key} = {rounds} is a number of rounds, from 0 on")
        if not 1 <= self.growth < 2 or self.hold < 0:
            raise ConfigError(
                f"server {self.name!r}: growth = {self.growth} must be at least 1 and below 2, hold = {self.hold} a "
                "number of rounds, from 0 on"
            )
        if self.hold and self.growth == 1:
            raise ConfigError(f"server {self.name!r}: hold = {self.hold} does nothing without growth; leave it out")

    @property
    def by_rounds(self) -> bool:
        """If the rate falls towards the end."""
        return self.anneal > 0

    def init(self, params: Params, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """No momentum."""
        if self.anneal and not clients.rounds:
            raise ConfigError(f"server {self.name!r}: anneal needs the number of rounds, which is not known here")
        return {"momentum": np.zeros(clients.trainable)}

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The average and what the momentum adds to it: ``w + lr m = (w + Delta) + (lr m - Delta)``."""
        lr = self.lr * self.growth ** max(context.round - self.hold, 0)
        if self.anneal:
            lr *= min((context.clients.rounds - context.round) / self.anneal, 1.0)
        delta = displacement(updates, weights, context)
        beta = self.beta if context.round >= self.warmup else self.beta * context.round / self.warmup
        momentum = beta * state["momentum"] + delta
        values = weighted_sum([update.params.values for update in updates], weights)
        values[: len(delta)] += lr * momentum - delta
        return narrow(values, updates), {"momentum": momentum}


def displacement(updates: Sequence[Update], weights: Weights, context: Context) -> NDArray[np.float64]:
    """``Delta = sum_k alpha_k (w_k - w)`` of the trainable parameters; exactly 0 where no client moved."""
    start = context.params.values[: context.clients.trainable]
    total = np.zeros(len(start))
    for update, weight in zip(updates, weights, strict=True):
        total += weight * np.subtract(update.params.values[: len(start)], start, dtype=np.float64)
    return total
