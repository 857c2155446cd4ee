"""The weighted average of the clients' models."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Floats, Params
from entrofed.core.parts import Sees, ServerRule
from entrofed.core.sums import blocks_of_sum
from entrofed.core.types import Context, PartState, Update, Weights

LARGEST = float(np.finfo(np.float32).max)


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
    rows = [update.params.values for update in updates]
    values = np.empty(len(rows[0]), np.float32)
    for place, block in blocks_of_sum(rows, weights):
        values[place] = held(block)
    return Params(values, _counters(updates))


def narrow(values: NDArray[np.float64], updates: Sequence[Update]) -> Params:
    """The model with these values, and the highest counters of the updates: every server rule's result.

    Finite values are held inside the range of float32, so that no finite updates give a model that is not.
    """
    return Params(held(values), _counters(updates))


def _counters(updates: Sequence[Update]) -> NDArray[np.int64]:
    highest: NDArray[np.int64] = np.max([update.params.counters for update in updates], axis=0)
    return highest


def held(values: NDArray[np.float64]) -> Floats:
    """The same in float32; what is finite stays so."""
    inside = values.clip(-LARGEST, LARGEST)
    if not np.isfinite(values).all():
        inside = np.where(np.isfinite(values), inside, values)
    return inside.astype(np.float32)
