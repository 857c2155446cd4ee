"""The weighted average of the clients' models."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from entrofed.core.params import Params
from entrofed.core.parts import Sees, ServerRule
from entrofed.core.sums import weighted_sum
from entrofed.core.types import Context, PartState, Update, Weights


@dataclass(frozen=True)
class Average(ServerRule):
    """The weighted average of the clients' models, ``w = sum_k alpha_k w_k``.

    Parameters and float buffers alike, accumulated in float64 and cast back. Integer buffers take the maximum: an
    averaged batch counter would mean nothing.
    """

    name: ClassVar[str] = "average"
    reference: ClassVar[str] = "McMahan et al., AISTATS 2017, Algorithm 1"
    sees: ClassVar[Sees] = "sum"

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The average, whatever the model before was."""
        return average(updates, weights), state


def average(updates: Sequence[Update], weights: Weights) -> Params:
    """The weighted average of parameters and float buffers; the maximum of integer buffers."""
    values = weighted_sum([update.params.values for update in updates], weights)
    counters = np.max([update.params.counters for update in updates], axis=0)
    return Params(values.astype(np.float32), counters)
