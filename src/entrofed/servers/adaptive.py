"""Servers with a step length of its own for every parameter: FedAdam, FedYogi, FedAdagrad."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.parts import Sees, ServerRule
from entrofed.core.sums import weighted_sum
from entrofed.core.types import ClientTable, Context, PartState, Update, Weights
from entrofed.errors import ConfigError
from entrofed.servers.average import narrow
from entrofed.servers.momentum import displacement

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Adaptive(ServerRule):
    """What the three share: ``w = w + lr m / (sqrt(v) + tau)``, from ``Delta = sum_k alpha_k w_k - w``.

    Trainable parameters only; float buffers take the weighted average, counters the maximum. Both moments are kept in
    float64. ``start`` is v before the first round: 0, or ``tau^2`` as in the paper. The smaller ``tau``, the more the
    first steps have the length ``lr`` in every parameter, however little the clients moved it.

    Differs from the paper: v starts at 0 unless asked, because most implementations start there.
    """

    reference: ClassVar[str] = "Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2"
    sees: ClassVar[Sees] = "sum"

    lr: float = 0.01
    tau: float = 1e-3
    start: Literal["zero", "tau_squared"] = "zero"

    def __post_init__(self) -> None:
        if not 0 < self.lr < float("inf") or not 0 < self.tau < float("inf"):
            raise ConfigError(f"server {self.name!r}: lr = {self.lr} and tau = {self.tau} must be above 0, and finite")

    def init(self, params: Params, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """Both moments before the first round."""
        first = self.tau**2 if self.start == "tau_squared" else 0.0
        return {"m": np.zeros(clients.trainable), "v": np.full(clients.trainable, first)}

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The model before, moved by a step of the optimizer."""
        change, after = self.step(displacement(updates, weights, context), state)
        values = weighted_sum([update.params.values for update in updates], weights)
        values[: len(change)] = context.params.values[: len(change)] + change
        return narrow(values, updates), after

    def step(self, delta: Floats, state: PartState) -> tuple[Floats, PartState]:
        """What is added to the parameters, and the moments after it."""
        m, v = self.moments(delta, state["m"], state["v"])
        return self.lr * m / (np.sqrt(v) + self.tau), {"m": m, "v": v}

    @abstractmethod
    def moments(self, delta: Floats, m: Floats, v: Floats) -> tuple[Floats, Floats]:
        """The next m and v; here is where the three differ."""


@dataclass(frozen=True)
class FedAdam(Adaptive):
    """Adam on the server: ``m = beta1 m + (1 - beta1) Delta``, ``v = beta2 v + (1 - beta2) Delta^2``.

    Then ``w = w + lr m / (sqrt(v) + tau)``. In the t-th step ``bias_correction`` divides m by ``1 - beta1^t`` and v by
    ``1 - beta2^t``, as Kingma and Ba do (Adam, ICLR 2015, Algorithm 1); the paper does not.
    """

    name: ClassVar[str] = "fedadam"

    beta1: float = 0.9
    beta2: float = 0.99
    bias_correction: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_betas(self.name, self.beta1, self.beta2)
        if self.bias_correction and self.start != "zero":
            raise ConfigError(
                f"server {self.name!r}: bias_correction is for moments that start at 0, start = {self.start!r} is not; "
                "leave one of them out"
            )

    def init(self, params: Params, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """Both moments, and that no step was made."""
        return {**super().init(params, clients, participants), "steps": np.zeros(1, np.int64)}

    def step(self, delta: Floats, state: PartState) -> tuple[Floats, PartState]:
        """Adam's step, with corrected moments if asked."""
        change, after = super().step(delta, state)
        steps = state["steps"] + 1
        if self.bias_correction:
            m, v = after["m"] / (1 - self.beta1**steps), after["v"] / (1 - self.beta2**steps)
            change = self.lr * m / (np.sqrt(v) + self.tau)
        return change, {**after, "steps": steps}

    def moments(self, delta: Floats, m: Floats, v: Floats) -> tuple[Floats, Floats]:
        """Running means."""
        return self.beta1 * m + (1 - self.beta1) * delta, self.beta2 * v + (1 - self.beta2) * delta**2


@dataclass(frozen=True)
class FedYogi(Adaptive):
    """Yogi on the server: ``m = beta1 m + (1 - beta1) Delta``, ``v = v - (1 - beta2) Delta^2 sign(v - Delta^2)``.

    Then ``w = w + lr m / (sqrt(v) + tau)``. Other than Adam's, v shrinks slowly when the clients suddenly agree.
    """

    name: ClassVar[str] = "fedyogi"

    beta1: float = 0.9
    beta2: float = 0.99

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_betas(self.name, self.beta1, self.beta2)

    def moments(self, delta: Floats, m: Floats, v: Floats) -> tuple[Floats, Floats]:
        """A running mean, and a v that moves by the square of Delta at most."""
        square = delta**2
        return self.beta1 * m + (1 - self.beta1) * delta, v - (1 - self.beta2) * square * np.sign(v - square)


@dataclass(frozen=True)
class FedAdagrad(Adaptive):
    """Adagrad on the server: ``m = Delta``, ``v = v + Delta^2``; the steps get shorter and shorter.

    Then ``w = w + lr m / (sqrt(v) + tau)``.
    """

    name: ClassVar[str] = "fedadagrad"

    def moments(self, delta: Floats, m: Floats, v: Floats) -> tuple[Floats, Floats]:
        """The displacement itself, and the sum of all squares."""
        return delta, v + delta**2


def _check_betas(name: str, beta1: float, beta2: float) -> None:
    if not 0 <= beta1 < 1 or not 0 <= beta2 < 1:
        raise ConfigError(f"server {name!r}: beta1 = {beta1} and beta2 = {beta2} must be at least 0 and below 1")
