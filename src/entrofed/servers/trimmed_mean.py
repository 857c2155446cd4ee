"""The mean without the extremes, parameter by parameter."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Floats, Params
from entrofed.core.parts import Sees, ServerRule
from entrofed.core.types import Context, PartState, Update, Weights
from entrofed.errors import ConfigError
from entrofed.info.similarity import blocks
from entrofed.servers.average import narrow


@dataclass(frozen=True)
class TrimmedMean(ServerRule):
    """Coordinate-wise: leave out the ``floor(share n)`` lowest and highest of n clients, average the rest.

    At least one at each end is left out of three or more.
    Parameters and float buffers alike; counters take the maximum. Of the weights it counts only whether they are above
    0: those clients are the n, and all alike. So as many clients as are left out at one end cannot move any value out
    of the range of the others. Of one or two clients nobody is left out; ``share = 0`` leaves out nobody ever.
    """

    name: ClassVar[str] = "trimmed_mean"
    reference: ClassVar[str] = (
        "Yin et al., Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates, ICML 2018, Definition 2"
    )
    sees: ClassVar[Sees] = "models"

    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.share < 0.5:
            raise ConfigError(f"server {self.name!r}: share = {self.share} must be at least 0 and below 0.5")

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The trimmed mean, whatever the model before was."""
        rows = counted(updates, weights)
        cut = max(int(self.share * len(rows) + 1e-9), int(self.share > 0))  # 0.29 * 100 is a little below 29
        values = middle_mean(rows, min(cut, (len(rows) - 1) // 2))
        return narrow(values, updates), state


def counted(updates: Sequence[Update], weights: Weights) -> list[Floats]:
    """The models with a weight above 0."""
    return [update.params.values for update, weight in zip(updates, weights, strict=True) if weight > 0]


def middle_mean(rows: Sequence[Floats], cut: int) -> NDArray[np.float64]:
    """The mean of each column without its ``cut`` lowest and highest entries; in whatever order the rows come.

    >>> middle_mean([np.array([1, 9], "f4"), np.array([2, 5], "f4"), np.array([60, 1], "f4")], 1)
    array([2., 5.])
    """
    means = [np.zeros(0)]
    for block in blocks(rows):
        block.sort(axis=0)
        means.append(block[cut : len(rows) - cut].mean(axis=0))
    return np.concatenate(means)
