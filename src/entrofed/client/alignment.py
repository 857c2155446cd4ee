"""How well a round's step agrees with the gradient of the loss over everybody's data; see ``alignment_every``.

A diagnostic of FedKLEntropy's theory: in a real federation nobody could measure it, because it takes a pass over the
data of all clients.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from entrofed.backends.base import Backend
from entrofed.client.evaluate import pieces_of, totals
from entrofed.client.runtime import EVALUATION_BATCH, Site
from entrofed.core.params import Layout, Params
from entrofed.core.sums import weighted_sum
from entrofed.core.types import Update
from entrofed.data.federation import Federation
from entrofed.info.bounds import alignment_error
from entrofed.objectives.cross_entropy import CrossEntropy


@dataclass(frozen=True)
class GradientOrder:
    """The gradient of the summed cross entropy of some training rows, with BatchNorm and dropout as in evaluation."""

    params: Params
    rows: NDArray[np.int64]

    @property
    def cost(self) -> int:
        """Samples to pass over, there and back."""
        return 3 * len(self.rows)

    def carry_out(self, site: Site) -> NDArray[np.float64]:
        """What a backend calls, wherever the work is done."""
        bench = site.bench
        bench.load(self.params)
        total = np.zeros(bench.layout.trainable)
        for start in range(0, len(self.rows), EVALUATION_BATCH):
            x, y = site.samples("train", self.rows[start : start + EVALUATION_BATCH])
            x = site.for_model(site.standardize(x))
            gradients = bench.gradients(CrossEntropy(), x, y, {})
            bench.model.eval()
            total += len(y) * gradients.flat(gradients(x, y, {}, whole=False)[1]).astype(np.float64)
        return total


def measure_alignment(
    backend: Backend,
    federation: Federation,
    layout: Layout,
    params: Params,
    updates: Sequence[Update],
    weights: NDArray[np.float64],
    lr: float,
) -> dict[str, float]:
    """A_t and its companions (:class:`entrofed.info.bounds.Alignment`) of a round that began with ``params``."""
    before = params.values[: layout.trainable].astype(np.float64)
    step = weighted_sum([update.params.values[: layout.trainable] for update in updates], weights) - before
    rows = np.concatenate([federation.shards[client] for client in federation.participants])
    orders = [GradientOrder(params, piece) for piece in pieces_of(rows)]
    gradient = totals(backend, [orders], "train")[0] / len(rows)
    return asdict(alignment_error(step, gradient, lr))
