"""The average of the global model over rounds, to be evaluated beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.parts import ALL_CLIENTS, ServerRule
from entrofed.core.types import ClientTable, Context, PartState, Update, Weights
from entrofed.core.wrapped_server import WrappedServer
from entrofed.errors import ConfigError
from entrofed.servers.average import Average

MEAN, COUNTERS, ROUNDS = "averaged", "averaged_counters", "averaged_rounds"


@dataclass(frozen=True)
class Averaged(WrappedServer):
    """Another server rule, and the average of its models over rounds; training continues from the models themselves.

    ``exponential``: ``m = decay m + (1 - decay) w`` from ``m = w`` on; ``tail``: the mean of all models. Both from
    round ``start`` on (rounds count from 0); until then m is the model itself. In float64. BatchNorm: its running means
    and variances are averaged like parameters, because the server has no data to estimate them anew, and that is near
    enough where models change slowly; counters are the last model's. The average is evaluated whenever the model is
    (``averaged`` in the records); clients never get it.
    """

    name: ClassVar[str] = "averaged"
    reference: ClassVar[str] = (
        "Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging, 1992; over federated rounds as in "
        "window-based model averaging, arXiv 2310.01366, whose text was not at hand"
    )

    kind: Literal["exponential", "tail"] = "exponential"
    decay: float = 0.9
    start: int = 0
    server: ServerRule = Average()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise ConfigError(f"server {self.name!r}: decay = {self.decay} must be at least 0 and below 1")
        if self.start < 0:
            raise ConfigError(f"server {self.name!r}: start = {self.start} is the number of a round, from 0 on")
        if isinstance(self.server, Averaged):
            raise ConfigError(f"server {self.name!r}: an average of averages; name one of them only")

    @property
    def needs(self) -> frozenset[str]:
        """A server, besides: an average of each peer's models would be evaluated nowhere."""
        return self.server.needs | {ALL_CLIENTS}

    def init(self, params: Params, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """No round averaged."""
        return {
            **self.server.init(params, clients, participants),
            MEAN: params.values.astype(np.float64),
            COUNTERS: params.counters,
            ROUNDS: np.zeros((), np.int64),
        }

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The other rule's model; the average takes it in."""
        inner = {key: value for key, value in state.items() if key not in (MEAN, COUNTERS, ROUNDS)}
        params, after = self.server.apply(updates, weights, context, inner)
        rounds, mean = state[ROUNDS] + (context.round >= self.start), params.values.astype(np.float64)
        if rounds > 1:
            share = 1 / rounds if self.kind == "tail" else 1 - self.decay
            mean = state[MEAN] + share * (mean - state[MEAN])
        return params, {**after, MEAN: mean, COUNTERS: params.counters, ROUNDS: np.asarray(rounds)}

    def beside(self, state: PartState) -> Params:
        """The average."""
        return Params(state[MEAN].astype(np.float32), state[COUNTERS])
