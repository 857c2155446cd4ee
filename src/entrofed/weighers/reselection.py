"""Leave out the clients whose predictions make the cohort's less diverse."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Fact, Sees, Weigher
from entrofed.core.types import Context, Update, Weighing
from entrofed.facts.mean_prediction import MeanPrediction, distributions
from entrofed.info.entropy import entropy

MARGIN = 1e-12


@dataclass(frozen=True)
class SoftLabelReselection(Weigher):
    """Data-size weights over the clients whose pooled soft labels have the largest entropy, found greedily.

    Each client sends the mean softmax output ``p_k`` over its training data. While it helps, the client is removed
    whose removal raises ``H(sum_k n_k p_k / sum_k n_k)`` (bits) most; ties by lower number. The removed get weight 0.
    """

    name: ClassVar[str] = "reselection"
    reference: ClassVar[str] = "the re-selection baseline of FedEntOpt, Fig. 1 (FedEntropy)"
    facts: ClassVar[tuple[Fact, ...]] = (MeanPrediction(),)
    sees: ClassVar[Sees] = "scalars"
    """Mean predictions."""

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """Zero for those left out, shares of the examples for the rest."""
        sizes = np.array([update.num_examples for update in updates], np.float64)
        soft = distributions(updates) * sizes[:, None]
        clients = np.array([update.client for update in updates])
        kept = np.ones(len(updates), np.bool_)
        while kept.sum() > 1:
            inside = np.flatnonzero(kept)
            inside = inside[np.argsort(clients[inside])]
            pooled, without = soft[inside].sum(axis=0), _sums_without_each(soft[inside])
            gains = entropy(without / without.sum(axis=1, keepdims=True), base="bits") - entropy(
                pooled / pooled.sum(), base="bits"
            )
            best = int(np.argmax(gains >= gains.max() - MARGIN))
            if gains[best] <= MARGIN:
                break
            kept[inside[best]] = False
        own = entropy(soft / sizes[:, None], base="bits")
        origins = [{"entropy_bits": float(bits), "kept": bool(keep)} for bits, keep in zip(own, kept, strict=True)]
        return Weighing(np.where(kept, sizes, 0.0) / sizes[kept].sum(), origins)


def _sums_without_each(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of all other rows, for each; added up, because subtracting one that is nearly all leaves rounding errors.

    >>> _sums_without_each(np.array([[1.0], [2.0], [4.0]])).tolist()
    [[6.0], [5.0], [3.0]]
    """
    none = np.zeros((1, rows.shape[1]))
    before = np.concatenate([none, rows[:-1].cumsum(axis=0)])
    after = np.concatenate([rows[:0:-1].cumsum(axis=0)[::-1], none])
    others: NDArray[np.float64] = before + after
    return others
