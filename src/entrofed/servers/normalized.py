"""Undo the advantage of clients that make more steps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from entrofed.core.params import Layout, Params
from entrofed.core.parts import ClientRule, Method, Sees, ServerRule
from entrofed.core.sums import weighted_sum
from entrofed.core.tasks import TrainTask
from entrofed.core.types import Context, PartState, Training, Update, Weights
from entrofed.errors import ConfigError
from entrofed.servers.average import average, narrow


def accumulated(steps: int, momentum: float) -> float:
    """How far ``steps`` steps of SGD with momentum go on a constant gradient, in steps without momentum.

    ``a = sum_{s=1..steps} (1 - rho^s) / (1 - rho)``

    >>> accumulated(3, 0.0), round(accumulated(5, 0.9), 4)
    (3.0, 13.1441)
    """
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


@dataclass(frozen=True)
class AccumulatedSteps(ClientRule):
    """The client says what its steps add up to."""

    name: ClassVar[str] = "accumulated_steps"
    sends: ClassVar[str] = "what its steps add up to"

    def report(self, task: TrainTask, update: Update) -> Update:
        """The accumulated steps, and what they count for in the common length of the step."""
        training, pull, steps = task.training, task.objective.pull, update.num_steps
        if pull:
            kept = 1 - training.lr * pull
            a, counts = float((kept ** np.arange(steps)).sum()), float(steps)
        else:
            a = counts = accumulated(steps, training.momentum)
        return replace(update, facts={**update.facts, "accumulated": np.array([a, counts])})

    def divisor(self, update: Update) -> float:
        """``a_k``."""
        return max(float(update.facts["accumulated"][0]), 1.0)

    def sums(self, layout: Layout) -> dict[str, int]:
        """``sum_k p_k tau_k`` with what a client's steps count for, and ``sum_k p_k``."""
        return {"accumulated": 2}

    def addend(self, update: Update, start: Params, weight: float, layout: Layout) -> PartState:
        """``p_k tau_k`` and ``p_k``."""
        return {"accumulated": weight * np.array([max(float(update.facts["accumulated"][1]), 1.0), 1.0])}

    def summed(self, sums: PartState) -> PartState:
        """A client whose step is divided already, and counts for ``t_eff``."""
        counts, weight = sums["accumulated"]
        return {"accumulated": np.array([1.0, counts / weight])}


@dataclass(frozen=True)
class Normalized(ServerRule):
    """Every displacement is divided by the client's accumulated steps: ``w = w_t - t_eff sum_k p_k (w_t - w_k) / a_k``.

    With momentum rho, ``a_k`` is :func:`accumulated` and ``t_eff = sum_k p_k a_k``; with a proximal objective of
    strength mu, ``a_k = sum_{s < steps} (1 - lr mu)^s`` and ``t_eff = sum_k p_k steps_k``. If all ``a_k`` are equal
    (and no proximal term), this is the plain average. A client with few steps is amplified strongly: 5 steps beside 160
    at momentum 0.9 count 115-fold. Float buffers are averaged. What a client says of its ``a_k`` is at least 1.
    """

    name: ClassVar[str] = "normalized"
    reference: ClassVar[str] = "Wang et al., FedNova, NeurIPS 2020"
    sees: ClassVar[Sees] = "sum"
    """Of ``p_k (w_t - w_k) / a_k`` and ``p_k a_k``: each client knows its ``a_k``."""
    client: ClassVar[ClientRule] = AccumulatedSteps()

    def check(self, method: Method, training: Training) -> None:
        """The accumulated steps are known for SGD that starts afresh, with momentum or a proximal term."""
        rule = f"server rule {self.name!r} (FedNova)"
        if training.optimizer != "sgd":
            raise ConfigError(f"{rule} counts the steps of SGD; choose method.optimizer = 'sgd'")
        if training.persist_optimizer:
            raise ConfigError(f"{rule} counts on momentum that starts at zero; leave out method.persist_optimizer")
        if training.nesterov:
            raise ConfigError(f"{rule} has no form for Nesterov's momentum; leave out method.nesterov")
        if training.momentum and method.objective.pull:
            raise ConfigError(
                f"{rule} has no form for momentum and a proximal objective together; set method.momentum = 0 or choose "
                "another objective"
            )
        if training.lr * method.objective.pull > 1:
            raise ConfigError(
                f"{rule}: lr * mu = {training.lr * method.objective.pull:g} is above 1; lower one of them"
            )

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The normalized average of the parameters, the plain average of the buffers."""
        a, counts = np.maximum([update.facts["accumulated"] for update in updates], 1.0).T
        if np.ptp(a) == 0 and np.array_equal(a, counts):
            return average(updates, weights), state
        end = context.clients.trainable
        shares = weights * (weights @ counts) / a
        moved = weighted_sum([update.params.values[:end] for update in updates], shares)
        values = weighted_sum([update.params.values for update in updates], weights)
        values[:end] = moved + (1 - shares.sum()) * context.params.values[:end].astype(np.float64)
        return narrow(values, updates), state
