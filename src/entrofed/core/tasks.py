"""What is the same in every round of a run, and the work orders of one round."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from entrofed.client.train import WorkOrder
from entrofed.core.faults import Faults
from entrofed.core.params import Params
from entrofed.core.types import Method, PartState, State, Training
from entrofed.core.validation import NonFinite


@dataclass(frozen=True)
class Rules:
    """What is the same in every round of a run, besides the method."""

    seed: int
    rounds: int
    cohort: int
    training: Training
    lr_decay: float = 1.0
    quorum: int = 1
    nonfinite: NonFinite = "drop"
    evaluate_every: int = 1
    evaluate_last: int = 0
    """Rounds at the end that are all evaluated, whatever ``evaluate_every`` says."""
    alignment_every: int = 0
    faults: Faults = field(default_factory=Faults)
    sizes_from_counts: bool = False
    """Take a client's number of examples from its released (noised) label counts."""

    def evaluated(self, played: int) -> bool:
        """Whether the model is evaluated once so many rounds are played."""
        return played % self.evaluate_every == 0 or played > self.rounds - self.evaluate_last


class Orders:
    """Makes the work orders of a round."""

    def __init__(self, state: State, method: Method, rules: Rules, sizes: NDArray[np.int64]) -> None:
        self.state, self.method, self.rules, self.sizes = state, method, rules, sizes
        self.training = replace(rules.training, lr=rules.training.lr * rules.lr_decay**state.round)

    def make(
        self,
        client: int,
        params: Params,
        broadcast: PartState,
        *,
        purpose: str = "train",
        limits: NDArray[np.int64] | None = None,
    ) -> WorkOrder:
        """An order to train from ``params``; faults decide how many epochs the client manages."""
        rules, number, pool = self.rules, self.state.round, len(self.sizes)
        epochs = rules.faults.epochs(rules.seed, number, client, pool, self.training.epochs)
        return WorkOrder(
            client=client,
            round=number,
            seed=rules.seed,
            params=params,
            objective=self.method.objective,
            training=replace(self.training, epochs=epochs),
            cost=int(self.sizes[client]),
            memory=self.state.memory.get(client, {}),
            purpose=purpose,
            needs=self.method.needs,
            limits=limits,
            rule=self.method.server,
            broadcast=broadcast,
        )
