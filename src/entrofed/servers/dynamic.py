"""Change what clients minimize from round to round, so that their minima agree with the federation's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Layout, Params
from entrofed.core.parts import ClientRule, Correction, Sees, ServerRule
from entrofed.core.sums import weighted_sum
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientTable, Context, PartState, Update, Weights
from entrofed.errors import ConfigError
from entrofed.servers.average import narrow
from entrofed.servers.momentum import displacement

MOVED = "moved"


@dataclass(frozen=True)
class DynamicRegularizer(ClientRule):
    """The client's side of :class:`Dynamic`: it keeps ``g_k``, which starts at 0."""

    name: ClassVar[str] = "dynamic_regularizer"

    alpha: float = 0.01

    @property
    def pull(self) -> float:
        """``alpha``: the quadratic part of the regularizer."""
        return self.alpha

    def correction(self, task: TrainTask) -> Correction | None:
        """``-g_k``: the linear part."""
        return Correction(-task.client_state["gradient"]) if "gradient" in task.client_state else None

    def report(self, task: TrainTask, update: Update) -> Update:
        """``g_k = g_k - alpha (w_k - w_t)``."""
        if not update.num_steps:
            return update
        end = int(task.broadcast["trainable"])
        moved = np.subtract(update.params.values[:end], task.params.values[:end], dtype=np.float64)
        new = (task.client_state.get("gradient", np.zeros(end)) - self.alpha * moved).astype(np.float32)
        return replace(update, client_state={**update.client_state, "gradient": new})

    def sums(self, layout: Layout) -> dict[str, int]:
        """The steps, whatever the weights."""
        return {MOVED: layout.trainable}

    def addend(self, update: Update, start: Params, weight: float, layout: Layout) -> PartState:
        """The client's step."""
        end = layout.trainable
        return {MOVED: np.subtract(update.params.values[:end], start.values[:end], dtype=np.float64)}


@dataclass(frozen=True)
class Dynamic(ServerRule):
    """FedDyn: client k minimizes ``L_k(w) - <g_k, w> + alpha / 2 ||w - w_t||^2``; ``g_k`` follows its steps.

    ``g_k = g_k - alpha (w_k - w_t)`` after each round that the client takes part in, from 0 on. The server keeps
    ``h = h - (alpha / K) sum_k (w_k - w_t)`` over the K clients that may take part, and
    ``w = sum_k a_k w_k - h / alpha``. If it converges, every ``g_k`` is the gradient of ``L_k``, and these sum to 0: a
    minimum of the federation, however much the clients differ. Trainable parameters only; float buffers take the
    weighted average, counters the maximum.

    Differs from the paper: weights are the weigher's (equal in method ``feddyn``, as in the paper); clients make their
    usual number of steps and do not minimize to the end.
    """

    name: ClassVar[str] = "dynamic"
    reference: ClassVar[str] = "Acar et al., FedDyn, ICLR 2021, Algorithm 1"
    sees: ClassVar[Sees] = "sum"

    alpha: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.alpha < float("inf"):
            raise ConfigError(f"server {self.name!r}: alpha = {self.alpha} must be above 0, and finite")

    @property
    def client(self) -> DynamicRegularizer:
        """Clients add the regularizer, and keep its linear part."""
        return DynamicRegularizer(self.alpha)

    def init(self, params: Params, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """``h = 0``."""
        return {"h": np.zeros(clients.trainable), "clients": np.array(len(participants))}

    def broadcast(self, state: PartState) -> PartState:
        """How many values are trained."""
        return {"trainable": np.array(len(state["h"]))}

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The average, less ``h / alpha``."""
        known = updates[0].facts.get(MOVED)  # of a sum: the weighted steps do not tell it
        moved = displacement(updates, np.ones(len(updates)), context) if known is None else known
        h = state["h"] - self.alpha / int(state["clients"]) * moved
        values = weighted_sum([update.params.values for update in updates], weights)
        values[: len(h)] -= h / self.alpha
        return narrow(values, updates), {**state, "h": h}
