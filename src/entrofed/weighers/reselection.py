"""Leave out the clients whose predictions make the cohort's less diverse."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from entrofed.core.parts import Fact, Sees, Weigher
from entrofed.core.types import Context, Update, Weighing
from entrofed.facts.mean_prediction import MeanPrediction
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
        soft = np.stack([update.facts[MeanPrediction.name] for update in updates]) * sizes[:, None]
        clients = np.array([update.client for update in updates])
        kept = np.ones(len(updates), np.bool_)
        while kept.sum() > 1:
            inside = np.flatnonzero(kept)
            inside = inside[np.argsort(clients[inside])]
            pooled = soft[kept].sum(axis=0)
            without = pooled - soft[inside]
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
