"""The median, parameter by parameter."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from entrofed.core.params import Params
from entrofed.core.parts import Sees, ServerRule
from entrofed.core.types import Context, PartState, Update, Weights
from entrofed.servers.average import narrow
from entrofed.servers.trimmed_mean import counted, middle_mean


@dataclass(frozen=True)
class Median(ServerRule):
    """The coordinate-wise median of the clients' models; of an even number, the mean of the two central values.

    Parameters and float buffers alike; counters take the maximum. Of the weights it counts only whether they are above
    0: those clients have a vote each, the others none. So fewer than half of them cannot move any value out of the
    range of the others.
    """

    name: ClassVar[str] = "median"
    reference: ClassVar[str] = (
        "Yin et al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, ICML 2018, Definition 1"
    )
    sees: ClassVar[Sees] = "models"

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The median, whatever the model before was."""
        rows = counted(updates, weights)
        values = middle_mean(rows, (len(rows) - 1) // 2)
        return narrow(values, updates), state
