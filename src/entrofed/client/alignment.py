"""How well a round's step agrees with the gradient of the loss over everybody's data; see ``alignment_every``.

A diagnostic of FedKLEntropy's theory: in a real federation nobody could measure it, because it takes a pass over the
data of all clients.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from entrofed.client.evaluate import pieces, totals
from entrofed.core.params import Params
from entrofed.core.sums import weighted_sum
from entrofed.core.tasks import Backend, GradientTask
from entrofed.core.types import Update, Weights
from entrofed.info.bounds import Alignment, alignment_error


def measure_alignment(
    backend: Backend, params: Params, updates: Sequence[Update], weights: Weights, lr: float, rows: NDArray[np.int64]
) -> Alignment:
    """A_t and its companions of a round that began with ``params``; ``rows`` are the training data of all clients."""
    tasks = [GradientTask(params, piece) for piece in pieces(rows)]
    gradient = totals(backend, [tasks], "train")[0] / len(rows)
    trainable = len(gradient)
    step = weighted_sum([update.params.values[:trainable] for update in updates], weights)
    return alignment_error(step - params.values[:trainable].astype(np.float64), gradient, lr)
