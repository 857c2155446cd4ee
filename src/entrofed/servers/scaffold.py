"""Correct every client's drift by what the others' gradients say."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Floats, Layout, Params
from entrofed.core.parts import ClientRule, Correction, Method, Sees, ServerRule
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientTable, Context, PartState, Training, Update, Weights
from entrofed.errors import ConfigError
from entrofed.servers.average import average, narrow
from entrofed.servers.normalized import accumulated

Variant = Literal["corrected", "niid_bench"]


@dataclass(frozen=True)
class ControlVariate(ClientRule):
    """The client's side of :class:`Scaffold`."""

    name: ClassVar[str] = "control_variate"
    sends: ClassVar[str] = "the change of its control variate"

    variant: Variant = "corrected"

    def correction(self, task: TrainTask) -> Correction:
        """``c - c_k``."""
        return Correction(task.broadcast["control"] - self._own(task), outside=self.variant == "niid_bench")

    def _own(self, task: TrainTask) -> Floats:
        own: Floats = task.client_state.get("control", np.zeros_like(task.broadcast["control"]))
        return own

    def report(self, task: TrainTask, update: Update) -> Update:
        """The client's new control variate, and how much it changed."""
        common, own, training = task.broadcast["control"], self._own(task), task.training
        if not update.num_steps:
            return update
        momentum = 0.0 if self.variant == "niid_bench" else training.momentum
        length = training.lr * accumulated(update.num_steps, momentum)
        end = len(common)
        moved = task.params.values[:end].astype(np.float64) - update.params.values[:end]
        new = (own.astype(np.float64) - common + moved / length).astype(np.float32)
        return replace(
            update,
            client_state={**update.client_state, "control": new},
            facts={**update.facts, "control_change": new - own},
        )

    def sums(self, layout: Layout) -> dict[str, int]:
        """The changes, whatever the weights."""
        return {"control_change": layout.trainable}

    def addend(self, update: Update, start: Params, weight: float, layout: Layout) -> PartState:
        """The client's change."""
        return {"control_change": update.facts["control_change"]}


@dataclass(frozen=True)
class Scaffold(ServerRule):
    """Control variates: client k keeps ``c_k``, the server keeps ``c``, and ``c - c_k`` is added to every gradient.

    After training, ``c_k' = c_k - c + (w_t - y) / (lr A_k)`` and ``c' = c + (1/K) sum_k (c_k' - c_k)`` over the K
    clients that may take part; ``w = w_t + server_lr m`` with ``m = beta m + sum_k alpha_k (y_k - w_t)``, which is the
    paper's for ``beta = 0``. All start at zero. Parameters only.

    Differs from the paper: with momentum, ``A_k`` is what the steps add up to (FedNova's ``a_k``), not their number,
    because control variates would be too large by as much and the iteration would diverge; without momentum both are
    the same. ``variant = "niid_bench"`` instead subtracts the correction outside of momentum and divides by the number
    of steps, as the program of NIID-Bench does; its fixed point is biased.
    """

    name: ClassVar[str] = "scaffold"
    reference: ClassVar[str] = "Karimireddy et al., SCAFFOLD, ICML 2020, Algorithm 1, option II"
    sees: ClassVar[Sees] = "sum"

    server_lr: float = 1.0
    variant: Variant = "corrected"
    beta: float = 0.0
    """Server momentum."""

    def __post_init__(self) -> None:
        if not 0 < self.server_lr < float("inf"):
            raise ConfigError(f"server rule {self.name!r}: server_lr = {self.server_lr} must be finite and above 0")
        if not 0 <= self.beta < 1:
            raise ConfigError(f"server rule {self.name!r}: beta = {self.beta} must be at least 0 and below 1")

    @property
    def client(self) -> ControlVariate:
        """Clients add a correction to every gradient, and keep their control variate."""
        return ControlVariate(self.variant)

    def check(self, method: Method, training: Training) -> None:
        """Control variates are known for SGD that starts afresh."""
        if training.optimizer != "sgd":
            raise ConfigError(f"server rule {self.name!r} counts the steps of SGD; choose method.optimizer = 'sgd'")
        if training.nesterov:
            raise ConfigError(
                f"server rule {self.name!r} has no form for Nesterov's momentum; leave out method.nesterov"
            )
        if training.persist_optimizer:
            raise ConfigError(
                f"server rule {self.name!r} counts on momentum that starts at zero; leave out method.persist_optimizer"
            )

    def init(self, params: Params, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """No correction yet."""
        momentum = {"momentum": np.zeros(clients.trainable)} if self.beta else {}
        return {"control": np.zeros(clients.trainable), "clients": np.array(len(participants)), **momentum}

    def broadcast(self, state: PartState) -> PartState:
        """The server's control variate: as large as the model."""
        return {"control": state["control"].astype(np.float32)}

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The average, stretched and carried on; the control variate moves by all changes, whatever the weights."""
        change = np.sum([update.facts["control_change"] for update in updates], axis=0, dtype=np.float64)
        after = {**state, "control": state["control"] + change / int(state["clients"])}
        mean = average(updates, weights)
        if self.server_lr == 1 and not self.beta:
            return mean, after
        end, values = context.clients.trainable, mean.values.astype(np.float64)
        before = context.params.values[:end].astype(np.float64)
        step = values[:end] - before
        if self.beta:
            step += self.beta * state["momentum"]
            after["momentum"] = step
        values[:end] = before + self.server_lr * step
        return narrow(values, updates), after
