"""The models that have the closest neighbours."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.parts import Sees, ServerRule
from entrofed.core.types import Context, PartState, Update, Weights
from entrofed.errors import ConfigError
from entrofed.info.similarity import blocks
from entrofed.servers.average import average

log = logging.getLogger("entrofed")


@dataclass(frozen=True)
class Krum(ServerRule):
    """Keep the ``keep`` models with the lowest score, and average them by their weights; multi-Krum above 1.

    The score of a client is the sum of its squared distances to its ``n - f - 2`` closest others, over trainable
    parameters; n are the clients with a weight above 0, f is ``liars``: how many of them may be adversarial.
    Krum needs ``n >= 2 f + 3``; without ``liars``, f is the most that n allows, and a round with too few clients for
    the ``liars`` given takes that too, with a warning. Equal scores: the lower client number. Weights do not enter the
    score. Counters take the maximum of all.
    """

    name: ClassVar[str] = "krum"
    reference: ClassVar[str] = (
        "Blanchard et al., Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent, NeurIPS 2017, "
        "section 4"
    )
    sees: ClassVar[Sees] = "models"

    liars: int | None = None
    keep: int = 1

    def __post_init__(self) -> None:
        if (self.liars is not None and self.liars < 0) or self.keep < 1:
            raise ConfigError(
                f"server {self.name!r}: liars = {self.liars} must not be negative, keep = {self.keep} must be 1 or more"
            )

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The average of those kept, whatever the model before was."""
        counted = [i for i, weight in enumerate(weights) if weight > 0]
        f = most = max(0, (len(counted) - 3) // 2)
        if self.liars is not None:
            f = min(self.liars, most)
            if f < self.liars:
                words = "round %d: krum against %d adversarial clients needs %d clients and has %d: it reckons with %d"
                log.warning(words, context.round, self.liars, 2 * self.liars + 3, len(counted), f)
        found = scores([updates[i].params.values[: context.clients.trainable] for i in counted], len(counted) - f - 2)
        ranked = sorted(zip(found.tolist(), [updates[i].client for i in counted], counted, strict=True))
        kept = sorted(i for _, _, i in ranked[: self.keep])
        values = average([updates[i] for i in kept], weights[kept] / weights[kept].sum()).values
        return Params(values, np.max([update.params.counters for update in updates], axis=0)), state


def scores(rows: Sequence[NDArray[Any]], close: int) -> NDArray[np.float64]:
    """Of each row, the sum of its squared distances to the ``close`` closest others; 0 for no others.

    >>> scores([np.array([0.0]), np.array([1.0]), np.array([3.0]), np.array([9.0])], 2)
    array([ 10.,   5.,  13., 100.])
    """
    squares = np.zeros(len(rows) * (len(rows) - 1) // 2)
    for block in blocks(rows):
        squares += scipy.spatial.distance.pdist(block, "sqeuclidean")
    nearest = np.sort(scipy.spatial.distance.squareform(squares), axis=1)  # the first is the row itself
    total: NDArray[np.float64] = nearest[:, 1 : 1 + max(0, close)].sum(axis=1)
    return total
